//! A port on a queue of a DPDK device. DPDK itself is behind `libdunlin-dpdk.so`, which is opened
//! at run time (`native/dunlin_dpdk.h`), so that a program with this crate starts without it.

mod address;
mod calls;
mod counts;
mod device;
mod environment;
mod error;
mod host_interface;
mod interrupts;
mod library;
pub mod limits;
mod opening;
mod queue;
mod requirements;
mod selection;

pub use address::DeviceAddress;
pub use counts::{DeviceCounts, QueueCounts};
pub use device::{DeviceInfo, DeviceView};
pub use environment::{Environment, EnvironmentOptions};
pub use error::DpdkError;
pub use host_interface::HostInterface;
pub use library::Library;
pub use queue::DpdkQueue;
pub use requirements::check;
pub use selection::Selection;
