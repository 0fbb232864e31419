//! The outcome of a probe.
use rustix::io::Errno;
use std::io;
use std::time::Duration;

/// Finds the number of a user and of its group.
pub type FindUser = fn(&str) -> Result<(u32, u32), String>;

/// A probe that passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// When the certificate of the server ends, since 1970; `None`: the check uses no TLS.
    pub certificate_end: Option<Duration>,
}

/// Why a probe did not pass, in a few words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The target failed.
    Failed(String),
    /// This host could not make the probe, which says nothing about the target.
    NotMade(String),
}

impl Failure {
    /// The words.
    pub fn reason(&self) -> &str {
        match self {
            Self::Failed(reason) | Self::NotMade(reason) => reason,
        }
    }

    /// An error of a socket: of this host if it lacks something, else of the target.
    #[cfg_attr(not(feature = "probes"), allow(dead_code))]
    pub(crate) fn of_socket(what: &str, error: &io::Error) -> Self {
        let own = [
            Errno::MFILE,
            Errno::NFILE,
            Errno::NOBUFS,
            Errno::NOMEM,
            Errno::ADDRNOTAVAIL,
            Errno::AFNOSUPPORT,
        ];
        match Errno::from_io_error(error) {
            Some(errno) if own.contains(&errno) => Self::NotMade(format!("{what}: {error}")),
            Some(Errno::CONNREFUSED) => Self::Failed("connection refused".into()),
            _ => Self::Failed(format!("{what}: {error}")),
        }
    }
}

impl From<String> for Failure {
    fn from(reason: String) -> Self {
        Self::Failed(reason)
    }
}
