//! Bundles of measurements: their format, verification, and reports.
#![forbid(unsafe_code)]

pub mod bundle;
mod charts;
pub mod costs;
pub mod cpus;
pub mod event;
pub mod fabric;
pub mod history;
mod html;
pub mod limits;
mod markdown;
pub mod soak;
mod statistics;
pub mod study;
mod svg;
pub mod sweep;
pub mod usl;
pub mod verify;

pub use bundle::{Body, Bundle, Header, SearchRecord, SearchTrial};
pub use html::{bundle_of, report};
pub use markdown::{markdown, plots};

/// An error: the attempt, its object, the reason, and what to do.
pub type Result<T, E = String> = std::result::Result<T, E>;
