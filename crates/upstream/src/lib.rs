//! Other servers: the sockets they are asked over, who waits for them, and what they said.
//!
//! An [`Asker`] is one thread's: it has the thread's share of the cache, its own sockets, and the
//! queries whose replies are put off. When an answer has come, each query that waited for it is
//! answered once more from the beginning, and now finds what it lacked.
#![forbid(unsafe_code)]

mod asker;
mod board;
mod commander;
mod commands;
mod connection;
mod dice;
mod fault;
pub mod limits;
mod loops;
mod neighbours;
mod outbox;
mod plan;
mod sockets;
mod store;
mod streams;
mod telling;
mod tls;
mod waiters;

pub use asker::Asker;
pub use board::{Homes, Own, Server, View};
pub use commander::{Commander, Full, Kept, Report};
pub use commands::{Command, Scope};
pub use fault::Fault;
pub use loops::Marks;
pub use neighbours::{Neighbours, neighbours};
pub use plan::{Address, Over, Plan, Servers};
/// The certificates that [`Trust`] is made of, and the names of servers.
pub use rustls::pki_types;
pub use tls::Trust;
