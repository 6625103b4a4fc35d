//! Images and folders that Fencepost has stored on this machine.

/// An image or a folder that Fencepost has stored, and how much room it takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredItem {
    /// Of the image, as in [`super::ALL`], or of the lock whose folder it is.
    pub name: String,
    pub kind: Kind,
    pub place: String,
    pub bytes: u64,
    /// Whether this Fencepost would use it; if not, it is of another version.
    pub current: bool,
}

/// What kind of thing is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    EngineImage,
    /// In the container engine, with a build of Fencepost in it.
    EngineImageWithProgram,
    RootFileSystem,
    PreparedFolder,
}
