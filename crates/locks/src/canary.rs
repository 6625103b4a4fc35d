//! `canary-nolock`: no lock at all. Every acquire succeeds at once.
//!
//! It is there to be caught: a checker that does not find a violation in its histories finds none anywhere.
//! `exclusion` must see overlapping holds, `lost-updates` must see overwritten increments, and `fencing` must see
//! a token that does not grow. For the last one, and so that the guard `token` can be used with it (and protects
//! nothing, since no token is ever lower than another), each acquire hands out the token 1.

use crate::backend::{Backend, Lock, Session};
use crate::notices::Notices;
use crate::options::Options;
use crate::protocol::Hello;
use async_trait::async_trait;
use fencepost_cluster::protocol::Service;
use fencepost_cluster::{ClusterError, Node};
use fencepost_history::Completion;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

const TOKEN: u64 = 1;

pub(crate) struct CanaryNolock;

#[async_trait]
impl Backend for CanaryNolock {
    fn name(&self) -> &'static str {
        "canary-nolock"
    }

    fn about(&self) -> &'static str {
        "no lock: every acquire succeeds at once with token 1; it must be caught"
    }

    fn promises(&self) -> &'static str {
        "nothing: it must be caught"
    }

    fn has_token(&self, _options: &Options) -> bool {
        true
    }

    fn image(&self) -> Option<&'static str> {
        None
    }

    fn default_nodes(&self) -> usize {
        0
    }

    fn check(&self, options: &Options) -> Result<(), String> {
        match options.nodes {
            None | Some(0) => Ok(()),
            Some(_) => Err("canary-nolock has no servers; leave --nodes out".to_owned()),
        }
    }

    fn port(&self) -> u16 {
        0
    }

    fn service(&self, _index: usize, _nodes: &[Arc<dyn Node>], _options: &Options) -> Service {
        unreachable!("canary-nolock has no servers")
    }

    async fn await_ready(&self, _nodes: &[Arc<dyn Node>], _options: &Options) -> Result<(), ClusterError> {
        Ok(())
    }

    async fn version(&self, _node: &Arc<dyn Node>) -> Result<String, ClusterError> {
        Ok("none".to_owned())
    }

    async fn connect(&self, _hello: &Hello) -> Result<Box<dyn Session>, String> {
        Ok(Box::new(CanarySession))
    }
}

struct CanarySession;

impl Session for CanarySession {
    fn can(&self) -> Vec<String> {
        vec!["token".to_owned()]
    }

    fn lock(&self, _process: u64, _notices: Notices) -> Box<dyn Lock> {
        Box::new(CanaryLock)
    }
}

struct CanaryLock;

#[async_trait]
impl Lock for CanaryLock {
    async fn acquire(&mut self, _key: &str, _ttl: Duration, _timeout: Duration) -> Completion {
        Completion::Ok(json!({"token": TOKEN}))
    }

    async fn release(&mut self, _key: &str, _timeout: Duration) -> Completion {
        Completion::Ok(Value::Null)
    }

    fn still_valid(&self, _key: &str) -> Option<bool> {
        None
    }

    fn token(&self, _key: &str) -> Option<u64> {
        Some(TOKEN)
    }
}
