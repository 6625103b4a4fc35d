//! Points of a client's beginning and end.

use super::check_result::{CheckEnd, CheckResult, Checked};
use super::session::{RuleContext, seconds};
use super::test_servers::CLIENTS;
use futures_util::future::join_all;
use std::time::Duration;
use tokio::time::Instant;

const EXIT: Duration = Duration::from_secs(2);

pub(super) async fn hello(context: &RuleContext<'_>) -> Checked {
    let clients = join_all((0..CLIENTS).map(|place| context.client(place))).await;
    let clients = clients.into_iter().collect::<Result<Vec<_>, CheckEnd>>();
    let clients = match clients {
        Ok(clients) => clients,
        Err(CheckEnd::NoHello(sentence)) => {
            let change = "Answer the first line of standard input at once with {\"hello\":1,\"can\":[…],\"pid\":…}, before any server is \
                          contacted; start-time in lock.toml allows more time";
            return Err(CheckResult::broken(sentence, change).ending_the_check().into());
        }
        Err(ended) => return Err(ended),
    };
    for client in &clients {
        if let Err(refusal) = context.session.servers.check_announced(&client.can) {
            let change = "Make the list `can` of the hello agree with token, unique and lease in lock.toml";
            return Ok(CheckResult::broken(refusal.sentence, change).ending_the_check());
        }
    }
    let sorted = |can: &[String]| {
        let mut can = can.to_vec();
        can.sort();
        can
    };
    if let Some(other) = clients.iter().find(|client| sorted(&client.can) != sorted(&clients[0].can)) {
        let seen = format!(
            "{} announced [{}], and {} [{}]",
            clients[0].name,
            clients[0].can.join(", "),
            other.name,
            other.can.join(", ")
        );
        return Ok(CheckResult::broken(seen, "Announce the same in every client of a run").ending_the_check());
    }
    let slowest = clients.iter().map(|client| client.took).max().unwrap_or_default();
    let can = if clients[0].can.is_empty() { "nothing".to_owned() } else { clients[0].can.join(", ") };
    Ok(CheckResult::kept(format!("answered after {}; announces: {can}", seconds(slowest))))
}

pub(super) async fn end_of_input(context: &RuleContext<'_>) -> Checked {
    // One that holds a lock, and has a connection to the servers.
    let (process, key) = (context.process(1).await?, context.key("a"));
    let answered = process.acquire_free(&key).await?;
    let begun = Instant::now();
    process.client.close_input();
    match process.client.await_gone(EXIT).await {
        Some(_) => Ok(CheckResult::kept(format!("ended {} after end of input", seconds(begun.elapsed())))),
        None => Ok(CheckResult::broken(
            format!(
                "{} still ran {} s after its standard input was closed (its acquire before was answered with {answered})",
                process.client.name,
                EXIT.as_secs()
            ),
            "Exit with 0 when a read of standard input gives no more lines, even while threads of the library run",
        )),
    }
}
