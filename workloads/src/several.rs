//! `several`: a process takes two accounts at once, in any order, reads what is on each, and moves one unit
//! from the first to the second. No transfer changes the sum. Source: the transfer between two accounts by
//! which textbooks explain locks on several things, such as Gray and Reuter, "Transaction Processing" (1992).

use crate::length::SectionPlan;
use crate::section::{Do, Sections, Work};
use crate::workload::{Script, Settings, Workload};
use fencepost_history::{Balance, Completion, LockKind, Stream, f};
use serde_json::Value;

const ACCOUNTS: usize = 2;

pub(crate) const SEVERAL: Workload = Workload {
    fits: |kind| kind == LockKind::Several,
    ..Workload::new(
        "several",
        "acquire two accounts at once, move money from one to the other, release both; at the end the sum must be as before",
        script,
    )
};

fn script(settings: &Settings, _process: u64, random: Stream) -> Box<dyn Script> {
    let begin = move |plan| Transfer { plan, from: 0, to: 0, at: At::Begin };
    Box::new(Sections::new(settings, random, begin).writing(true).of_names(ACCOUNTS))
}

struct Transfer {
    plan: SectionPlan,
    from: i64,
    to: i64,
    at: At,
}

#[derive(Clone, Copy)]
enum At {
    Begin,
    Due,
    ReadFirst,
    ReadBoth,
    Worked,
    Withdrawn,
    Deposited,
    Over,
}

impl Work for Transfer {
    fn next(&mut self, last: Option<&Completion>) -> Option<Do> {
        let write = |balance: i64| Balance(balance).into();
        let balance = || match last {
            Some(Completion::Ok(value)) => Balance::of(value).map(|Balance(balance)| balance),
            _ => None,
        };
        let (next, step) = match self.at {
            At::Begin => (At::Due, Do::Until(self.plan.read_at)),
            At::Due => (At::ReadFirst, Do::Op(f::READ, Value::Null)),
            // Without both balances, or where nothing was withdrawn, there is nothing to move.
            At::ReadFirst => {
                self.from = balance()?;
                (At::ReadBoth, Do::OnOther(f::READ, Value::Null))
            }
            At::ReadBoth => {
                self.to = balance()?;
                (At::Worked, Do::Until(self.plan.write_at))
            }
            At::Worked => (At::Withdrawn, Do::Op(f::WRITE, write(self.from - 1))),
            At::Withdrawn if matches!(last, Some(Completion::Fail(_))) => return None,
            At::Withdrawn => (At::Deposited, Do::OnOther(f::WRITE, write(self.to + 1))),
            At::Deposited => (At::Over, Do::Until(self.plan.length)),
            At::Over => return None,
        };
        self.at = next;
        Some(step)
    }
}
