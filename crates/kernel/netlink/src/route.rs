//! Routes, and the rules that choose their tables.

use crate::message::{CREATE, EXCLUSIVE, attribute, bytes_of, cut_short, family, ip, word};
use crate::{ACK, Netlink};
use std::io;
use std::net::IpAddr;

// `linux/rtnetlink.h`, `linux/fib_rules.h`.
const NEW_ROUTE: u16 = 24;
const DELETE_ROUTE: u16 = 25;
const GET_ROUTE: u16 = 26;
const GET_RULE: u16 = 34;
/// Bytes of the header of a message about a route.
const HEADER: usize = 12;
const TO: u16 = 1;
const FROM: u16 = 2;
const LINK: u16 = 4;
const GATEWAY: u16 = 5;
const VIA: u16 = 18;
/// The table of a route and of a rule: 32 bits, while the header has 8.
const TABLE: u16 = 15;
/// A route to other hosts (`RTN_UNICAST`).
const UNICAST: u8 = 1;
/// Destinations are on the link (`RT_SCOPE_LINK`).
const ON_LINK: u8 = 253;
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

/// A route of a table: a prefix that is reached on an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableRoute {
    /// The first address of the prefix.
    pub to: IpAddr,
    /// Bits of the prefix.
    pub len: u8,
    /// The number of the table.
    pub table: u32,
    /// Who added it (`rtm_protocol`).
    pub protocol: u8,
    /// The number of the interface; 0: none, or several.
    pub link: u32,
}

impl Netlink {
    /// Adds a route. It lasts as long as its interface.
    ///
    /// # Errors
    /// The table has a route to this prefix already (`EEXIST`), the interface is down, IPv6 is off
    /// on it, or the kernel refuses.
    pub fn add_route(&mut self, route: &TableRoute) -> io::Result<()> {
        self.change_route(NEW_ROUTE, CREATE | EXCLUSIVE, route)
    }

    /// Removes a route that [`Netlink::add_route`] has added.
    ///
    /// # Errors
    /// There is none, or the kernel refuses.
    pub fn delete_route(&mut self, route: &TableRoute) -> io::Result<()> {
        self.change_route(DELETE_ROUTE, 0, route)
    }

    fn change_route(&mut self, kind: u16, flags: u16, route: &TableRoute) -> io::Result<()> {
        let to = bytes_of(route.to);
        let mut header = [0; HEADER];
        header[..2].copy_from_slice(&[family(&to), route.len]);
        header[5..8].copy_from_slice(&[route.protocol, ON_LINK, UNICAST]);
        let (table, link) = (route.table.to_ne_bytes(), route.link.to_ne_bytes());
        let attributes = [(TO, &to[..]), (TABLE, &table[..]), (LINK, &link[..])];
        self.request(kind, ACK | flags, &header, &attributes).map(drop)
    }

    /// The routes of a table, of IPv4 and IPv6.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn routes(&mut self, table: u32) -> io::Result<Vec<TableRoute>> {
        let mut routes = Vec::new();
        for family in FAMILIES {
            let mut header = [0; HEADER];
            header[0] = family as u8;
            routes.extend(self.dump(GET_ROUTE, &header, read_of_table)?.into_iter().flatten());
        }
        routes.retain(|route| route.table == table);
        Ok(routes)
    }

    /// The tables that rules look up, of IPv4 and IPv6.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn rule_tables(&mut self) -> io::Result<Vec<u32>> {
        let mut tables = Vec::new();
        for family in FAMILIES {
            let mut header = [0; HEADER];
            header[0] = family as u8;
            tables.extend(self.dump(GET_RULE, &header, read_rule)?);
        }
        Ok(tables)
    }

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

const FAMILIES: [i32; 2] = [libc::AF_INET, libc::AF_INET6];

/// `None`: it is of another family than IP.
pub(crate) fn read_of_table(body: &[u8]) -> io::Result<Option<TableRoute>> {
    let (header, attributes) = body.split_at_checked(HEADER).ok_or_else(cut_short)?;
    let to = match i32::from(header[0]) {
        libc::AF_INET => IpAddr::from([0; 4]),
        libc::AF_INET6 => IpAddr::from([0; 16]),
        _ => return Ok(None),
    };
    let number = |kind| attribute(attributes, kind).map(|value| word(value, 0)).transpose();
    Ok(Some(TableRoute {
        // The default route has none.
        to: attribute(attributes, TO).and_then(ip).unwrap_or(to),
        len: header[1],
        table: number(TABLE)?.unwrap_or(u32::from(header[4])),
        protocol: header[5],
        link: number(LINK)?.unwrap_or_default(),
    }))
}

/// The table that a rule looks up; 0: none.
pub(crate) fn read_rule(body: &[u8]) -> io::Result<u32> {
    let (header, attributes) = body.split_at_checked(HEADER).ok_or_else(cut_short)?;
    let table = attribute(attributes, TABLE).map(|value| word(value, 0)).transpose()?;
    Ok(table.unwrap_or(u32::from(header[4])))
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

    #[test]
    fn rules_look_up_the_main_table_and_its_routes_are_listed() {
        let mut netlink = Netlink::open().unwrap();
        let tables = netlink.rule_tables().unwrap();
        assert!(tables.contains(&254) && tables.contains(&255), "{tables:?}");
        let local = netlink.routes(255).unwrap();
        let is_loopback = |route: &TableRoute| route.to.is_loopback() && route.link != 0;
        assert!(local.iter().any(is_loopback), "{local:?}");
        assert!(local.iter().all(|route| route.table == 255), "{local:?}");
    }
}
