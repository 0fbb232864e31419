//! NRI, the Node Resource Interface of containerd and CRI-O: hears of containers before they
//! start, and sets their CPUs.
//!
//! A plugin connects to the runtime's socket, registers, and answers the runtime's calls one after
//! another. The runtime waits for each answer, and drops a plugin that is slow.
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate self as nri;

pub mod limits;
mod messages;
mod plugin;
mod trunk;

pub use messages::{
    Container, ContainerState, LinuxContainer, LinuxCpu, LinuxPod, LinuxResources, Pod, Signed,
    Unsigned,
};
pub use plugin::{CallId, Plugin, Request, Runtime};

use std::fmt;
use std::io;
use std::path::PathBuf;

/// The socket of a runtime unless it is configured otherwise.
pub const SOCKET: &str = "/var/run/nri/nri.sock";

/// Why a plugin cannot continue.
#[derive(Debug)]
pub enum NriError {
    /// The socket cannot be connected to.
    Connect(PathBuf, io::Error),
    /// The connection is broken.
    Io(io::Error),
    /// The runtime closed the connection: it ended, or the plugin was slow.
    Closed,
    /// The runtime refused to register the plugin.
    Refused(String),
    /// A message or a frame of this many bytes.
    TooLarge(usize),
    /// A message that cannot be understood.
    Malformed(String),
    /// More pods or containers than [`limits::CONTAINERS_MAX`].
    TooMany,
}

impl fmt::Display for NriError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect(path, error) => write!(
                f,
                "cannot connect to the NRI socket {}: {error}; containerd 2 and CRI-O 1.30 have \
                 one, containerd 1.7 has to be configured to (plugins.\"io.containerd.nri.v1.nri\" \
                 disable = false)",
                path.display()
            ),
            Self::Io(error) => write!(f, "the connection to the container runtime: {error}"),
            Self::Closed => f.write_str(
                "the container runtime closed the connection: it ended, or an answer took longer \
                 than its plugin_request_timeout",
            ),
            Self::Refused(why) => write!(f, "the container runtime refuses the plugin: {why}"),
            Self::TooLarge(bytes) => write!(
                f,
                "the container runtime announces a message of {bytes} bytes, more than the {} that \
                 NRI allows",
                limits::MESSAGE_BYTES_MAX
            ),
            Self::Malformed(what) => {
                write!(f, "the container runtime sends what is not understood: {what}")
            }
            Self::TooMany => write!(
                f,
                "the container runtime has more than {} pods or containers",
                limits::CONTAINERS_MAX
            ),
        }
    }
}

impl std::error::Error for NriError {}

impl From<io::Error> for NriError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<prost::DecodeError> for NriError {
    fn from(error: prost::DecodeError) -> Self {
        Self::Malformed(error.to_string())
    }
}
