//! Adjacent hosts.

use crate::message::{CREATE, attribute, bytes_of, family, half};
use crate::{ACK, LinkAddress, Netlink};
use rustix::io::Errno;
use std::io;
use std::net::IpAddr;

// `linux/rtnetlink.h`, `linux/neighbour.h`.
const NEW_NEIGHBOR: u16 = 28;
const GET_NEIGHBOR: u16 = 30;
/// Bytes of the header of a message about a neighbor.
const HEADER: usize = 12;
const IP: u16 = 1;
const ADDRESS: u16 = 2;
/// Have the kernel resolve the address as if it had something to send (`NTF_USE`).
const USE: u8 = 1;
/// States in which a neighbor's address is known: REACHABLE, STALE, DELAY, PROBE, NOARP and
/// PERMANENT.
const KNOWN: u16 = 0x02 | 0x04 | 0x08 | 0x10 | 0x40 | 0x80;

impl Netlink {
    /// A neighbor's link address; `None`: it is not known.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn neighbor(&mut self, link: u32, ip: IpAddr) -> io::Result<Option<LinkAddress>> {
        let ip = bytes_of(ip);
        match self.request(GET_NEIGHBOR, 0, &header(link, &ip), &[(IP, &ip)]) {
            Ok(body) => Ok(read(body)),
            Err(why) if Errno::from_io_error(&why) == Some(Errno::NOENT) => Ok(None),
            Err(why) => Err(why),
        }
    }

    /// Has the kernel resolve a neighbor's link address. This restarts a failed resolution and
    /// leaves a running one alone. A permanent entry would not stay permanent: this is for unknown
    /// ones only.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn resolve_neighbor(&mut self, link: u32, ip: IpAddr) -> io::Result<()> {
        let ip = bytes_of(ip);
        let mut header = header(link, &ip);
        header[10] = USE;
        self.request(NEW_NEIGHBOR, ACK | CREATE, &header, &[(IP, &ip)]).map(drop)
    }
}

fn header(link: u32, ip: &[u8]) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[0] = family(ip);
    header[4..8].copy_from_slice(&link.to_ne_bytes());
    header
}

pub(crate) fn read(body: &[u8]) -> Option<LinkAddress> {
    let (header, attributes) = body.split_at_checked(HEADER)?;
    let address = attribute(attributes, ADDRESS)?.try_into().ok()?;
    (half(header, 8).ok()? & KNOWN != 0).then_some(address)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{message, reply};

    #[test]
    fn neighbor_entries_count_only_in_valid_states() {
        let link = [2, 0, 0, 0, 0, 9];
        let of = |state: u16| {
            let mut header = [0; HEADER];
            header[8..10].copy_from_slice(&state.to_ne_bytes());
            let told = message(NEW_NEIGHBOR, 0, &header, &[(ADDRESS, &link)]);
            read(reply(&told).unwrap().1)
        };
        assert_eq!([of(0x02), of(0x80)], [Some(link); 2], "reachable, permanent");
        assert_eq!([of(0), of(0x01), of(0x20)], [None; 3], "none, incomplete, failed");
    }
}
