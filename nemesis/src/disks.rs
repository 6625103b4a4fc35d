//! What the faults of disks have in common.

use crate::{FaultError, World};
use futures_util::future::try_join_all;
use serde_json::{Map, Value, json};

/// Calls the disk tool of each target, all at once. Gives what each one saw.
pub(crate) async fn break_disks(
    world: &World,
    targets: &[String],
    args: &Value,
) -> Result<Map<String, Value>, FaultError> {
    let seen = try_join_all(targets.iter().map(|target| async move {
        Ok::<_, FaultError>((target.clone(), world.node(target)?.tool("disk", args.clone()).await?))
    }))
    .await?;
    Ok(seen.into_iter().collect())
}

/// Heals the disks, and starts those servers again that `ran` before and ended meanwhile.
pub(crate) async fn heal_disks(
    world: &World,
    targets: &[String],
    ran: &[String],
) -> Result<Map<String, Value>, FaultError> {
    let mut healed = break_disks(world, targets, &json!({"do": "heal"})).await?;
    let ended: Vec<&String> = ran.iter().filter(|target| world.pid(target).is_err()).collect();
    try_join_all(ended.iter().map(|target| world.restart(target))).await?;
    for target in ended {
        healed[target.as_str()]["restarted"] = json!(true);
    }
    Ok(healed)
}
