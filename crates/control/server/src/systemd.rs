//! The service manager: what it passes at the start (`sd_listen_fds(3)`), and what it is told
//! (`sd_notify(3)`). All of it is files and variables; without them nothing happens.
//!
//! What it is told includes the sockets: it keeps them while this process is restarted and passes
//! them to the next (`FileDescriptorStoreMax=`), so that questions wait in them meanwhile.
mod kept;
mod notify;

pub use notify::Notify;

use crate::limits::PASSED_MAX;
use admin::{SharedSocket, SocketKind};
use rustix::io::{FdFlags, fcntl_getfd, fcntl_setfd};
use rustix::net::{AddressFamily, SocketType, ipproto, sockopt};
use std::env;
use std::fmt;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// `SD_LISTEN_FDS_START`
const FIRST: RawFd = 3;
/// The names of sockets that are for no questions: `FileDescriptorName=ops` or `api`.
const NAMES: [(&str, SocketKind); 2] = [("ops", SocketKind::Ops), ("api", SocketKind::Api)];
/// What is taken out of the environment, so that no child believes it was meant.
const VARIABLES: [&str; 6] = [
    "LISTEN_PID",
    "LISTEN_FDS",
    "LISTEN_FDNAMES",
    "NOTIFY_SOCKET",
    "WATCHDOG_PID",
    "WATCHDOG_USEC",
];

/// What the service manager gave this process.
#[derive(Debug)]
pub struct Manager {
    /// Sockets to listen on: those of a socket unit in the order in which they were passed, then
    /// those that were kept for us, in the order in which our predecessor listed them.
    pub sockets: Vec<SharedSocket>,
    /// Where it is told how far we are.
    pub notify: Notify,
    /// How often it wants to be told that we are well (half of `WatchdogSec=`); nothing: never.
    pub watchdog: Option<Duration>,
}

/// What the service manager passed cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub enum PassError {
    /// A variable is not what it should be.
    Variable(&'static str, String),
    /// A descriptor is not what it should be.
    Descriptor(RawFd, String, Unfit),
}

/// Why a descriptor cannot be listened on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfit {
    Closed,
    NotInternet,
    NeitherUdpNorTcp,
    NotListening,
    BothFamilies,
}

impl fmt::Display for PassError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable(name, value) => write!(
                f,
                "{name}={value:?} is not what a service manager passes (up to {PASSED_MAX} \
                 sockets, numbers in decimal); unset it to start without"
            ),
            Self::Descriptor(fd, name, unfit) => {
                let (problem, advice) = match unfit {
                    Unfit::Closed => ("is not open", "unset LISTEN_FDS to start without"),
                    Unfit::NotInternet => (
                        "is not a bound IPv4 or IPv6 socket",
                        "the socket unit may have ListenDatagram= and ListenStream= with addresses \
                         or ports only",
                    ),
                    Unfit::NeitherUdpNorTcp => (
                        "is neither UDP nor TCP",
                        "the socket unit may have ListenDatagram= and ListenStream= only, and no \
                         SocketProtocol=",
                    ),
                    Unfit::NotListening => {
                        ("is a TCP socket that does not listen", "set Accept=no")
                    }
                    Unfit::BothFamilies => (
                        "takes IPv4 too, whose clients would look like IPv6 ones",
                        "set BindIPv6Only=ipv6-only in the socket unit, and list 0.0.0.0:PORT \
                         beside [::]:PORT there",
                    ),
                };
                let name = if name.is_empty() { String::new() } else { format!(" ({name})") };
                write!(f, "descriptor {fd}{name}, passed by the service manager, {problem}")?;
                write!(f, "; {advice}")
            }
        }
    }
}

impl std::error::Error for PassError {}

impl Manager {
    /// Takes what the service manager gave out of the environment and the table of descriptors.
    /// To be called once and first of all.
    ///
    /// # Safety
    /// No other thread runs, and this process has opened nothing yet that it did not close again.
    ///
    /// # Errors
    /// Something was passed that cannot be listened on.
    pub unsafe fn take() -> Result<Self, PassError> {
        let values = VARIABLES.map(|name| env::var(name).ok());
        for name in VARIABLES {
            // SAFETY: the caller's promise: nobody else reads the environment meanwhile.
            unsafe { env::remove_var(name) };
        }
        let get = |name| {
            let index = VARIABLES.iter().position(|variable| *variable == name)?;
            values[index].clone()
        };
        let own = std::process::id();
        let mut passed = passed(get, own)?;
        // The manager has an order of its own.
        passed.sort_by_key(|(_, name)| kept::index(name));
        let kept = passed.iter().map(|(_, name)| name).filter(|name| kept::index(name).is_some());
        let notify = Notify::to(get("NOTIFY_SOCKET").as_deref(), kept.cloned().collect());
        let mut open = Vec::new();
        for (fd, name) in passed {
            // SAFETY: not -1, and only asked for what it is.
            let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
            if fcntl_getfd(borrowed).is_err() {
                return Err(PassError::Descriptor(fd, name, Unfit::Closed));
            }
            // SAFETY: it is open, was passed to this process (`LISTEN_PID`), and by the caller's
            // promise nothing here owns it.
            open.push((unsafe { OwnedFd::from_raw_fd(fd) }, name));
        }
        let sockets = open.into_iter().map(|(fd, name)| adopt(fd, &name)).collect::<Result<_, _>>();
        Ok(Self { sockets: sockets?, notify, watchdog: watchdog(get, own)? })
    }
}

/// Which descriptors were passed to this process, and their names.
fn passed(
    get: impl Fn(&'static str) -> Option<String>,
    own: u32,
) -> Result<Vec<(RawFd, String)>, PassError> {
    // Without the number of the process, or with another one, they were meant for somebody else.
    if number("LISTEN_PID", &get)? != Some(own.into()) {
        return Ok(Vec::new());
    }
    let count = number("LISTEN_FDS", &get)?.unwrap_or(0);
    if count > PASSED_MAX as u64 {
        return Err(PassError::Variable("LISTEN_FDS", count.to_string()));
    }
    let names = get("LISTEN_FDNAMES").unwrap_or_default();
    let names = names.split(':').map(str::to_owned).chain(std::iter::repeat(String::new()));
    Ok((FIRST..).take(count as usize).zip(names).collect())
}

/// Half of the time the watchdog waits, as `sd_watchdog_enabled(3)` advises.
fn watchdog(
    get: impl Fn(&'static str) -> Option<String>,
    own: u32,
) -> Result<Option<Duration>, PassError> {
    if number("WATCHDOG_PID", &get)?.is_some_and(|pid| pid != u64::from(own)) {
        return Ok(None);
    }
    let micros = number("WATCHDOG_USEC", &get)?.filter(|micros| *micros > 0);
    Ok(micros.map(|micros| Duration::from_micros(micros.div_ceil(2))))
}

fn number(
    name: &'static str,
    get: impl Fn(&'static str) -> Option<String>,
) -> Result<Option<u64>, PassError> {
    let Some(text) = get(name) else { return Ok(None) };
    text.parse().map(Some).map_err(|_| PassError::Variable(name, text))
}

/// Finds out what a descriptor is, and has no child inherit it.
fn adopt(fd: OwnedFd, name: &str) -> Result<SharedSocket, PassError> {
    let number = fd.as_raw_fd();
    let unfit = |unfit| PassError::Descriptor(number, name.to_owned(), unfit);
    fcntl_setfd(&fd, FdFlags::CLOEXEC).map_err(|_| unfit(Unfit::Closed))?;
    let family = sockopt::socket_domain(&fd).map_err(|_| unfit(Unfit::NotInternet))?;
    let bound = rustix::net::getsockname(&fd).map_err(|_| unfit(Unfit::NotInternet))?;
    let address = SocketAddr::try_from(bound).map_err(|_| unfit(Unfit::NotInternet))?;
    if address.port() == 0 {
        return Err(unfit(Unfit::NotInternet));
    }
    let named = NAMES.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind);
    let kind = (sockopt::socket_type(&fd), sockopt::socket_protocol(&fd).ok().flatten());
    let kind = match kind {
        (Ok(SocketType::DGRAM), Some(ipproto::UDP)) => SocketKind::Udp,
        (Ok(SocketType::STREAM), Some(ipproto::TCP | ipproto::MPTCP)) => {
            named.or_else(|| kept::kind(name)).unwrap_or(SocketKind::Tcp)
        }
        _ => return Err(unfit(Unfit::NeitherUdpNorTcp)),
    };
    if kind != SocketKind::Udp && !sockopt::socket_acceptconn(&fd).unwrap_or(false) {
        return Err(unfit(Unfit::NotListening));
    }
    let only = || sockopt::ipv6_v6only(&fd).unwrap_or(false);
    if family == AddressFamily::INET6 && address.ip().is_unspecified() && !only() {
        return Err(unfit(Unfit::BothFamilies));
    }
    let given = kept::index(name).is_none();
    Ok(SharedSocket { kind, address, given, fd })
}

#[cfg(test)]
mod tests;
