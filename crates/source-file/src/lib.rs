//! Zone files as a source: loaded, watched, reloaded.
#![forbid(unsafe_code)]

mod limits;
mod load;
mod source;
mod stamp;
mod watch;

pub use load::load;
pub use source::{Source, ZoneFile};
pub use watch::Wishes;
