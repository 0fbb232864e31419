//! Programs in the kernel: loaded, attached to an interface, alone or in a dispatcher of libxdp.
#![forbid(unsafe_code)]

mod attached;
mod attachment;
mod dispatcher;
pub mod limits;

pub use attached::{AttachedProgram, Device, ProgramMaps, XdpError};
pub use attachment::AttachMode;
/// To load programs with [`AttachedProgram::new`], and to use their maps.
pub use aya::{EbpfLoader, include_bytes_aligned, maps};
