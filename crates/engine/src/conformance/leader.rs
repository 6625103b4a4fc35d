//! A client of an election that can be asked who leads.

use super::check_result::{CheckEnd, CheckResult, Checked};
use super::session::{Answered, ClientProcess, RuleContext, seconds};
use fencepost_history::f;
use std::time::Duration;
use tokio::time::Instant;

/// How long a client rests before it is asked once more: it may learn who leads by a message.
const REST: Duration = Duration::from_millis(20);

pub(super) async fn check(context: &RuleContext<'_>) -> Checked {
    let (leader, follower) = (context.process(0).await?, context.process(1).await?);
    let (key, within) = (context.key("a"), context.terms().ttl / 2);
    follower.client.needs(f::LEADER)?;
    leader.grant(&key).await?;
    let is_named = |answer: &Answered| answer.value == leader.number;
    let named = ask(&follower, &key, within, is_named).await?;
    if !is_named(&named) {
        return Ok(CheckResult::broken(
            format!(
                "process {} led for {}, and another client's answer to who leads was {named}, {}",
                leader.number,
                seconds(within),
                named.value
            ),
            "Let each process campaign under its own number (in a kit: `env.process`), and answer with the number under which the leader did",
        ));
    }
    leader.release(&key).await?;
    let after = ask(&follower, &key, within, |answer| !is_named(answer)).await?;
    if is_named(&after) {
        return Ok(CheckResult::note(
            format!(
                "process {} had resigned {} ago, and another client still answered that it leads",
                leader.number, seconds(within)
            ),
            "Look at what the client's `leader` asks: a value that was kept from an earlier answer does not show that its leader resigned",
        )
        .of_processes(vec![leader.number, follower.number]));
    }
    Ok(CheckResult::kept("the leader was named while it led, and not afterwards".to_owned()))
}

/// Asks who leads, again and again, until the answer is as wanted or so much time is over.
async fn ask(
    follower: &ClientProcess<'_>,
    key: &str,
    within: Duration,
    is_wanted: impl Fn(&Answered) -> bool,
) -> Result<Answered, CheckEnd> {
    let begun = Instant::now();
    loop {
        let answer = follower.ask(f::LEADER, key).await?;
        if is_wanted(&answer) || begun.elapsed() >= within {
            return Ok(answer);
        }
        tokio::time::sleep(REST).await;
    }
}
