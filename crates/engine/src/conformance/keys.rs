//! Two keys are two locks: names that differ at their end or at their beginning only.

use super::check_result::{CheckEnd, CheckResult, Checked};
use super::session::{Answered, RuleContext};

/// How often a refusal is seen before it counts: a machine may be busy once.
const TRIES: usize = 2;

pub(super) async fn are_apart(context: &RuleContext<'_>) -> Checked {
    let name = context.key("key");
    let at_the_end = [format!("{name}-1"), format!("{name}-2")];
    let at_the_beginning = [format!("1-{name}"), format!("2-{name}")];
    for pair in [at_the_end, at_the_beginning] {
        let mut refusal = None;
        for _ in 0..TRIES {
            refusal = refused_beside(context, &pair).await?;
            if refusal.is_none() {
                break;
            }
        }
        if let Some(refused) = refusal {
            let [held, wanted] = &pair;
            let seen = format!(
                "while one process held {held}, another client's acquire of {wanted} ended with {refused}, and it was granted as soon as \
                 {held} was released: both names lead to one lock"
            );
            let change = "Lock the whole name of the key. Look at how the client, or the library, makes its lock of a name: from a part of \
                          it, or from a name of its own for all keys";
            return Ok(CheckResult::broken(seen, change).ending_the_check());
        }
    }
    Ok(CheckResult::kept("keys whose names differ only at the end, or at the beginning, were held at once"))
}

/// Acquires the second key while another holds the first. How it was refused, if granted after the release.
async fn refused_beside(
    context: &RuleContext<'_>,
    [held, wanted]: &[String; 2],
) -> Result<Option<Answered>, CheckEnd> {
    let (holder, other) = (context.process(0).await?, context.process(1).await?);
    holder.grant(held).await?;
    // The holder's time must not run out meanwhile.
    let beside = other.acquire(wanted, context.terms().ttl / 2).await?;
    holder.release(held).await?;
    if beside.is_ok() {
        other.release(wanted).await?;
        return Ok(None);
    }
    let alone = context.process(1).await?;
    alone.grant(wanted).await?;
    alone.release(wanted).await?;
    // What is not known to have been refused says nothing.
    Ok(beside.fail_code().is_some().then_some(beside))
}
