//! The messages of etcd's API that the recipes here exchange, written by hand: a client generated from all of
//! etcd's definitions needs a protobuf compiler and a minute to build, for a fifth of it.
//!
//! Names and field numbers: `api/etcdserverpb/rpc.proto`, `api/mvccpb/kv.proto` and
//! `server/etcdserver/api/v3lock/v3lockpb/v3lock.proto` of etcd. Fields without use here are left out, which
//! protobuf allows: they are skipped when read, and have their default when written.

/// Messages as `rpc.proto` has them: of each field its kind, its name and its number.
macro_rules! messages {
    ($($name:ident { $($(#[$about:meta])* [$($kind:tt)+] $field:ident: $type:ty = $tag:tt,)* })+) => {
        $(#[derive(Clone, PartialEq, prost::Message)]
        pub(super) struct $name {
            $($(#[$about])* #[prost($($kind)+, tag = $tag)] pub(super) $field: $type,)*
        })+
    };
}

messages! {
    ResponseHeader {
        [int64] revision: i64 = 3,
    }
    KeyValue {
        [bytes = "vec"] key: Vec<u8> = 1,
        [int64] create_revision: i64 = 2,
        [int64] mod_revision: i64 = 3,
        [bytes = "vec"] value: Vec<u8> = 5,
    }
    AuthenticateRequest {
        [string] name: String = 1,
        [string] password: String = 2,
    }
    AuthenticateResponse {
        [string] token: String = 2,
    }
    RangeRequest {
        [bytes = "vec"] key: Vec<u8> = 1,
        [bytes = "vec"] range_end: Vec<u8> = 2,
        /// 0: no limit.
        [int64] limit: i64 = 3,
        [enumeration = "SortOrder"] sort_order: i32 = 5,
        [enumeration = "SortTarget"] sort_target: i32 = 6,
        [bool] keys_only: bool = 8,
        /// 0: no bound.
        [int64] min_create_revision: i64 = 12,
        [int64] max_create_revision: i64 = 13,
    }
    RangeResponse {
        [message, optional] header: Option<ResponseHeader> = 1,
        [message, repeated] kvs: Vec<KeyValue> = 2,
    }
    PutRequest {
        [bytes = "vec"] key: Vec<u8> = 1,
        [bytes = "vec"] value: Vec<u8> = 2,
        [int64] lease: i64 = 3,
    }
    PutResponse {}
    DeleteRangeRequest {
        [bytes = "vec"] key: Vec<u8> = 1,
        [bytes = "vec"] range_end: Vec<u8> = 2,
    }
    DeleteRangeResponse {
        [int64] deleted: i64 = 2,
    }
    StatusRequest {}
    StatusResponse {
        [string] version: String = 2,
        /// 0: it knows none.
        [uint64] leader: u64 = 4,
        [bool] is_learner: bool = 10,
    }
    TxnRequest {
        [message, repeated] compare: Vec<Compare> = 1,
        [message, repeated] success: Vec<RequestOp> = 2,
        [message, repeated] failure: Vec<RequestOp> = 3,
    }
    TxnResponse {
        [message, optional] header: Option<ResponseHeader> = 1,
        [bool] succeeded: bool = 2,
        [message, repeated] responses: Vec<ResponseOp> = 3,
    }
    LeaseGrantRequest {
        [int64] ttl_s: i64 = 1,
    }
    LeaseGrantResponse {
        [int64] id: i64 = 2,
        [int64] ttl_s: i64 = 3,
    }
    LeaseRevokeRequest {
        [int64] id: i64 = 1,
    }
    LeaseRevokeResponse {}
    LeaseKeepAliveRequest {
        [int64] id: i64 = 1,
    }
    LeaseKeepAliveResponse {
        /// 0: the server does not know the lease.
        [int64] ttl_s: i64 = 3,
    }
    WatchRequest {
        [message, optional] create: Option<WatchCreateRequest> = 1,
    }
    WatchCreateRequest {
        [bytes = "vec"] key: Vec<u8> = 1,
        [bytes = "vec"] range_end: Vec<u8> = 2,
        [int64] start_revision: i64 = 3,
    }
    WatchResponse {
        [bool] canceled: bool = 4,
        [message, repeated] events: Vec<WatchEvent> = 11,
    }
    WatchEvent {
        [enumeration = "EventType"] kind: i32 = 1,
    }
    LockRequest {
        [bytes = "vec"] name: Vec<u8> = 1,
        [int64] lease: i64 = 2,
    }
    LockResponse {
        [message, optional] header: Option<ResponseHeader> = 1,
        [bytes = "vec"] key: Vec<u8> = 2,
    }
    UnlockRequest {
        [bytes = "vec"] key: Vec<u8> = 1,
    }
    UnlockResponse {}
}

/// A request that has one answer.
pub(super) trait Call: prost::Message + Clone + 'static {
    type Answer: prost::Message + Default + 'static;
    const PATH: &'static str;
}

macro_rules! calls {
    ($($request:ident => $answer:ident by $path:literal,)+) => {
        $(impl Call for $request {
            type Answer = $answer;
            const PATH: &'static str = $path;
        })+
    };
}

calls! {
    RangeRequest => RangeResponse by "/etcdserverpb.KV/Range",
    DeleteRangeRequest => DeleteRangeResponse by "/etcdserverpb.KV/DeleteRange",
    TxnRequest => TxnResponse by "/etcdserverpb.KV/Txn",
    StatusRequest => StatusResponse by "/etcdserverpb.Maintenance/Status",
    LeaseGrantRequest => LeaseGrantResponse by "/etcdserverpb.Lease/LeaseGrant",
    LeaseRevokeRequest => LeaseRevokeResponse by "/etcdserverpb.Lease/LeaseRevoke",
    LockRequest => LockResponse by "/v3lockpb.Lock/Lock",
    UnlockRequest => UnlockResponse by "/v3lockpb.Lock/Unlock",
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub(super) enum SortOrder {
    None = 0,
    Ascend = 1,
    Descend = 2,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub(super) enum SortTarget {
    Key = 0,
    Version = 1,
    Create = 2,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct RequestOp {
    #[prost(oneof = "TransactionRequest", tags = "1, 2, 3")]
    pub(super) request: Option<TransactionRequest>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(super) enum TransactionRequest {
    #[prost(message, tag = "1")]
    Range(RangeRequest),
    #[prost(message, tag = "2")]
    Put(PutRequest),
    #[prost(message, tag = "3")]
    Delete(DeleteRangeRequest),
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ResponseOp {
    #[prost(oneof = "TransactionResponse", tags = "1, 2, 3")]
    pub(super) response: Option<TransactionResponse>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(super) enum TransactionResponse {
    #[prost(message, tag = "1")]
    Range(RangeResponse),
    #[prost(message, tag = "2")]
    Put(PutResponse),
    #[prost(message, tag = "3")]
    Delete(DeleteRangeResponse),
}

/// A condition: a revision of a key, or of each in a range, equals a number (etcd's default, `EQUAL = 0`).
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Compare {
    #[prost(enumeration = "CompareTarget", tag = "2")]
    pub(super) target: i32,
    #[prost(bytes = "vec", tag = "3")]
    pub(super) key: Vec<u8>,
    #[prost(oneof = "ComparedWith", tags = "5, 6")]
    pub(super) compared: Option<ComparedWith>,
    #[prost(bytes = "vec", tag = "64")]
    pub(super) range_end: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub(super) enum CompareTarget {
    Version = 0,
    Create = 1,
    Mod = 2,
}

/// With what is compared. A `oneof`, since etcd wants the field to be there even if it is 0.
#[derive(Clone, Copy, PartialEq, prost::Oneof)]
pub(super) enum ComparedWith {
    #[prost(int64, tag = "5")]
    CreateRevision(i64),
    #[prost(int64, tag = "6")]
    ModRevision(i64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub(super) enum EventType {
    Put = 0,
    Delete = 1,
}

impl RangeRequest {
    pub(super) fn key(key: impl Into<Vec<u8>>) -> RangeRequest {
        RangeRequest { key: key.into(), ..RangeRequest::default() }
    }

    pub(super) fn prefix(prefix: &str) -> RangeRequest {
        RangeRequest { range_end: prefix_end(prefix), ..RangeRequest::key(prefix) }
    }

    /// The first key only, where keys are put in order of their creation.
    pub(super) fn first_created(self, order: SortOrder) -> RangeRequest {
        RangeRequest { sort_order: order.into(), sort_target: SortTarget::Create.into(), limit: 1, ..self }
    }
}

impl DeleteRangeRequest {
    pub(super) fn key(key: impl Into<Vec<u8>>) -> DeleteRangeRequest {
        DeleteRangeRequest { key: key.into(), range_end: Vec::new() }
    }

    pub(super) fn prefix(prefix: &str) -> DeleteRangeRequest {
        DeleteRangeRequest { key: prefix.into(), range_end: prefix_end(prefix) }
    }
}

impl Compare {
    /// The key has this create revision; 0: there is no such key.
    pub(super) fn created(key: impl Into<Vec<u8>>, revision: i64) -> Compare {
        Compare {
            target: CompareTarget::Create.into(),
            key: key.into(),
            compared: Some(ComparedWith::CreateRevision(revision)),
            range_end: Vec::new(),
        }
    }

    /// The key was changed last at this revision; 0: there is no such key.
    pub(super) fn changed(key: impl Into<Vec<u8>>, revision: i64) -> Compare {
        Compare {
            target: CompareTarget::Mod.into(),
            compared: Some(ComparedWith::ModRevision(revision)),
            ..Compare::created(key, revision)
        }
    }

    pub(super) fn none_under(prefix: &str) -> Compare {
        Compare { range_end: prefix_end(prefix), ..Compare::created(prefix, 0) }
    }
}

impl RequestOp {
    pub(super) fn range(range: RangeRequest) -> RequestOp {
        RequestOp { request: Some(TransactionRequest::Range(range)) }
    }

    pub(super) fn put(key: impl Into<Vec<u8>>, lease: i64) -> RequestOp {
        RequestOp::put_under(key, Vec::new(), lease)
    }

    pub(super) fn put_under(key: impl Into<Vec<u8>>, value: Vec<u8>, lease: i64) -> RequestOp {
        RequestOp { request: Some(TransactionRequest::Put(PutRequest { key: key.into(), value, lease })) }
    }

    pub(super) fn delete(key: impl Into<Vec<u8>>) -> RequestOp {
        RequestOp { request: Some(TransactionRequest::Delete(DeleteRangeRequest::key(key))) }
    }
}

impl RangeResponse {
    pub(super) fn revision(&self) -> i64 {
        self.header.as_ref().map_or(0, |header| header.revision)
    }
}

impl TxnResponse {
    pub(super) fn revision(&self) -> Option<i64> {
        self.header.as_ref().map(|header| header.revision)
    }

    /// What the steps of the branch that was taken answered.
    pub(super) fn answers(&self) -> impl Iterator<Item = &TransactionResponse> {
        self.responses.iter().filter_map(|answer| answer.response.as_ref())
    }
}

/// The first key that is greater than all with this prefix, as etcd wants the end of a range.
pub(super) fn prefix_end(prefix: &str) -> Vec<u8> {
    let mut end = prefix.as_bytes().to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return end;
        }
    }
    // Nothing is greater: etcd's sign for "to the end of all keys".
    vec![0]
}

#[cfg(test)]
mod tests {
    use super::*;
    use prost::Message;

    #[test]
    fn a_prefix_ends_before_its_successor() {
        assert_eq!(prefix_end("fencepost/k0/"), b"fencepost/k00");
        assert_eq!(prefix_end(""), [0]);
    }

    /// Bytes worked out by hand from the field numbers in etcd's definitions.
    #[test]
    fn messages_are_encoded_as_etcd_defines_them() {
        let compare = Compare::created("k", 0);
        assert_eq!(compare.encode_to_vec(), [0x10, 1, 0x1a, 1, b'k', 0x28, 0]);
        let changed = Compare::changed("k", 5);
        assert_eq!(changed.encode_to_vec(), [0x10, 2, 0x1a, 1, b'k', 0x30, 5]);
        let put = RequestOp::put("k", 5);
        assert_eq!(put.encode_to_vec(), [0x12, 5, 0x0a, 1, b'k', 0x18, 5]);
        let oldest = RangeRequest::key("k").first_created(SortOrder::Ascend);
        assert_eq!(oldest.encode_to_vec(), [0x0a, 1, b'k', 0x18, 1, 0x28, 1, 0x30, 2]);
        let watch = WatchRequest {
            create: Some(WatchCreateRequest { key: vec![b'k'], range_end: Vec::new(), start_revision: 3 }),
        };
        assert_eq!(watch.encode_to_vec(), [0x0a, 5, 0x0a, 1, b'k', 0x18, 3]);
        assert_eq!(Compare::none_under("k").encode_to_vec()[7..], [0x82, 4, 1, b'l']);
    }

    /// A field that is not written down here (the version of a key, number 4) is skipped.
    #[test]
    fn unknown_fields_are_skipped() {
        let bytes = [0x0a, 1, b'k', 0x10, 7, 0x18, 9, 0x20, 3, 0x2a, 1, b'v'];
        let key = KeyValue::decode(&bytes[..]).unwrap();
        assert_eq!((key.key, key.create_revision, key.mod_revision), (b"k".to_vec(), 7, 9));
        assert_eq!(key.value, b"v");
    }
}
