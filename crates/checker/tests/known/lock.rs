//! The lock of a simulated run: one server that keeps one key, and a library. With it the truth: when each
//! grant was made, and what ended it.

use super::simulation::Time;
use fencepost_history::Stream;
use rand::RngExt;

/// What is wrong with the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// It deletes the key without comparing whose it is.
    BlindRelease,
    /// It asks for a fifth of the TTL.
    ShortLease,
    /// It looks whether the key is there, and takes it by a second request.
    LooksFirst,
    /// Its release leaves the key, without a lease.
    LeavesTheKey,
    /// Half of its tokens are those of the grant before.
    RepeatsTokens,
    /// It reports three times the TTL as what is left of it.
    LongValidity,
    /// It never gives the lock to one of its processes.
    LeavesOneOut,
    /// It prolongs the key without comparing whose it is, and says that it prolonged its own.
    RenewsAnothers,
    /// It stops to renew after the first time, and says nothing.
    StopsRenewing,
}

/// What keeps a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeps {
    /// A TTL by the server's wall clock, from the grant on.
    Lease,
    /// The same, which its library renews.
    Renewed,
    /// A session by the server's monotonic clock, which no fault moves.
    Session,
}

/// Who may hold it together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shared {
    Mutex,
    /// As many as [`PERMITS`].
    Semaphore,
    /// Processes of even slots read, the others write.
    ReadWrite,
}

pub const PERMITS: usize = 2;

impl Shared {
    pub fn reads(self, slot: usize) -> bool {
        self == Shared::ReadWrite && slot.is_multiple_of(2)
    }

    /// Whether these two may hold it together; of a semaphore any two.
    fn fit(self, one: usize, other: usize) -> bool {
        self == Shared::Semaphore || self.reads(one) && self.reads(other)
    }
}

#[derive(Clone, Copy)]
pub enum Request {
    Acquire,
    /// The second request of a library that looks first.
    Take,
    /// To give this grant back.
    Release(usize),
    /// To prolong this grant.
    Renew(usize),
}

#[derive(Clone, Copy)]
pub enum Reply {
    Granted {
        grant: usize,
        token: u64,
    },
    Taken,
    /// No server listens.
    Refused,
    Released {
        removed: bool,
    },
    Renewed {
        still: bool,
    },
    /// To a library that looks first.
    Free,
}

/// What ended a grant for the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    Released,
    /// Its lease was over, at its right length.
    RanOut,
    /// Its lease was over by a clock that had been moved, or by one of another length.
    RanOutEarly,
    Forgotten,
    /// By the release of another process.
    Removed,
    /// Another took the key, although it was there.
    Overwritten,
}

/// What is known of a grant.
#[derive(Debug)]
pub struct Grant {
    /// When its lease was last counted from.
    counted_at: Time,
    pub ended: Option<Ended>,
    /// The event that completed its acquire, if its client heard of it.
    pub recorded: Option<u64>,
}

#[derive(Clone, Copy)]
struct Entry {
    grant: usize,
    slot: usize,
    /// By the server's clock; none for good.
    until: Option<i64>,
    /// What was done to the clock up to the grant.
    moves: usize,
}

/// Those that a simulation shows by themselves.
pub const MISTAKES: [Mistake; 8] = [
    Mistake::BlindRelease,
    Mistake::ShortLease,
    Mistake::LooksFirst,
    Mistake::LeavesTheKey,
    Mistake::RepeatsTokens,
    Mistake::LongValidity,
    Mistake::LeavesOneOut,
    Mistake::StopsRenewing,
];

pub struct Lock {
    ttl: Time,
    keeps: Keeps,
    mistake: Option<Mistake>,
    shared: Shared,
    /// Those that have the lock, the earliest first.
    entries: Vec<Entry>,
    offset: i64,
    moves: usize,
    pub down: bool,
    token: u64,
    pub grants: Vec<Grant>,
}

impl Lock {
    pub fn new(ttl: Time, keeps: Keeps, mistake: Option<Mistake>, shared: Shared) -> Lock {
        Lock {
            ttl,
            keeps,
            mistake,
            shared,
            entries: Vec::new(),
            offset: 0,
            moves: 0,
            down: false,
            token: 0,
            grants: Vec::new(),
        }
    }

    fn has(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    fn clock(&self, now: Time) -> i64 {
        if self.keeps == Keeps::Session { now as i64 } else { now as i64 + self.offset }
    }

    pub fn move_clock(&mut self, by: i64) {
        self.offset += by;
        self.moves += 1;
    }

    /// The server is killed, and forgets what it knew.
    pub fn end(&mut self, now: Time) {
        self.expire(now);
        self.down = true;
        for entry in self.entries.drain(..) {
            self.grants[entry.grant].ended = Some(Ended::Forgotten);
        }
    }

    fn expire(&mut self, now: Time) {
        let clock = self.clock(now);
        let is_over = |entry: &Entry| entry.until.is_some_and(|until| until <= clock);
        let (over, left) = self.entries.drain(..).partition(is_over);
        self.entries = left;
        let over: Vec<Entry> = over;
        for entry in over {
            let is_due = entry.moves == self.moves && !self.has(Mistake::ShortLease)
                || now >= self.grants[entry.grant].counted_at + self.ttl;
            self.grants[entry.grant].ended = Some(if is_due { Ended::RanOut } else { Ended::RanOutEarly });
        }
    }

    /// Those that keep this process from getting it.
    fn in_the_way(&self, slot: usize) -> Vec<usize> {
        if self.shared == Shared::Semaphore {
            return self
                .entries
                .first()
                .filter(|_| self.entries.len() >= PERMITS)
                .map(|entry| entry.grant)
                .into_iter()
                .collect();
        }
        let others = self.entries.iter().filter(|entry| !self.shared.fit(entry.slot, slot));
        others.map(|entry| entry.grant).collect()
    }

    /// What the server does with a request of a process.
    pub fn answer(&mut self, now: Time, slot: usize, request: Request, random: &mut Stream) -> Reply {
        if self.down {
            return Reply::Refused;
        }
        self.expire(now);
        match request {
            Request::Acquire if !self.in_the_way(slot).is_empty() => Reply::Taken,
            Request::Acquire if slot == 0 && self.has(Mistake::LeavesOneOut) => Reply::Taken,
            Request::Acquire if self.has(Mistake::LooksFirst) => Reply::Free,
            Request::Acquire | Request::Take => self.grant(now, slot, random),
            Request::Release(own) => self.release(own),
            Request::Renew(grant) => self.renew(now, grant),
        }
    }

    fn grant(&mut self, now: Time, slot: usize, random: &mut Stream) -> Reply {
        for before in self.in_the_way(slot) {
            self.entries.retain(|entry| entry.grant != before);
            self.grants[before].ended = Some(Ended::Overwritten);
        }
        let grant = self.grants.len();
        self.grants.push(Grant { counted_at: now, ended: None, recorded: None });
        let ttl = if self.has(Mistake::ShortLease) { self.ttl / 5 } else { self.ttl };
        let until = Some(self.clock(now) + ttl as i64);
        self.entries.push(Entry { grant, slot, until, moves: self.moves });
        if !(self.has(Mistake::RepeatsTokens) && random.random_bool(0.5)) {
            self.token += 1;
        }
        Reply::Granted { grant, token: self.token }
    }

    fn renew(&mut self, now: Time, grant: usize) -> Reply {
        let until = Some(self.clock(now) + self.ttl as i64);
        let (moves, of_any) = (self.moves, self.has(Mistake::RenewsAnothers));
        let found = self.entries.iter_mut().find(|entry| entry.grant == grant || of_any);
        if let Some(entry) = found {
            (entry.until, entry.moves) = (until, moves);
            self.grants[entry.grant].counted_at = now;
            return Reply::Renewed { still: true };
        }
        Reply::Renewed { still: false }
    }

    fn release(&mut self, own: usize) -> Reply {
        let place = self.entries.iter().position(|entry| entry.grant == own);
        let (leaves, is_blind) = (self.has(Mistake::LeavesTheKey), self.has(Mistake::BlindRelease));
        let blindly = (is_blind && !self.entries.is_empty()).then_some(0);
        let Some(at) = place.or(blindly) else { return Reply::Released { removed: false } };
        if leaves {
            self.entries[at].until = None;
            return Reply::Released { removed: true };
        }
        let entry = self.entries.remove(at);
        self.grants[entry.grant].ended = Some(if place.is_some() { Ended::Released } else { Ended::Removed });
        Reply::Released { removed: true }
    }
}
