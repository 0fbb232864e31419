//! The sockets questions come in by. They are opened here, so that a failure can say what to do,
//! and handed to those who own them. Some may be there already: the service manager passed them,
//! or a predecessor does.
//!
//! A UDP socket is never closed while it may hold a datagram that nobody else reads. So all that
//! are inherited are served, be they more than there are workers. Those of an address that is no
//! longer configured are left to the predecessor, which answers what they hold as it ends, or has
//! done so already.
use crate::limits::{FILES_OTHER, PORTS_TRIED_MAX, STREAMS_LEAST};
use crate::workers::OneOf;
use admin::{SharedSocket, SocketKind};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::net::sockopt;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use worker::limits::{CLOSING_MAX, PORTS_MAX};

/// Lets this process open as many files as it may at all: each stream is one, and the usual lower
/// bound is less than the streams that are let in.
pub fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, limit = limit.current, "the limit of open files stays as it was");
    }
}

/// Has the kernel's table of our open files be large enough for so many sockets and streams, and
/// what else there is. It grows when it is full, for which accept(2) waits, where there are
/// threads, until every CPU has passed through the scheduler: some ten milliseconds in which that
/// thread serves nobody. So this comes before there are any.
///
/// Returns how many streams there is room for, up to those that are wanted: were more let in than
/// may be opened, newcomers would wait for those that are there.
///
/// # Errors
/// So few files may be open that there is no room for streams at all.
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
            "{room} of [streams] connections = {streams} are let in, as this process may open no \
             more files: raise `ulimit -n`, or LimitNOFILE= in the systemd unit"
        );
    }
    let wanted = sockets + room + CLOSING_MAX + FILES_OTHER;
    let number = wanted.min(limit.saturating_sub(1));
    // The descriptor is closed at once: it was only to be a large number.
    if let Err(error) = fcntl_dupfd_cloexec(io::stderr(), number as RawFd) {
        tracing::warn!(%error, wanted, "no room was made for open files: it is made as they come");
    }
    Ok(room)
}

/// How many streams a limit of open files leaves room for; nothing: hardly any.
fn room_for_streams(sockets: usize, streams: usize, limit: usize) -> Option<usize> {
    let rest = limit.saturating_sub(sockets);
    // Where files are few, a quarter of them has to do.
    let room = rest.saturating_sub(CLOSING_MAX + FILES_OTHER).max(rest / 4);
    (room >= STREAMS_LEAST).then_some(room.min(streams))
}

/// What one address is served by.
#[derive(Debug)]
pub struct Listening {
    /// The address, its port known.
    pub address: SocketAddr,
    pub streams: TcpListener,
    /// In the order of binding; the n-th is for worker n modulo the number of workers, and there is
    /// one for each worker at least.
    pub datagrams: Vec<OwnedFd>,
}

impl Listening {
    /// One of the UDP sockets of each address, the first that was bound.
    pub fn first_of_each(all: &[Self]) -> Vec<OneOf<'_>> {
        all.iter().filter_map(|one| Some((one.address, one.datagrams.first()?.as_fd()))).collect()
    }
}

/// All sockets of this process: those that are inherited and not yet taken, and those that are
/// served.
#[derive(Debug, Default)]
pub struct Sockets {
    inherited: Vec<SharedSocket>,
    shared: Vec<SharedSocket>,
}

impl Sockets {
    /// Begins with what the service manager passed or kept, or a predecessor offers.
    pub fn new(inherited: Vec<SharedSocket>) -> Self {
        Self { inherited, shared: Vec::new() }
    }

    /// The addresses that the service manager chose: what is listened on where the config has no
    /// `listen`. Empty: it chose none.
    pub fn given(&self) -> Vec<SocketAddr> {
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

    /// Takes over, or opens, a listener and UDP sockets for `workers` workers on each address.
    /// Where the machine has no IPv6, `[::]` is left out if others remain. New UDP sockets receive
    /// from now on; beside inherited ones, once [`workers::steer`](crate::workers::steer) lets
    /// them.
    ///
    /// # Errors
    /// The first address that cannot be taken, or there are more sockets than the workers can take.
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

    /// Takes over, or opens, the listener for metrics and health.
    ///
    /// # Errors
    /// The address cannot be taken.
    pub fn open_ops(&mut self, address: SocketAddr) -> Result<TcpListener, OpenError> {
        self.listener(SocketKind::Ops, address)
    }

    /// Takes over, or opens, the listener of the REST API.
    ///
    /// # Errors
    /// The address cannot be taken.
    pub fn open_api(&mut self, address: SocketAddr) -> Result<TcpListener, OpenError> {
        self.listener(SocketKind::Api, address)
    }

    /// Ends the opening: what is still inherited is served by nobody here. Returns another
    /// descriptor of each socket that is, to be offered to a successor.
    ///
    /// # Errors
    /// The service manager passed one that the config does not name: it holds it open, and so its
    /// clients would wait for nothing.
    pub fn finish(self) -> Result<Vec<SharedSocket>, OpenError> {
        for SharedSocket { kind, address, given, fd } in &self.inherited {
            if *given {
                let (kind, address, fd) = (*kind, *address, fd.as_raw_fd());
                return Err(OpenError::Unfit { kind, address, fd });
            }
            tracing::info!(?kind, %address, "a socket is not taken over: no longer configured");
        }
        Ok(self.shared)
    }

    fn listen(&mut self, address: SocketAddr, workers: usize) -> Result<Listening, OpenError> {
        let (inherited, shared) = (self.inherited.len(), self.shared.len());
        for _ in 1..PORTS_TRIED_MAX {
            match self.listen_once(address, workers) {
                // Any port would do, and the one that was free over TCP is not over UDP.
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
        // TCP first: UDP sockets share an address with those of another process of the same user
        // without complaint, and would share its questions too.
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

    /// All inherited UDP sockets of an address, and new ones beside them until every worker has
    /// one. Where none can be bound beside them, workers read from the same one.
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
            // Nobody reads the new ones before all zones are loaded, nor ever if we fail.
            if let Err(error) = port_socket::confine(datagrams[0].as_fd(), inherited) {
                tracing::warn!(%address, %error, "new sockets receive before they are read from");
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

/// Whether a socket serves a configured address. Port 0 is any, and so the one there is.
fn fits(configured: SocketAddr, bound: SocketAddr) -> bool {
    configured.ip() == bound.ip() && [0, bound.port()].contains(&configured.port())
}

/// Whether no socket may be bound beside an inherited one, or not by us.
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
    tracing::warn!(%address, workers, %error, advice, "workers share a UDP socket: it is slower");
}

/// The sockets cannot be had as they are configured.
#[derive(Debug)]
pub enum OpenError {
    /// An address could not be taken.
    Bind { address: SocketAddr, protocol: &'static str, error: io::Error },
    /// The service manager passed a socket that nothing is configured for.
    Unfit { kind: SocketKind, address: SocketAddr, fd: RawFd },
    /// A predecessor had so many more workers that the sockets are too many for ours; this many
    /// could take them.
    TooMany { sockets: usize, least: usize },
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
            Self::Unfit { kind: kind @ (SocketKind::Ops | SocketKind::Api), address, fd } => {
                let section = if *kind == SocketKind::Ops { "ops" } else { "api" };
                write!(
                    f,
                    "descriptor {fd}, passed by the service manager as \"{section}\", is TCP \
                     {address}: set `listen = \"{address}\"` in [{section}], or change the socket \
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
                    write!(f, "; if it is for [ops], it is to say FileDescriptorName=ops")?;
                }
                Ok(())
            }
            Self::TooMany { sockets, least } => write!(
                f,
                "there are {sockets} UDP sockets to take over, and a worker takes {PORTS_MAX}: set \
                 [server] workers = {least} or more, or stop the other server and start anew"
            ),
        }
    }
}

/// What to do when an address cannot be taken.
fn advise(f: &mut fmt::Formatter<'_>, port: u16, error: &io::Error) -> fmt::Result {
    match Errno::from_io_error(error) {
        Some(Errno::ACCESS | Errno::PERM) => write!(
            f,
            "; ports below 1024 take a privilege: grant it by `setcap cap_net_bind_service=+ep` on \
             the binary or by AmbientCapabilities in the systemd unit, or lower the bound by \
             `sysctl net.ipv4.ip_unprivileged_port_start={port}`"
        ),
        Some(Errno::ADDRINUSE) => write!(
            f,
            "; another server is there: `ss -lntup 'sport = :{port}'` tells which; if it keeps one \
             address only, such as 127.0.0.53, list the others in [server] listen"
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
