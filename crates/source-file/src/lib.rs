//! Zone files and hosts files as a source: loaded, watched, reloaded.
#![forbid(unsafe_code)]

mod hosts;
mod limits;
mod lint;
mod load;
pub mod saved;
mod source;
mod stamp;
mod watch;

pub use hosts::load_hosts;
pub use lint::lint;
pub use load::load;
pub use saved::Saver;
pub use source::{Files, Keeper, Source, ZoneFile};
pub use watch::{Wished, Wishes};
