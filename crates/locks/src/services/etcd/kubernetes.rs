//! `kubernetes-election`: the leader election of Kubernetes' clients, on etcd in the place of its API server.
//! A record, replaced by compare-and-swap, names the leader. The leader renews it, and stops leading where it
//! cannot for a while; a candidate takes over a record that it has not seen changing for the whole lease
//! duration, by its own monotonic clock. Source: `tools/leaderelection/leaderelection.go` of client-go. The
//! TTL is its lease duration; the default durations keep their proportion (15, 10, 2 s).

use super::api::{Compare, RangeRequest, RequestOp, TransactionResponse, TxnRequest, TxnResponse};
use super::members::{AnsweredMember, CallError, Members};
use super::recipe::{EtcdRecipe, LEASED};
use super::service::ETCD;
use crate::attempts::rest;
use crate::capabilities::Capabilities;
use crate::client::client_clock::Reading;
use crate::definition::LockDefinition;
use crate::error::refuse;
use crate::held::{Held, never_acquired};
use crate::notices::Notices;
use crate::options::{Options, RecordClock};
use crate::recipe::Lock;
use crate::watchdog::{CLOCK, RenewalOutcome, RenewedLease, Renews, keep_renewed};
use async_trait::async_trait;
use fencepost_cluster::OwnTask;
use fencepost_history::{Completion, ErrorCode, Grant, Lease, LockKind, OperationError, Stream};
use fencepost_storage::Credentials;
use parking_lot::Mutex;
use rand::RngExt;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::time::Instant;

pub(super) static LOCK: LockDefinition = LockDefinition {
    name: "kubernetes-election",
    about: "Kubernetes' leader election, on etcd: a record that its leader renews, changed by compare-and-swap; its number of transitions is the term",
    claims: "exclusion while the clocks of clients run at rates that differ by less than half, ownership, progress, availability with any minority down, fencing",
    service: &ETCD,
    recipe: &EtcdRecipe {
        check: |options| match (options.renew_deadline, options.retry_period) {
            (Some(deadline), Some(retry)) if deadline <= retry => refuse!(
                "retry-period",
                "--retry-period {retry} leaves no time for a retry within --renew-deadline {deadline}; make it shorter"
            ),
            _ => Ok(()),
        },
        holders: None,
        lock: |user, options| {
            let (members, notices, random) = user.into_parts();
            let (observed, held) = (HashMap::new(), Held::default());
            Box::new(RecordLock { members, notices, random, options: options.clone(), observed, held })
        },
    },
    options: &["renew-deadline", "retry-period", "record-clock"],
    capabilities: |_| Capabilities {
        kind: LockKind::Election,
        lease: Lease::Ttl,
        unique_value: false,
        leader: true,
        ..LEASED
    },
};

/// What stands under the key, as in a `Lease` of Kubernetes. Times are milliseconds since 1970.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct LeaderRecord {
    /// Empty: its leader has resigned.
    holder_identity: String,
    lease_duration_seconds: f64,
    acquire_time: u64,
    renew_time: u64,
    leader_transitions: i64,
}

/// A record, and the revision at which it was written; 0: there is none.
#[derive(Clone, Debug, Default, PartialEq)]
struct Found {
    revision: i64,
    record: LeaderRecord,
}

struct RecordLock {
    members: Arc<Members>,
    notices: Notices,
    random: Stream,
    options: Options,
    /// Of each key the revision that was seen last, and since when.
    observed: HashMap<String, (i64, Reading)>,
    held: Held<RecordHold>,
}

struct RecordHold {
    own: Arc<OwnRecord>,
    lease: Arc<RenewedLease>,
    _watchdog: OwnTask,
}

struct OwnRecord {
    record: LeaderRecord,
    /// At which it was written last, as far as is known.
    revision: Mutex<i64>,
}

struct Renewal {
    members: Arc<Members>,
    own: Arc<OwnRecord>,
}

enum Tried {
    Leads {
        own: Found,
        asked: Reading,
    },
    Taken(OperationError),
    /// A write was not answered: it may have been carried out, and may still be.
    Unknown(OperationError),
}

enum Swapped {
    Done { revision: i64 },
    Found(Found),
    Refused(OperationError),
    Unknown(OperationError),
}

fn wall_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

fn path(key: &str) -> String {
    format!("{key}/leader")
}

/// The record in an answer; what is no record counts as none that anybody leads by.
fn found(part: Option<&TransactionResponse>) -> Found {
    let Some(TransactionResponse::Range(range)) = part else { return Found::default() };
    let Some(kv) = range.kvs.first() else { return Found::default() };
    Found { revision: kv.mod_revision, record: serde_json::from_slice(&kv.value).unwrap_or_default() }
}

/// After the transaction that replaces the record of a revision, and reads it where it has another.
fn after_swap(reply: Result<AnsweredMember<TxnResponse>, CallError>) -> Swapped {
    match reply {
        Ok(AnsweredMember { answer, .. }) if answer.succeeded => {
            Swapped::Done { revision: answer.revision().unwrap_or_default() }
        }
        // The revision is another for good: an earlier attempt that was not answered can no longer succeed.
        Ok(AnsweredMember { answer, .. }) => Swapped::Found(found(answer.answers().next())),
        Err(CallError::Refused { why, doubt: false, .. }) => Swapped::Refused(why),
        Err(error) => Swapped::Unknown(error.why()),
    }
}

async fn swap(members: &Members, key: &str, revision: i64, record: &LeaderRecord, until: Instant) -> Swapped {
    let path = path(key);
    let txn = TxnRequest {
        compare: vec![Compare::changed(path.as_str(), revision)],
        success: vec![RequestOp::put_under(path.as_str(), serde_json::to_vec(record).unwrap_or_default(), 0)],
        failure: vec![RequestOp::range(RangeRequest::key(path))],
    };
    after_swap(members.ask(&txn, until).await)
}

fn has_run_out(record: &LeaderRecord, seen: Reading, ttl: Duration, clock: RecordClock) -> bool {
    match clock {
        _ if record.holder_identity.is_empty() => true,
        RecordClock::Observed => !CLOCK.is_before(seen + ttl),
        RecordClock::Written => {
            record.renew_time as f64 + record.lease_duration_seconds * 1000.0 < wall_ms() as f64
        }
    }
}

impl RecordLock {
    fn renew_deadline(&self, ttl: Duration) -> Duration {
        self.options.renew_deadline.map_or(ttl * 2 / 3, |given| given.0)
    }

    fn retry_period(&self, ttl: Duration) -> Duration {
        self.options.retry_period.map_or(ttl * 2 / 15, |given| given.0)
    }

    /// When the record of this revision was seen first.
    fn observe(&mut self, key: &str, revision: i64) -> Reading {
        match self.observed.get(key) {
            Some((seen, since)) if *seen == revision => *since,
            _ => {
                let now = CLOCK.now();
                self.observed.insert(key.to_owned(), (revision, now));
                now
            }
        }
    }

    async fn look(&self, key: &str, until: Instant) -> Result<Found, OperationError> {
        let there = self.members.ask(&RangeRequest::key(path(key)), until).await;
        let there = there.map_err(CallError::why)?;
        Ok(found(Some(&TransactionResponse::Range(there.answer))))
    }

    async fn try_once(&mut self, key: &str, identity: &str, ttl: Duration, until: Instant) -> Tried {
        let there = match self.look(key, until).await {
            Ok(there) => there,
            Err(why) => return Tried::Taken(why),
        };
        let seen = self.observe(key, there.revision);
        let taken = || Tried::Taken(ErrorCode::Taken.error("another process leads"));
        if there.revision > 0 && !has_run_out(&there.record, seen, ttl, self.options.record_clock) {
            return taken();
        }
        let now = wall_ms();
        let record = LeaderRecord {
            holder_identity: identity.to_owned(),
            lease_duration_seconds: ttl.as_secs_f64(),
            acquire_time: now,
            renew_time: now,
            leader_transitions: there.record.leader_transitions + i64::from(there.revision > 0),
        };
        let asked = CLOCK.now();
        match swap(&self.members, key, there.revision, &record, until).await {
            Swapped::Done { revision } => Tried::Leads { own: Found { revision, record }, asked },
            // An attempt whose answer was lost.
            Swapped::Found(own) if own.record.holder_identity == identity => Tried::Leads { own, asked },
            Swapped::Found(others) => {
                self.observe(key, others.revision);
                taken()
            }
            Swapped::Refused(why) => Tried::Taken(why),
            Swapped::Unknown(why) => Tried::Unknown(why),
        }
    }

    fn granted(&mut self, key: &str, own: Found, asked: Reading, ttl: Duration) -> Completion {
        let term = term(&own.record);
        let own = Arc::new(OwnRecord { revision: Mutex::new(own.revision), record: own.record });
        let deadline = self.renew_deadline(ttl);
        let lease = RenewedLease::new(key, "", deadline, asked + deadline).every(self.retry_period(ttl));
        let lease = Arc::new(lease);
        let renewal = Renewal { members: self.members.clone(), own: own.clone() };
        let watchdog = keep_renewed(renewal, lease.clone(), self.notices.clone());
        self.held.remember(key, RecordHold { own, lease, _watchdog: watchdog });
        Completion::ok(Grant {
            token: Some(term),
            validity_ms: Some(CLOCK.millis_until(asked + ttl).into()),
            ..Grant::default()
        })
    }
}

/// The first leader leads in term 1.
fn term(record: &LeaderRecord) -> i64 {
    record.leader_transitions + 1
}

#[async_trait]
impl Renews for Renewal {
    async fn renew(&self, lease: &RenewedLease, deadline: Instant) -> RenewalOutcome {
        let late = |why: &str| RenewalOutcome::Lost(format!("no renewal before the renew deadline{why}"));
        if lease.is_over() {
            return late("");
        }
        let OwnRecord { record, revision } = &*self.own;
        let renewed = LeaderRecord { renew_time: wall_ms(), ..record.clone() };
        let before = *revision.lock();
        match swap(&self.members, &lease.key, before, &renewed, deadline).await {
            Swapped::Done { revision: now } => {
                *revision.lock() = now;
                RenewalOutcome::Renewed
            }
            // A renewal whose answer was lost.
            Swapped::Found(own) if own.record.holder_identity == record.holder_identity => {
                *revision.lock() = own.revision;
                RenewalOutcome::Again
            }
            Swapped::Found(_) => RenewalOutcome::Lost("the record names another leader, or none".to_owned()),
            Swapped::Refused(why) | Swapped::Unknown(why) if lease.is_over() => late(&format!("; {why}")),
            Swapped::Refused(_) | Swapped::Unknown(_) => RenewalOutcome::Again,
        }
    }
}

#[async_trait]
impl Lock for RecordLock {
    async fn acquire(&mut self, key: &str, ttl: Duration, timeout: Duration) -> Completion {
        let deadline = Instant::now() + timeout;
        // Each campaign has an identity of its own, as each process of Kubernetes that was started anew.
        let identity = format!("{}-{:016x}", self.notices.process(), rand::random::<u64>());
        let retry = self.retry_period(ttl);
        loop {
            let why = match self.try_once(key, &identity, ttl, deadline).await {
                Tried::Leads { own, asked } => return self.granted(key, own, asked, ttl),
                Tried::Unknown(why) => return Completion::Info(why),
                Tried::Taken(why) => why,
            };
            let delay = self.random.random_range(retry..=retry * 11 / 5);
            if !rest(delay, deadline).await {
                return Completion::Fail(why);
            }
        }
    }

    async fn release(&mut self, key: &str, timeout: Duration) -> Completion {
        let deadline = Instant::now() + timeout;
        // Its renewals end here.
        let Some(RecordHold { own, .. }) = self.held.take(key) else { return never_acquired() };
        let mine = own.record.clone();
        let resigned = LeaderRecord { holder_identity: String::new(), ..mine.clone() };
        let mut revision = *own.revision.lock();
        loop {
            revision = match swap(&self.members, key, revision, &resigned, deadline).await {
                Swapped::Done { .. } => return Completion::Ok(Value::Null),
                // An attempt whose answer was lost: no other leader has had this term.
                Swapped::Found(there) if there.record == resigned => return Completion::Ok(Value::Null),
                // A renewal that was under way came first.
                Swapped::Found(there) if there.record.holder_identity == mine.holder_identity => {
                    there.revision
                }
                Swapped::Found(_) => {
                    return Completion::fail(ErrorCode::NotHeld, "the record names another leader");
                }
                // Not carried out: the record stays until it has run out.
                Swapped::Refused(why) => return Completion::Fail(why),
                Swapped::Unknown(why) => return Completion::Info(why),
            };
        }
    }

    async fn leader(&mut self, key: &str, timeout: Duration) -> Completion {
        match self.look(key, Instant::now() + timeout).await {
            Ok(Found { record, .. }) => {
                let process =
                    record.holder_identity.split('-').next().and_then(|number| number.parse::<u64>().ok());
                Completion::ok(process)
            }
            Err(why) => Completion::Fail(why),
        }
    }

    fn still_valid(&self, key: &str) -> Option<bool> {
        Some(self.held.find(key).is_some_and(|hold| !hold.lease.is_over()))
    }

    fn credentials(&self, key: &str) -> Credentials {
        let token = self.held.find(key).and_then(|hold| u64::try_from(term(&hold.own.record)).ok());
        Credentials { token, ..Credentials::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::services::etcd::api::{KeyValue, RangeResponse, ResponseHeader, ResponseOp};

    const TTL: Duration = Duration::from_secs(15);

    fn record(renewed_ago: Duration) -> LeaderRecord {
        LeaderRecord {
            holder_identity: "a".to_owned(),
            lease_duration_seconds: TTL.as_secs_f64(),
            acquire_time: 0,
            renew_time: wall_ms() - renewed_ago.as_millis() as u64,
            leader_transitions: 3,
        }
    }

    #[test]
    fn a_record_is_written_as_kubernetes_names_its_fields() {
        let written = serde_json::to_value(record(Duration::ZERO)).unwrap();
        for name in
            ["holderIdentity", "leaseDurationSeconds", "acquireTime", "renewTime", "leaderTransitions"]
        {
            assert!(written.get(name).is_some(), "{name}");
        }
    }

    #[test]
    fn a_record_runs_out_by_the_clock_of_the_candidate_alone() {
        let out = |record: &LeaderRecord, clock| has_run_out(record, CLOCK.now(), TTL, clock);
        let (old, fresh) = (record(2 * TTL), record(Duration::ZERO));
        assert!(!out(&old, RecordClock::Observed), "it was seen just now, whatever it says");
        assert!(out(&old, RecordClock::Written) && !out(&fresh, RecordClock::Written));
        assert!(has_run_out(&fresh, CLOCK.now(), Duration::ZERO, RecordClock::Observed));
        let resigned = LeaderRecord { holder_identity: String::new(), ..fresh };
        assert!(out(&resigned, RecordClock::Observed) && out(&resigned, RecordClock::Written));
    }

    fn reply(succeeded: bool, kvs: Vec<KeyValue>) -> Result<AnsweredMember<TxnResponse>, CallError> {
        let range = RangeResponse { kvs, ..RangeResponse::default() };
        let response = ResponseOp { response: Some(TransactionResponse::Range(range)) };
        let header = Some(ResponseHeader { revision: 9 });
        let answer = TxnResponse { header, succeeded, responses: vec![response] };
        Ok(AnsweredMember { answer, doubt: true })
    }

    #[test]
    fn what_each_answer_to_a_swap_means() {
        let said = |reply| match after_swap(reply) {
            Swapped::Done { revision } => format!("done at {revision}"),
            Swapped::Found(there) => format!("{:?} at {}", there.record.holder_identity, there.revision),
            Swapped::Refused(why) => format!("refused {why}"),
            Swapped::Unknown(why) => format!("unknown {why}"),
        };
        let value = serde_json::to_vec(&record(TTL)).unwrap();
        let kv = KeyValue { value, mod_revision: 7, ..KeyValue::default() };
        assert_eq!(said(reply(true, Vec::new())), "done at 9");
        assert_eq!(said(reply(false, vec![kv])), "\"a\" at 7", "whatever attempts were not answered");
        assert_eq!(said(reply(false, Vec::new())), "\"\" at 0");
        let refused =
            |doubt| Err(CallError::Refused { why: "refused: x".into(), lease_not_found: false, doubt });
        assert_eq!(said(refused(false)), "refused refused: x");
        assert_eq!(said(refused(true)), "unknown refused: x");
        assert_eq!(said(Err(CallError::Unanswered("timeout: x".into()))), "unknown timeout: x");
    }
}
