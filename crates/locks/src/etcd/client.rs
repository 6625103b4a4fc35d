//! Calls of etcd's gRPC API to one member.

use super::api::{
    DeleteRangeRequest, DeleteRangeResponse, EventType, LeaseGrantRequest, LeaseGrantResponse,
    LeaseKeepAliveRequest, LeaseKeepAliveResponse, LeaseRevokeRequest, LeaseRevokeResponse, LockRequest,
    LockResponse, RangeRequest, RangeResponse, TxnRequest, TxnResponse, UnlockRequest, UnlockResponse,
    StatusRequest, StatusResponse, WatchCreateRequest, WatchRequest, WatchResponse, prefix_end,
};
use crate::error::ClientError;
use futures_util::{Stream, StreamExt, stream};
use prost::Message;
use std::time::Duration;
use tokio::sync::mpsc;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::metadata::MetadataValue;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status, Streaming};
use tonic_prost::ProstCodec;

const CONNECT: Duration = Duration::from_millis(300);

/// A connection to one member, opened by the first call and again whenever it broke. Clones share it.
#[derive(Clone)]
pub(super) struct Client(Channel);

impl Client {
    /// `address`: of the member's client port, such as `10.1.0.2:2379`.
    pub(super) fn connect(address: &str) -> Result<Client, ClientError> {
        let endpoint = Endpoint::from_shared(format!("http://{address}")).map_err(|error| {
            ClientError::BadHello(format!("`{address}` is no address of an etcd member: {error}"))
        })?;
        Ok(Client(endpoint.connect_timeout(CONNECT).connect_lazy()))
    }

    pub(super) async fn range(&self, request: RangeRequest) -> Result<RangeResponse, Status> {
        self.unary("/etcdserverpb.KV/Range", request).await
    }

    pub(super) async fn delete(&self, key: &str) -> Result<DeleteRangeResponse, Status> {
        let request = DeleteRangeRequest { key: key.into(), range_end: Vec::new() };
        self.unary("/etcdserverpb.KV/DeleteRange", request).await
    }

    pub(super) async fn delete_prefix(&self, prefix: &str) -> Result<DeleteRangeResponse, Status> {
        let request = DeleteRangeRequest { key: prefix.into(), range_end: prefix_end(prefix) };
        self.unary("/etcdserverpb.KV/DeleteRange", request).await
    }

    pub(super) async fn status(&self, request: StatusRequest) -> Result<StatusResponse, Status> {
        self.unary("/etcdserverpb.Maintenance/Status", request).await
    }

    pub(super) async fn txn(&self, request: TxnRequest) -> Result<TxnResponse, Status> {
        self.unary("/etcdserverpb.KV/Txn", request).await
    }

    pub(super) async fn lease_grant(&self, ttl_s: i64) -> Result<LeaseGrantResponse, Status> {
        self.unary("/etcdserverpb.Lease/LeaseGrant", LeaseGrantRequest { ttl_s }).await
    }

    pub(super) async fn lease_revoke(&self, id: i64) -> Result<LeaseRevokeResponse, Status> {
        self.unary("/etcdserverpb.Lease/LeaseRevoke", LeaseRevokeRequest { id }).await
    }

    pub(super) async fn lock(&self, name: &str, lease: i64) -> Result<LockResponse, Status> {
        self.unary("/v3lockpb.Lock/Lock", LockRequest { name: name.into(), lease }).await
    }

    pub(super) async fn unlock(&self, key: Vec<u8>) -> Result<UnlockResponse, Status> {
        self.unary("/v3lockpb.Lock/Unlock", UnlockRequest { key }).await
    }

    /// Begins to keep a lease alive: sends the first keepalive.
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

    async fn unary<Asked, Answer>(&self, path: &'static str, asked: Asked) -> Result<Answer, Status>
    where
        Asked: Message + 'static,
        Answer: Message + Default + 'static,
    {
        let mut grpc = self.ready().await?;
        let codec = ProstCodec::default();
        let answer = grpc.unary(request(asked), PathAndQuery::from_static(path), codec).await?;
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
        let answers = grpc.streaming(request(asked), PathAndQuery::from_static(path), codec).await?;
        Ok(answers.into_inner())
    }

    async fn ready(&self) -> Result<Grpc<Channel>, Status> {
        let mut grpc = Grpc::new(self.0.clone());
        // The code that a call gets whose connection does not come about.
        grpc.ready().await.map_err(|error| Status::unavailable(format!("{error}")))?;
        Ok(grpc)
    }
}

/// A member that knows no leader says so at once instead of letting requests and streams wait.
fn request<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("hasleader", MetadataValue::from_static("true"));
    request
}

/// A lease that is being kept alive on one stream.
pub(super) struct KeepAlive {
    lease: i64,
    ask: mpsc::Sender<LeaseKeepAliveRequest>,
    answers: Streaming<LeaseKeepAliveResponse>,
    /// The keepalive that opened the stream is still to be answered.
    first_sent: bool,
}

impl KeepAlive {
    /// Sends one keepalive, unless the one that opened the stream is still under way, and reads its answer.
    /// Gives whether the server still knows the lease.
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
