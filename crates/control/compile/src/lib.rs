//! Compiles changes into images, incrementally.
//!
//! An [`Image`] is persistent: a new one shares all unchanged parts with the old one. So publishing
//! costs what the change costs (invariant I5). It is the only copy of the records.
#![forbid(unsafe_code)]

mod chosen;
mod delegation;
mod difference;
mod dname;
mod index;
mod laid_view;
pub mod limits;
mod lint;
mod loader;
mod names;
mod order;
mod ordered;
mod pack;
mod problem;
#[cfg(test)]
mod tests;
mod vector;
mod view;
mod walk;
mod zone;

pub use chosen::{
    AnswerRules, Chooser, ChosenRecords, ChosenSet, ChosenSets, ComputedSet, LeafIndex,
};
pub use difference::RecordChange;
pub use dname::HiddenName;
pub use index::Image;
pub use lint::Finding;
pub use loader::Loader;
pub use names::Names;
pub use ordered::OrderedLoader;
pub use packet::View;
pub use problem::ZoneProblem;
pub use view::ViewSets;
pub use walk::{RecordWalk, WalkedRecord};
pub use zone::{SetChange, Zone};
