//! Calls of etcd's gRPC API to one member.

use super::api::{
    AuthenticateRequest, AuthenticateResponse, Call, EventType, LeaseKeepAliveRequest,
    LeaseKeepAliveResponse, WatchCreateRequest, WatchRequest, WatchResponse,
};
use crate::access::{Access, Secret};
use crate::dialer::Dialer;
use crate::error::ClientError;
use crate::protocol::Server;
use futures_util::{Stream, StreamExt, stream};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use prost::Message;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::metadata::{AsciiMetadataValue, MetadataValue};
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Response, Status, Streaming};
use tonic_prost::ProstCodec;

/// How long a connection to a member may take to open: its port is there, or the member is not.
const CONNECT: Duration = Duration::from_millis(300);
/// The same with TLS, whose handshake is work for both sides and takes more journeys between them.
const CONNECT_WITH_TLS: Duration = Duration::from_secs(2);

/// A connection to one member, opened by the first call and again whenever it broke. Clones share it.
#[derive(Clone)]
pub(super) struct Client {
    channel: Channel,
    login: Option<Arc<Login>>,
}

/// The user of the client, and the token that stands for it once it is logged in: all members know it.
pub(super) struct Login {
    user: String,
    password: Secret,
    token: Mutex<Option<AsciiMetadataValue>>,
}

impl Login {
    pub(super) fn of(dialer: &Dialer) -> Option<Login> {
        let Access { user, password, .. } = &*dialer.access;
        let (user, password) = (user.clone()?, password.clone()?);
        Some(Login { user, password, token: Mutex::default() })
    }
}

impl Client {
    pub(super) fn connect(
        server: &Server,
        dialer: &Dialer,
        login: Option<Arc<Login>>,
    ) -> Result<Client, ClientError> {
        let address = &server.address;
        let endpoint = Endpoint::from_shared(format!("http://{address}")).map_err(|error| {
            ClientError::BadHello(format!("`{address}` is no address of an etcd member: {error}"))
        })?;
        let endpoint = endpoint.connect_timeout(if dialer.is_tls() { CONNECT_WITH_TLS } else { CONNECT });
        if !dialer.is_tls() {
            return Ok(Client { channel: endpoint.connect_lazy(), login });
        }
        let (server, dialer) = (server.clone(), dialer.clone());
        let dial = tower::service_fn(move |_| {
            let (server, dialer) = (server.clone(), dialer.clone());
            async move { dialer.dial(&server).await.map(TokioIo::new) }
        });
        Ok(Client { channel: endpoint.connect_with_connector_lazy(dial), login })
    }

    pub(super) async fn log_in(&self, login: &Login) -> Result<AsciiMetadataValue, Status> {
        let asked =
            AuthenticateRequest { name: login.user.clone(), password: login.password.reveal().into() };
        let path = PathAndQuery::from_static("/etcdserverpb.Auth/Authenticate");
        let answer: tonic::Response<AuthenticateResponse> =
            self.ready().await?.unary(request(asked, None), path, ProstCodec::default()).await?;
        let token = AsciiMetadataValue::try_from(answer.into_inner().token);
        let token = token.map_err(|_| Status::internal("the token is no text"))?;
        *login.token.lock() = Some(token.clone());
        Ok(token)
    }

    async fn token(&self) -> Result<Option<AsciiMetadataValue>, Status> {
        let Some(login) = &self.login else { return Ok(None) };
        let known = login.token.lock().clone();
        match known {
            Some(token) => Ok(Some(token)),
            None => self.log_in(login).await.map(Some),
        }
    }

    /// Forgets the token if a member no longer knows it. Gives whether so: the request was not executed.
    fn forgets_token(&self, status: &Status) -> bool {
        let is_unknown = status.message() == "etcdserver: invalid auth token";
        if let Some(login) = self.login.as_ref().filter(|_| is_unknown) {
            *login.token.lock() = None;
        }
        is_unknown && self.login.is_some()
    }

    pub(super) async fn keep_alive(&self, lease: i64) -> Result<KeepAlive, Status> {
        let (ask, mut asked) = mpsc::channel(1);
        let first = stream::iter([LeaseKeepAliveRequest { id: lease }]);
        let more = stream::poll_fn(move |context| asked.poll_recv(context));
        let answers = self.stream("/etcdserverpb.Lease/LeaseKeepAlive", first.chain(more)).await?;
        Ok(KeepAlive { lease, ask, answers, first_sent: true })
    }

    /// Returns when a key is deleted at this revision or later; with an end of a range, any key of the range.
    pub(super) async fn await_deletion(&self, watch: WatchCreateRequest) -> Result<(), Status> {
        // The request stays open as long as anybody waits for an answer.
        let requests = stream::iter([WatchRequest { create: Some(watch) }]).chain(stream::pending());
        let mut answers: Streaming<WatchResponse> =
            self.stream("/etcdserverpb.Watch/Watch", requests).await?;
        while let Some(answer) = answers.message().await? {
            if answer.events.iter().any(|event| event.kind == i32::from(EventType::Delete)) {
                return Ok(());
            }
            if answer.canceled {
                break;
            }
        }
        Err(Status::cancelled("the watch was cancelled"))
    }

    pub(super) async fn call<C: Call>(&self, asked: C) -> Result<C::Answer, Status> {
        let mut grpc = self.ready().await?;
        let path = PathAndQuery::from_static(C::PATH);
        let first = request(asked.clone(), self.token().await?);
        let answer = match grpc.unary(first, path.clone(), ProstCodec::default()).await {
            Err(status) if self.forgets_token(&status) => {
                let again = request(asked, self.token().await?);
                grpc.ready().await.map_err(|error| Status::unavailable(format!("{error}")))?;
                grpc.unary(again, path, ProstCodec::default()).await?
            }
            answered => answered?,
        };
        Ok(answer.into_inner())
    }

    async fn stream<Asked, Answer>(
        &self,
        path: &'static str,
        asked: impl Stream<Item = Asked> + Send + 'static,
    ) -> Result<Streaming<Answer>, Status>
    where
        Asked: Message + 'static,
        Answer: Message + Default + 'static,
    {
        let mut grpc = self.ready().await?;
        let codec = ProstCodec::default();
        let answers =
            grpc.streaming(request(asked, self.token().await?), PathAndQuery::from_static(path), codec).await;
        answers.map(Response::into_inner).inspect_err(|status| {
            self.forgets_token(status);
        })
    }

    async fn ready(&self) -> Result<Grpc<Channel>, Status> {
        let mut grpc = Grpc::new(self.channel.clone());
        // The code that a call gets whose connection does not come about.
        grpc.ready().await.map_err(|error| Status::unavailable(format!("{error}")))?;
        Ok(grpc)
    }
}

/// A member that knows no leader says so at once instead of letting requests and streams wait.
fn request<T>(message: T, token: Option<AsciiMetadataValue>) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("hasleader", MetadataValue::from_static("true"));
    if let Some(token) = token {
        request.metadata_mut().insert("token", token);
    }
    request
}

pub(super) struct KeepAlive {
    lease: i64,
    ask: mpsc::Sender<LeaseKeepAliveRequest>,
    answers: Streaming<LeaseKeepAliveResponse>,
    /// The keepalive that opened the stream is still to be answered.
    first_sent: bool,
}

impl KeepAlive {
    /// Sends one keepalive, unless the first is under way, and gives whether the server knows the lease.
    pub(super) async fn renew(&mut self) -> Result<bool, Status> {
        if !std::mem::take(&mut self.first_sent) {
            let asked = self.ask.send(LeaseKeepAliveRequest { id: self.lease }).await;
            asked.map_err(|_| Status::unavailable("the stream of keepalives ended"))?;
        }
        let answer = self.answers.message().await?;
        let answer = answer.ok_or_else(|| Status::unavailable("the stream of keepalives ended"))?;
        Ok(answer.ttl_s > 0)
    }
}
