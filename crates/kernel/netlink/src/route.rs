//! Routes.

use crate::Netlink;
use crate::message::{attribute, bytes_of, cut_short, family, ip, word};
use std::io;
use std::net::IpAddr;

// `linux/rtnetlink.h`.
const GET_ROUTE: u16 = 26;
/// Bytes of the header of a message about a route.
const HEADER: usize = 12;
const TO: u16 = 1;
const FROM: u16 = 2;
const LINK: u16 = 4;
const GATEWAY: u16 = 5;
const VIA: u16 = 18;
/// A route to this host itself (`RTN_LOCAL`).
const LOCAL: u8 = 2;

/// A route, as the kernel reports it.
#[derive(Debug, PartialEq, Eq)]
pub struct Route {
    /// It leads to this host itself.
    pub is_local: bool,
    /// The number of the interface.
    pub link: u32,
    /// `None`: the destination is on the link.
    pub gateway: Option<IpAddr>,
}

impl Netlink {
    /// The route of a packet, or its route by an interface.
    ///
    /// # Errors
    /// There is none, or the kernel refuses.
    pub fn route(&mut self, to: IpAddr, from: IpAddr, link: Option<u32>) -> io::Result<Route> {
        let (to, from, link) = (bytes_of(to), bytes_of(from), link.map(u32::to_ne_bytes));
        let mut header = [0; HEADER];
        header[..3].copy_from_slice(&[family(&to), to.len() as u8 * 8, from.len() as u8 * 8]);
        let mut attributes = vec![(TO, &to[..]), (FROM, &from[..])];
        attributes.extend(link.as_ref().map(|index| (LINK, &index[..])));
        read(self.request(GET_ROUTE, 0, &header, &attributes)?)
    }
}

pub(crate) fn read(body: &[u8]) -> io::Result<Route> {
    let (header, attributes) = body.split_at_checked(HEADER).ok_or_else(cut_short)?;
    let is_local = header[7] == LOCAL;
    let link = attribute(attributes, LINK).ok_or_else(cut_short)?;
    // By a gateway of the other family: that family, then the address.
    let via = || attribute(attributes, VIA)?.get(2..);
    let gateway = attribute(attributes, GATEWAY).or_else(via).and_then(ip);
    Ok(Route { is_local, link: word(link, 0)?, gateway })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{message, reply};

    #[test]
    fn attributes_are_written_as_they_are_read() {
        let gateway: IpAddr = "fe80::1".parse().unwrap();
        let via = [&[10, 0][..], &bytes_of(gateway)].concat();
        let attributes = [(TO, &[192, 0, 2][..]), (LINK, &[7, 0, 0, 0]), (VIA, &via)];
        let told = message(24, 0, &[2, 32, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0], &attributes);
        let route = read(reply(&told).unwrap().1).unwrap();
        let link = u32::from_ne_bytes([7, 0, 0, 0]);
        assert_eq!(route, Route { is_local: false, link, gateway: Some(gateway) });
    }
}
