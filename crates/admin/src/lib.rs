//! The local socket a running server is told and asked through, and handed over by.
//!
//! A unix socket, a JSON object a line each way. [`Client`] asks for the status or a reload, or has
//! the threads that answer do something; [`take_over()`] asks for everything: the sockets first,
//! and once the successor serves on them, the open connections. The server's side is [`Server`],
//! which calls a [`Handler`].
#![forbid(unsafe_code)]

mod client;
mod endpoint;
mod hand_over;
mod hex;
pub mod limits;
mod message;
mod server;
mod take_over;
mod wire;

pub use client::{AskError, Client};
pub use control::command::{
    Command, Credential, CredentialKind, Kept, Outcome, Scope, ThreadFlushed, ThreadKept,
    TokenDone, TokenRequest,
};
pub use endpoint::{Endpoint, EndpointError, Owner};
pub use hand_over::HandedOver;
pub use message::{Kind, PROTOCOL, Reloaded, ZoneChange};
pub use server::{Handler, PeerGroups, Server};
pub use take_over::{Offer, Taken, take_over};

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

/// A socket that a server listens on, and hands to its successor.
#[derive(Debug)]
pub struct Shared {
    /// What comes in by it.
    pub kind: Kind,
    /// The address it is bound to.
    pub address: SocketAddr,
    /// Whether the service manager gave it. It stays open there when we close it.
    pub given: bool,
    /// The socket. Of one address, they come in the order in which they were bound.
    pub fd: OwnedFd,
}

impl Shared {
    /// Another descriptor of the same socket.
    ///
    /// # Errors
    /// The process has no descriptor left.
    pub fn try_clone(&self) -> io::Result<Self> {
        let Self { kind, address, given, .. } = *self;
        Ok(Self { kind, address, given, fd: self.fd.try_clone()? })
    }
}

/// An open stream connection, between two messages of ours.
#[derive(Debug)]
pub struct Connection {
    /// The connected socket.
    pub fd: OwnedFd,
    /// Whom the replies go to.
    pub peer: SocketAddr,
    /// Whom it is answered for; a proxy may have set it apart.
    pub client: SocketAddr,
    /// The peer is a proxy that has not said yet whom it forwards.
    pub header_due: bool,
    /// What was received and not answered: the beginning of a message, with its length in front.
    pub inbox: Vec<u8>,
}

/// Who takes over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Successor {
    /// Its process, as the kernel tells; nothing: it is in a PID namespace we do not see.
    pub pid: Option<u32>,
    /// The version of its binary.
    pub version: String,
}
