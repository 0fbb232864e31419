//! The map of the machine: which CPUs share a core, a cache, a NUMA node or a socket, and which are
//! near a device. Read from sysfs, or from a saved copy of it.
#![forbid(unsafe_code)]

mod devices;
pub mod limits;
pub mod measure;
mod read;
mod reader;
mod save;
mod sysfs;
mod types;
pub mod usage;

pub use read::{read, read_saved};
pub use reader::Reader;
pub use save::save;
pub use sysfs::ReadError;
pub use types::{CoreKind, Cpu, Device, DeviceKind, Interrupt, Level, Node, Relation, Topology};

use serde::Serializer;

/// Writes a CPU list as the kernel does: `"0-3,8"`.
///
/// # Errors
/// Those of the serializer.
pub fn as_text<S: Serializer>(list: &cpu::CpuList, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(list)
}
