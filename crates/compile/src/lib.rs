//! Changes become images, incrementally; owns the blocks an image is made of.
//!
//! An [`Image`] is persistent: a new one shares with the old all that did not change, so that
//! publishing costs what the change costs (invariant I5). It is the only copy of the records.
#![forbid(unsafe_code)]

mod index;
pub mod limits;
mod loader;
mod names;
mod order;
mod ordered;
mod pack;
#[cfg(test)]
mod tests;
mod vector;
mod zone;

pub use index::Image;
pub use loader::{Loader, Problem};
pub use names::{Names, sort_key};
pub use ordered::Ordered;
pub use zone::{SetChange, Zone};
