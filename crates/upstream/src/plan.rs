//! Who is asked about what, and how long what they say is kept.
use crate::loops::Marks;
use crate::tls::Trust;
use answer::Lifetimes;
use forward::Means;
use rustls::pki_types::ServerName;
use std::net::SocketAddr;
use wire::{Name, NameBuf};

/// What a thread has to know.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Whom to ask, by the number of the group.
    pub groups: Vec<Servers>,
    /// Octets of the thread's share of the cache.
    pub cache_len: usize,
    /// How long answers are kept.
    pub lifetimes: Lifetimes,
    /// Seconds that an answer which nobody could renew is given after its end; 0: never.
    pub stale_max: u32,
    /// Seconds that a failure is remembered at first, 1 to
    /// [`FAILURE_TTL_MAX`](crate::limits::FAILURE_TTL_MAX).
    pub failure_ttl: u32,
    /// Whose certificates are believed; nothing: those of nobody.
    pub trust: Option<Trust>,
    /// What tells whether they lead back here, of as many servers as there are in all groups.
    pub marks: Marks,
}

impl Plan {
    /// Whether a name is the group's, and not of one with a longer suffix.
    pub(crate) fn is_of(&self, group: usize, name: Name<'_>) -> bool {
        let all = self.groups.iter().enumerate();
        let about = all.filter(|(_, servers)| name.is_within(servers.suffix.as_name()));
        let longest = about.max_by_key(|(_, servers)| servers.suffix.as_name().len());
        longest.is_some_and(|(number, _)| number == group)
    }
}

/// Servers that are asked for the names at and below a suffix.
#[derive(Clone, Debug)]
pub struct Servers {
    /// The suffix, in lower case.
    pub suffix: NameBuf,
    /// Their addresses, at most [`GROUP_LEN_MAX`](forward::limits::GROUP_LEN_MAX).
    pub addresses: Vec<Address>,
    /// Whether letters of questions change their case at random.
    pub mixes_case: bool,
    /// Whether answers are kept.
    pub caches: bool,
}

/// Where a server is, and how it is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Its address and port.
    pub at: SocketAddr,
    /// How it is asked there.
    pub over: Over,
}

/// What carries questions to a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Over {
    /// UDP, and TCP for answers that are too long for it.
    Udp,
    /// TCP (RFC 7766).
    Tcp,
    /// TLS (RFC 7858), with a certificate of this name or address (RFC 8310 §8.1), and nothing
    /// else.
    Tls(ServerName<'static>),
}

impl From<SocketAddr> for Address {
    fn from(at: SocketAddr) -> Self {
        Self { at, over: Over::Udp }
    }
}

impl Address {
    pub(crate) fn means(&self) -> Means {
        match self.over {
            Over::Udp => Means::Datagrams,
            Over::Tcp => Means::Streams,
            Over::Tls(_) => Means::Enciphered,
        }
    }
}
