//! A packet, its client, and its verdict.
//!
//! A port lends packets to the application for one burst. The application writes the reply into the
//! query's own buffer and sets the verdict. The port sends the reply.
#![no_std]

mod checksum;
pub mod frame;
mod prefetch;
pub mod proxy;
pub mod udp;

pub use prefetch::prefetch;

use core::net::{IpAddr, SocketAddr};

/// The most packets in one burst. A port may have a lower maximum.
pub const BURST_MAX: usize = 64;

/// One datagram's payload, or one stream message, lent by a port.
#[derive(Debug)]
pub struct Packet<'a> {
    /// The payload, and behind it room for the reply.
    pub buf: &'a mut [u8],
    /// Bytes of the message in `buf`: the query, then the reply. At most `buf.len()`.
    pub len: usize,
    /// The sender, to which the reply goes.
    pub peer: SocketAddr,
    /// What decides the answer besides the message.
    pub context: QueryContext,
    /// Where the packet was received, to send a deferred reply.
    pub origin: Ingress,
    /// Set by the application; [`DropReason::Undecided`] until then.
    pub verdict: Verdict,
    /// The number of the client's network; 0: none, or not looked up.
    pub network: u16,
}

impl<'a> Packet<'a> {
    /// A received packet without a verdict.
    #[inline]
    pub fn new(buf: &'a mut [u8], len: usize, peer: SocketAddr, transport: Transport) -> Self {
        let (origin, verdict) = (Ingress::default(), Verdict::Drop(DropReason::Undecided));
        let context = QueryContext::new(peer, transport);
        Self { buf, len, peer, context, origin, verdict, network: 0 }
    }

    /// The message, without the room behind it.
    #[inline]
    pub fn message(&self) -> &[u8] {
        &self.buf[..self.len]
    }
}

/// What decides the answer to a query besides its message: routing, the cache, the limits and the
/// reply read it. It is complete once the query is admitted, and stays with a deferred query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueryContext {
    /// The client: the sender, or the address that a trusted proxy reports.
    pub client: SocketAddr,
    /// The transport, which bounds the length of the reply.
    pub transport: Transport,
    /// The view that answers.
    pub view: View,
    /// Where the client is.
    pub location: LocationNumber,
}

impl QueryContext {
    /// The context of a query that its client sent itself, in the default view, from a location
    /// that is not known.
    #[inline]
    pub const fn new(client: SocketAddr, transport: Transport) -> Self {
        Self { client, transport, view: View::DEFAULT, location: LocationNumber::UNKNOWN }
    }
}

/// The number of a view: zones, cache entries and reply rates of one view do not concern another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct View(pub u8);

impl View {
    /// The view of every query that no rule gives another.
    pub const DEFAULT: Self = Self(0);
}

/// The number of a client's location among those of the settings, from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LocationNumber(pub u16);

impl LocationNumber {
    /// No rule says where the client is.
    pub const UNKNOWN: Self = Self(0);
}

/// Where a packet was received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ingress {
    /// The number of the thread's port, or of its connection.
    pub place: u64,
    /// The destination address, if the port has more than one.
    pub local: Option<LocalAddress>,
}

/// A local address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalAddress {
    /// The address.
    pub ip: IpAddr,
    /// The number of the interface, for link-local addresses; for ports with frames, the number of
    /// the stored link header.
    pub interface: u32,
}

/// The transport of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// One message in a datagram. The client bounds the length of the reply.
    Datagram,
    /// A message behind its length in a stream: replies of up to 65,535 bytes.
    Stream,
}

/// What happens to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The first `len` bytes of the buffer are sent to the peer.
    Reply,
    /// The reply is sent later, after an upstream server has replied.
    Deferred,
    /// A handler outside the data plane decides the reply, which is sent later.
    Control,
    /// The reply has many messages, as a transfer has (RFC 5936): the connection is passed on with
    /// the message, which is not answered here.
    Stream,
    /// Nothing is sent, for this reason.
    Drop(DropReason),
}

/// Why a packet was not answered. The discriminant is the index of its counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum DropReason {
    /// The application set no verdict: a defect.
    Undecided,
    /// Shorter than a DNS header, so there is no ID to reply to.
    Short,
    /// QR is set: answering a response could start a loop (RFC 1035 §4.1.1).
    Response,
    /// The source port is 0, or the address is not a host: no reply would arrive.
    NoPeer,
    /// The kernel reported a datagram larger than the buffer.
    Oversize,
    /// The device did not accept the reply.
    Unsent,
    /// The access list does not contain the client, and the policy is to drop.
    Denied,
    /// The client exceeds its query rate.
    RateLimited,
    /// Response rate limiting: this reply was sent to the client's network too often.
    ResponseLimited,
    /// A proxy's header is invalid or missing.
    ProxyHeader,
    /// The frame has no readable datagram.
    Malformed,
    /// A checksum is wrong, or missing in IPv6.
    Checksum,
    /// The source port is that of a service that answers everything: see [`check_source_port`].
    SourcePort,
    /// The message is for a handler outside the data plane, which has no room for it.
    ControlFull,
    /// Handling the message panicked, a defect, and it is none that can be answered with SERVFAIL.
    Panicked,
}

/// Whether a datagram from this port is answered.
///
/// echo (7), daytime (13), qotd (17), chargen (19), time (37) and NTP (123) answer any packet, also
/// a DNS response. With such a spoofed source, an attacker could make the two servers exchange
/// datagrams, or flood that host. No resolver uses these ports: they are below 1024, where only 53
/// is a resolver's.
///
/// # Errors
/// [`DropReason::NoPeer`] for port 0, [`DropReason::SourcePort`] for these ports.
#[inline]
pub const fn check_source_port(port: u16) -> Result<(), DropReason> {
    match port {
        0 => Err(DropReason::NoPeer),
        7 | 13 | 17 | 19 | 37 | 123 => Err(DropReason::SourcePort),
        _ => Ok(()),
    }
}

impl DropReason {
    /// The number of reasons.
    pub const COUNT: usize = 15;

    /// Every reason, in the order of the counters.
    pub const ALL: [DropReason; Self::COUNT] = [
        DropReason::Undecided,
        DropReason::Short,
        DropReason::Response,
        DropReason::NoPeer,
        DropReason::Oversize,
        DropReason::Unsent,
        DropReason::Denied,
        DropReason::RateLimited,
        DropReason::ResponseLimited,
        DropReason::ProxyHeader,
        DropReason::Malformed,
        DropReason::Checksum,
        DropReason::SourcePort,
        DropReason::ControlFull,
        DropReason::Panicked,
    ];

    /// The name in metrics and logs.
    pub const fn name(self) -> &'static str {
        match self {
            DropReason::Undecided => "undecided",
            DropReason::Short => "short",
            DropReason::Response => "response",
            DropReason::NoPeer => "no_peer",
            DropReason::Oversize => "oversize",
            DropReason::Unsent => "unsent",
            DropReason::Denied => "denied",
            DropReason::RateLimited => "rate_limited",
            DropReason::ResponseLimited => "response_limited",
            DropReason::ProxyHeader => "proxy_header",
            DropReason::Malformed => "malformed",
            DropReason::Checksum => "checksum",
            DropReason::SourcePort => "source_port",
            DropReason::ControlFull => "control_full",
            DropReason::Panicked => "panicked",
        }
    }
}

/// Packets are indexed by number: a size that is not a power of two costs instructions for each.
const _: () = assert!(size_of::<Packet<'_>>() == 128);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drop_reasons_are_their_own_index() {
        for (index, reason) in DropReason::ALL.iter().enumerate() {
            assert_eq!(index, *reason as usize, "{}", reason.name());
        }
    }

    #[test]
    fn source_ports_of_services_that_answer_everything_are_refused() {
        assert_eq!(check_source_port(0), Err(DropReason::NoPeer));
        for port in 1..=u16::MAX {
            let refused = [7, 13, 17, 19, 37, 123].contains(&port);
            let expected = if refused { Err(DropReason::SourcePort) } else { Ok(()) };
            assert_eq!(check_source_port(port), expected, "{port}");
        }
    }
}
