//! Members of an etcd cluster that exist without the run.

use super::api::{
    DeleteRangeRequest, LeaseGrantRequest, LeaseRevokeRequest, RequestOp, StatusRequest, TxnRequest,
};
use super::client::{Client, Login};
use crate::access::Access;
use crate::existing::{ExistingService, PATIENCE, dialer, explained, lacks_rights, no_answer, no_login};
use crate::protocol::Server;
use async_trait::async_trait;
use fencepost_history::printable;
use std::sync::Arc;
use tokio::time::timeout;
use tonic::{Code, Status};

const LEASE_S: i64 = 10;

pub(super) struct ExistingEtcd;

fn client(server: &Server, access: &Access) -> Result<Client, String> {
    let dialer = dialer(access)?;
    let login = Login::of(&dialer).map(Arc::new);
    Client::connect(server, &dialer.speaking("h2"), login).map_err(|error| error.to_string())
}

/// The answer to a call; its error as the rest of a sentence that begins with the member.
async fn answer<T>(call: impl Future<Output = Result<T, Status>> + Send) -> Result<T, String> {
    match timeout(PATIENCE, call).await {
        Ok(answered) => answered.map_err(|status| said(&status)),
        Err(_) => Err(no_answer("an etcd member")),
    }
}

/// What an error means, as the rest of a sentence that begins with the member.
fn said(status: &Status) -> String {
    let words = printable(status.message());
    match status.code() {
        Code::PermissionDenied => lacks_rights(&words),
        _ if words.contains("user name is empty") => {
            "asks for a user and a password; give them by --servers-user and FENCEPOST_SERVERS_PASSWORD"
                .to_owned()
        }
        Code::Unauthenticated | Code::InvalidArgument => no_login(&words),
        Code::ResourceExhausted => format!("takes no writes: {words}"),
        Code::Unavailable if words.contains("etcdserver") => format!("does not serve: {words}"),
        _ => format!("does not answer as an etcd member does ({words}); is it up, and is it TLS (https://)?"),
    }
}

#[async_trait]
impl ExistingService for ExistingEtcd {
    async fn version(&self, server: &Server, access: &Access) -> Result<String, String> {
        let status = match answer(client(server, access)?.call(StatusRequest {})).await {
            Ok(status) => status,
            Err(why) => {
                return Err(explained(&dialer(access)?.speaking("h2"), server, why).await);
            }
        };
        if status.leader == 0 {
            return Err("knows no leader: too few members of its cluster are up".to_owned());
        }
        if status.is_learner {
            return Err("is a learner, and serves no clients; name the voting members".to_owned());
        }
        Ok(format!("etcd {}", status.version))
    }

    async fn try_write(&self, server: &Server, access: &Access, key: &str) -> Result<(), String> {
        let client = client(server, access)?;
        let lease = answer(client.call(LeaseGrantRequest { ttl_s: LEASE_S })).await?.id;
        let put = TxnRequest { success: vec![RequestOp::put(key, lease)], ..TxnRequest::default() };
        let put = answer(client.call(put)).await;
        let deleted = answer(client.call(DeleteRangeRequest::key(key))).await;
        let revoked = answer(client.call(LeaseRevokeRequest { id: lease })).await;
        put.and(deleted.map(drop)).and(revoked.map(drop))
    }

    async fn remove(&self, server: &Server, access: &Access, prefix: &str) -> Result<u64, String> {
        let deleted = answer(client(server, access)?.call(DeleteRangeRequest::prefix(prefix))).await?;
        Ok(deleted.deleted.try_into().unwrap_or_default())
    }

    fn shares_keys(&self) -> bool {
        true
    }
}
