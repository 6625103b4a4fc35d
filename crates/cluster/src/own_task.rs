use crate::ClusterError;
use tokio::task::JoinHandle;

/// A task that ends with the value that has it: dropping it aborts it.
pub struct OwnTask<T = ()>(pub JoinHandle<T>);

impl<T: Send + 'static> OwnTask<T> {
    pub fn spawn(work: impl Future<Output = T> + Send + 'static) -> OwnTask<T> {
        OwnTask(tokio::spawn(work))
    }
}

impl<T> Drop for OwnTask<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Work that blocks, done beside asynchronous code.
pub(crate) async fn aside<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ClusterError> + Send + 'static,
) -> Result<T, ClusterError> {
    tokio::task::spawn_blocking(work).await.map_err(|error| error.to_string())?
}
