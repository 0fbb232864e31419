//! A sample: one query with its outcome, and its form in a ring.
use packet::{DropReason, Transport};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::Duration;

/// Bytes in front of the query.
pub const HEAD_LEN: usize = 64;
/// Where a reason to drop would be, for a query that was replied to.
const REPLIED: u8 = u8::MAX;

/// One query and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample<'a> {
    /// One query in so many was picked.
    pub one_in: u32,
    /// When it was read, since 1970.
    pub unix: Duration,
    /// How long its burst took to be answered, from when it was read.
    pub took: Duration,
    /// Whom it was answered for.
    pub client: SocketAddr,
    /// Who sent it: the client, or a proxy.
    pub peer: SocketAddr,
    /// How it came.
    pub transport: Transport,
    /// The query as it came.
    pub query: &'a [u8],
    /// What became of it.
    pub outcome: QueryOutcome<'a>,
}

/// The outcome of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryOutcome<'a> {
    /// This was replied.
    Reply(&'a [u8]),
    /// Nothing was replied, and this is why.
    Dropped(DropReason),
}

impl<'a> Sample<'a> {
    /// What stands in front of the query; the reply, if there is one, stands behind it.
    #[inline]
    pub fn head(&self) -> [u8; HEAD_LEN] {
        let (reply, reason) = match self.outcome {
            QueryOutcome::Reply(reply) => (reply, REPLIED),
            QueryOutcome::Dropped(reason) => (&[][..], reason as u8),
        };
        let mut head = [0; HEAD_LEN];
        let mut at = 0;
        let mut put = |bytes: &[u8]| {
            head[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        put(&(self.unix.as_nanos() as u64).to_le_bytes());
        put(&(self.took.as_nanos() as u64).to_le_bytes());
        put(&self.one_in.to_le_bytes());
        put(&(self.query.len() as u16).to_le_bytes());
        put(&(reply.len() as u16).to_le_bytes());
        put(&self.client.port().to_le_bytes());
        put(&self.peer.port().to_le_bytes());
        put(&[u8::from(self.transport == Transport::Stream), reason, 0, 0]);
        put(&bytes(self.client.ip()));
        put(&bytes(self.peer.ip()));
        head
    }

    /// Reads an event; nothing when it is none of ours.
    pub fn read(event: &'a [u8]) -> Option<Self> {
        let mut rest = event;
        let nanos = [take(&mut rest)?, take(&mut rest)?];
        let [unix, took] = nanos.map(|bytes| Duration::from_nanos(u64::from_le_bytes(bytes)));
        let one_in = u32::from_le_bytes(take(&mut rest)?);
        let shorts = [take(&mut rest)?, take(&mut rest)?, take(&mut rest)?, take(&mut rest)?];
        let [query_len, reply_len, client, peer] = shorts.map(u16::from_le_bytes);
        let [stream, reason, _, _] = take(&mut rest)?;
        let ips = [take::<16>(&mut rest)?, take(&mut rest)?];
        let [client_ip, peer_ip] = ips.map(|bytes| Ipv6Addr::from(bytes).to_canonical());
        let query_len = usize::from(query_len);
        let query = rest.get(..query_len)?;
        let reply = rest.get(query_len.next_multiple_of(8)..)?.get(..reply_len.into())?;
        Some(Self {
            one_in,
            unix,
            took,
            client: SocketAddr::new(client_ip, client),
            peer: SocketAddr::new(peer_ip, peer),
            transport: if stream == 0 { Transport::Datagram } else { Transport::Stream },
            query,
            outcome: match reason {
                REPLIED => QueryOutcome::Reply(reply),
                reason => QueryOutcome::Dropped(*DropReason::ALL.get(usize::from(reason))?),
            },
        })
    }
}

/// Takes the next bytes away from the front.
fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (bytes, behind) = rest.split_first_chunk()?;
    *rest = behind;
    Some(*bytes)
}

/// An address in the space of IPv6. Where a socket serves both families, IPv4 clients look like
/// this anyway.
fn bytes(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What a ring makes of it.
    fn event(sample: &Sample<'_>) -> Vec<u8> {
        let mut event = sample.head().to_vec();
        event.extend_from_slice(sample.query);
        event.resize(event.len().next_multiple_of(8), 0);
        if let QueryOutcome::Reply(reply) = sample.outcome {
            event.extend_from_slice(reply);
            event.resize(event.len().next_multiple_of(8), 0);
        }
        event
    }

    proptest! {
        #[test]
        fn written_sample_is_read(
            (one_in, unix, took) in (1u32.., 0u64..1 << 62, 0u64..1 << 40),
            client: SocketAddr, peer: SocketAddr, stream: bool,
            query in prop::collection::vec(any::<u8>(), 0..600),
            reply in prop::collection::vec(any::<u8>(), 0..600),
            reason in prop::option::of(0..DropReason::COUNT),
        ) {
            let bare = |a: SocketAddr| SocketAddr::new(a.ip().to_canonical(), a.port());
            let sample = Sample {
                one_in,
                unix: Duration::from_nanos(unix),
                took: Duration::from_nanos(took),
                client: bare(client),
                peer: bare(peer),
                transport: if stream { Transport::Stream } else { Transport::Datagram },
                query: &query,
                outcome: match reason {
                    Some(reason) => QueryOutcome::Dropped(DropReason::ALL[reason]),
                    None => QueryOutcome::Reply(&reply),
                },
            };
            let event = event(&sample);
            prop_assert_eq!(Sample::read(&event), Some(sample));
        }

        #[test]
        fn anything_may_be_read(event in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Sample::read(&event);
        }
    }
}
