//! Interfaces.

use crate::message::{attribute, cut_short, half, word};
use crate::{ACK, Netlink};
use rustix::io::Errno;
use std::io;

// `linux/rtnetlink.h`, `linux/if_link.h`.
/// Asks for an interface.
pub const GET_LINK: u16 = 18;
/// Changes an interface.
pub const SET_LINK: u16 = 19;
/// Bytes of the header of a message about an interface.
const HEADER: usize = 16;
const ADDRESS: u16 = 1;
const NAME: u16 = 3;
const MTU: u16 = 4;
const UNDER: u16 = 5;
const INFO: u16 = 18;
const INFO_KIND: u16 = 1;
const INFO_DATA: u16 = 2;
const VLAN_TAG: u16 = 1;
/// The interface under it is in another network namespace.
const UNDER_NAMESPACE: u16 = 37;
/// A device of Ethernet (`ARPHRD_ETHER`).
const ETHERNET: u16 = 1;
/// The interface is up (`IFF_UP`).
const UP: u32 = 1;
/// Bytes of a name, with the byte that ends it (`IFNAMSIZ`).
const NAME_LEN: usize = 16;

/// An Ethernet address.
pub type LinkAddress = [u8; 6];

/// What identifies an interface.
#[derive(Clone, Copy, Debug)]
pub enum LinkId<'n> {
    /// Its number.
    Index(u32),
    /// Its name.
    Name(&'n str),
}

/// An interface, as the kernel reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its number.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// `None`: it does not carry Ethernet frames.
    pub address: Option<LinkAddress>,
    /// The most bytes of an IP packet on it.
    pub mtu: u32,
    /// It is one end of a virtual wire (veth).
    pub peer: Option<Peer>,
    /// It is a VLAN of another interface.
    pub vlan: Option<Vlan>,
}

/// The other end of a virtual wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its number, in its network namespace.
    pub index: u32,
    /// Its network namespace, as this one numbers others; `None`: it is this one.
    pub namespace: Option<u32>,
}

/// A VLAN of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vlan {
    /// The number of the interface under it, in the same network namespace.
    pub under: u32,
    /// Its tag.
    pub tag: u16,
}

impl Netlink {
    /// An interface.
    ///
    /// # Errors
    /// It does not exist, or the kernel refuses.
    pub fn link(&mut self, id: LinkId<'_>) -> io::Result<Link> {
        let (index, name) = match id {
            LinkId::Index(index) => (index, None),
            LinkId::Name(name) => (0, Some(name)),
        };
        let absent = || {
            let what = name.map_or(format!("number {index}"), |name| format!("{name:?}"));
            let message = format!("there is no interface {what} (`ip link` lists them)");
            io::Error::new(io::ErrorKind::NotFound, message)
        };
        let text = match name.map(str::as_bytes) {
            Some(name) if name.contains(&0) || name.len() >= NAME_LEN => return Err(absent()),
            name => name.map(|name| [name, &[0]].concat()),
        };
        let attributes: Vec<_> = text.iter().map(|text| (NAME, &text[..])).collect();
        match self.request(GET_LINK, 0, &link_header(index), &attributes) {
            Ok(body) => read(body),
            Err(why) if Errno::from_io_error(&why) == Some(Errno::NODEV) => Err(absent()),
            Err(why) => Err(why),
        }
    }

    /// Sets an interface up.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn set_up(&mut self, index: u32) -> io::Result<()> {
        let mut header = link_header(index);
        header[8..12].copy_from_slice(&UP.to_ne_bytes());
        header[12..].copy_from_slice(&UP.to_ne_bytes());
        self.request(SET_LINK, ACK, &header, &[]).map(drop)
    }

    /// All interfaces.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn links(&mut self) -> io::Result<Vec<Link>> {
        self.dump(GET_LINK, &link_header(0), read)
    }
}

/// The header of a message about an interface.
pub fn link_header(index: u32) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[4..8].copy_from_slice(&index.to_ne_bytes());
    header
}

pub(crate) fn read(body: &[u8]) -> io::Result<Link> {
    let (header, attributes) = body.split_at_checked(HEADER).ok_or_else(cut_short)?;
    let name = attribute(attributes, NAME).ok_or_else(cut_short)?;
    let name = String::from_utf8_lossy(name).trim_end_matches('\0').to_owned();
    let address = attribute(attributes, ADDRESS).and_then(|address| address.try_into().ok());
    let address = address.filter(|_| half(header, 2).is_ok_and(|kind| kind == ETHERNET));
    let mtu = attribute(attributes, MTU).map_or(Ok(0), |mtu| word(mtu, 0))?;
    let (peer, vlan) = (peer(attributes), vlan(attributes));
    Ok(Link { index: word(header, 4)?, name, address, mtu, peer, vlan })
}

fn peer(attributes: &[u8]) -> Option<Peer> {
    let kind = attribute(attribute(attributes, INFO)?, INFO_KIND)?;
    let index = word(attribute(attributes, UNDER)?, 0).ok()?;
    let namespace = attribute(attributes, UNDER_NAMESPACE).and_then(|id| word(id, 0).ok());
    kind.starts_with(b"veth").then_some(Peer { index, namespace })
}

fn vlan(attributes: &[u8]) -> Option<Vlan> {
    let info = attribute(attributes, INFO)?;
    let is_here = attribute(attributes, UNDER_NAMESPACE).is_none();
    if !is_here || !attribute(info, INFO_KIND)?.starts_with(b"vlan\0") {
        return None;
    }
    let under = word(attribute(attributes, UNDER)?, 0).ok()?;
    let tag = half(attribute(attribute(info, INFO_DATA)?, VLAN_TAG)?, 0).ok()?;
    Some(Vlan { under, tag })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::attributes_of;

    #[test]
    fn loopback_is_an_interface_without_an_ethernet_address() {
        let mut netlink = Netlink::open().unwrap();
        let lo = netlink.link(LinkId::Name("lo")).unwrap();
        assert_eq!((lo.name.as_str(), lo.address, lo.vlan), ("lo", None, None));
        assert!(lo.mtu >= 1_500, "{lo:?}");
        assert_eq!(netlink.link(LinkId::Index(lo.index)).unwrap(), lo);
        assert!(netlink.links().unwrap().contains(&lo));
    }

    #[test]
    fn absent_interface_is_named() {
        let mut netlink = Netlink::open().unwrap();
        for name in ["nosuch0", "a\0b", "a-name-of-sixteen-bytes"] {
            let error = netlink.link(LinkId::Name(name)).unwrap_err().to_string();
            assert!(error.contains(&format!("{name:?} (`ip link`")), "{error}");
        }
        let error = netlink.link(LinkId::Index(u32::MAX >> 1)).unwrap_err().to_string();
        assert!(error.contains("number 2147483647"), "{error}");
        assert!(netlink.link(LinkId::Name("lo")).is_ok(), "the socket still answers");
    }

    #[test]
    fn end_of_a_virtual_wire_names_the_other_one_and_its_namespace() {
        let of = |kind: &[u8], more: &[(u16, &[u8])]| {
            let info = attributes_of(&[(INFO_KIND, kind)]);
            let all = [(NAME, &b"v0\0"[..]), (UNDER, &[3, 0, 0, 0]), (INFO, &info)];
            let all = attributes_of(&[&all, more].concat());
            read(&[&link_header(9)[..], &all].concat()).unwrap().peer
        };
        let there = (UNDER_NAMESPACE, &[7, 0, 0, 0][..]);
        assert_eq!(of(b"veth\0", &[there]), Some(Peer { index: 3, namespace: Some(7) }));
        assert_eq!(of(b"veth\0", &[]), Some(Peer { index: 3, namespace: None }));
        assert_eq!(of(b"vlan\0", &[there]), None);
    }

    #[test]
    fn vlan_has_a_tag_and_an_interface_under_it_in_this_namespace() {
        let tag = attributes_of(&[(VLAN_TAG, &7u16.to_ne_bytes())]);
        let of = |kind: &[u8], more: &[(u16, &[u8])]| {
            let info = attributes_of(&[(INFO_KIND, kind), (0x8000 | INFO_DATA, &tag)]);
            let under = 3u32.to_ne_bytes();
            let all = [(NAME, &b"eth0.7\0"[..]), (UNDER, &under), (INFO, &info)];
            let all = attributes_of(&[&all, more].concat());
            read(&[&link_header(9)[..], &all].concat()).unwrap().vlan
        };
        assert_eq!(of(b"vlan\0", &[]), Some(Vlan { under: 3, tag: 7 }));
        assert_eq!(of(b"macvlan\0", &[]), None);
        assert_eq!(of(b"vlan\0", &[(UNDER_NAMESPACE, &[0; 4])]), None);
    }
}
