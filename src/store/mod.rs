//! Results in an object store. A run is made in a local folder and sent when it is over, its marker last. A
//! command that reads takes nothing without its marker, and reads a local copy, as any folder.

mod address;
#[cfg(feature = "object-store")]
mod bucket;
mod copy;
#[cfg_attr(not(feature = "object-store"), allow(dead_code, reason = "nothing is sent"))]
mod marker;
#[cfg(not(feature = "object-store"))]
mod no_bucket;
#[cfg_attr(not(feature = "object-store"), allow(dead_code, reason = "there is nothing to wait for"))]
mod patience;
mod results;

#[cfg(feature = "object-store")]
use bucket::Bucket;
pub use copy::{Copied, follow, local_with, locals, locals_with};
#[cfg(not(feature = "object-store"))]
use no_bucket::Bucket;
pub use results::{Results, upload};
