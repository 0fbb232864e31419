//! The service manager: the sockets that it passes at the start (`sd_listen_fds(3)`), and the
//! notifications that it receives (`sd_notify(3)`). Without its variables nothing happens.
//!
//! The notifications include sockets: the manager keeps them during a restart and passes them to
//! the next process (`FileDescriptorStoreMax=`), so queries wait in them meanwhile.
mod descriptor_name;
mod held;
mod notify;

pub use held::{HeldSockets, own_command};
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
/// Variables that are removed from the environment, so that no child process uses them.
const VARIABLES: [&str; 6] = [
    "LISTEN_PID",
    "LISTEN_FDS",
    "LISTEN_FDNAMES",
    "NOTIFY_SOCKET",
    "WATCHDOG_PID",
    "WATCHDOG_USEC",
];

/// What the service manager passed to this process.
#[derive(Debug)]
pub struct Manager {
    /// Sockets to listen on: those of a socket unit in the order of passing, then those that the
    /// manager kept, in the order of the old process's list.
    pub sockets: Vec<SharedSocket>,
    /// Sends notifications.
    pub notify: Notify,
    /// Interval of watchdog notifications (half of `WatchdogSec=`); `None`: no watchdog.
    pub watchdog: Option<Duration>,
}

/// Something that the service manager passed cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub enum PassError {
    /// A variable has an invalid value.
    Variable(&'static str, String),
    /// A descriptor cannot be used.
    Descriptor(RawFd, String, SocketFault),
}

/// Why a descriptor cannot be listened on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketFault {
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
                    SocketFault::Closed => ("is not open", "unset LISTEN_FDS to start without"),
                    SocketFault::NotInternet => (
                        "is not a bound IPv4 or IPv6 socket",
                        "the socket unit may have ListenDatagram= and ListenStream= with addresses \
                         or ports only",
                    ),
                    SocketFault::NeitherUdpNorTcp => (
                        "is neither UDP nor TCP",
                        "the socket unit may have ListenDatagram= and ListenStream= only, and no \
                         SocketProtocol=",
                    ),
                    SocketFault::NotListening => {
                        ("is a TCP socket that does not listen", "set Accept=no")
                    }
                    SocketFault::BothFamilies => (
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
    /// Takes the passed variables out of the environment and the descriptors out of the table. Call
    /// it once, before anything else.
    ///
    /// # Safety
    /// No other thread runs, and this process has no open file of its own.
    ///
    /// # Errors
    /// A passed socket cannot be listened on.
    pub unsafe fn take() -> Result<Self, PassError> {
        let values = VARIABLES.map(|name| env::var(name).ok());
        for name in VARIABLES {
            // SAFETY: guaranteed by the caller: no other thread reads the environment.
            unsafe { env::remove_var(name) };
        }
        let get = |name| {
            let index = VARIABLES.iter().position(|variable| *variable == name)?;
            values[index].clone()
        };
        let own = std::process::id();
        let mut passed = passed(get, own)?;
        // The manager passes them in any order.
        passed.sort_by_key(|(_, name)| descriptor_name::index(name));
        let kept = passed
            .iter()
            .map(|(_, name)| name)
            .filter(|name| descriptor_name::index(name).is_some());
        let notify = Notify::to(get("NOTIFY_SOCKET").as_deref(), kept.cloned().collect());
        let mut open = Vec::new();
        for (fd, name) in passed {
            // SAFETY: the number is not -1, and it is only checked here.
            let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
            if fcntl_getfd(borrowed).is_err() {
                return Err(PassError::Descriptor(fd, name, SocketFault::Closed));
            }
            // SAFETY: it is open, was passed to this process (`LISTEN_PID`), and the caller
            // guarantees that nothing here owns it.
            open.push((unsafe { OwnedFd::from_raw_fd(fd) }, name));
        }
        let sockets = open.into_iter().map(|(fd, name)| adopt(fd, &name)).collect::<Result<_, _>>();
        Ok(Self { sockets: sockets?, notify, watchdog: watchdog(get, own)? })
    }
}

impl Manager {
    /// Receives the sockets that the holder at the other end of this socket kept.
    ///
    /// # Errors
    /// The holder has ended, or sent what cannot be listened on.
    pub fn of_holder(socket: OwnedFd) -> Result<Self, Box<dyn std::error::Error>> {
        let mut passed = held::receive(&socket)?;
        passed.sort_by_key(|(name, _)| descriptor_name::index(name));
        let kept = passed.iter().map(|(name, _)| name.clone()).collect();
        let sockets = passed.into_iter().map(|(name, fd)| adopt(fd, &name));
        let sockets = sockets.collect::<Result<_, _>>()?;
        Ok(Self { sockets, notify: Notify::to_holder(socket, kept), watchdog: None })
    }
}

/// The descriptors that were passed to this process, and their names.
fn passed(
    get: impl Fn(&'static str) -> Option<String>,
    own: u32,
) -> Result<Vec<(RawFd, String)>, PassError> {
    // Without the process ID, or with another one, they were passed to another process.
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

/// Half of the watchdog's interval, as `sd_watchdog_enabled(3)` advises.
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

/// Determines the kind of a descriptor, and keeps child processes from inheriting it.
fn adopt(fd: OwnedFd, name: &str) -> Result<SharedSocket, PassError> {
    let number = fd.as_raw_fd();
    let unfit = |unfit| PassError::Descriptor(number, name.to_owned(), unfit);
    fcntl_setfd(&fd, FdFlags::CLOEXEC).map_err(|_| unfit(SocketFault::Closed))?;
    let family = sockopt::socket_domain(&fd).map_err(|_| unfit(SocketFault::NotInternet))?;
    let bound = rustix::net::getsockname(&fd).map_err(|_| unfit(SocketFault::NotInternet))?;
    let address = SocketAddr::try_from(bound).map_err(|_| unfit(SocketFault::NotInternet))?;
    if address.port() == 0 {
        return Err(unfit(SocketFault::NotInternet));
    }
    let kind = (sockopt::socket_type(&fd), sockopt::socket_protocol(&fd).ok().flatten());
    let kind = match kind {
        (Ok(SocketType::DGRAM), Some(ipproto::UDP)) => SocketKind::Udp,
        (Ok(SocketType::STREAM), Some(ipproto::TCP | ipproto::MPTCP)) => {
            // FileDescriptorName=ops, api or transfer
            let named = SocketKind::named(name).or_else(|| descriptor_name::kind(name));
            named.unwrap_or(SocketKind::Tcp)
        }
        _ => return Err(unfit(SocketFault::NeitherUdpNorTcp)),
    };
    if kind != SocketKind::Udp && !sockopt::socket_acceptconn(&fd).unwrap_or(false) {
        return Err(unfit(SocketFault::NotListening));
    }
    let only = || sockopt::ipv6_v6only(&fd).unwrap_or(false);
    if family == AddressFamily::INET6 && address.ip().is_unspecified() && !only() {
        return Err(unfit(SocketFault::BothFamilies));
    }
    let given = descriptor_name::index(name).is_none();
    Ok(SharedSocket { kind, address, given, fd })
}

#[cfg(test)]
mod tests;
