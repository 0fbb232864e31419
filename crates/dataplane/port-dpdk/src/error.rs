//! Why DPDK cannot be used, and what to do.

use std::fmt;
use std::path::PathBuf;

/// The Debian package of the library.
pub const PACKAGE: &str = "dunlin-dpdk";

/// Why DPDK cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DpdkError {
    /// The path of the library does not begin at the root.
    Relative(PathBuf),
    /// There is no library.
    Missing(PathBuf),
    /// Others could replace the library: what may be written by whom.
    Untrusted(PathBuf, String),
    /// This program is static, so that it can open no library.
    Static,
    /// The library or one that it needs cannot be opened.
    Unloadable(PathBuf, String),
    /// The library is for another version of this program.
    Version(PathBuf, String),
    /// DPDK was started before in this process.
    Started,
    /// DPDK does not start.
    Environment(String),
    /// A device cannot be used.
    Device(String, String),
    /// An interface of the kernel cannot be used.
    Interface(String, String),
    /// The address of a device is none.
    Address(String),
    /// What the machine lacks.
    Requirement(String),
}

impl fmt::Display for DpdkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Relative(path) => {
                write!(f, "{} is not an absolute path of a library: write it whole", path.display())
            }
            Self::Missing(path) => write!(
                f,
                "{} is missing: install the package {PACKAGE} (`apt install ./{PACKAGE}_*.deb`), \
                 or name the library in [dpdk] library",
                path.display()
            ),
            Self::Untrusted(path, why) => write!(
                f,
                "{} is not opened: {why}; code in it would run as this server: let only root \
                 write there",
                path.display()
            ),
            Self::Static => write!(
                f,
                "this dunlin is one static program, which can open no library: use a build for \
                 glibc (`cargo build --release --package dunlin`)"
            ),
            Self::Unloadable(path, why) => write!(
                f,
                "{} cannot be opened: {why}: install the DPDK that it was compiled for (it is the \
                 dependency of the package {PACKAGE}), or compile it again for yours",
                path.display()
            ),
            Self::Version(path, why) => write!(
                f,
                "{} is not for this dunlin: {why}: install the package {PACKAGE} of the same \
                 version",
                path.display()
            ),
            Self::Started => write!(f, "DPDK starts once in a process: restart the server"),
            Self::Environment(why) => write!(f, "{why}"),
            Self::Device(name, why) | Self::Interface(name, why) => write!(f, "{name}: {why}"),
            Self::Address(why) | Self::Requirement(why) => write!(f, "{why}"),
        }
    }
}

impl std::error::Error for DpdkError {}
