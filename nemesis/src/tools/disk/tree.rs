//! Which file is in which folder, under which name. A disk has two trees: the live and the durable one.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};

pub type InodeNumber = u64;

pub const ROOT: InodeNumber = 1;

/// Folders with their entries, and where each inode stands.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    folders: HashMap<InodeNumber, BTreeMap<OsString, InodeNumber>>,
    /// The reverse of `folders`: a file with hard links stands at several places, what was removed at none.
    places: HashMap<InodeNumber, Vec<Place>>,
}

/// A folder, and the name in it.
pub type Place = (InodeNumber, OsString);

static EMPTY: BTreeMap<OsString, InodeNumber> = BTreeMap::new();

impl Tree {
    /// The entries of a folder, by name; none for what is no folder.
    pub fn entries(&self, folder: InodeNumber) -> &BTreeMap<OsString, InodeNumber> {
        self.folders.get(&folder).unwrap_or(&EMPTY)
    }

    pub fn get(&self, folder: InodeNumber, name: &OsStr) -> Option<InodeNumber> {
        self.entries(folder).get(name).copied()
    }

    pub fn places(&self, number: InodeNumber) -> &[Place] {
        self.places.get(&number).map_or(&[], Vec::as_slice)
    }

    pub fn all(&self) -> impl Iterator<Item = (&Place, InodeNumber)> {
        self.places.iter().flat_map(|(number, places)| places.iter().map(|place| (place, *number)))
    }

    /// The path below the topmost folder; what stands nowhere has none.
    pub fn path(&self, number: InodeNumber) -> Option<String> {
        let (folder, name) = self.places(number).first()?;
        let name = name.to_string_lossy();
        if *folder == ROOT {
            return Some(name.into_owned());
        }
        Some(format!("{}/{name}", self.path(*folder)?))
    }

    /// Puts it there, in place of what stood there.
    pub fn put(&mut self, folder: InodeNumber, name: &OsStr, number: InodeNumber) {
        self.take(folder, name);
        self.folders.entry(folder).or_default().insert(name.to_owned(), number);
        self.places.entry(number).or_default().push((folder, name.to_owned()));
    }

    pub fn take(&mut self, folder: InodeNumber, name: &OsStr) -> Option<InodeNumber> {
        let number = self.folders.get_mut(&folder)?.remove(name)?;
        if let Some(places) = self.places.get_mut(&number) {
            places.retain(|(in_folder, as_name)| (*in_folder, as_name.as_os_str()) != (folder, name));
        }
        Some(number)
    }

    pub fn forget(&mut self, number: InodeNumber) {
        self.folders.remove(&number);
        self.places.remove(&number);
    }

    /// Called on the durable tree for an fsync: an inode without a durable name gets its name in `live`, with
    /// new folders above. Another durable name stays: a rename waits for its folder's fsync.
    pub fn sync_entry(&mut self, live: &Tree, number: InodeNumber) {
        if number == ROOT || !self.places(number).is_empty() {
            return;
        }
        let Some((folder, name)) = live.places(number).first() else { return };
        self.sync_entry(live, *folder);
        self.put(*folder, name, number);
    }

    /// Called on the durable tree for the fsync of a folder, which becomes what it is in `live`. A rename
    /// from one folder into another is one step: the fsync of either makes it durable in both.
    pub fn sync_folder(&mut self, live: &Tree, folder: InodeNumber) {
        self.sync_entry(live, folder);
        let before = self.entries(folder).clone();
        let now = live.entries(folder);
        for (name, number) in &before {
            if now.get(name) != Some(number) {
                self.take(folder, name);
            }
        }
        for (name, &number) in now {
            if before.get(name) == Some(&number) {
                continue;
            }
            for (other, old_name) in self.places(number).to_vec() {
                if live.get(other, &old_name) != Some(number) {
                    self.take(other, &old_name);
                }
            }
            self.put(folder, name, number);
        }
        for number in before.into_values() {
            self.sync_entry(live, number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: InodeNumber = 10;
    const OTHER: InodeNumber = 11;
    const A: InodeNumber = 2;
    const B: InodeNumber = 3;

    fn name(text: &str) -> &OsStr {
        OsStr::new(text)
    }

    /// Two folders, durable, with a file in the first.
    fn trees() -> (Tree, Tree) {
        let mut live = Tree::default();
        live.put(ROOT, name("a"), A);
        live.put(ROOT, name("b"), B);
        live.put(A, name("file"), FILE);
        (live.clone(), live)
    }

    #[test]
    fn fsync_of_a_new_file_makes_the_path_to_it_durable() {
        let (mut live, mut durable) = (Tree::default(), Tree::default());
        live.put(ROOT, name("a"), A);
        live.put(A, name("file"), FILE);
        live.put(A, name("other"), OTHER);
        durable.sync_entry(&live, FILE);
        assert_eq!(durable.path(FILE).as_deref(), Some("a/file"));
        assert_eq!(durable.path(OTHER), None, "its neighbour was not fsynced");
    }

    #[test]
    fn a_rename_waits_for_the_fsync_of_its_folder() {
        let (mut live, mut durable) = trees();
        live.take(A, name("file"));
        live.put(A, name("new"), FILE);
        durable.sync_entry(&live, FILE);
        assert_eq!(durable.path(FILE).as_deref(), Some("a/file"));
        durable.sync_folder(&live, A);
        assert_eq!(durable.path(FILE).as_deref(), Some("a/new"));
        assert_eq!(durable.places(FILE).len(), 1);
    }

    #[test]
    fn a_rename_over_another_file_replaces_it_at_once() {
        let (mut live, mut durable) = trees();
        live.put(A, name("temporary"), OTHER);
        durable.sync_entry(&live, OTHER);
        live.take(A, name("temporary"));
        live.put(A, name("file"), OTHER);
        assert_eq!(durable.get(A, name("file")), Some(FILE));
        durable.sync_folder(&live, A);
        assert_eq!(durable.get(A, name("file")), Some(OTHER));
        assert!(durable.places(FILE).is_empty());
        assert_eq!(durable.get(A, name("temporary")), None);
    }

    #[test]
    fn a_rename_between_folders_is_one_step_whichever_is_fsynced() {
        for fsynced in [A, B] {
            let (mut live, mut durable) = trees();
            live.take(A, name("file"));
            live.put(B, name("file"), FILE);
            durable.sync_folder(&live, fsynced);
            assert_eq!(durable.path(FILE).as_deref(), Some("b/file"));
            assert_eq!(durable.places(FILE).len(), 1);
        }
    }

    #[test]
    fn a_removal_waits_for_the_fsync_of_its_folder() {
        let (mut live, mut durable) = trees();
        live.take(A, name("file"));
        durable.sync_folder(&live, B);
        assert_eq!(durable.path(FILE).as_deref(), Some("a/file"));
        durable.sync_folder(&live, A);
        assert_eq!(durable.path(FILE), None);
    }

    #[test]
    fn a_hard_link_keeps_both_names() {
        let (mut live, mut durable) = trees();
        live.put(B, name("link"), FILE);
        durable.sync_folder(&live, B);
        assert_eq!(durable.places(FILE).len(), 2);
    }
}
