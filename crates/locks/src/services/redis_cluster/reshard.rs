//! The locks' slot moves to another shard, as an operator moves it, and back. Source: the Redis
//! documentation, "Redis cluster specification", section "Live reconfiguration", and `CLUSTER SETSLOT`.

use super::configuration::SLOT;
use super::view::{Member, members};
use crate::services::redis::access::CLI;
use crate::services::redis::ask::give_order as ask;
use fencepost_cluster::{ClusterError, Node};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

pub(crate) const ORDER: &str = "reconfigure:slot";

/// The keys of a slot move in the order of the documentation, all by way of one node: `$1` is the slot, `$2`
/// and `$3` the address and the name of the server that gives it, `$4` and `$5` of the one that gets it. Says
/// how many keys moved. MIGRATE replaces what an earlier one left that was cut off.
const MOVE: &str = r#"
slot=$1 from=$2 from_id=$3 to=$4 to_id=$5 moved=0
ok() { said=$("$@"); case $said in OK|NOKEY) ;; *) echo "$5 $6: $said" >&2; exit 1;; esac; }
[ -e /run/access/password ] && set -- AUTH2 fencepost "$(cat /run/access/password)" || set --
ok cli "$to" CLUSTER SETSLOT "$slot" IMPORTING "$from_id"
ok cli "$from" CLUSTER SETSLOT "$slot" MIGRATING "$to_id"
while keys=$(cli "$from" CLUSTER GETKEYSINSLOT "$slot" 100) && [ -n "$keys" ]; do
  ok cli "$from" MIGRATE "$to" 6379 "" 0 1000 REPLACE "$@" KEYS $keys
  moved=$((moved + $(echo "$keys" | wc -l)))
done
ok cli "$to" CLUSTER SETSLOT "$slot" NODE "$to_id"
ok cli "$from" CLUSTER SETSLOT "$slot" NODE "$to_id"
echo "$moved"
"#;

const MOVE_WITHIN: Duration = Duration::from_secs(10);

/// Moves the slot of the locks from the server of this node to the primary of another shard.
pub(crate) async fn give_away(node: &Arc<dyn Node>) -> Result<(Value, bool), ClusterError> {
    let known = view(node).await?;
    let own = own(&known, node)?;
    if !own.has_slot {
        return Err(format!("{} does not have the slot of the locks", node.name()).into());
    }
    let other = known.iter().find(|member| member.is_other_primary() && !member.is("fail"));
    let other =
        other.ok_or_else(|| ClusterError::new("the cluster has no other shard for the slot of the locks"))?;
    let keys = move_slot(node, own, other).await?;
    let has_it = view(node).await?.iter().any(|member| member.id == other.id && member.has_slot);
    Ok((json!({"slot": SLOT, "keys": keys, "to": other.address}), has_it))
}

/// Takes it back, unless a replica has taken the place of the server meanwhile: then the slot stays.
pub(crate) async fn take_back(node: &Arc<dyn Node>) -> Result<Value, ClusterError> {
    let known = view(node).await?;
    let own = own(&known, node)?;
    let holder = known.iter().find(|member| member.has_slot);
    let holder = holder.ok_or_else(|| ClusterError::new("no server has the slot of the locks"))?;
    if own.id == holder.id {
        // A move that was cut off leaves the slot half way.
        let stable = ask(node, &["CLUSTER", "SETSLOT", &SLOT.to_string(), "STABLE"]).await?;
        return Ok(json!({"slot": SLOT, "stable": stable.concat()}));
    }
    if !own.is("master") {
        return Ok(json!({"slot": SLOT, "stays_at": holder.address}));
    }
    let keys = move_slot(node, holder, own).await?;
    Ok(json!({"slot": SLOT, "keys": keys, "from": holder.address}))
}

async fn view(node: &Arc<dyn Node>) -> Result<Vec<Member>, ClusterError> {
    Ok(members(&ask(node, &["CLUSTER", "NODES"]).await?))
}

fn own<'a>(known: &'a [Member], node: &Arc<dyn Node>) -> Result<&'a Member, ClusterError> {
    let own = known.iter().find(|member| member.is("myself"));
    own.ok_or_else(|| ClusterError::new(format!("{} does not say what its cluster is", node.name())))
}

async fn move_slot(node: &Arc<dyn Node>, from: &Member, to: &Member) -> Result<u64, ClusterError> {
    let (script, slot) = (format!("{CLI}{MOVE}"), SLOT.to_string());
    let argv = ["sh", "-c", &script, "sh", &slot, &from.address, &from.id, &to.address, &to.id];
    let moved = node.exec(&argv, MOVE_WITHIN).await?;
    match moved.stdout.trim().parse() {
        Ok(keys) if moved.code == Some(0) => Ok(keys),
        _ => Err(format!(
            "the slot of the locks could not be moved from {} to {}: {}",
            from.address,
            to.address,
            moved.stderr.trim()
        )
        .into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slot_goes_to_a_primary_of_another_shard() {
        let lines = [
            "a 198.18.0.3:6379@16379 myself,master - 0 0 2 connected 5461-10921",
            "d 198.18.0.6:6379@16379 slave a 0 0 2 connected",
            "b 198.18.0.2:6379@16379 master - 0 0 1 connected 0-5460",
        ];
        let known = members(&lines.map(str::to_owned));
        let others: Vec<_> = known.iter().filter(|member| member.is_other_primary()).collect();
        assert_eq!(others.len(), 1);
        assert_eq!(others[0].id, "b");
    }
}
