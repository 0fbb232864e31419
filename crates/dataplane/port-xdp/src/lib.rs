//! A port on an AF_XDP socket: frames in rings shared with the kernel, which bypass its network
//! stack, and the program that selects the packets for this server.

mod counts;
mod interface;
pub mod limits;
mod program;
mod queue;
mod ring;
mod socket;
mod umem;

#[cfg(test)]
mod fake;

pub use bpf::{AttachMode, XdpError};
pub use counts::{FrameCounts, QueueCounts};
pub use interface::Interface;
pub use program::{FilterCounts, FilterProgram, FilterRules};
pub use queue::{XdpDevice, XdpQueue};
pub use socket::{KernelDrops, SocketWatch, XdpSocket, open};
