//! What a storage and its clients say to each other: lines of JSON over TCP.
//!
//! ```text
//! → {"id":1,"f":"read","key":"a","process":7,"token":33}               ← {"id":1,"ok":7}
//! → {"id":2,"f":"write","key":"a","value":8,"process":7,"token":33}    ← {"id":2,"ok":8}   or   {"id":2,"fail":"rejected: stale-token: 33 < 35"}
//! → {"id":3,"f":"mark","key":"a","unique":"c1-7-2"}        ← {"id":3,"ok":null}
//! → {"id":4,"f":"ping"}                                    ← {"id":4,"ok":null}
//! ```

use crate::guards::Credentials;
use fencepost_history::OperationError;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::borrow::Cow;

/// The longest line that either side accepts, in bytes.
pub(crate) const LINE_MAX: usize = 1024 * 1024;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Request<'a> {
    pub(crate) id: u64,
    pub(crate) f: Function,
    #[serde(borrow, default)]
    pub(crate) key: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) value: Option<Cow<'a, Value>>,
    #[serde(flatten)]
    pub(crate) credentials: Cow<'a, Credentials>,
    /// With replicas: the write's number among its client's. A replica keeps the greatest (token, number).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) number: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Function {
    Read,
    Write,
    Mark,
    /// Nothing: the answer shows that the storage serves.
    Ping,
}

impl<'a> Request<'a> {
    pub(crate) fn of(f: Function, key: &'a str, credentials: &'a Credentials) -> Request<'a> {
        let (key, credentials) = (Cow::Borrowed(key), Cow::Borrowed(credentials));
        Request { id: 0, f, key, value: None, credentials, number: None }
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Response {
    pub(crate) id: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ok: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) fail: Option<OperationError>,
    /// With replicas: the token of the write, and its number among the writes of its client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) version: Option<(u64, u64)>,
}
