//! What was made and takes up room.

/// Something that was made and takes up room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// Of the image, as in [`super::ALL`], or of the lock whose folder it is.
    pub name: String,
    pub kind: Kind,
    /// The image's tag, or the folder.
    pub place: String,
    pub bytes: u64,
    /// Whether this Fencepost would use it; if not, it is of another version.
    pub current: bool,
}

/// What was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// In the container engine.
    EngineImage,
    /// In the container engine, with a build of Fencepost in it.
    EngineImageWithProgram,
    /// A folder.
    RootFileSystem,
    /// A user's folder that was made ready.
    PreparedFolder,
}
