//! `[anycast]`: addresses that other servers have, too, announced while this one answers.
use crate::limits::{ANYCAST_ADDRESSES_MAX, ANYCAST_HOLD, DRAIN, INTERFACE_LEN_MAX};
use crate::section::Section;
use crate::units;
use crate::values::{self, Wrong};
use std::net::IpAddr;
use std::time::Duration;
use toml::de::DeValue;

/// Tables of the kernel itself: none, and default, main and local.
const KERNEL_TABLES: [u32; 4] = [0, 253, 254, 255];

/// `[anycast]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anycast {
    /// The announced addresses; empty: none.
    pub addresses: Vec<IpAddr>,
    /// The kernel table that the routing daemon learns.
    pub table: u32,
    /// The interface that has the addresses.
    pub interface: String,
    /// Whether the server adds the addresses to the interface.
    pub add_addresses: bool,
    /// How long the server answers after a withdrawal, before it drains.
    pub settle: Duration,
    /// The shortest time between a withdrawal and the next announcement.
    pub hold_down: Duration,
    /// Percent of the zones: more that answer SERVFAIL withdraw. 100: never.
    pub fail_zones: u8,
}

impl Anycast {
    pub(super) fn read(mut section: Section<'_, '_>) -> Self {
        let seconds = Duration::from_secs;
        let name = values::text(INTERFACE_LEN_MAX);
        let anycast = Self {
            addresses: section.list("addresses", Vec::new(), ANYCAST_ADDRESSES_MAX, address),
            table: section.read("table", 153, table),
            interface: section.read("interface", "lo".to_owned(), name),
            add_addresses: section.read("add_addresses", false, values::boolean),
            settle: section.read("settle", seconds(5), units::duration(DRAIN)),
            hold_down: section.read("hold_down", seconds(5), units::duration(ANYCAST_HOLD)),
            fail_zones: section.read("fail_zones", 100, values::number(1..=100)),
        };
        let addresses = &anycast.addresses;
        let twice = |(nth, ip): (usize, &IpAddr)| addresses[..nth].contains(ip);
        if addresses.iter().enumerate().any(twice) {
            section.wrong("addresses", "names an address twice", "remove one of them");
        }
        if anycast.interface.is_empty() {
            section.wrong("interface", "is empty", "name the interface with the addresses: \"lo\"");
        }
        section.close();
        anycast
    }
}

/// `"192.0.2.53/32"`, or without its length.
fn address(value: &DeValue<'_>) -> Result<IpAddr, Wrong> {
    let prefix = units::prefix(value)?;
    let ip = prefix.address();
    let len = if ip.is_ipv4() { 32 } else { 128 };
    if prefix.len() != len {
        let message = format!("expected one address, found the prefix {prefix}");
        let help = Some(format!(
            "announce the address as /{len}; the routing daemon may announce a prefix around it"
        ));
        return Err(Wrong { message, help });
    }
    let is_of_link = match ip {
        IpAddr::V4(ip) => ip.is_link_local() || ip.is_broadcast(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    match is_of_link || ip.is_loopback() || ip.is_multicast() || ip.is_unspecified() {
        true => Err(format!("{ip} cannot be announced: it is not an address of a host").into()),
        false => Ok(ip),
    }
}

/// The number of a table that is not the kernel's own.
fn table(value: &DeValue<'_>) -> Result<u32, Wrong> {
    let table = values::number(1..=u32::MAX)(value)?;
    if KERNEL_TABLES.contains(&table) {
        let help = Some("choose another number, such as 153".into());
        let message = format!("table {table} is one of the kernel's own: its routes are used");
        return Err(Wrong { message, help });
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;
    use std::path::Path;

    fn errors_of(text: &str) -> String {
        let errors = Config::parse(Path::new("f"), text).expect_err("something is wrong");
        errors.iter().map(|error| format!("{error}\n")).collect()
    }

    #[test]
    fn addresses_are_those_of_hosts() {
        let text = "[anycast]\naddresses = [\"192.0.2.53/32\", \"2001:db8::53\"]\ntable = 1000";
        let anycast = Config::parse(Path::new("f"), text).expect("a config").anycast;
        let expected: Vec<IpAddr> =
            ["192.0.2.53", "2001:db8::53"].iter().map(|ip| ip.parse().expect("one")).collect();
        assert_eq!((anycast.addresses, anycast.table), (expected, 1000));
        for (address, wrong) in [
            ("192.0.2.0/24", "f:1:23: expected one address"),
            ("127.0.0.1/32", "not an address of a host"),
            ("fe80::1", "not an address of a host"),
            ("192.0.2.53\", \"192.0.2.53/32", "names an address twice"),
        ] {
            let found = errors_of(&format!("anycast.addresses = [ \"{address}\"]"));
            assert!(found.contains(wrong), "{found}");
        }
    }

    #[test]
    fn tables_of_the_kernel_are_refused() {
        for table in KERNEL_TABLES {
            assert!(errors_of(&format!("anycast.table = {table}")).contains("f:1:17"), "{table}");
        }
        assert!(errors_of("anycast.interface = \"\"").contains("is empty"));
    }
}
