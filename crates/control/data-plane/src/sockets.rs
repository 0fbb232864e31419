//! Opens the sockets that receive queries, with a remedy for each failure, and passes them to their
//! threads. Some exist already: from the service manager, or from the old process of a hot restart.
//!
//! A UDP socket is not closed while it may hold a datagram that no other process reads. So this
//! process serves all inherited sockets, even if they outnumber the workers. Sockets of addresses
//! that are no longer configured stay with the old process, which answers what they hold.
use crate::limits::{FILES_OTHER, PORTS_TRIED_MAX, STREAMS_LEAST};
use crate::placement::AddressSocket;
use admin::{SharedSocket, SocketKind};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::net::sockopt;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use worker::limits::{CLOSING_MAX, PORTS_MAX};

/// Raises the limit of open files to its maximum: each stream is a file, and the usual soft limit
/// is lower than the maximum of streams.
pub fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, limit = limit.current, "cannot raise the limit of open files");
    }
}

/// Makes the kernel enlarge the table of open files for this many sockets and streams. If the table
/// grew later, accept(2) would wait until every CPU has passed through the scheduler, some ten
/// milliseconds without service. It does not wait while there is one thread, so call this first.
///
/// Returns how many streams there is room for, at most `streams`. More accepted connections would
/// fail to open.
///
/// # Errors
/// The limit leaves no room for streams.
pub fn reserve_files(sockets: usize, streams: usize) -> io::Result<usize> {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let room = room_for_streams(sockets, streams, limit).ok_or_else(|| {
        io::Error::other(format!(
            "this process may open {limit} files only: raise the limit, as by `ulimit -n 4096` or \
             LimitNOFILE=4096 in the systemd unit"
        ))
    })?;
    if room < streams {
        tracing::warn!(
            limit,
            "room for {room} of [streams] connections = {streams}: this process may open no more \
             files: raise `ulimit -n`, or LimitNOFILE= in the systemd unit"
        );
    }
    let wanted = sockets + room + CLOSING_MAX + FILES_OTHER;
    let number = wanted.min(limit.saturating_sub(1));
    // The descriptor is closed at once: only its number matters.
    if let Err(error) = fcntl_dupfd_cloexec(io::stderr(), number as RawFd) {
        tracing::warn!(%error, wanted, "cannot reserve room for open files: the table grows later");
    }
    Ok(room)
}

/// How many streams a limit of open files leaves room for; `None`: fewer than the minimum.
fn room_for_streams(sockets: usize, streams: usize, limit: usize) -> Option<usize> {
    let rest = limit.saturating_sub(sockets);
    // If the limit is low, streams get at least a quarter.
    let room = rest.saturating_sub(CLOSING_MAX + FILES_OTHER).max(rest / 4);
    (room >= STREAMS_LEAST).then_some(room.min(streams))
}

/// The sockets of one address.
#[derive(Debug)]
pub struct Listening {
    /// The address, with its actual port.
    pub address: SocketAddr,
    /// Accepts streams.
    pub streams: TcpListener,
    /// In the order of binding. Socket n belongs to worker n modulo the number of workers; every
    /// worker has at least one.
    pub datagrams: Vec<OwnedFd>,
}

impl Listening {
    /// The first UDP socket of each address.
    pub fn first_sockets(all: &[Self]) -> Vec<AddressSocket<'_>> {
        all.iter().filter_map(|one| Some((one.address, one.datagrams.first()?.as_fd()))).collect()
    }
}

/// The sockets of this process: inherited ones that no listener uses yet, and served ones.
#[derive(Debug, Default)]
pub struct Sockets {
    inherited: Vec<SharedSocket>,
    shared: Vec<SharedSocket>,
}

impl Sockets {
    /// Starts with the sockets from the service manager or from the old process.
    pub fn new(inherited: Vec<SharedSocket>) -> Self {
        Self { inherited, shared: Vec::new() }
    }

    /// The addresses that the service manager passed. Without `listen` in the config, the server
    /// listens on these. Empty: it passed none.
    pub fn activated(&self) -> Vec<SocketAddr> {
        let mut addresses = Vec::new();
        for SharedSocket { kind, address, given, .. } in &self.inherited {
            if *given
                && [SocketKind::Udp, SocketKind::Tcp].contains(kind)
                && !addresses.contains(address)
            {
                addresses.push(*address);
            }
        }
        addresses
    }

    /// Opens or inherits a listener and UDP sockets for `workers` workers on each address. On a
    /// machine without IPv6, `[::]` is skipped if other addresses remain. New UDP sockets receive
    /// at once; beside inherited ones, after [`workers::steer`](crate::placement::steer).
    ///
    /// # Errors
    /// The first address that cannot be opened, or more sockets than the workers can serve.
    pub fn open(
        &mut self,
        addresses: &[SocketAddr],
        workers: usize,
    ) -> Result<Vec<Listening>, OpenError> {
        let mut all = Vec::new();
        for address in addresses {
            match self.listen(*address, workers) {
                Err(OpenError::Bind { error, .. })
                    if address.is_ipv6()
                        && address.ip().is_unspecified()
                        && addresses.iter().any(SocketAddr::is_ipv4)
                        && Errno::from_io_error(&error) == Some(Errno::AFNOSUPPORT) =>
                {
                    tracing::warn!(%address, "not served: this machine has no IPv6");
                }
                listening => all.push(listening?),
            }
        }
        let counts: Vec<_> = all.iter().map(|listening| listening.datagrams.len()).collect();
        let a_worker = |workers| counts.iter().map(|count| count.div_ceil(workers)).sum::<usize>();
        if a_worker(workers) > PORTS_MAX {
            let least = (workers..).find(|workers| a_worker(*workers) <= PORTS_MAX);
            let sockets = counts.iter().sum();
            return Err(OpenError::TooMany { sockets, least: least.unwrap_or(usize::MAX) });
        }
        Ok(all)
    }

    /// Opens or inherits the listener for metrics and health.
    ///
    /// # Errors
    /// The address cannot be opened.
    pub fn open_ops(&mut self, address: SocketAddr) -> Result<TcpListener, OpenError> {
        self.listener(SocketKind::Ops, address)
    }

    /// Opens or inherits the listener of the REST API.
    ///
    /// # Errors
    /// The address cannot be opened.
    pub fn open_api(&mut self, address: SocketAddr) -> Result<TcpListener, OpenError> {
        self.listener(SocketKind::Api, address)
    }

    /// Opens or inherits a listener of transfers over TLS.
    ///
    /// # Errors
    /// The address cannot be opened.
    pub fn open_transfer(&mut self, address: SocketAddr) -> Result<TcpListener, OpenError> {
        self.listener(SocketKind::Transfer, address)
    }

    /// Ends the opening. Returns another descriptor of each served socket, for a new process.
    ///
    /// # Errors
    /// The service manager passed a socket that the config does not use. The manager keeps it
    /// open, so its clients would wait in vain.
    pub fn finish(self) -> Result<Vec<SharedSocket>, OpenError> {
        for SharedSocket { kind, address, given, fd } in &self.inherited {
            if *given {
                let (kind, address, fd) = (*kind, *address, fd.as_raw_fd());
                return Err(OpenError::Unfit { kind, address, fd });
            }
            tracing::info!(?kind, %address, "inherited socket dropped: no longer configured");
        }
        Ok(self.shared)
    }

    fn listen(&mut self, address: SocketAddr, workers: usize) -> Result<Listening, OpenError> {
        let (inherited, shared) = (self.inherited.len(), self.shared.len());
        for _ in 1..PORTS_TRIED_MAX {
            match self.listen_once(address, workers) {
                // Any port is allowed, and this one is free over TCP but not over UDP.
                Err(OpenError::Bind { error, .. })
                    if address.port() == 0
                        && self.inherited.len() == inherited
                        && Errno::from_io_error(&error) == Some(Errno::ADDRINUSE) =>
                {
                    self.shared.truncate(shared);
                }
                listening => return listening,
            }
        }
        self.listen_once(address, workers)
    }

    fn listen_once(&mut self, address: SocketAddr, workers: usize) -> Result<Listening, OpenError> {
        // TCP first: UDP sockets can share an address with another process of the same user, and
        // would then silently share its queries.
        let streams = self.listener(SocketKind::Tcp, address)?;
        let address = streams.local_addr().map_err(failed(address, "TCP"))?;
        let datagrams = self.datagrams(address, workers).map_err(failed(address, "UDP"))?;
        Ok(Listening { address, streams, datagrams })
    }

    fn listener(
        &mut self,
        kind: SocketKind,
        address: SocketAddr,
    ) -> Result<TcpListener, OpenError> {
        let failed = failed(address, "TCP");
        let fits = |shared: &SharedSocket| shared.kind == kind && fits(address, shared.address);
        let listener = match self.inherited.iter().position(fits) {
            None => {
                let listener = worker::listen(address).map_err(&failed)?;
                let address = listener.local_addr().map_err(&failed)?;
                let fd = listener.try_clone().map_err(&failed)?.into();
                self.shared.push(SharedSocket { kind, address, given: false, fd });
                listener
            }
            Some(index) => {
                let shared = self.inherited.remove(index);
                let listener = TcpListener::from(shared.fd.try_clone().map_err(&failed)?);
                self.shared.push(shared);
                listener
            }
        };
        listener.set_nonblocking(true).map_err(&failed)?;
        Ok(listener)
    }

    /// All inherited UDP sockets of an address, and new ones until every worker has one. If none
    /// can be bound beside them, workers share sockets.
    fn datagrams(&mut self, address: SocketAddr, workers: usize) -> io::Result<Vec<OwnedFd>> {
        let mut datagrams = Vec::new();
        let fits =
            |shared: &mut SharedSocket| shared.kind == SocketKind::Udp && shared.address == address;
        for shared in self.inherited.extract_if(.., fits) {
            port_socket::adopt(&shared.fd)?;
            datagrams.push(shared.fd.try_clone()?);
            self.shared.push(shared);
        }
        let inherited = datagrams.len();
        if (1..workers).contains(&inherited) && sockopt::socket_reuseport(&datagrams[0])? {
            // New sockets are not read before all zones are loaded, and never if this process
            // fails.
            if let Err(error) = port_socket::confine(datagrams[0].as_fd(), inherited) {
                tracing::warn!(%address, %error, "new sockets receive too early");
            }
        }
        while datagrams.len() < workers {
            match port_socket::bind(address) {
                Ok(fd) => {
                    let (kind, given) = (SocketKind::Udp, false);
                    self.shared.push(SharedSocket { kind, address, given, fd: fd.try_clone()? });
                    datagrams.push(fd);
                }
                Err(error) if inherited > 0 && is_alone(&error) => {
                    warn_alone(address, &datagrams[0], workers, &error);
                    for n in 0..workers - datagrams.len() {
                        datagrams.push(datagrams[n].try_clone()?);
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(datagrams)
    }
}

/// Whether a socket serves a configured address. Port 0 matches any port.
fn fits(configured: SocketAddr, bound: SocketAddr) -> bool {
    configured.ip() == bound.ip() && [0, bound.port()].contains(&configured.port())
}

/// Whether no socket can be bound beside an inherited one, or not by this process.
fn is_alone(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    matches!(errno, Some(Errno::ADDRINUSE | Errno::ACCESS | Errno::PERM))
}

fn warn_alone(address: SocketAddr, socket: &OwnedFd, workers: usize, error: &io::Error) {
    let advice = if sockopt::socket_reuseport(socket).unwrap_or(false) {
        "it belongs to another user, or takes a privilege that this process lacks"
    } else {
        "set ReusePort=yes in its socket unit, and list ListenDatagram= once for each worker"
    };
    tracing::warn!(%address, workers, %error, advice, "workers share a UDP socket, which is \
                                                       slower");
}

/// The sockets cannot be opened as configured.
#[derive(Debug)]
pub enum OpenError {
    /// An address cannot be opened.
    Bind {
        /// The address.
        address: SocketAddr,
        /// `UDP` or `TCP`.
        protocol: &'static str,
        /// Why.
        error: io::Error,
    },
    /// The service manager passed a socket that the config does not use.
    Unfit {
        /// What it receives.
        kind: SocketKind,
        /// Where it is bound.
        address: SocketAddr,
        /// Its number.
        fd: RawFd,
    },
    /// The old process had more workers, and its sockets are too many for this one.
    TooMany {
        /// The number of sockets.
        sockets: usize,
        /// The number of workers that could serve them.
        least: usize,
    },
}

fn failed(address: SocketAddr, protocol: &'static str) -> impl Fn(io::Error) -> OpenError {
    move |error| OpenError::Bind { address, protocol, error }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bind { address, protocol, error } => {
                write!(f, "cannot listen on {address} ({protocol}): {error}")?;
                advise(f, address.port(), error)
            }
            Self::Unfit { kind, address, fd } if let Some(section) = kind.name() => {
                let key = if *kind == SocketKind::Transfer { "tls_listen" } else { "listen" };
                write!(
                    f,
                    "descriptor {fd}, passed by the service manager as \"{section}\", is TCP \
                     {address}: name \"{address}\" as `{key}` in [{section}], or change the socket \
                     unit"
                )
            }
            Self::Unfit { kind, address, fd } => {
                let protocol = if *kind == SocketKind::Udp { "UDP" } else { "TCP" };
                write!(
                    f,
                    "descriptor {fd}, passed by the service manager, is {protocol} {address}, \
                     which [server] listen does not name (once): list it there, leave `listen` out \
                     to listen on what is passed, or change the socket unit"
                )?;
                if *kind == SocketKind::Tcp {
                    write!(f, "; a socket for [ops] needs FileDescriptorName=ops")?;
                }
                Ok(())
            }
            Self::TooMany { sockets, least } => write!(
                f,
                "{sockets} UDP sockets are inherited, and a worker serves at most {PORTS_MAX}: set \
                [server] workers = {least} or more, or stop the other server and start again"
            ),
        }
    }
}

/// The remedy if an address cannot be opened.
fn advise(f: &mut fmt::Formatter<'_>, port: u16, error: &io::Error) -> fmt::Result {
    match Errno::from_io_error(error) {
        Some(Errno::ACCESS | Errno::PERM) => write!(
            f,
            "; ports below 1024 need a privilege: grant it by `setcap cap_net_bind_service=+ep` on \
             the binary or by AmbientCapabilities in the systemd unit, or lower the bound by \
             `sysctl net.ipv4.ip_unprivileged_port_start={port}`"
        ),
        Some(Errno::ADDRINUSE) => write!(
            f,
            "; another server uses it: `ss -lntup 'sport = :{port}'` shows which; if that one uses \
            only one address, such as 127.0.0.53, list the others in [server] listen"
        ),
        Some(Errno::ADDRNOTAVAIL) => {
            write!(f, "; this machine has no such address: `ip address` lists those it has")
        }
        _ => Ok(()),
    }
}

impl std::error::Error for OpenError {}

#[cfg(test)]
mod tests;
