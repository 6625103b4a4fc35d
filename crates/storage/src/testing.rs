//! For tests: storages in memory, so that paused time goes on only once everything waits.

use crate::client::StorageClient;
use crate::guards::find_guard;
use crate::server::serve_connection;
use crate::store::Storage;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{DuplexStream, ReadHalf, WriteHalf, duplex, split};

pub(crate) fn serving(guard: &str) -> StorageClient {
    client(&storage(guard))
}

pub(crate) fn storage(guard: &str) -> Arc<Storage> {
    Arc::new(Storage::new(find_guard(guard).expect("there"), Duration::ZERO, None))
}

pub(crate) fn client(storage: &Arc<Storage>) -> StorageClient {
    let storage = storage.clone();
    StorageClient::over(move || {
        let ((ours, theirs), storage) = (duplex(1 << 16), storage.clone());
        let (input, output) = split(theirs);
        tokio::spawn(async move { serve_connection(input, output, &storage).await });
        std::future::ready(Ok(split(ours)))
    })
}

pub(crate) fn refusing() -> StorageClient {
    StorageClient::over(|| {
        let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        std::future::ready(Err::<(ReadHalf<DuplexStream>, WriteHalf<DuplexStream>), _>(refused))
    })
}
