//! A port on an AF_XDP socket: frames in rings that are shared with the kernel, past its network
//! stack, and the program that lets in what is for us.

mod attached;
mod counts;
mod dispatcher;
mod interface;
pub mod limits;
pub mod netlink;
mod program;
mod queue;
mod ring;
mod socket;
mod umem;

#[cfg(test)]
mod fake;

pub use attached::{Attached, Mode, Tables, XdpError};
/// To load a program of one's own by: [`Attached::new`].
pub use aya::{EbpfLoader, include_bytes_aligned};
pub use counts::{Counts, Places};
pub use interface::Interface;
pub use program::{Passed, Program, Rules};
pub use queue::{Device, Queue};
pub use socket::{Losses, Socket, Watch, open};
