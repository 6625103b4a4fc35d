//! The images that nodes are made of: container images for an engine, root file systems for the driver `local`.

mod apt;
mod commands;
mod debian;
mod definitions;
mod installed;
mod root_file_system;
mod stored_item;

pub(crate) use commands::{folder_size, remove_folder};
pub use definitions::{ALL, Image, JAVA, find};
pub(crate) use definitions::{MAKERS, installed};
pub(crate) use installed::are_installed;
pub(crate) use root_file_system::{UnpackedRoot, is_unpacked, list_unpacked, lock_unused, root_file_system};
pub use stored_item::{Kind, StoredItem};
