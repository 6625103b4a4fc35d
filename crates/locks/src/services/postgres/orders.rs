//! A fault that PostgreSQL injects into itself when it is ordered to: transactions are read-only, as on a
//! standby or where an operator has closed a server for writes. Advisory locks are granted all the same.

use super::psql::psql;
use crate::service::ServiceOrders;
use fencepost_cluster::{ClusterError, Node};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

/// Sessions that are open follow with their next statement.
const BEGIN: [[&str; 8]; 2] =
    [psql("ALTER SYSTEM SET default_transaction_read_only = on"), psql("SELECT pg_reload_conf()")];
const END: [[&str; 8]; 2] =
    [psql("ALTER SYSTEM RESET default_transaction_read_only"), psql("SELECT pg_reload_conf()")];

/// A row of its own, in the table that the locks use.
const WRITE: [&str; 8] =
    psql("INSERT INTO protected (key) VALUES ('fencepost-probe') ON CONFLICT DO NOTHING");
const REMOVE: [&str; 8] = psql("DELETE FROM protected WHERE key = 'fencepost-probe'");

/// The server reads its configuration a moment after it is asked to.
const LOOKS: u32 = 50;
const REST: Duration = Duration::from_millis(20);

pub(super) const ORDERS: ServiceOrders = ServiceOrders {
    names: &["error-replies:readonly"],
    begin: |node, _| {
        Box::pin(async move {
            let answer = ordered(node, BEGIN, true).await?;
            let is_it = answer.as_ref().is_some_and(|answer| answer.contains("read-only transaction"));
            Ok((json!({"answers": answer}), is_it))
        })
    },
    end: |node, _| {
        Box::pin(async move {
            match ordered(node, END, false).await? {
                Some(refused) => Err(ClusterError::new(refused)),
                None => Ok(json!({"answers": null})),
            }
        })
    },
};

/// Carries out an order, and waits until writes are refused, or taken. Gives what it answers to a write.
async fn ordered(
    node: &Arc<dyn Node>,
    order: [[&str; 8]; 2],
    is_refused: bool,
) -> Result<Option<String>, ClusterError> {
    for statement in order {
        if let Some(refused) = refusal(node, statement).await? {
            return Err(ClusterError::new(format!("{} refused the order: {refused}", node.name())));
        }
    }
    let mut looks = 0;
    loop {
        let answer = refusal(node, WRITE).await?;
        looks += 1;
        if answer.is_some() == is_refused || looks == LOOKS {
            if answer.is_none() {
                refusal(node, REMOVE).await?;
            }
            return Ok(answer);
        }
        tokio::time::sleep(REST).await;
    }
}

async fn refusal(node: &Arc<dyn Node>, statement: [&str; 8]) -> Result<Option<String>, ClusterError> {
    let output = node.exec(&statement, Duration::from_secs(5)).await?;
    Ok((output.code != Some(0)).then(|| output.stderr.trim().to_owned()))
}
