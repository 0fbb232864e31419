//! Traffic between two ends of one machine, by how far apart their CPUs are: loopback, Unix
//! sockets, a ring in shared memory, a bridge of two namespaces, and the switch of `dunlin fabric`.
//!
//! Nothing here is a product: the ring is a yardstick, and the agreement is a load.

pub mod agreement;
pub mod class;
mod datagrams;
mod ends;
mod frames;
pub mod limits;
pub mod measure;
mod memory;
mod pages;
mod peer;
mod replica;
mod ring_buffer;
pub mod spaces;
mod stream;
mod way;

pub use class::{Class, Pair};
pub use measure::{Measured, Setting};
pub use peer::{Role, serve};
pub use way::Way;

/// An error: the attempt, its object, the reason, and what to do.
pub type Result<T, E = String> = std::result::Result<T, E>;

/// Units of work, and how long they took.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Work {
    /// Requests, packets or bytes.
    pub units: u64,
    /// Seconds.
    pub seconds: f64,
}

/// Says what an attempt at an end failed with.
fn failed(what: &str) -> impl Fn(std::io::Error) -> String {
    let what = what.to_owned();
    move |error| format!("{what}: {error}")
}
