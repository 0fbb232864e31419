//! The local Unix socket: access, the management API over HTTP, and hot restarts.
//!
//! [`AdminServer`] admits clients and passes HTTP connections to a [`Handler`]. A new process calls
//! [`request_restart()`] to receive the sockets and, once it serves, the open connections.
#![forbid(unsafe_code)]

mod client;
mod client_connection;
mod endpoint;
mod handler;
mod hot_restart;
pub mod limits;
mod message;
mod new_process;
mod old_process;
mod server;
mod wire;

pub use client::AdminError;
pub use endpoint::{Endpoint, EndpointError, SocketOwner};
pub use handler::Handler;
pub use hot_restart::HotRestart;
pub use message::{PROTOCOL, SocketKind};
pub use new_process::{ReceivedConnections, RestartOffer, request_restart, server_process};
pub use old_process::CompletedRestart;
pub use server::{AdminServer, PeerGroups};

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

/// A listening socket, passed to the new process.
#[derive(Debug)]
pub struct SharedSocket {
    /// What it receives.
    pub kind: SocketKind,
    /// The address it is bound to.
    pub address: SocketAddr,
    /// Whether it is from the service manager, which keeps it open.
    pub given: bool,
    /// The socket. Several of one address come in the order in which they were bound.
    pub fd: OwnedFd,
}

impl SharedSocket {
    /// A second descriptor of the socket.
    ///
    /// # Errors
    /// The process has no descriptor left.
    pub fn try_clone(&self) -> io::Result<Self> {
        let Self { kind, address, given, .. } = *self;
        Ok(Self { kind, address, given, fd: self.fd.try_clone()? })
    }
}

/// An open stream connection, between two of our messages.
#[derive(Debug)]
pub struct Connection {
    /// The connected socket.
    pub fd: OwnedFd,
    /// The receiver of replies.
    pub peer: SocketAddr,
    /// The client, which a proxy may have named.
    pub client: SocketAddr,
    /// The peer is a proxy that has not named the client yet.
    pub header_due: bool,
    /// Received but unanswered bytes: the start of a message after its length.
    pub inbox: Vec<u8>,
}

/// The socket to the keeper of announced routes, passed to the new process.
#[derive(Debug)]
pub struct SharedKeeper {
    /// What the keeper was started for. A process that wants anything else starts its own.
    pub terms: Vec<String>,
    /// Whether the addresses are announced.
    pub is_announced: bool,
    /// The token of the server's queries to itself.
    pub token: Vec<u8>,
    /// The server's end of the socket.
    pub socket: OwnedFd,
    /// A pidfd of the process that starts the keeper.
    pub starter: OwnedFd,
}

/// The new process of a hot restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewProcess {
    /// Its process ID from the kernel; `None`: its PID namespace is not visible.
    pub pid: Option<u32>,
    /// The version of its binary.
    pub version: String,
}
