//! Frames for the switch's program.
use fabric::Container;
use std::net::{IpAddr, Ipv4Addr};

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Syn,
    SynAck,
    Ack,
    Fragment,
    Vlan,
    Icmp,
    Arp,
    /// The first bytes of a header.
    Cut,
}

/// A frame from one host to another; host 3 is none of this machine.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub from: usize,
    pub to: usize,
    pub kind: Kind,
    pub arrives_at: usize,
    pub has_foreign_source_mac: bool,
    pub has_foreign_target_mac: bool,
    /// Bytes of the packet.
    pub len: usize,
    pub port: u16,
}

impl Frame {
    pub(crate) fn bytes(&self, containers: &[Container]) -> Vec<u8> {
        const FOREIGN: [u8; 6] = [2, 9, 9, 9, 9, 9];
        let mac = |host: usize| containers.get(host).map_or(FOREIGN, |one| one.address);
        let target = if self.has_foreign_target_mac { FOREIGN } else { mac(self.to) };
        let source = if self.has_foreign_source_mac { FOREIGN } else { mac(self.from) };
        let kind: u16 = match self.kind {
            Kind::Vlan => 0x8100,
            Kind::Arp => 0x0806,
            _ => 0x0800,
        };
        let mut bytes = [&target[..], &source, &kind.to_be_bytes()].concat();
        if self.kind == Kind::Vlan {
            bytes.extend([0, 7, 0x08, 0x00]);
        }
        bytes.extend(self.packet(containers));
        if self.kind == Kind::Cut {
            bytes.truncate(14 + 22);
        }
        bytes
    }

    fn packet(&self, containers: &[Container]) -> Vec<u8> {
        let ip = |host: usize| match containers.get(host).and_then(|one| one.addresses.first()) {
            Some(IpAddr::V4(ip)) => *ip,
            _ => Ipv4Addr::new(198, 51, 100, 7),
        };
        let protocol = if self.kind == Kind::Icmp { 1 } else { 6 };
        let fragment: u16 = if self.kind == Kind::Fragment { 0x2000 } else { 0 };
        let mut bytes = vec![0x45, 0];
        bytes.extend((self.len as u16).to_be_bytes());
        bytes.extend([0, 1]);
        bytes.extend(fragment.to_be_bytes());
        bytes.extend([64, protocol, 0, 0]);
        bytes.extend(ip(self.from).octets());
        bytes.extend(ip(self.to).octets());
        if self.kind == Kind::Icmp {
            // "Port unreachable", of a flow that is not known.
            bytes.extend([3, 3, 0, 0, 0, 0, 0, 0]);
        } else {
            let flags = match self.kind {
                Kind::SynAck => 0x12,
                Kind::Ack => 0x10,
                _ => 0x02,
            };
            bytes.extend(self.port.to_be_bytes());
            bytes.extend([0, 80, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, flags, 0, 0, 0, 0, 0, 0]);
        }
        bytes.resize(self.len, 0x5a);
        bytes
    }
}
