//! The differential test: several servers are given the same zones and the same queries, and
//! every difference between their answers and the subject's must have a reason in `reasons.toml`.
//!
//! Messages are read here with NLnet Labs' `domain`, never with Dunlin's own code, so that a
//! mistake in Dunlin's codec cannot hide itself.
#![forbid(unsafe_code)]

pub mod client;
pub mod comparison;
pub mod faulty_link;
pub mod flood;
pub mod hosts;
pub mod kubernetes;
pub mod limits;
pub mod load;
pub mod names;
pub mod oddities;
pub mod regular_client;
pub use test_support::ports;
pub mod environment;
pub mod paced_client;
pub mod packet;
pub mod queries;
pub mod random;
pub mod reasons;
pub mod reply;
pub mod run;
pub mod server;
pub mod sign;
pub mod templates;
pub mod world;
pub mod zone;

/// A result whose error is a sentence for the person who runs the test.
pub type Result<T> = std::result::Result<T, String>;
