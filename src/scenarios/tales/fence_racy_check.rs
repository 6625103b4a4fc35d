//! A check that is not part of the write.

use crate::scenarios::Scenario;
use crate::scenarios::act::Act;
use crate::scenarios::expect::Expect::{Broken, Holds};
use crate::scenarios::tales::patterns::late_pair;

pub const SCENARIO: Scenario = Scenario {
    name: "fence-racy-check",
    source: "HN, reza_n",
    about: "the storage checks the token and writes in two steps; two writes arrive together, in order",
    expected: "broken with token-racy; token holds",
    acts,
    differs: None,
};

fn acts() -> Vec<Act> {
    vec![
        late_pair(
            "check and write in two steps",
            "--backend etcd --ttl 2s --guard token-racy --storage-linger 1500ms",
        )
        .expect(Broken("lost-updates", "lost-update")),
        late_pair("check and write in one step", "--backend etcd --ttl 2s --guard token")
            .expect(Holds("lost-updates")),
    ]
}
