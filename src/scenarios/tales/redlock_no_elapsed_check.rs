//! What the elapsed-time check is for.

use crate::scenarios::Scenario;
use crate::scenarios::act::{Act, acquired};
use crate::scenarios::expect::Expect::Broken;
use crate::scenarios::tales::patterns::late_reader;

pub const SCENARIO: Scenario = Scenario {
    name: "redlock-no-elapsed-check",
    source: "the recipe of D with its third step left out",
    about: "as redlock-pause-before-replies, without the elapsed-time check",
    expected: "broken: granted twice",
    acts,
    differs: None,
};

fn acts() -> Vec<Act> {
    vec![
        late_reader("--no-elapsed-check")
            .tell(acquired("c1"), "client 1 counts the answers, and calls the lock its own")
            .expect(Broken("exclusion", "granted-twice")),
    ]
}
