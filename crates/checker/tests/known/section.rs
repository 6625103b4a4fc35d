//! What a process and its library do in a simulated run, from the acquire to the release.

use super::lock::{Keeps, Mistake, Reply, Request, Shared};
use super::simulation::{Occurrence, PATIENCE, SERVER, Simulation, Slot, Step, Time, client};
use fencepost_history::f;
use rand::RngExt;
use serde_json::{Value, json};

impl Simulation {
    pub(super) fn begin(&mut self, slot: usize) {
        if self.closing {
            return;
        }
        let ttl = self.ttl;
        let is_long = self.laws.outlasts || self.laws.keeps != Keeps::Lease;
        let hold = match is_long && self.random.random_bool(0.1) {
            true => ttl + self.random.random_range(ttl / 10..ttl),
            false => self.random.random_range(2_000..ttl / 3),
        };
        let timeout = ttl + self.random.random_range(0..ttl);
        let write_at = self.random.random_range(0..hold);
        let read_at = self.random.random_range(0..=write_at);
        let ms = |time: Time| time as f64 / 1e3;
        let asked = json!({"hold_ms": ms(hold), "timeout_ms": ms(timeout), "ttl_ms": ms(ttl)});
        let asked = self.asked(slot, asked);
        self.invoke(slot, f::ACQUIRE, asked);
        let now = self.now;
        let of = &mut self.slots[slot];
        (of.hold, of.read_at, of.write_at, of.deadline) = (hold, read_at, write_at, now + timeout);
        let operation = of.operation;
        self.soon(Occurrence::Attempt(slot, operation));
    }

    /// A client's request to the server.
    pub(super) fn ask(&mut self, slot: usize, request: Request) {
        self.slots[slot].request += 1;
        let (operation, number) = (self.slots[slot].operation, self.slots[slot].request);
        if !self.is_parted(slot) {
            self.soon(Occurrence::AtServer(slot, operation, request));
        }
        self.at(self.now + PATIENCE, Occurrence::GiveUp(slot, operation, number));
    }

    /// An answer of the server has come.
    pub(super) fn heard(&mut self, slot: usize, reply: Reply) {
        let now = self.now;
        match reply {
            Reply::Granted { grant, token } => {
                let of = &mut self.slots[slot];
                let valid = (of.attempt_at + self.ttl).saturating_sub(now);
                if valid == 0 {
                    self.complete(slot, "fail", Value::Null, Some("expired"));
                    return self.rest(slot);
                }
                (of.grant, of.granted_at, of.valid_until) = (grant, now, now + valid);
                (of.holds, of.lost) = (true, false);
                let due = of.valid_until;
                if self.laws.keeps != Keeps::Lease {
                    self.at(now + self.ttl / 3, Occurrence::Renew(slot, grant));
                    self.at(due, Occurrence::Look(slot, grant));
                }
                let of = &self.slots[slot];
                let ms = |time: Time| time as f64 / 1e3;
                let reported =
                    if self.laws.mistake == Some(Mistake::LongValidity) { 3 * self.ttl } else { valid };
                let waited = of.attempt_at - of.asked_at;
                let value = json!({
                    "granted_by": [SERVER], "token": token, "validity_ms": ms(reported), "waited_ms": ms(waited),
                });
                let index = self.complete(slot, "ok", value, None);
                self.lock.grants[grant].recorded = Some(index);
                let Slot { read_at, hold, .. } = self.slots[slot];
                match self.laws.shared {
                    Shared::Mutex => self.next(slot, read_at, Step::Read),
                    _ => self.next(slot, hold, Step::Release),
                }
            }
            Reply::Taken => {
                let pause = self.random.random_range(5_000..40_000);
                if now + pause > self.slots[slot].deadline {
                    self.complete(slot, "fail", Value::Null, Some("taken"));
                    return self.rest(slot);
                }
                // The answer has come: what gives up on it has nothing to give up.
                self.slots[slot].request += 1;
                let operation = self.slots[slot].operation;
                self.at(now + pause, Occurrence::Attempt(slot, operation));
            }
            Reply::Refused => {
                self.slots[slot].holds = false;
                self.complete(slot, "fail", Value::Null, Some("unreachable"));
                self.rest(slot);
            }
            Reply::Released { removed } => {
                let of = &mut self.slots[slot];
                let believed = of.asked_at < of.valid_until && !of.lost;
                of.holds = false;
                self.complete(slot, "ok", json!({"believed": believed, "removed": removed}), None);
                self.rest(slot);
            }
            Reply::Free | Reply::Renewed { .. } => unreachable!("it stays at the server"),
        }
    }

    pub(super) fn step(&mut self, slot: usize, operation: u64, step: Step) {
        if self.slots[slot].operation != operation {
            return;
        }
        match step {
            Step::Read | Step::Write(_) => {
                let (f, write) = match step {
                    Step::Write(value) => (f::WRITE, Some(value)),
                    _ => (f::READ, None),
                };
                self.invoke(slot, f, write.map_or(Value::Null, |value| json!(value)));
                let operation = self.slots[slot].operation;
                // The client sends it when it runs.
                match self.waiting.get_mut(&client(slot)) {
                    Some(waiting) => waiting.push(Occurrence::AtStorage(slot, operation, write)),
                    None => self.soon(Occurrence::AtStorage(slot, operation, write)),
                }
            }
            Step::Release => {
                self.invoke(slot, f::RELEASE, Value::Null);
                let ask = Occurrence::Ask(slot, self.slots[slot].operation);
                self.soon(ask);
            }
        }
    }

    pub(super) fn renew(&mut self, slot: usize, grant: usize) {
        if !self.has(slot, grant) {
            return;
        }
        if !self.is_parted(slot) {
            self.soon(Occurrence::RenewAtServer(slot, grant, self.now));
        }
        if self.laws.mistake != Some(Mistake::StopsRenewing) {
            self.at(self.now + self.ttl / 3, Occurrence::Renew(slot, grant));
        }
    }

    /// The library reports that the lock is lost: the process does nothing more under it.
    pub(super) fn lost(&mut self, slot: usize) {
        let of = &mut self.slots[slot];
        (of.holds, of.lost) = (false, true);
        self.history.client(self.now, of.process, "info", f::LOST, Value::Null, None);
        if !of.busy {
            self.release(slot);
        }
    }

    pub(super) fn release(&mut self, slot: usize) {
        // What was planned of the section is void.
        self.slots[slot].operation += 1;
        let operation = self.slots[slot].operation;
        self.at(self.now, Occurrence::Step(slot, operation, Step::Release));
    }

    /// The next step of a section, so long after the grant.
    pub(super) fn next(&mut self, slot: usize, after: Time, step: Step) {
        let of = &self.slots[slot];
        let (due, operation) = (of.granted_at + after, of.operation);
        self.at(due, Occurrence::Step(slot, operation, step));
    }

    pub(super) fn rest(&mut self, slot: usize) {
        let rest = self.random.random_range(1_000..80_000);
        self.at(self.now + rest, Occurrence::Begin(slot));
    }

    pub(super) fn is_parted(&self, slot: usize) -> bool {
        self.parted.contains(&client(slot)) || self.parted.iter().any(|node| node == SERVER)
    }

    pub(super) fn at_server(&mut self, slot: usize, operation: u64, request: Request) {
        let reply = self.lock.answer(self.now, slot, request, &mut self.random);
        // A lock that looks first and takes later sends a second request.
        if let Reply::Free = reply {
            return self.soon(Occurrence::AtServer(slot, operation, Request::Take));
        }
        if !self.is_parted(slot) {
            self.soon(Occurrence::AtClient(slot, operation, reply));
        }
    }
}
