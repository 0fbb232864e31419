//! A value: what is known of one service.
use serde::Deserialize;
use std::net::IpAddr;

/// The TTL of a service without one.
const TTL_DEFAULT: u32 = 300;
/// The bounds of a TTL that a lease gives.
const LEASE_TTL: std::ops::RangeInclusive<u32> = 30..=86_400;
/// The priority of a service without one.
const PRIORITY_DEFAULT: i64 = 10;

/// The fields of a value, of all layouts. Unknown ones are ignored.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Service {
    pub host: String,
    pub port: i64,
    pub priority: i64,
    pub weight: i64,
    pub text: String,
    pub mail: bool,
    pub ttl: u32,
    pub targetstrip: i64,
    pub group: String,
    /// `ContainerDNS` and KDNS: the type.
    #[serde(rename = "type")]
    pub rtype: String,
    /// KDNS: the view.
    #[serde(rename = "viewName")]
    pub view: String,
    /// KDNS: the most records of an answer.
    #[serde(rename = "maxAnswer")]
    pub max_answer: u16,
    /// KDNS: which addresses are answered; `None`: by the weights.
    #[serde(rename = "lbMode")]
    pub lb_mode: Option<u8>,
    /// KDNS: the weight among the addresses.
    #[serde(rename = "lbWeight")]
    pub lb_weight: u16,
}

/// What a host is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostKind {
    /// An address.
    Address(IpAddr),
    /// A name, without a text.
    Name,
    /// No address, with a text.
    Text,
}

impl Service {
    /// What its host is, as `CoreDNS` decides it.
    pub fn kind(&self) -> HostKind {
        match (self.host.parse(), self.text.is_empty()) {
            (Ok(IpAddr::V6(v6)), _) => HostKind::Address(IpAddr::V6(v6).to_canonical()),
            (Ok(address), _) => HostKind::Address(address),
            (Err(_), true) => HostKind::Name,
            (Err(_), false) => HostKind::Text,
        }
    }

    /// The smaller one of its TTL and that of its lease.
    pub fn ttl(&self, lease: Option<u32>) -> u32 {
        let lease = lease.filter(|ttl| *ttl > 0);
        let lease = lease.map(|ttl| ttl.clamp(*LEASE_TTL.start(), *LEASE_TTL.end()));
        match (lease, self.ttl) {
            (None, 0) => TTL_DEFAULT,
            (None, own) => own,
            (Some(lease), 0) => lease,
            (Some(lease), own) => lease.min(own),
        }
    }

    /// Its priority, as the 16 bits that a record has.
    pub fn priority(&self) -> u16 {
        let priority = if self.priority == 0 { PRIORITY_DEFAULT } else { self.priority };
        priority as u16
    }
}
