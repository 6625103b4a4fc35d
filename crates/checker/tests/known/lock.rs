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
    entry: Option<Entry>,
    offset: i64,
    moves: usize,
    pub down: bool,
    token: u64,
    pub grants: Vec<Grant>,
}

impl Lock {
    pub fn new(ttl: Time, keeps: Keeps, mistake: Option<Mistake>) -> Lock {
        Lock {
            ttl,
            keeps,
            mistake,
            entry: None,
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
        if let Some(entry) = self.entry.take() {
            self.grants[entry.grant].ended = Some(Ended::Forgotten);
        }
    }

    fn expire(&mut self, now: Time) {
        let clock = self.clock(now);
        if let Some(entry) = self.entry.filter(|entry| entry.until.is_some_and(|until| until <= clock)) {
            let is_due = entry.moves == self.moves && !self.has(Mistake::ShortLease)
                || now >= self.grants[entry.grant].counted_at + self.ttl;
            self.grants[entry.grant].ended = Some(if is_due { Ended::RanOut } else { Ended::RanOutEarly });
            self.entry = None;
        }
    }

    /// What the server does with a request of a process.
    pub fn answer(&mut self, now: Time, slot: usize, request: Request, random: &mut Stream) -> Reply {
        if self.down {
            return Reply::Refused;
        }
        self.expire(now);
        match request {
            Request::Acquire if self.entry.is_some() => Reply::Taken,
            Request::Acquire if slot == 0 && self.has(Mistake::LeavesOneOut) => Reply::Taken,
            Request::Acquire if self.has(Mistake::LooksFirst) => Reply::Free,
            Request::Acquire | Request::Take => self.grant(now, random),
            Request::Release(own) => self.release(own),
            Request::Renew(grant) => self.renew(now, grant),
        }
    }

    fn grant(&mut self, now: Time, random: &mut Stream) -> Reply {
        if let Some(before) = self.entry {
            self.grants[before.grant].ended = Some(Ended::Overwritten);
        }
        let grant = self.grants.len();
        self.grants.push(Grant { counted_at: now, ended: None, recorded: None });
        let ttl = if self.has(Mistake::ShortLease) { self.ttl / 5 } else { self.ttl };
        self.entry = Some(Entry { grant, until: Some(self.clock(now) + ttl as i64), moves: self.moves });
        if !(self.has(Mistake::RepeatsTokens) && random.random_bool(0.5)) {
            self.token += 1;
        }
        Reply::Granted { grant, token: self.token }
    }

    fn renew(&mut self, now: Time, grant: usize) -> Reply {
        let until = Some(self.clock(now) + self.ttl as i64);
        let still = self.entry.is_some_and(|entry| entry.grant == grant);
        let prolongs = still || self.has(Mistake::RenewsAnothers) && self.entry.is_some();
        if prolongs && let Some(entry) = &mut self.entry {
            (entry.until, entry.moves) = (until, self.moves);
            self.grants[entry.grant].counted_at = now;
        }
        Reply::Renewed { still: prolongs }
    }

    fn release(&mut self, own: usize) -> Reply {
        let is_own = self.entry.is_some_and(|entry| entry.grant == own);
        if self.has(Mistake::LeavesTheKey) && is_own {
            self.entry = self.entry.map(|entry| Entry { until: None, ..entry });
            return Reply::Released { removed: true };
        }
        if !is_own && !self.has(Mistake::BlindRelease) {
            return Reply::Released { removed: false };
        }
        let removed = self.entry.take();
        if let Some(entry) = removed {
            self.grants[entry.grant].ended = Some(if is_own { Ended::Released } else { Ended::Removed });
        }
        Reply::Released { removed: removed.is_some() }
    }
}
