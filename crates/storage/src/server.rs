//! The storage as a server: JSON lines over TCP. Requests of one connection are answered in their order.

use crate::guards::{Guard, Need, find_guard, guards};
use crate::protocol::Server;
use crate::storage::{Request, Storage};
use clap::Args;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A line longer than this is no request.
const LINE_MAX: usize = 1024 * 1024;

/// How a storage is set up: the options of `fencepost storage`.
#[derive(Clone, Debug, Args)]
pub struct StorageSetup {
    /// `host:port`.
    #[arg(long)]
    pub listen: String,
    #[arg(long)]
    pub guard: String,
    /// How long a guard that checks and writes in two steps rests between them.
    #[arg(long, default_value_t = 0)]
    pub linger_ms: u64,
    /// The lock service that a guard asks for sequencers.
    #[arg(long, default_value = "")]
    pub backend: String,
    /// Its servers: `host:port`.
    #[arg(long, value_delimiter = ',')]
    pub servers: Vec<String>,
}

/// The program `fencepost storage`: serves until it is killed.
///
/// Returns the exit code: 254 for a guard that does not exist or cannot be fed, 255 for an address that cannot be had.
pub async fn run_storage(setup: &StorageSetup) -> i32 {
    let storage = match set_up(setup).await {
        Ok(storage) => storage,
        Err(sentence) => {
            eprintln!("{sentence}");
            return 254;
        }
    };
    match TcpListener::bind(&setup.listen).await {
        Ok(listener) => {
            serve(listener, Arc::new(storage)).await;
            0
        }
        Err(error) => {
            eprintln!("the storage cannot listen on {}: {error}", setup.listen);
            255
        }
    }
}

async fn set_up(setup: &StorageSetup) -> Result<Storage, String> {
    let guard = find_guard(&setup.guard).ok_or_else(|| {
        let names: Vec<&str> = guards().iter().map(|guard| guard.name()).collect();
        format!("there is no guard `{}` (there are: {})", setup.guard, names.join(", "))
    })?;
    let sequencers = if guard.needs() == Need::Sequencer {
        let backend = crate::registry::find(&setup.backend)
            .ok_or_else(|| format!("there is no backend `{}` to ask for sequencers", setup.backend))?;
        let server = |address: &String| Server { name: String::new(), address: address.clone() };
        let servers: Vec<Server> = setup.servers.iter().map(server).collect();
        Some(backend.sequencers(&servers).await?)
    } else {
        None
    };
    Ok(Storage::new(guard, Duration::from_millis(setup.linger_ms), sequencers))
}

/// Serves on a listener that is bound already. The guard asks no lock service and does not rest between steps.
pub async fn serve_storage(listener: TcpListener, guard: &'static dyn Guard) {
    serve(listener, Arc::new(Storage::new(guard, Duration::ZERO, None))).await;
}

async fn serve(listener: TcpListener, storage: Arc<Storage>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let storage = storage.clone();
                // A connection that breaks concerns nobody but its client.
                tokio::spawn(async move { serve_connection(stream, &storage).await });
            }
            // Out of file descriptors, say. What is open goes on; do not spin meanwhile.
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

async fn serve_connection(mut stream: TcpStream, storage: &Storage) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut input = Vec::with_capacity(4096);
    let mut output = Vec::with_capacity(4096);
    while stream.read_buf(&mut input).await? > 0 {
        let mut begin = 0;
        while let Some(length) = input[begin..].iter().position(|byte| *byte == b'\n') {
            let line = &input[begin..begin + length];
            let Ok(request) = serde_json::from_slice::<Request>(line) else {
                // Without an id there is nobody to answer: whoever sent this does not speak the protocol.
                return Ok(());
            };
            serde_json::to_writer(&mut output, &storage.answer(&request).await)?;
            output.push(b'\n');
            begin += length + 1;
        }
        input.drain(..begin);
        if input.len() > LINE_MAX {
            return Ok(());
        }
        stream.write_all(&output).await?;
        output.clear();
    }
    Ok(())
}
