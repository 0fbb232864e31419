//! Other servers: the sockets they are asked over, who waits for them, and what they said.
//!
//! An [`Asker`] is one thread's: it has the thread's share of the cache, its own sockets, and the
//! queries whose replies are put off. When an answer has come, each query that waited for it is
//! answered once more from the beginning, and now finds what it lacked.
#![forbid(unsafe_code)]

mod asker;
mod board;
mod dice;
pub mod limits;
mod plan;
mod sockets;
mod store;
mod streams;
mod waiters;

pub use asker::Asker;
pub use board::{Own, Server, View};
pub use plan::{Plan, Servers};
