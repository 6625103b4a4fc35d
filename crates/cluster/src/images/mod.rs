//! The images that nodes are made of: container images for an engine, root file systems for the driver
//! `local`.

mod definitions;
mod folders;
mod installed;
mod root_file_system;
mod stored_item;

pub use definitions::{ALL, Image, JAVA, find};
pub(crate) use folders::{folder_size, remove_folder};
pub(crate) use installed::are_installed;
pub(crate) use root_file_system::{UnpackedRoot, is_unpacked, list_unpacked, lock_unused, root_file_system};
pub use stored_item::{Kind, StoredItem};
