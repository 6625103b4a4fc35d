//! `several`: a process takes two accounts at once, in any order, reads what is on each, and moves one unit
//! from the first to the second. No transfer changes the sum. Source: the transfer between two accounts by
//! which textbooks explain locks on several things, such as Gray and Reuter, "Transaction Processing" (1992).

use crate::length::SectionPlan;
use crate::section::{Do, Sections, Work, answer, has_failed};
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
    let balance = |last: Option<&Completion>| Balance::of(answer(last)?).map(|Balance(balance)| balance);
    let begin = move |plan: SectionPlan| -> Work {
        let (mut from, mut to) = (0, 0);
        Box::new(move |step, last: Option<&Completion>| match step {
            0 => Some(Do::Until(plan.read_at)),
            1 => Some(Do::read()),
            // Without both balances, or where nothing was withdrawn, there is nothing to move.
            2 => {
                from = balance(last)?;
                Some(Do::OnOther(f::READ, Value::Null))
            }
            3 => {
                to = balance(last)?;
                Some(Do::Until(plan.write_at))
            }
            4 => Some(Do::write(Balance(from - 1))),
            5 if has_failed(last) => None,
            5 => Some(Do::OnOther(f::WRITE, Balance(to + 1).into())),
            6 => Some(Do::Until(plan.length)),
            _ => None,
        })
    };
    Box::new(Sections::new(settings, random, begin).writing(true).of_names(ACCOUNTS))
}
