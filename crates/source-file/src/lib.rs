//! Zone files as a source: loaded, watched, reloaded.
#![forbid(unsafe_code)]

mod limits;
mod lint;
mod load;
pub mod saved;
mod source;
mod stamp;
mod watch;

pub use lint::lint;
pub use load::load;
pub use saved::Saver;
pub use source::{Keeper, Source, ZoneFile};
pub use watch::{Wished, Wishes};
