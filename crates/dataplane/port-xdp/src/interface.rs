//! Properties of a network interface.

use crate::limits::{CHUNK, CHUNK_MAX, HEADROOM, LINKS_MAX, QUEUES_MAX};
use bpf::Device;
use netlink::{LinkAddress, LinkId, Netlink};
use packet::frame::LINK_MAX;
use std::ffi::c_char;
use std::net::IpAddr;
use std::os::fd::AsRawFd;
use std::{io, mem, ptr};

/// `SIOCETHTOOL`, `ETHTOOL_GCHANNELS`, and the structure that it fills (`linux/ethtool.h`).
const SIOCETHTOOL: libc::Ioctl = 0x8946;
const ETHTOOL_GCHANNELS: u32 = 0x3c;

#[repr(C)]
#[derive(Default)]
struct EthtoolChannels {
    command: u32,
    max: [u32; 4],
    receive: u32,
    send: u32,
    other: u32,
    combined: u32,
}

/// A network interface at the time of the look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its number.
    pub index: u32,
    /// Its link address.
    pub address: LinkAddress,
    /// The most bytes of an IP packet on it.
    pub mtu: usize,
    /// The number of receive queues.
    pub queues: u32,
}

impl Interface {
    /// Finds an interface by name.
    ///
    /// # Errors
    /// It does not exist, or its packets are larger than a frame's memory.
    pub fn find(name: &str) -> io::Result<Self> {
        let link = Netlink::open()?.link(LinkId::Name(name))?;
        let (mtu, queues) = (link.mtu as usize, queues_of(&link.name).clamp(1, QUEUES_MAX));
        let address = link.address.unwrap_or_default();
        let interface = Self { name: link.name, index: link.index, address, mtu, queues };
        if interface.chunk() > CHUNK_MAX {
            let most = CHUNK_MAX - HEADROOM - LINK_MAX as u32;
            return Err(io::Error::other(format!(
                "packets on {name} have up to {mtu} bytes, and a frame has room for {most}: lower \
                 its MTU"
            )));
        }
        Ok(interface)
    }

    /// What a program is attached to.
    pub fn device(&self) -> Device<'_> {
        Device { name: &self.name, index: self.index }
    }

    /// Bytes of memory that a frame needs: a power of two.
    pub fn chunk(&self) -> u32 {
        let wanted = HEADROOM as usize + LINK_MAX + self.mtu;
        u32::try_from(wanted.next_power_of_two()).unwrap_or(u32::MAX).max(CHUNK)
    }

    /// The VLAN interfaces on top of it, by number, with their tags: an outer one in the upper
    /// half.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn networks(&self) -> io::Result<Vec<(u32, u32)>> {
        let links = Netlink::open()?.links()?;
        let on = |under: u32| {
            let vlans = links.iter().filter_map(|link| Some((link.index, link.vlan?)));
            let on = vlans.filter(move |(_, vlan)| vlan.under == under);
            on.map(|(index, vlan)| (index, u32::from(vlan.tag)))
        };
        let mut found = Vec::new();
        for (outer, tag) in on(self.index) {
            found.push((outer, tag));
            found.extend(on(outer).map(|(inner, inner_tag)| (inner, tag << 16 | inner_tag)));
        }
        found.truncate(LINKS_MAX);
        Ok(found)
    }
}

/// The addresses of all interfaces of this host, for a socket that is bound to all of them.
///
/// # Errors
/// The kernel refuses.
pub fn addresses() -> io::Result<Vec<IpAddr>> {
    Ok(Netlink::open()?.addresses()?.into_iter().map(|address| address.ip).collect())
}

/// The number of receive queues; 1 if the driver does not report it.
fn queues_of(name: &str) -> u32 {
    let mut channels = EthtoolChannels { command: ETHTOOL_GCHANNELS, ..EthtoolChannels::default() };
    // SAFETY: all zero is valid for bytes, numbers and pointers.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    // The last byte stays 0, which ends the name.
    let room = request.ifr_name.len() - 1;
    for (to, from) in request.ifr_name[..room].iter_mut().zip(name.bytes()) {
        *to = from as c_char;
    }
    request.ifr_ifru.ifru_data = ptr::from_mut(&mut channels).cast();
    let (family, kind) = (rustix::net::AddressFamily::INET, rustix::net::SocketType::DGRAM);
    let Ok(socket) = rustix::net::socket(family, kind, None) else { return 1 };
    // SAFETY: the request has a name, and points to the result, which lives through the call.
    match unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &mut request) } {
        0 => channels.receive + channels.combined,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_is_an_interface_whose_packets_are_too_large() {
        let error = Interface::find("lo").expect_err("65,536 bytes").to_string();
        assert!(error.contains("lower its MTU"), "{error}");
        assert!(addresses().expect("addresses").contains(&std::net::Ipv4Addr::LOCALHOST.into()));
    }

    #[test]
    fn frames_are_as_large_as_the_packets_ask() {
        let (name, address) = (String::new(), [2, 0, 0, 0, 0, 1]);
        let interface = Interface { name, index: 1, address, mtu: 0, queues: 1 };
        let of = |mtu| Interface { mtu, ..interface.clone() }.chunk();
        assert_eq!(
            [of(68), of(1_500), of(1_770), of(1_771), of(3_818)],
            [2_048, 2_048, 2_048, 4_096, 4_096]
        );
        assert!(of(3_819) > CHUNK_MAX);
    }
}
