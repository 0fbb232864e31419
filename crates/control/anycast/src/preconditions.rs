//! Finds, before the start, conditions under which an announcement would fail silently.
use crate::{Announcement, PROTOCOL, tun};
use netlink::{Address, LinkId, Netlink, TableRoute};
use rustix::io::Errno;
use rustix::thread::CapabilitySet;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::Path;

/// Something that is wrong on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Nothing can be announced; else it may go wrong.
    pub is_error: bool,
    /// What, and what to do.
    pub text: String,
}

fn error(text: String) -> Finding {
    Finding { is_error: true, text }
}

fn warning(text: String) -> Finding {
    Finding { is_error: false, text }
}

/// Adds the addresses to an interface, before anything is announced. They stay there.
///
/// # Errors
/// There is no such interface, or the kernel refuses.
pub fn add_addresses(announcement: &Announcement, interface: &str) -> io::Result<()> {
    let mut netlink = Netlink::open()?;
    let link = netlink.link(LinkId::Name(interface))?.index;
    for ip in announcement.addresses.iter().copied() {
        match netlink.add_address(Address { ip, link }) {
            Err(why) if Errno::from_io_error(&why) != Some(Errno::EXIST) => {
                let text = format!("{ip} cannot be added to {interface}: {why}");
                return Err(io::Error::new(why.kind(), text));
            }
            _ => {}
        }
    }
    Ok(())
}

/// The fault of this machine for an announcement. `adds`: the server adds the addresses to
/// the interface.
pub fn find_problems(announcement: &Announcement, interface: &str, adds: bool) -> Vec<Finding> {
    let mut found = Vec::new();
    if !Path::new(tun::FILE).exists() {
        let file = tun::FILE;
        found.push(error(format!(
            "{file} is not there: load the module `tun`, or give the container the device"
        )));
    }
    let has_capability = rustix::thread::capabilities(None)
        .is_ok_and(|sets| sets.permitted.contains(CapabilitySet::NET_ADMIN));
    if !has_capability {
        found.push(error("needs CAP_NET_ADMIN at the start: grant it to dunlin".into()));
    }
    match of_network(announcement, interface, adds) {
        Ok(more) => found.extend(more),
        Err(why) => found.push(error(format!(
            "the kernel cannot list interfaces and rules: \
                                              {why}"
        ))),
    }
    found.extend(of_settings(announcement, |name| {
        let path = format!("/proc/sys/{}", name.replace('.', "/"));
        fs::read_to_string(path).ok().map(|value| value.trim().to_owned())
    }));
    found
}

/// Addresses that are on no interface, and tables that are not only ours.
fn of_network(
    announcement: &Announcement,
    interface: &str,
    adds: bool,
) -> io::Result<Vec<Finding>> {
    let Announcement { addresses, table } = announcement;
    let mut netlink = Netlink::open()?;
    let mut found = Vec::new();
    match netlink.link(LinkId::Name(interface)) {
        Err(why) => found.push(error(format!("interface {interface:?}: {why}"))),
        Ok(link) => {
            let all = netlink.addresses()?;
            let has = |ip: &&IpAddr| all.contains(&Address { ip: **ip, link: link.index });
            let absent: Vec<&IpAddr> = addresses.iter().filter(|ip| !has(ip)).collect();
            for ip in absent.iter().filter(|_| !adds) {
                let len = if ip.is_ipv4() { 32 } else { 128 };
                found.push(error(format!(
                    "{ip} is not on {interface}: `ip addr add {ip}/{len} dev {interface}`, or set \
                     add_addresses = true"
                )));
            }
        }
    }
    if netlink.rule_tables()?.contains(table) {
        found.push(error(format!(
            "a rule looks up table {table}, so that packets would leave by the announced route: \
             choose a table of its own (`ip rule` shows them)"
        )));
    }
    let is_foreign = |route: &&TableRoute| route.protocol != PROTOCOL;
    if let Some(route) = netlink.routes(*table)?.iter().find(is_foreign) {
        let TableRoute { to, len, .. } = route;
        found.push(error(format!(
            "table {table} has a route that is not ours, to {to}/{len}, which the routing daemon \
             would announce: choose a table of its own (`ip route show table {table}`)"
        )));
    }
    Ok(found)
}

/// Settings of the kernel; `read` returns the value of one.
fn of_settings(announcement: &Announcement, read: impl Fn(&str) -> Option<String>) -> Vec<Finding> {
    let mut found = Vec::new();
    let has = |is_v6: bool| announcement.addresses.iter().any(|ip| ip.is_ipv6() == is_v6);
    let off = "net.ipv6.conf.default.disable_ipv6";
    if has(true) && read(off).is_some_and(|value| value != "0") {
        found.push(error(format!(
            "IPv6 is off for new devices, so that no IPv6 address can be announced: `sysctl \
             {off}=0`"
        )));
    }
    let strict = "net.ipv4.conf.all.rp_filter";
    if has(false) && read(strict).is_some_and(|value| value == "1") {
        found.push(warning(format!(
            "{strict} is 1: with several routers, queries that arrive by another one than replies \
             leave by are dropped; `sysctl {strict}=2`"
        )));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_fail_silently_are_named() {
        let of = |address: &str, name: &str, value: Option<&str>| {
            let addresses = vec![address.parse().expect("an address")];
            let announcement = Announcement { addresses, table: 153 };
            let read = |key: &str| match key == name {
                true => value.map(str::to_owned),
                false => Some("0".to_owned()),
            };
            of_settings(&announcement, read)
        };
        let off = "net.ipv6.conf.default.disable_ipv6";
        let found = of("2001:db8::53", off, Some("1"));
        assert!(found[0].is_error && found[0].text.contains(off), "{found:?}");
        assert_eq!(of("192.0.2.53", off, Some("1")), [], "IPv4 does not need it");
        assert_eq!(of("2001:db8::53", off, None), [], "a sandbox hides it");
        let strict = "net.ipv4.conf.all.rp_filter";
        let found = of("192.0.2.53", strict, Some("1"));
        assert!(!found[0].is_error && found[0].text.contains(strict), "{found:?}");
        assert_eq!(of("192.0.2.53", strict, Some("2")), []);
    }

    #[test]
    fn tables_of_rules_and_absent_addresses_are_named() {
        let addresses = vec!["192.0.2.53".parse().expect("an address")];
        let announcement = Announcement { addresses, table: 254 };
        let found = of_network(&announcement, "lo", false).expect("the kernel answers");
        let texts: Vec<&str> = found.iter().map(|one| one.text.as_str()).collect();
        assert!(texts[0].contains("ip addr add 192.0.2.53/32 dev lo"), "{texts:?}");
        assert!(texts[1].contains("a rule looks up table 254"), "{texts:?}");
        let found = of_network(&announcement, "no-such0", true).expect("the kernel answers");
        assert!(found[0].text.contains("no-such0"), "{found:?}");
    }
}
