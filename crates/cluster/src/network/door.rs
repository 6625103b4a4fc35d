//! A door: the way from the nodes of a run to a server that exists without it.
//!
//! Nodes have no way out of their network. So each such server gets a node that stands for it, where a small
//! program, the door, listens at the service's port. Each connection goes over the program's standard streams
//! to the controller, which connects to the server. Faults of packets happen between clients and the door,
//! and nothing of this machine's network is changed.
//!
//! Both ends see what the other does: a closed direction, a reset, a refusal (as a reset).

use super::translated::{Translation, stand_in};
use crate::ClusterError;
use crate::node::{Attached, Node};
use crate::own_task::OwnTask;
use std::ffi::OsString;
use std::future::{Future, poll_fn};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::compat::{Compat, FuturesAsyncReadCompatExt, TokioAsyncReadCompatExt};
use yamux::{Config, Connection, Mode, Stream};

const DOOR: &str = "door";
const ENTRANCE: &str = "entrance";

/// How long the controller tries to connect to the server. Clients have given up long before.
const CONNECT: Duration = Duration::from_secs(20);

/// The first byte from each end: a connection at the door, and its acceptance by the server.
const HELLO: u8 = 1;

/// A door that is open, as its controller holds it. Dropping it closes it, and all connections through it.
pub struct Door {
    carrying: OwnTask,
}

impl Door {
    /// Opens a door in this node to the server at `address`; it listens on return. Errors: it does not start.
    pub async fn open(node: &Arc<dyn Node>, port: u16, address: &str) -> Result<Door, ClusterError> {
        let way = format!("door to {address} in the node {}", node.name());
        let Attached { stdin, stdout } = start(node, [DOOR, &port.to_string()], &way).await?;
        let connection = connection(stdout, stdin, Mode::Server);
        Ok(Door { carrying: OwnTask::spawn(serve(connection, Arc::from(address))) })
    }

    /// Returns when the door is closed though it was not dropped: its program ended.
    pub async fn closed(&self) {
        while !self.carrying.0.is_finished() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

/// Starts this program in the node, and returns when it is ready. Errors: the `way` does not open.
async fn start(node: &Arc<dyn Node>, [what, of]: [&str; 2], way: &str) -> Result<Attached, ClusterError> {
    let mut attached = node.attach(&["fencepost", what, of].map(str::to_owned)).await?;
    match tokio::time::timeout(CONNECT, attached.stdout.read_u8()).await {
        Ok(Ok(HELLO)) => Ok(attached),
        _ => Err(format!("the {way} does not open; its log says why").into()),
    }
}

/// A way from programs of this machine to a server in a node: a door reversed. Dropping it closes it.
pub struct Entrance {
    /// Where programs of this machine connect.
    pub address: SocketAddr,
    _carrying: OwnTask,
}

impl Entrance {
    /// Listens at a free port of 127.0.0.1; each connection goes on through this node, from which the server
    /// at this port of `server` is reached. One that `sends_on`, to addresses of others, is reached at the
    /// same port of an address of its own, and what it says of nodes' addresses is translated. Errors: the
    /// program inside the node does not start, or the port is not free.
    pub async fn open(
        node: &Arc<dyn Node>,
        (server, port): (Ipv4Addr, u16),
        sends_on: bool,
    ) -> Result<Entrance, ClusterError> {
        let (at, translation) = match sends_on {
            true => ((stand_in(server), port), Some(Translation::of(server))),
            false => ((Ipv4Addr::LOCALHOST, 0), None),
        };
        let server = format!("{server}:{port}");
        let way = format!("way to {server} through {}", node.name());
        let Attached { stdin, stdout } = start(node, [ENTRANCE, &server], &way).await?;
        let listener = TcpListener::bind(at).await;
        let listener = listener.map_err(|error| {
            format!("cannot listen at {}:{} of this machine for {server}: {error}", at.0, at.1)
        })?;
        let address =
            listener.local_addr().map_err(|error| format!("cannot listen for {server}: {error}"))?;
        let carrying = accept(listener, connection(stdout, stdin, Mode::Client), translation);
        Ok(Entrance { address, _carrying: OwnTask::spawn(carrying) })
    }
}

/// `door PORT`: the program inside the node. Ends with its standard input.
pub(crate) fn run_door(args: &[OsString]) -> i32 {
    let Some(port) = args.first().and_then(|port| port.to_str()?.parse::<u16>().ok()) else {
        eprintln!("fencepost door: the port is missing; this command is for Fencepost itself");
        return 254;
    };
    in_node(&format!("{DOOR}: cannot listen at port {port}"), async {
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).await?;
        accept(listener, greeted(Mode::Client).await?, None).await;
        Ok(())
    })
}

/// `entrance ADDRESS`: the same for an entrance.
pub(crate) fn run_entrance(args: &[OsString]) -> i32 {
    let Some(address) = args.first().and_then(|address| address.to_str()) else {
        eprintln!("fencepost entrance: the address is missing; this command is for Fencepost itself");
        return 254;
    };
    in_node(ENTRANCE, async {
        serve(greeted(Mode::Server).await?, Arc::from(address)).await;
        Ok(())
    })
}

fn in_node(what: &str, work: impl Future<Output = io::Result<()>>) -> i32 {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    match runtime.and_then(|runtime| runtime.block_on(work)) {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("fencepost {what}: {error}");
            255
        }
    }
}

/// The pipes to the controller, which hears that the program is ready.
async fn greeted(
    mode: Mode,
) -> io::Result<Connection<Pipes<impl AsyncRead + Unpin, impl AsyncWrite + Unpin>>> {
    let mut stdout = fencepost_wire::stdout();
    stdout.write_u8(HELLO).await?;
    stdout.flush().await?;
    Ok(connection(fencepost_wire::stdin(), stdout, mode))
}

type Pipes<Input, Output> = Compat<tokio::io::Join<Input, Output>>;

fn connection<Input, Output>(input: Input, output: Output, mode: Mode) -> Connection<Pipes<Input, Output>>
where
    Input: AsyncRead + Unpin,
    Output: AsyncWrite + Unpin,
{
    Connection::new(tokio::io::join(input, output).compat(), Config::default(), mode)
}

/// Takes connections and sends each through a stream of its own, until the pipes end.
async fn accept<Pipe>(
    listener: TcpListener,
    mut connection: Connection<Pipe>,
    translation: Option<Translation>,
) where
    Pipe: futures_util::AsyncRead + futures_util::AsyncWrite + Unpin,
{
    let mut accepted: Option<TcpStream> = None;
    poll_fn(|context| {
        loop {
            if accepted.is_none()
                && let Poll::Ready(Ok((client, _))) = listener.poll_accept(context)
            {
                accepted = Some(client);
            }
            if let Some(client) = accepted.take() {
                match connection.poll_new_outbound(context) {
                    Poll::Ready(Ok(stream)) => {
                        tokio::spawn(enter(client, Channel::new(stream), translation.clone()));
                        continue;
                    }
                    // Too many connections: this one is refused.
                    Poll::Ready(Err(_)) => reset(&client),
                    Poll::Pending => accepted = Some(client),
                }
            }
            match connection.poll_next_inbound(context) {
                // The controller opens none.
                Poll::Ready(Some(Ok(_))) => {}
                Poll::Ready(Some(Err(_)) | None) => return Poll::Ready(()),
                Poll::Pending => return Poll::Pending,
            }
        }
    })
    .await;
}

/// A connection that the door accepted: it is carried once the server has accepted it, too.
async fn enter(client: TcpStream, mut channel: Channel, translation: Option<Translation>) {
    let greeted = async {
        channel.write_u8(HELLO).await?;
        channel.flush().await?;
        channel.read_u8().await
    };
    match greeted.await {
        Ok(_) => carry(client, channel, translation).await,
        Err(_) => reset(&client),
    }
}

/// Connects each stream of a door to the server, until the pipes end.
async fn serve<Pipe>(mut connection: Connection<Pipe>, address: Arc<str>)
where
    Pipe: futures_util::AsyncRead + futures_util::AsyncWrite + Unpin,
{
    while let Some(Ok(stream)) = poll_fn(|context| connection.poll_next_inbound(context)).await {
        tokio::spawn(leave(Channel::new(stream), address.clone()));
    }
}

/// A connection that arrived at the controller. Dropping its channel resets it.
async fn leave(mut channel: Channel, address: Arc<str>) {
    if channel.read_u8().await.is_err() {
        return;
    }
    let connected = tokio::time::timeout(CONNECT, TcpStream::connect(&*address)).await;
    let Ok(Ok(server)) = connected else { return };
    if channel.write_u8(HELLO).await.is_ok() && channel.flush().await.is_ok() {
        carry(server, channel, None).await;
    } else {
        reset(&server);
    }
}

/// Carries bytes both ways, and the end of each direction.
async fn carry(mut connection: TcpStream, mut channel: Channel, translation: Option<Translation>) {
    // Each side has decided by itself when to send.
    let _ = connection.set_nodelay(true);
    let carried = match translation {
        Some(translation) => translation.carry(&mut connection, &mut channel).await,
        None => copy_bidirectional(&mut connection, &mut channel).await.map(drop),
    };
    if carried.is_err() {
        reset(&connection);
    }
}

fn reset(connection: &TcpStream) {
    let _ = connection.set_zero_linger();
}

/// A stream of the multiplexed connection. It fails if the other end has reset it; the library lets it end.
struct Channel {
    stream: Compat<Stream>,
    closed: bool,
}

impl Channel {
    fn new(stream: Stream) -> Channel {
        Channel { stream: stream.compat(), closed: false }
    }
}

impl AsyncRead for Channel {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        let ended = matches!(read, Poll::Ready(Ok(()))) && buffer.filled().len() == before;
        // An end that only the other side made leaves this direction open.
        match ended && !self.closed && self.stream.get_ref().is_closed() {
            true => Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
            false => read,
        }
    }
}

impl AsyncWrite for Channel {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.closed = true;
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both ends of a door to this address, in one process: where its clients connect.
    async fn door_to(address: String) -> std::net::SocketAddr {
        let (inside, outside) = tokio::io::duplex(1 << 16);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let entrance = listener.local_addr().unwrap();
        let (input, output) = tokio::io::split(inside);
        tokio::spawn(accept(listener, connection(input, output, Mode::Client), None));
        let (input, output) = tokio::io::split(outside);
        tokio::spawn(serve(connection(input, output, Mode::Server), Arc::from(address)));
        entrance
    }

    async fn server<Handling>(handle: impl Fn(TcpStream) -> Handling + Send + 'static) -> String
    where
        Handling: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(handle(stream));
            }
        });
        address
    }

    #[tokio::test]
    async fn a_half_closed_connection_still_gets_its_answer() {
        let address = server(|mut stream| async move {
            let mut all = Vec::new();
            stream.read_to_end(&mut all).await.unwrap();
            all.reverse();
            stream.write_all(&all).await.unwrap();
        });
        let entrance = door_to(address.await).await;
        let sent: Vec<u8> = (0..1_000_000_u32).map(|number| number as u8).collect();
        let mut clients = tokio::task::JoinSet::new();
        for _ in 0..5 {
            let sent = sent.clone();
            clients.spawn(async move {
                let mut client = TcpStream::connect(entrance).await.unwrap();
                client.write_all(&sent).await.unwrap();
                client.shutdown().await.unwrap();
                let mut answer = Vec::new();
                client.read_to_end(&mut answer).await.unwrap();
                answer.reverse();
                assert!(answer == sent);
            });
        }
        clients.join_all().await;
    }

    #[tokio::test]
    async fn a_server_that_speaks_first_is_heard() {
        let address = server(|mut stream| async move { stream.write_all(b"220 ready").await.unwrap() });
        let mut client = TcpStream::connect(door_to(address.await).await).await.unwrap();
        let mut said = String::new();
        client.read_to_string(&mut said).await.unwrap();
        assert_eq!(said, "220 ready");
    }

    #[tokio::test]
    async fn refused_and_reset_connections_are_reset() {
        let unused = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().to_string();
        let resetting = server(|mut stream| async move {
            let _ = stream.read_u8().await;
            reset(&stream);
        });
        for address in [unused, resetting.await] {
            let mut client = TcpStream::connect(door_to(address).await).await.unwrap();
            client.write_all(b"x").await.unwrap();
            let error = client.read_u8().await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        }
    }

    #[tokio::test]
    async fn a_client_that_resets_ends_the_connection_to_the_server() {
        let (seen, mut sees) = tokio::sync::mpsc::unbounded_channel();
        let address = server(move |mut stream| {
            let seen = seen.clone();
            async move {
                for _ in 0..2 {
                    let _ = seen.send(stream.read_u8().await.map_err(|error| error.kind()));
                }
            }
        });
        let mut client = TcpStream::connect(door_to(address.await).await).await.unwrap();
        client.write_all(b"x").await.unwrap();
        assert_eq!(sees.recv().await, Some(Ok(b'x')));
        reset(&client);
        drop(client);
        assert_eq!(sees.recv().await, Some(Err(io::ErrorKind::ConnectionReset)));
    }
}
