//! What a storage and its clients say to each other: lines of JSON over TCP.
//!
//! ```text
//! → {"id":1,"f":"read","key":"a","token":33}               ← {"id":1,"ok":7}
//! → {"id":2,"f":"write","key":"a","value":8,"token":33}    ← {"id":2,"ok":8}   or   {"id":2,"fail":"rejected: stale-token: 33 < 35"}
//! → {"id":3,"f":"mark","key":"a","unique":"c1-7-2"}        ← {"id":3,"ok":null}
//! → {"id":4,"f":"stats"}                                   ← {"id":4,"ok":{"reads":1,"accepted":1,"rejected":0}}
//! ```

use crate::guards::Credentials;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::borrow::Cow;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Request<'a> {
    pub(crate) id: u64,
    #[serde(borrow)]
    pub(crate) f: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(crate) key: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) value: Option<Cow<'a, Value>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) token: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) unique: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) sequencer: Option<Cow<'a, str>>,
    /// With replicas: which write of its writer this is. A replica keeps the greatest of token and number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) number: Option<u64>,
}

impl Request<'_> {
    pub(crate) fn credentials(&self) -> Credentials {
        let owned = |text: &Option<Cow<str>>| text.as_deref().map(str::to_owned);
        Credentials { token: self.token, unique: owned(&self.unique), sequencer: owned(&self.sequencer) }
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Response {
    pub(crate) id: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ok: Option<Value>,
    /// The request was certainly not carried out, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) fail: Option<String>,
    /// With replicas: by which token the value that was read was written, and as which write of its writer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) version: Option<(u64, u64)>,
}

/// What a storage has done since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stats {
    pub reads: u64,
    /// Writes that were stored.
    pub accepted: u64,
    /// Writes that the guard refused.
    pub rejected: u64,
}
