//! What a recipe on etcd is. One file each: `mutex.rs`, `lock_api.rs`, `chubby.rs`.

use super::user::User;
use crate::backend::Lock;
use crate::options::Options;
use std::time::Duration;

/// A way to lock on etcd's servers; see [`crate::Backend`] for what each part means.
pub(crate) trait Recipe: Send + Sync {
    fn name(&self) -> &'static str;
    fn about(&self) -> &'static str;
    fn promises(&self) -> &'static str;
    fn options(&self) -> &'static [&'static str] {
        &[]
    }
    fn check(&self, _options: &Options) -> Result<(), String> {
        Ok(())
    }
    /// Whether it keeps its holders under keys whose create revision is the generation of their sequencers; then,
    /// under which prefix those stand that hold this lock in this mode.
    fn holders(&self, _name: &str, _mode: &str) -> Option<String> {
        None
    }
    fn has_shared_mode(&self) -> bool {
        false
    }
    fn stays_taken(&self, _options: &Options) -> Duration {
        Duration::ZERO
    }
    /// The lock as one process sees it.
    fn lock(&self, user: User, options: &Options) -> Box<dyn Lock>;
}
