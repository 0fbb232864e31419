//! A port on an AF_XDP socket: frames in rings shared with the kernel, which bypass its network
//! stack, and the program that selects the packets for this server.

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

pub use attached::{AttachedProgram, ProgramMaps, XdpError};
/// To load other programs with [`AttachedProgram::new`].
pub use aya::{EbpfLoader, include_bytes_aligned};
pub use counts::{FrameCounts, QueueCounts};
pub use interface::{AttachMode, Interface};
pub use program::{FilterCounts, FilterProgram, FilterRules};
pub use queue::{XdpDevice, XdpQueue};
pub use socket::{KernelDrops, SocketWatch, XdpSocket, open};
