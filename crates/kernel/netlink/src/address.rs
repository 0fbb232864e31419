//! Addresses of interfaces.

use crate::message::{CREATE, EXCLUSIVE, attribute, bytes_of, cut_short, family, ip, word};
use crate::{ACK, Netlink};
use std::io;
use std::net::IpAddr;

// `linux/rtnetlink.h`, `linux/if_addr.h`.
const NEW_ADDRESS: u16 = 20;
const GET_ADDRESS: u16 = 22;
/// Bytes of the header of a message about an address.
const HEADER: usize = 8;
/// The address, or that of the other end.
const ADDRESS: u16 = 1;
/// The address of this end, if there is another one.
const LOCAL: u16 = 2;

/// Use an IPv6 address at once, without a search for another host that has it (`IFA_F_NODAD`).
const AT_ONCE: u8 = 2;

/// An address of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// The address of this host.
    pub ip: IpAddr,
    /// The number of the interface.
    pub link: u32,
}

impl Netlink {
    /// Adds an address to an interface, as a prefix of all its bits.
    ///
    /// # Errors
    /// The interface has it already (`EEXIST`), or the kernel refuses.
    pub fn add_address(&mut self, address: Address) -> io::Result<()> {
        let ip = bytes_of(address.ip);
        let mut header = [0; HEADER];
        header[..3].copy_from_slice(&[family(&ip), ip.len() as u8 * 8, AT_ONCE]);
        header[4..].copy_from_slice(&address.link.to_ne_bytes());
        let attributes = [(LOCAL, &ip[..]), (ADDRESS, &ip[..])];
        self.request(NEW_ADDRESS, ACK | CREATE | EXCLUSIVE, &header, &attributes).map(drop)
    }

    /// The addresses of all interfaces.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn addresses(&mut self) -> io::Result<Vec<Address>> {
        let addresses = self.dump(GET_ADDRESS, &[0; HEADER], read)?;
        Ok(addresses.into_iter().flatten().collect())
    }
}

/// `None`: it is of another family than IP.
pub(crate) fn read(body: &[u8]) -> io::Result<Option<Address>> {
    let (header, attributes) = body.split_at_checked(HEADER).ok_or_else(cut_short)?;
    let address = attribute(attributes, LOCAL).or_else(|| attribute(attributes, ADDRESS));
    let link = word(header, 4)?;
    Ok(address.and_then(ip).map(|ip| Address { ip, link }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LinkId;
    use crate::message::attributes_of;
    use std::net::Ipv4Addr;

    #[test]
    fn loopback_has_its_address() {
        let mut netlink = Netlink::open().unwrap();
        let link = netlink.link(LinkId::Name("lo")).unwrap().index;
        let lo = Address { ip: Ipv4Addr::LOCALHOST.into(), link };
        assert!(netlink.addresses().unwrap().contains(&lo));
    }

    #[test]
    fn address_of_this_end_counts() {
        let attributes = attributes_of(&[(ADDRESS, &[192, 0, 2, 2]), (LOCAL, &[192, 0, 2, 1])]);
        let found = read(&[&[2, 32, 0, 0, 5, 0, 0, 0][..], &attributes].concat()).unwrap();
        let link = u32::from_ne_bytes([5, 0, 0, 0]);
        assert_eq!(found, Some(Address { ip: "192.0.2.1".parse().unwrap(), link }));
    }
}
