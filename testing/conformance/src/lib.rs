//! The differential test: several servers are given the same zones and the same questions, and
//! every difference between their answers and the subject's must have a reason in `reasons.toml`.
//!
//! Messages are read here with NLnet Labs' `domain`, never with Dunlin's own code, so that a
//! mistake in Dunlin's codec cannot hide itself.
#![forbid(unsafe_code)]

pub mod client;
pub mod compare;
pub mod flood;
pub mod hosts;
pub mod kubernetes;
pub mod limits;
pub mod link;
pub mod load;
pub mod names;
pub mod oddities;
pub mod polite;
pub use test_support::ports;
pub mod probe;
pub mod questions;
pub mod random;
pub mod reasons;
pub mod reply;
pub mod run;
pub mod scene;
pub mod server;
pub mod sign;
pub mod steady;
pub mod templates;
pub mod world;
pub mod zone;

/// A result whose error is a sentence for the person who runs the test.
pub type Result<T> = std::result::Result<T, String>;
