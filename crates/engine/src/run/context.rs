//! What is around a run, and no part of it.

use crate::run::observer::RunObserver;
use crate::stop::Stop;
use fencepost_cluster::Cleaned;
use fencepost_history::run::RunFolder;
use std::sync::Arc;

#[derive(Clone)]
pub(crate) struct RunContext<'a> {
    pub folder: &'a RunFolder,
    pub stop: &'a Arc<Stop>,
    pub observer: Arc<dyn RunObserver>,
}

impl RunContext<'_> {
    /// Reports what killed runs had left, and what could not be removed, which stops no run.
    pub(super) fn report_cleaned(&self, cleaned: &Cleaned) {
        for sentence in cleaned.lines().iter().chain(&cleaned.failures) {
            self.observer.leftover_removed(sentence);
        }
    }
}
