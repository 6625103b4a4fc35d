//! How files are read and written: whole, within bounds, compressed.

pub(crate) mod bounded;
pub(crate) mod compressed;
pub(crate) mod file;
pub(crate) mod stored;
