//! The images of nodes: container images for an engine, root file systems for the driver `local`.

mod definitions;
mod folders;
mod installed;
mod own_server;
mod releases;
mod root_file_system;
mod server_choice;
mod servers;
mod stored_item;

pub use definitions::{ALL, Image, find, name_of};
pub(crate) use folders::{folder_size, remove_folder};
pub(crate) use installed::are_installed;
pub use own_server::OwnServer;
pub use releases::{RELEASES, Release};
pub use root_file_system::is_made;
pub(crate) use root_file_system::{UnpackedRoot, is_unpacked, list_unpacked, lock_unused, root_file_system};
pub use server_choice::ServerChoice;
pub use stored_item::{Kind, StoredItem};
