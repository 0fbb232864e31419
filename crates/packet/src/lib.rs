//! A packet, who sent it, and what becomes of it.
//!
//! A port lends packets to the application for the length of one burst. The application writes the
//! reply into the query's own buffer and sets the verdict; the port does the rest.
#![no_std]

mod checksum;
pub mod frame;
mod prefetch;
pub mod proxy;
pub mod udp;

pub use prefetch::prefetch;

use core::net::{IpAddr, SocketAddr};

/// The most packets one burst may hold. A port may hold fewer, never more.
pub const BURST_MAX: usize = 64;

/// One datagram's payload, or one stream message, on loan from a port.
#[derive(Debug)]
pub struct Packet<'a> {
    /// The payload, and behind it the room a reply may grow into.
    pub buf: &'a mut [u8],
    /// How many octets of `buf` are the message: the query's on the way in, the reply's on the way
    /// out. At most `buf.len()`.
    pub len: usize,
    /// Who sent it, and whom a reply goes to.
    pub peer: SocketAddr,
    /// Whom it is answered for: the peer, or who a proxy in front of us says it forwards.
    pub client: SocketAddr,
    /// How it came: what a reply may weigh depends on it.
    pub transport: Transport,
    /// Where it came in, so that a reply that is put off finds its way back.
    pub origin: Origin,
    /// What the application decided. [`Drop::Undecided`] until it does.
    pub verdict: Verdict,
}

impl<'a> Packet<'a> {
    /// A packet as a port hands it out: nothing decided yet.
    #[inline]
    pub fn new(buf: &'a mut [u8], len: usize, peer: SocketAddr, transport: Transport) -> Self {
        let (origin, verdict) = (Origin::default(), Verdict::Drop(Drop::Undecided));
        Self { buf, len, peer, client: peer, transport, origin, verdict }
    }

    /// The message, without the room behind it.
    #[inline]
    pub fn message(&self) -> &[u8] {
        &self.buf[..self.len]
    }
}

/// Where a packet came in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The number of the thread's port, or of its connection.
    pub place: u64,
    /// The address it was sent to, where the port has more than one.
    pub local: Option<Local>,
}

/// One of our own addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Local {
    /// The address.
    pub ip: IpAddr,
    /// The number of the interface, for addresses that mean nothing without it; where the port
    /// carries frames, what it knows the way back by.
    pub interface: u32,
}

/// How a message came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// One message a datagram: replies are bounded by what the client can receive.
    Datagram,
    /// Behind its length in a stream: replies of up to 65,535 octets.
    Stream,
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The first `len` octets of the buffer go back to the peer.
    Reply,
    /// Nothing is sent yet: the reply is put off until somebody else has answered.
    Later,
    /// Nothing is sent, and this is why.
    Drop(Drop),
}

/// Why a packet was not answered. The discriminant is the counter's index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Drop {
    /// The application set no verdict: a defect, kept visible.
    Undecided,
    /// Shorter than a DNS header: there is no ID to answer to.
    Short,
    /// QR is set: a response; answering one could start a loop (RFC 1035 §4.1.1).
    Response,
    /// The sender's port is 0: nobody can receive an answer there.
    NoPeer,
    /// The kernel told that the datagram was larger than the buffer.
    Oversize,
    /// The device did not take the reply.
    Unsent,
    /// The access list does not let this client ask, and it is not told so.
    Denied,
    /// The client asks more than it may.
    RateLimited,
    /// The client's network was sent this reply too often (response rate limiting).
    ResponseLimited,
    /// A proxy's header is broken or missing.
    ProxyHeader,
    /// The frame holds no datagram that can be read.
    Malformed,
    /// A checksum is wrong, or missing where IPv6 asks for one.
    Checksum,
}

impl Drop {
    /// How many reasons there are.
    pub const COUNT: usize = 12;

    /// Every reason, in the order of the counters.
    pub const ALL: [Drop; Self::COUNT] = [
        Drop::Undecided,
        Drop::Short,
        Drop::Response,
        Drop::NoPeer,
        Drop::Oversize,
        Drop::Unsent,
        Drop::Denied,
        Drop::RateLimited,
        Drop::ResponseLimited,
        Drop::ProxyHeader,
        Drop::Malformed,
        Drop::Checksum,
    ];

    /// The name used in metrics and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Drop::Undecided => "undecided",
            Drop::Short => "short",
            Drop::Response => "response",
            Drop::NoPeer => "no_peer",
            Drop::Oversize => "oversize",
            Drop::Unsent => "unsent",
            Drop::Denied => "denied",
            Drop::RateLimited => "rate_limited",
            Drop::ResponseLimited => "response_limited",
            Drop::ProxyHeader => "proxy_header",
            Drop::Malformed => "malformed",
            Drop::Checksum => "checksum",
        }
    }
}

/// Bursts are walked by a packet's number: where its size is no power of two, that costs
/// instructions for each.
const _: () = assert!(size_of::<Packet<'_>>() == 128);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drop_reasons_are_their_own_index() {
        for (index, reason) in Drop::ALL.iter().enumerate() {
            assert_eq!(index, *reason as usize, "{}", reason.name());
        }
    }
}
