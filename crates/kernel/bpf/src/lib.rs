//! Programs in the kernel: loaded, attached to an interface, alone, in a dispatcher of libxdp or
//! beside those of others, and to control groups.
#![forbid(unsafe_code)]

mod attached;
mod attachment;
mod dispatcher;
pub mod limits;
mod programs;

pub use attached::{AttachedProgram, Device, ProgramMaps, XdpError};
pub use attachment::AttachMode;
/// To load programs with [`AttachedProgram::new`], and to use their maps.
pub use aya::{EbpfLoader, include_bytes_aligned, maps};
pub use programs::{
    AttachError, Direction, Order, ProgramLink, ProgramSet, attached_names, program_names,
    run_times,
};
