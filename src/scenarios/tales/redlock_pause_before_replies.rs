//! antirez is right here.

use crate::scenarios::Scenario;
use crate::scenarios::act::{Act, refused};
use crate::scenarios::expect::Expect::AllHold;
use crate::scenarios::tales::patterns::late_reader;

pub const SCENARIO: Scenario = Scenario {
    name: "redlock-pause-before-replies",
    source: "K's second example; A's reply",
    about: "client 1 is stopped after the nodes answered and before it reads the answers, past the TTL; client 2 acquires; client 1 wakes",
    expected: "holds: the elapsed-time check makes client 1 refuse the lock",
    acts,
    differs: None,
};

fn acts() -> Vec<Act> {
    vec![
        late_reader("")
            .tell(
                refused("c1", "acquire"),
                "client 1 sees how late it is, and does not call the lock its own",
            )
            .expect(AllHold),
    ]
}
