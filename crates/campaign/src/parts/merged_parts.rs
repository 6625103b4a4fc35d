//! Parts as one. Which parts are put together first makes no difference, nor does a part that is there twice.

use super::part_file::{PartFile, PartState, numbered};
use super::records::RecordHead;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

#[derive(Clone, Debug)]
pub struct MergedParts {
    pub file: PartFile,
    /// What came of each run, by its number in the campaign.
    pub records: BTreeMap<u64, RecordHead>,
    pub found_in: BTreeMap<u32, BTreeSet<PathBuf>>,
}

/// Why parts cannot be put together: one sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct MergeRefusal(String);

/// What is not there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Missing {
    /// Parts of which there is nothing.
    pub parts: Vec<u32>,
    /// Parts that have begun, with how many of their runs are not done, and how many they were assigned.
    pub unfinished: Vec<(u32, usize, usize)>,
}

impl PartialEq for MergedParts {
    fn eq(&self, other: &MergedParts) -> bool {
        let place_free = |file: &PartFile| {
            let mut file = file.clone();
            file.parts.values_mut().for_each(|part| part.runs_in.clear());
            file
        };
        let said = |merged: &MergedParts| -> Vec<(u64, bool, u64, [u8; 16])> {
            merged.records.values().map(|head| (head.run, head.done, head.progress, head.digest)).collect()
        };
        place_free(&self.file) == place_free(&other.file) && said(self) == said(other)
    }
}

impl MergedParts {
    /// Both together. Errors: they are not parts of one campaign, or overlap.
    pub fn join(mut self, other: &MergedParts) -> Result<MergedParts, MergeRefusal> {
        self.check_campaign(other)?;
        for (&number, theirs) in &other.file.parts {
            self.join_part(number, theirs, other)?;
            let from = other.found_in.get(&number).into_iter().flatten().cloned();
            self.found_in.entry(number).or_default().extend(from);
        }
        Ok(self)
    }

    fn check_campaign(&self, other: &MergedParts) -> Result<(), MergeRefusal> {
        let (one, two) = (&self.file, &other.file);
        let differ = |what: &str, ours: &str, theirs: &str| {
            let (here, there) = (self.place(), other.place());
            Err(MergeRefusal(format!(
                "{there} does not fit {here}: they are parts of different {what} ({theirs}, {ours}); merge parts of one command, made by one version"
            )))
        };
        if one.kind != two.kind {
            return differ("commands", &format!("a {}", one.kind), &format!("a {}", two.kind));
        }
        if one.fencepost != two.fencepost {
            return differ("versions of Fencepost", &one.fencepost, &two.fencepost);
        }
        if one.seed != two.seed {
            return differ("seeds", &one.seed.to_string(), &two.seed.to_string());
        }
        if one.of != two.of {
            return differ(
                "divisions",
                &format!("one of {} parts", one.of),
                &format!("one of {} parts", two.of),
            );
        }
        if one.campaign != two.campaign && one.command == two.command {
            return differ("states of one command", "its locks had other files", "or this machine");
        }
        if one.campaign != two.campaign {
            return differ("commands", &format!("`{}`", one.command), &format!("`{}`", two.command));
        }
        if one.assignment != two.assignment {
            return differ("deals", "their runs were dealt", "with different --durations");
        }
        Ok(())
    }

    fn place(&self) -> String {
        let folders = self.found_in.values().flatten().next();
        folders.map_or_else(|| self.file.label(), |folder| folder.display().to_string())
    }

    fn join_part(
        &mut self,
        number: u32,
        theirs: &PartState,
        other: &MergedParts,
    ) -> Result<(), MergeRefusal> {
        let Some(ours) = self.file.parts.get(&number) else {
            return self.add_part(number, theirs, other);
        };
        if ours.assigned != theirs.assigned {
            return Err(self.overlap(number, other, "which were dealt different runs"));
        }
        let differs = |run: &u64| {
            self.records.get(run).map(|head| head.digest) != other.records.get(run).map(|head| head.digest)
        };
        match (ours.finished, theirs.finished) {
            (true, true) if ours.assigned.iter().any(differs) => {
                return Err(self.overlap(number, other, "with different runs, both finished; keep one"));
            }
            (true, _) => {}
            (false, true) => {
                ours.assigned.iter().for_each(|run| {
                    self.records.remove(run);
                });
                self.records.extend(other.of_part(theirs));
            }
            (false, false) => {
                for (run, head) in other.of_part(theirs) {
                    let known = self.records.entry(run).or_insert(head);
                    if rank(known) < rank(&head) {
                        *known = head;
                    }
                }
            }
        }
        let finished = ours.finished || theirs.finished;
        // A finished part's runs lie where it was finished.
        let mut places: Vec<PathBuf> = match (ours.finished, theirs.finished) {
            (false, true) => theirs.runs_in.clone(),
            (true, false) => ours.runs_in.clone(),
            _ => ours.runs_in.iter().chain(&theirs.runs_in).cloned().collect(),
        };
        places.sort();
        places.dedup();
        let ours = self.file.parts.entry(number).or_default();
        (ours.finished, ours.runs_in) = (finished, places);
        Ok(())
    }

    fn of_part(&self, part: &PartState) -> impl Iterator<Item = (u64, RecordHead)> {
        part.assigned.iter().filter_map(|run| Some((*run, *self.records.get(run)?)))
    }

    fn add_part(&mut self, number: u32, theirs: &PartState, other: &MergedParts) -> Result<(), MergeRefusal> {
        let assigned: BTreeSet<u64> = theirs.assigned.iter().copied().collect();
        let overlapping =
            self.file.parts.iter().find(|(_, ours)| ours.assigned.iter().any(|run| assigned.contains(run)));
        if let Some((twin, _)) = overlapping {
            return Err(MergeRefusal(format!(
                "parts {twin} and {number} of {} overlap: both were dealt the same runs ({}, {})",
                self.file.of,
                self.place(),
                other.place()
            )));
        }
        self.records.extend(other.of_part(theirs));
        self.file.parts.insert(number, theirs.clone());
        Ok(())
    }

    fn overlap(&self, number: u32, other: &MergedParts, why: &str) -> MergeRefusal {
        let folder = |merged: &MergedParts| {
            let first = merged.found_in.get(&number).and_then(BTreeSet::first);
            first.map_or_else(String::new, |folder| folder.display().to_string())
        };
        let of = self.file.of;
        MergeRefusal(format!(
            "part {number} of {of} is there twice, {why}: {} and {}",
            folder(self),
            folder(other)
        ))
    }

    /// What is not there.
    pub fn missing(&self) -> Missing {
        let parts = (1..=self.file.of.get()).filter(|number| !self.file.parts.contains_key(number));
        let undone = |part: &PartState| {
            part.assigned.iter().filter(|run| !self.records.get(run).is_some_and(|head| head.done)).count()
        };
        let unfinished =
            self.file.parts.iter().map(|(number, part)| (*number, undone(part), part.assigned.len()));
        Missing {
            parts: parts.collect(),
            unfinished: unfinished.filter(|(_, undone, _)| *undone > 0).collect(),
        }
    }
}

/// Of two records of one run in parts that did not finish, the greater is taken.
fn rank(head: &RecordHead) -> (bool, u64, [u8; 16]) {
    (head.done, head.progress, head.digest)
}

impl Missing {
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty() && self.unfinished.is_empty()
    }

    /// A sentence each; `of` is the number of all parts.
    pub fn sentences(&self, of: std::num::NonZeroU32) -> Vec<String> {
        let absent = (!self.parts.is_empty()).then(|| {
            let (verb, it) = if self.parts.len() == 1 { ("is", "it") } else { ("are", "them") };
            format!("{} of {of} {verb} missing: nothing of {it} was merged", numbered(&self.parts))
        });
        let begun = self.unfinished.iter().map(|(number, undone, assigned)| {
            format!(
                "part {number} of {of} is unfinished: {undone} of its {assigned} runs are missing or failed"
            )
        });
        absent.into_iter().chain(begun).collect()
    }
}
