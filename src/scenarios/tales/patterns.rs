//! Stories that several locks share.

use crate::scenarios::act::{Act, acquired, begins, done, dosed, healed, lingers, partition, strike, struck};
use fencepost_engine::Step::{Acquire, After, For, OnlyIfOk, Read, Release, Try, Write};
use fencepost_nemesis::Trigger;
use serde_json::json;
use std::time::Duration;

/// A holder is stopped for so long, another acquires and writes, the first wakes and writes: the first figure of
/// Kleppmann's article. Its write is on the way to it while it is stopped, so that it is certain what it believed.
pub fn outstayed(title: &'static str, arguments: &str, stopped: Duration) -> Act {
    Act::directed(title, arguments)
        .part("c1", vec![Acquire, Read, After(acquired("c2")), Write, Release])
        .part("c2", vec![After(struck("pause")), Acquire, Read, Write, After(healed("pause")), Release])
        .strike(strike("pause", &["c1"], done("c1", "read"), stopped))
        .tell(acquired("c1"), "client 1 acquires the lock")
        .tell(struck("pause"), "client 1 is stopped, as by a long collection of garbage")
        .tell(acquired("c2"), "the lease has run out; client 2 acquires the lock")
        .tell(done("c2", "write"), "client 2 writes")
        .tell(healed("pause"), "client 1 wakes, and knows nothing of it")
        .tell(begins("c1", "release"), "client 1 has sent its write, and releases")
}

/// Client 1 reaches n1, n2, n3 and client 2 reaches n3, n4, n5: their majorities meet in n3 alone.
pub fn meeting_in_n3(act: Act) -> Act {
    let cuts = [partition("c1|n4,n5", &act), partition("c2|n1,n2", &act)];
    cuts.into_iter()
        .fold(act, Act::strike)
        .tell(both_cut(), "client 1 cannot reach n4 and n5, client 2 cannot reach n1 and n2")
}

/// Both partitions of [`meeting_in_n3`] are in force.
pub fn both_cut() -> Trigger {
    Trigger { times: 2, ..struck("partition") }
}

/// Kleppmann's second example: client 1 is stopped after the nodes answered and before it reads the answers.
pub fn late_reader(options: &str) -> Act {
    let point = || lingers("c1", "before-replies");
    let arguments =
        format!("--backend redlock --ttl 4s --acquire-timeout 1s --pause-at before-replies=200ms {options}");
    Act::directed("", &arguments)
        .part("c1", vec![Try, OnlyIfOk, Read, For(Duration::from_millis(100)), Write, Release])
        // Client 2 stays within its own lease: whoever else gets the lock meanwhile was given it twice.
        .part(
            "c2",
            vec![
                After(struck("pause")),
                Acquire,
                Read,
                After(healed("pause")),
                For(A_SECOND),
                Write,
                Release,
            ],
        )
        .strike(strike("pause", &["c1"], point(), Duration::from_secs(5)))
        .tell(point(), "the nodes have granted the lock to client 1; their answers wait to be read")
        .tell(struck("pause"), "client 1 is stopped before it reads them")
        .tell(acquired("c2"), "the lease has run out; client 2 acquires the lock")
        .tell(healed("pause"), "client 1 wakes, and reads that it has a majority")
}

const A_SECOND: Duration = Duration::from_secs(1);

/// The wall clocks of all three servers jump forward, and back, while client 1 holds the lock and client 2 waits.
pub fn both_ways(backend: &str) -> Act {
    let jump = |wall_ms: i64, when, lasting| {
        dosed(strike("clock-jump", &["n1", "n2", "n3"], when, lasting), json!({"wall_ms": wall_ms}))
    };
    Act::directed("", &format!("--backend {backend} --ttl 4s --acquire-timeout 12s"))
        .part("c1", vec![Acquire, Read, After(back_again()), Write, Release])
        .part("c2", vec![After(struck("clock-jump")), Acquire, Read, Write, Release])
        .strike(jump(60_000, acquired("c1"), A_SECOND))
        .strike(jump(-60_000, healed("clock-jump"), A_SECOND))
        .tell(acquired("c1"), "client 1 acquires the lock")
        .tell(struck("clock-jump"), "the wall clocks of all servers jump forward by 60 s")
        .tell(back_again(), "they jumped back by 60 s, too, and are right again")
        .tell(begins("c1", "release"), "client 1 writes and releases")
        .tell(acquired("c2"), "client 2 acquires the lock, only now")
}

/// The second of two jumps was healed.
fn back_again() -> Trigger {
    Trigger { times: 4, ..struck("clock-jump") }
}

/// Two writes that reach the storage together, that of the superseded holder first.
pub fn late_pair(title: &'static str, arguments: &str) -> Act {
    Act::directed(title, arguments)
        .part("c1", vec![Acquire, Read, After(acquired("c2")), Write, Release])
        .part(
            "c2",
            vec![After(struck("pause")), Acquire, After(healed("pause")), For(LATER), Read, Write, Release],
        )
        .strike(strike("pause", &["c1"], done("c1", "read"), Duration::from_millis(3500)))
        .tell(acquired("c1"), "client 1 acquires the lock, and reads")
        .tell(struck("pause"), "client 1 is stopped")
        .tell(acquired("c2"), "the lease has run out; client 2 acquires the lock")
        .tell(healed("pause"), "client 1 wakes, and its write arrives at the storage")
        .tell(done("c2", "write"), "right behind it client 2 reads and writes")
}

/// After the write that arrives first, and before the storage, where it checks and writes in two steps, writes it.
const LATER: Duration = Duration::from_millis(400);
