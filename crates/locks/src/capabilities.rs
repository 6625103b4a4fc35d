//! What a lock can do, as far as workloads, guards, faults and checkers need to know.

use fencepost_history::{Lease, LockKind, Refusal, f};
use std::time::Duration;

/// What a lock can do, for workloads, guards, faults and checkers. A client's hello is compared with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// An acquire gives a fencing token.
    pub token: bool,
    /// An acquire gives a value that no other grant has.
    pub unique_value: bool,
    /// An acquire gives a sequencer, and the service can be asked whether it is still valid.
    pub sequencer: bool,
    /// Who may hold it together.
    pub kind: LockKind,
    /// Processes read and write by [`crate::Lock::read`] and [`crate::Lock::write`]: no storage, no guard.
    pub own_storage: bool,
    /// Clients have each other killed or cut off, by a fencing program in nodes ([`crate::run_fencing`]).
    pub fences_clients: bool,
    /// What ends a grant that its holder does not release.
    pub lease: Lease,
    pub validity: bool,
    pub loss_notice: bool,
    /// A client prolongs its locks by itself, and reports it.
    pub renewal: bool,
    pub prolong: bool,
    pub leader: bool,
    /// How much longer than its TTL the lock may stay taken after its holder was lost.
    pub lock_delay: Duration,
    /// Points between two steps of its recipe at which a client can be made to pause ([`crate::points`]).
    pub points: &'static [&'static str],
}

impl Capabilities {
    /// A lock that can do nothing of all this, to start a description from.
    pub const NONE: Capabilities = Capabilities {
        token: false,
        unique_value: false,
        sequencer: false,
        kind: LockKind::Mutex,
        own_storage: false,
        fences_clients: false,
        lease: Lease::Ttl,
        validity: false,
        loss_notice: false,
        renewal: false,
        prolong: false,
        leader: false,
        lock_delay: Duration::ZERO,
        points: &[],
    };

    /// The words by which a client announces them in its hello, in `can`.
    pub fn announced(&self) -> Vec<String> {
        let words = [
            (self.token, "token"),
            (self.validity, "validity"),
            (self.loss_notice, "lost"),
            (self.renewal, "extend"),
            (self.prolong, f::PROLONG),
            (self.leader, f::LEADER),
        ];
        let words = words.into_iter().filter(|(can, _)| *can).map(|(_, word)| word);
        words.chain(self.kind.announced()).map(str::to_owned).collect()
    }

    /// Compares the `can` of a hello with what the lock claims. Workload, guard and checkers follow the
    /// claim: a client that differs would be misjudged. The error names missing and surplus words.
    pub fn check_announced(&self, can: &[String]) -> Result<(), Refusal> {
        let claimed = self.announced();
        let listed =
            |words: Vec<&String>| words.into_iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        let missing = listed(claimed.iter().filter(|word| !can.contains(word)).collect());
        let extra = listed(can.iter().filter(|word| !claimed.contains(word)).collect());
        Err(Refusal::new(match (missing.as_str(), extra.as_str()) {
            ("", "") => return Ok(()),
            (missing, "") => format!("its hello does not announce {missing}, which the lock claims"),
            ("", extra) => format!("its hello announces {extra}, which the lock does not claim"),
            (missing, extra) => format!(
                "its hello announces {extra}, which the lock does not claim, and not {missing}, which it claims"
            ),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hello_must_announce_what_the_lock_claims() {
        let claimed = Capabilities { token: true, validity: true, ..Capabilities::NONE };
        let announced = |words: &[&str]| {
            claimed.check_announced(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(announced(&["validity", "token"]), Ok(()));
        assert!(announced(&["validity"]).is_err_and(|why| why.sentence.contains("does not announce token")));
        assert!(
            announced(&["validity", "token", "lost"])
                .is_err_and(|why| why.sentence.contains("announces lost"))
        );
    }
}
