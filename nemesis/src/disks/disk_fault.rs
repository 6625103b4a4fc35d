//! What the faults of disks have in common, and what `disk-full` and `disk-slow` are made of.

use crate::context::FaultContext;
use crate::disks::disk_tool::{DiskCall, DiskHealed, Probed};
use crate::fault::{Fault, FaultError, Observation, of_each};
use crate::nemesis::{Draw, Drawing, NemesisDescription, TypedNemesis};
use crate::plan::aim::{Aim, Moment};
use crate::plan::distributions::around_ttl;
use crate::plan::roles::Role;
use crate::plan::topology::Topology;
use crate::tools::disk::DiskProbe;
use async_trait::async_trait;
use fencepost_cluster::Capability;
use fencepost_history::prose::and;
use fencepost_history::{FaultDescription, FaultEffect, Refusal, Stream};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

/// Calls the disk tool of each target, all at once. Gives the answer of each one.
pub(crate) async fn break_disks<T: DeserializeOwned>(
    context: &FaultContext,
    targets: &[String],
    call: &DiskCall,
) -> Result<Vec<(String, T)>, FaultError> {
    of_each(targets, |target| context.call(target, "disk", call)).await
}

/// A nemesis that makes the disks of some servers worse for a while. `P` are its parameters.
pub(crate) struct DiskNemesis<P: 'static> {
    pub name: &'static str,
    pub about: &'static str,
    /// Shortest and longest fault, in TTLs.
    pub around: (f64, f64),
    pub draw: fn(&Topology, &mut Stream) -> P,
    /// What the disk tool has to do, or why these parameters make no sense.
    pub call: fn(&P) -> Result<DiskCall, Refusal>,
    pub shows: fn(&P, &DiskProbe) -> bool,
    pub still: fn(&DiskProbe) -> Option<&'static str>,
    pub sentence: fn(&P) -> String,
    pub healing: &'static str,
    pub label: &'static str,
    pub summary: &'static str,
}

impl<P> TypedNemesis for DiskNemesis<P>
where
    P: Serialize + DeserializeOwned + Send + Sync,
{
    type Parameters = P;

    fn description(&self) -> NemesisDescription {
        NemesisDescription {
            needs: &[Capability::Fuse],
            prepares_disks: true,
            servers_only: true,
            aims: const { &[Aim::at(Role::Granting, &[Moment::Granted, Moment::Collecting])] },
            ..NemesisDescription::new(self.name, self.about)
        }
    }

    fn draw(&self, from: &mut Drawing<'_>) -> Option<Draw<P>> {
        let Drawing { topology, random, .. } = from;
        let on = topology.draw_servers(random)?;
        let parameters = (self.draw)(topology, random);
        let (shortest, longest) = self.around;
        Some(Draw { on, length: around_ttl(topology.ttl, shortest, longest, random), parameters })
    }

    fn prepare(&self, on: &[String], parameters: P) -> Result<Box<dyn Fault>, Refusal> {
        let call = (self.call)(&parameters)?;
        let DiskNemesis { sentence, healing, label, summary, .. } = self;
        let and_on = and(on);
        // A server may end on such a disk, and then it keeps no memory.
        let description = FaultDescription {
            effects: vec![FaultEffect::Forgets, FaultEffect::Delays, FaultEffect::Refuses],
            sentence: format!("the disk of {and_on} {}", sentence(&parameters)),
            healing: format!("the disk of {and_on} {healing}"),
            label: format!("{} {label}", on.join(" ")),
            summary: (*summary).to_owned(),
            ..FaultDescription::default()
        };
        let (shows, still) = (self.shows, self.still);
        let shows = Box::new(move |probe: &DiskProbe| shows(&parameters, probe));
        Ok(Box::new(WorsenedDisks { on: on.to_vec(), call, description, shows, still }))
    }
}

struct WorsenedDisks {
    on: Vec<String>,
    call: DiskCall,
    description: FaultDescription,
    shows: Box<dyn Fn(&DiskProbe) -> bool + Send + Sync>,
    still: fn(&DiskProbe) -> Option<&'static str>,
}

#[async_trait]
impl Fault for WorsenedDisks {
    fn describe(&self, _: &Map<String, Value>) -> FaultDescription {
        self.description.clone()
    }

    async fn inject(&mut self, context: &FaultContext) -> Result<Observation, FaultError> {
        let probed = break_disks::<Probed>(context, &self.on, &self.call).await?;
        let seen = |probed: Probed| (json!(probed), (self.shows)(&probed.after));
        Ok(probed.into_iter().map(|(target, probed)| (target, seen(probed))).collect())
    }

    async fn heal(&mut self, context: &FaultContext) -> Result<Value, FaultError> {
        let healed = break_disks::<DiskHealed>(context, &self.on, &DiskCall::Heal).await?;
        let bad = healed.iter().find_map(|(target, healed)| Some((target, (self.still)(&healed.after)?)));
        match bad {
            Some((target, still)) => Err(FaultError::Other(format!("the disk of {target} is still {still}"))),
            None => Ok(healed.into_iter().map(|(target, healed)| (target, json!(healed))).collect()),
        }
    }
}
