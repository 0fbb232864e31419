//! Who is asked about what, and how long what they say is kept.
use answer::Lifetimes;
use std::net::SocketAddr;
use wire::NameBuf;

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
}

/// Servers that are asked for the names at and below a suffix.
#[derive(Clone, Debug)]
pub struct Servers {
    /// The suffix, in lower case.
    pub suffix: NameBuf,
    /// Their addresses, at most [`GROUP_LEN_MAX`](forward::limits::GROUP_LEN_MAX).
    pub addresses: Vec<SocketAddr>,
    /// Whether letters of questions change their case at random.
    pub mixes_case: bool,
    /// Whether answers are kept.
    pub caches: bool,
}
