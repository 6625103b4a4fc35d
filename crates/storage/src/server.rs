//! The storage as a server: JSON lines over TCP. Requests of one connection are answered in their order.

use crate::guards::{Guard, Need, find_guard, guards};
use crate::log::AccessLog;
use crate::protocol::{LINE_MAX, Request};
use crate::sequencers::Sequencers;
use crate::store::Storage;
use clap::Args;
use fencepost_wire::{LineReader, LineWriter};
use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;

/// How a storage is set up: the options of `fencepost storage`.
#[derive(Clone, Debug, Args)]
pub struct StorageSetup {
    /// `host:port`.
    #[arg(long)]
    pub listen: String,
    #[arg(long)]
    pub guard: String,
    /// Milliseconds between check and write, for a guard that does them in two steps.
    #[arg(long, default_value_t = 0)]
    pub write_delay_ms: u64,
    /// File that gets a line for each read and write that was carried out, in their order.
    #[arg(long)]
    pub log: Option<PathBuf>,
    /// Lock whose service a guard asks about sequencers.
    #[arg(long, default_value = "")]
    pub lock: String,
    /// Servers of that lock: `host:port`.
    #[arg(long, value_delimiter = ',')]
    pub servers: Vec<String>,
    /// File with what those servers ask of a client, as JSON.
    #[arg(long)]
    pub access: Option<PathBuf>,
}

/// The program `fencepost storage`: serves until it is killed. `connect` gives a way to check sequencers; it
/// is called only for a guard that needs them.
///
/// Exit code: 254 for a guard that is unknown or cannot check sequencers, 255 for a bad address.
pub async fn run_storage<Connect, E>(setup: &StorageSetup, connect: Connect) -> i32
where
    Connect: AsyncFnOnce(&StorageSetup) -> Result<Box<dyn Sequencers>, E>,
    E: Error + 'static,
{
    let storage = match set_up(setup, connect).await {
        Ok(storage) => storage,
        Err(error) => {
            eprintln!("{error}");
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

async fn set_up<Connect, E>(setup: &StorageSetup, connect: Connect) -> Result<Storage, Box<dyn Error>>
where
    Connect: AsyncFnOnce(&StorageSetup) -> Result<Box<dyn Sequencers>, E>,
    E: Error + 'static,
{
    let guard = find_guard(&setup.guard).ok_or_else(|| {
        let names: Vec<&str> = guards().iter().map(|guard| guard.name).collect();
        format!("unknown guard `{}`: expected one of {}", setup.guard, names.join(", "))
    })?;
    let sequencers = if guard.needs == Need::Sequencer { Some(connect(setup).await?) } else { None };
    let storage = Storage::new(guard, Duration::from_millis(setup.write_delay_ms), sequencers);
    match &setup.log {
        None => Ok(storage),
        Some(path) => match AccessLog::open(path) {
            Ok(log) => Ok(storage.with_log(log)),
            Err(error) => {
                Err(format!("the storage cannot write its log to {}: {error}", path.display()).into())
            }
        },
    }
}

/// Serves on a bound listener, without a lock service to ask and without a delay between check and write.
pub async fn serve_storage(listener: TcpListener, guard: &'static Guard) {
    serve(listener, Arc::new(Storage::new(guard, Duration::ZERO, None))).await;
}

async fn serve(listener: TcpListener, storage: Arc<Storage>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let storage = storage.clone();
                // A broken connection concerns its client only.
                tokio::spawn(async move {
                    stream.set_nodelay(true)?;
                    let (input, output) = stream.into_split();
                    serve_connection(input, output, &storage).await
                });
            }
            // Out of file descriptors, say. What is open goes on; do not spin meanwhile.
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

pub(crate) async fn serve_connection(
    input: impl AsyncRead + Unpin,
    output: impl AsyncWrite + Send + Unpin + 'static,
    storage: &Storage,
) -> std::io::Result<()> {
    let mut input = LineReader::new(input, LINE_MAX);
    let (output, _) = LineWriter::start(output);
    // A line that is no request ends the connection: without an id no answer can be sent.
    while let Ok(Some(line)) = input.next_line().await {
        let Ok(request) = serde_json::from_str::<Request>(&line) else { return Ok(()) };
        if !output.send(&storage.answer(request).await) {
            return Ok(());
        }
    }
    Ok(())
}
