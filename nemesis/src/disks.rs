//! What the faults of disks have in common, and what `disk-full` and `disk-slow` are made of.

use crate::{Aim, Fault, FaultError, Nemesis, Scene, Seen, Settings, Strike, World, around_ttl, subset};
use async_trait::async_trait;
use fencepost_cluster::Capability;
use fencepost_history::prose::and;
use fencepost_history::{FaultDescription, Stream};
use futures_util::future::try_join_all;
use rand::RngExt;
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

/// A nemesis that makes the disks of some servers worse for a while.
pub(crate) struct WorseDisks {
    pub name: &'static str,
    pub about: &'static str,
    /// Shortest and longest strike, in TTLs.
    pub around: (f64, f64),
    /// Draws a dose.
    pub draw: fn(&Scene, &mut Stream) -> Value,
    /// Reads a dose: gives what the disk tool is told.
    pub order: fn(&Value) -> Result<Value, String>,
    /// Whether a disk is worse by this order, given what a probe met.
    pub shows: fn(&Value, &Value) -> bool,
    /// How the faults are described, given the order.
    pub words: Words,
    /// What is said of a disk that a probe finds as bad as before after healing.
    pub still: fn(&Value) -> Option<&'static str>,
}

/// How a nemesis of disks describes its faults.
#[derive(Clone, Copy)]
pub(crate) struct Words {
    /// What follows "the disk of n1", in the past tense, given the order.
    pub sentence: fn(&Value) -> String,
    /// What follows "the disk of n1" once it is healed.
    pub healing: &'static str,
    /// A word or two, for a picture.
    pub label: &'static str,
    /// What all faults of this nemesis do.
    pub summary: &'static str,
}

impl Nemesis for WorseDisks {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn needs(&self) -> &'static [Capability] {
        &[Capability::Fuse]
    }

    fn prepares_disks(&self) -> bool {
        true
    }

    fn draw(&self, scene: &Scene, _: &Settings, random: &mut Stream) -> Option<Aim> {
        if scene.servers.is_empty() {
            return None;
        }
        let on = subset(&scene.servers, random.random_range(1..=scene.servers.len()), random);
        let dose = (self.draw)(scene, random);
        Some(Aim { on, length: around_ttl(scene.ttl, self.around.0, self.around.1, random), dose })
    }

    fn prepare(&self, strike: &Strike) -> Result<Box<dyn Fault>, String> {
        let order = (self.order)(&strike.dose)?;
        Ok(Box::new(Worsened {
            on: strike.on.clone(),
            order,
            words: self.words,
            shows: self.shows,
            still: self.still,
        }))
    }
}

struct Worsened {
    on: Vec<String>,
    order: Value,
    words: Words,
    shows: fn(&Value, &Value) -> bool,
    still: fn(&Value) -> Option<&'static str>,
}

#[async_trait]
impl Fault for Worsened {
    fn describe(&self, _: &Map<String, Value>) -> FaultDescription {
        let (targets, words) = (and(&self.on), &self.words);
        // A server may end on such a disk, and then it keeps no memory.
        FaultDescription {
            sentence: format!("the disk of {targets} {}", (words.sentence)(&self.order)),
            healing: format!("the disk of {targets} {}", words.healing),
            label: format!("{} {}", self.on.join(" "), words.label),
            summary: words.summary.to_owned(),
            ..FaultDescription::default()
        }
    }

    async fn inject(&mut self, world: &World) -> Result<Seen, FaultError> {
        let observed = break_disks(world, &self.on, &self.order).await?;
        let effective = observed.values().any(|seen| (self.shows)(&self.order, &seen["after"]));
        Ok(Seen { observed, effective })
    }

    async fn heal(&mut self, world: &World) -> Result<Value, FaultError> {
        let healed = break_disks(world, &self.on, &json!({"do": "heal"})).await?;
        let bad = healed.iter().find_map(|(target, seen)| Some((target, (self.still)(&seen["after"])?)));
        match bad {
            Some((target, what)) => Err(FaultError::Other(format!("the disk of {target} is still {what}"))),
            None => Ok(Value::Object(healed)),
        }
    }
}
