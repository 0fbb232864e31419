//! Properties of a network interface.

use crate::limits::{CHUNK, CHUNK_MAX, HEADROOM, LINKS_MAX, QUEUES_MAX};
use crate::netlink::{ACK, Netlink, attribute, attributes_of, cut_short, word};
use packet::frame::LINK_MAX;
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::{fs, io, mem, ptr};

/// Where the program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttachMode {
    /// In the driver, before the kernel allocates anything for a packet.
    Native,
    /// In the kernel, if the driver does not support it: it works, and gains less.
    Generic,
}

impl AttachMode {
    /// The name in status and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Generic => "generic",
        }
    }
}

/// `SIOCETHTOOL`, `ETHTOOL_GCHANNELS`, and the structure that it fills (`linux/ethtool.h`).
const SIOCETHTOOL: libc::Ioctl = 0x8946;
const ETHTOOL_GCHANNELS: u32 = 0x3c;

// `linux/rtnetlink.h`, `linux/if_link.h`.
const GET_DEVICE: u16 = 18;
const SET_DEVICE: u16 = 19;
/// Bytes of the header of a message about a device.
const DEVICE: usize = 16;
const XDP: u16 = 43;
const XDP_FD: u16 = 1;
const XDP_ATTACHED: u16 = 2;
const XDP_FLAGS: u16 = 3;
const XDP_PROGRAM: u16 = 4;
const XDP_EXPECTED_FD: u16 = 8;
const NESTED: u16 = 0x8000;
const GENERIC: u32 = 1 << 1;
const NATIVE: u32 = 1 << 2;
const REPLACE: u32 = 1 << 4;

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
    pub address: [u8; 6],
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
        let c_name = CString::new(name)?;
        // SAFETY: the name is a C string.
        let index = unsafe { libc::if_nametoindex(c_name.as_ptr()) };
        if index == 0 {
            let message = format!("there is no interface \"{name}\" (`ip link` lists them)");
            return Err(io::Error::new(io::ErrorKind::NotFound, message));
        }
        let socket = any_socket()?;
        let address = ask_address(&socket, &c_name)?;
        let mtu = ask_mtu(&socket, &c_name)?;
        let queues = ask_queues(&socket, &c_name).clamp(1, QUEUES_MAX);
        let interface = Self { name: name.to_owned(), index, address, mtu, queues };
        if interface.chunk() > CHUNK_MAX {
            let most = CHUNK_MAX - HEADROOM - LINK_MAX as u32;
            return Err(io::Error::other(format!(
                "packets on {name} have up to {mtu} bytes, and a frame has room for {most}: lower \
                 its MTU"
            )));
        }
        Ok(interface)
    }

    /// Bytes of memory that a frame needs: a power of two.
    pub fn chunk(&self) -> u32 {
        let wanted = HEADROOM as usize + LINK_MAX + self.mtu;
        u32::try_from(wanted.next_power_of_two()).unwrap_or(u32::MAX).max(CHUNK)
    }

    /// The VLAN interfaces on top of it, by number, with their tags: an outer one in the upper
    /// half.
    pub fn networks(&self) -> Vec<(u32, u32)> {
        let networks = tagged_networks();
        let mut found = Vec::new();
        let on = |parent: &str| {
            let on = networks.iter().filter(|(_, (under, _))| under == parent);
            on.map(|(name, (_, tag))| (name.clone(), *tag)).collect::<Vec<_>>()
        };
        for (outer, tag) in on(&self.name) {
            found.extend(index(&outer).map(|index| (index, tag)));
            for (inner, inner_tag) in on(&outer) {
                found.extend(index(&inner).map(|index| (index, tag << 16 | inner_tag)));
            }
        }
        found.truncate(LINKS_MAX);
        found
    }
}

/// An XDP program attached to an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// Its ID in the kernel.
    pub program: u32,
    /// Where it runs.
    pub mode: AttachMode,
}

/// The program attached to an interface; `None`: no program, no interface, or more than one
/// program.
///
/// # Errors
/// The kernel refuses.
pub fn attached(interface: u32) -> io::Result<Option<Attachment>> {
    let mut netlink = Netlink::open()?;
    let answer = match netlink.ask(GET_DEVICE, 0, &about(interface), &[]) {
        Err(error) if error.raw_os_error() == Some(libc::ENODEV) => return Ok(None),
        answer => answer?,
    };
    let xdp = attribute(answer.get(DEVICE..).ok_or_else(cut_short)?, XDP).unwrap_or_default();
    let mode = match attribute(xdp, XDP_ATTACHED) {
        Some([1]) => AttachMode::Native,
        Some([2]) => AttachMode::Generic,
        _ => return Ok(None),
    };
    let program = word(attribute(xdp, XDP_PROGRAM).ok_or_else(cut_short)?, 0)?;
    Ok(Some(Attachment { program, mode }))
}

/// Replaces the program attached to an interface by another one, or none.
///
/// # Errors
/// Another program is attached, or the kernel refuses this one.
pub fn replace(
    interface: u32,
    old: impl AsFd,
    new: Option<impl AsFd>,
    mode: AttachMode,
) -> io::Result<()> {
    let flags = REPLACE | if mode == AttachMode::Native { NATIVE } else { GENERIC };
    let xdp = attributes_of(&[
        (XDP_FD, &new.map_or(-1, |new| new.as_fd().as_raw_fd()).to_ne_bytes()),
        (XDP_FLAGS, &flags.to_ne_bytes()),
        (XDP_EXPECTED_FD, &old.as_fd().as_raw_fd().to_ne_bytes()),
    ]);
    let attributes = [(XDP | NESTED, &xdp[..])];
    Netlink::open()?.ask(SET_DEVICE, ACK, &about(interface), &attributes).map(drop)
}

/// The header of a message about an interface.
fn about(interface: u32) -> [u8; DEVICE] {
    let mut fixed = [0; DEVICE];
    fixed[4..8].copy_from_slice(&interface.to_ne_bytes());
    fixed
}

/// The addresses of all interfaces of this host, for a socket that is bound to all of them.
///
/// # Errors
/// The kernel refuses.
pub fn addresses() -> io::Result<Vec<IpAddr>> {
    let mut first = ptr::null_mut();
    // SAFETY: there is room for the pointer.
    if unsafe { libc::getifaddrs(&mut first) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let (mut addresses, mut next) = (Vec::new(), first);
    while !next.is_null() {
        // SAFETY: the list is as getifaddrs made it, until it is freed below.
        let entry = unsafe { &*next };
        // SAFETY: an address is null, or as long as its family says.
        addresses.extend(unsafe { address(entry.ifa_addr) });
        next = entry.ifa_next;
    }
    // SAFETY: it is what getifaddrs returned, and nothing points into it any more.
    unsafe { libc::freeifaddrs(first) };
    addresses.sort();
    addresses.dedup();
    Ok(addresses)
}

/// # Safety
/// `at` is null, or points to an address as long as its family says.
unsafe fn address(at: *const libc::sockaddr) -> Option<IpAddr> {
    // SAFETY: the caller guarantees it.
    unsafe {
        match i32::from(at.as_ref()?.sa_family) {
            libc::AF_INET => {
                let address = at.cast::<libc::sockaddr_in>().read_unaligned();
                Some(Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr)).into())
            }
            libc::AF_INET6 => {
                let address = at.cast::<libc::sockaddr_in6>().read_unaligned();
                Some(Ipv6Addr::from(address.sin6_addr.s6_addr).into())
            }
            _ => None,
        }
    }
}

fn any_socket() -> io::Result<OwnedFd> {
    let (family, kind) = (rustix::net::AddressFamily::INET, rustix::net::SocketType::DGRAM);
    Ok(rustix::net::socket(family, kind, None)?)
}

fn request(name: &CStr) -> io::Result<libc::ifreq> {
    // SAFETY: all zero is valid for bytes, numbers and pointers.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    let bytes = name.to_bytes_with_nul();
    if bytes.len() > request.ifr_name.len() {
        return Err(Errno::NAMETOOLONG.into());
    }
    for (to, from) in request.ifr_name.iter_mut().zip(bytes) {
        *to = *from as c_char;
    }
    Ok(request)
}

fn ask_address(socket: &OwnedFd, name: &CStr) -> io::Result<[u8; 6]> {
    let mut request = request(name)?;
    // SAFETY: the request has a name, and room for the result.
    if unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFHWADDR as _, &mut request) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel filled in this address.
    let bytes = unsafe { request.ifr_ifru.ifru_hwaddr.sa_data };
    Ok(std::array::from_fn(|at| bytes[at] as u8))
}

fn ask_mtu(socket: &OwnedFd, name: &CStr) -> io::Result<usize> {
    let mut request = request(name)?;
    // SAFETY: the request has a name, and room for the result.
    if unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFMTU as _, &mut request) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel filled in this number.
    Ok(usize::try_from(unsafe { request.ifr_ifru.ifru_mtu }).unwrap_or_default())
}

/// The number of receive queues; 1 if the driver does not report it.
fn ask_queues(socket: &OwnedFd, name: &CStr) -> u32 {
    let mut channels = EthtoolChannels { command: ETHTOOL_GCHANNELS, ..EthtoolChannels::default() };
    let Ok(mut request) = request(name) else { return 1 };
    request.ifr_ifru.ifru_data = ptr::from_mut(&mut channels).cast();
    // SAFETY: the request has a name, and points to the result, which lives through the call.
    match unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &mut request) } {
        0 => channels.receive + channels.combined,
        _ => 1,
    }
}

fn index(name: &str) -> Option<u32> {
    let name = CString::new(name).ok()?;
    // SAFETY: the name is a C string.
    Some(unsafe { libc::if_nametoindex(name.as_ptr()) }).filter(|index| *index != 0)
}

/// VLAN interfaces: the parent and tag of each. Empty if the kernel has none.
fn tagged_networks() -> BTreeMap<String, (String, u32)> {
    parse_networks(&fs::read_to_string("/proc/thread-self/net/vlan/config").unwrap_or_default())
}

/// Lines like `eth0.7 | 7 | eth0`, behind two lines of headings.
fn parse_networks(text: &str) -> BTreeMap<String, (String, u32)> {
    let parse = |line: &str| {
        let mut words = line.split('|').map(str::trim);
        let (name, tag, under) = (words.next()?, words.next()?, words.next()?);
        Some((name.to_owned(), (under.to_owned(), tag.parse().ok()?)))
    };
    text.lines().skip(2).filter_map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_is_an_interface_whose_packets_are_too_large() {
        let error = Interface::find("lo").expect_err("65,536 bytes").to_string();
        assert!(error.contains("lower its MTU"), "{error}");
        assert!(addresses().expect("addresses").contains(&Ipv4Addr::LOCALHOST.into()));
    }

    #[test]
    fn one_that_is_not_there_is_told() {
        let error = Interface::find("nosuch0").expect_err("none").to_string();
        assert!(error.contains("\"nosuch0\""), "{error}");
        assert!(Interface::find("a\0b").is_err());
        assert!(request(c"a-name-of-sixteen-bytes").is_err());
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

    #[test]
    fn tagged_networks_are_read_from_the_kernels_table() {
        let text = "VLAN Dev name\t | VLAN ID\nName-Type: VLAN_NAME_TYPE_RAW_PLUS_VID_NO_PAD\n\
                    eth0.7         | 7  | eth0\neth0.7.9 | 9 | eth0.7\nbroken\n";
        let networks = parse_networks(text);
        assert_eq!(networks.len(), 2);
        assert_eq!(networks["eth0.7.9"], ("eth0.7".to_owned(), 9));
        assert!(parse_networks("").is_empty());
    }
}
