//! What the processes of one client share.

use crate::capabilities::Capabilities;
use crate::client::pause_points::PauseAt;
use crate::definition::LockDefinition;
use crate::error::ClientError;
use crate::protocol::Hello;
use crate::recipe::Session;
use fencepost_storage::{Guard, ProtectedStorage, find_guard};
use std::sync::Arc;

pub(super) struct ClientContext {
    pub(super) session: Session,
    pub(super) storage: Option<Arc<ProtectedStorage>>,
    pub(super) capabilities: Capabilities,
    pub(super) guard: &'static Guard,
    pub(super) careful: bool,
    pub(super) pauses: Arc<[PauseAt]>,
}

impl ClientContext {
    /// Connects to the lock service and the storage of the hello. Errors: an unknown name, no connection.
    pub(super) async fn enter(
        hello: &Hello,
        find: impl Fn(&str) -> Option<&'static LockDefinition>,
    ) -> Result<ClientContext, ClientError> {
        let bad = |what, name| {
            ClientError::BadHello(format!("the hello names a {what} that is not known: `{name}`"))
        };
        let lock = find(&hello.lock).ok_or_else(|| bad("lock", &hello.lock))?;
        let guard = find_guard(&hello.guard).ok_or_else(|| bad("guard", &hello.guard))?;
        let addresses = match (&hello.storage, &hello.storage_replicas[..]) {
            (None, _) => None,
            (Some(alone), []) => Some(vec![alone.clone()]),
            (Some(_), replicas) => Some(replicas.to_vec()),
        };
        let storage = addresses.map(|addresses| ProtectedStorage::open(&addresses, guard)).transpose();
        let storage = storage.map_err(|refusal| ClientError::BadHello(refusal.sentence))?.map(Arc::new);
        let capabilities = lock.capabilities(&hello.options()?);
        let session = lock.recipe.connect(hello).await?;
        Ok(ClientContext {
            session,
            storage,
            capabilities,
            guard,
            careful: hello.careful,
            pauses: hello.pause_at.as_slice().into(),
        })
    }
}
