//! Addresses of containers, as the kernel's programs have them.
use crate::containers::Container;
use bpf::maps::MapError;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::IpAddr;

/// An address: IPv4 as IPv6 has it.
pub(crate) type Address = [u8; 16];

/// An entry that is gone already is as good as removed.
pub(crate) fn present(removed: Result<(), MapError>) -> Result<(), MapError> {
    match removed {
        Err(MapError::KeyNotFound) => Ok(()),
        Err(MapError::SyscallError(error)) if error.io_error.kind() == ErrorKind::NotFound => {
            Ok(())
        }
        other => other,
    }
}

/// Addresses as the programs have them, each with its container's interface. One that two
/// containers have belongs to neither.
pub(crate) fn interfaces(containers: &[Container]) -> BTreeMap<Address, u32> {
    let mut found: BTreeMap<Address, Option<u32>> = BTreeMap::new();
    for one in containers {
        for ip in &one.addresses {
            let owner = found.entry(key_of(*ip)).or_insert(Some(one.interface));
            if *owner != Some(one.interface) {
                *owner = None;
            }
        }
    }
    found.into_iter().filter_map(|(ip, owner)| Some((ip, owner?))).collect()
}

/// IPv4 addresses as IPv6 has them.
pub(crate) fn key_of(ip: IpAddr) -> Address {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => ip.octets(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_of_two_containers_is_of_neither() {
        let of = |interface, addresses: &[&str]| Container {
            addresses: addresses.iter().map(|ip| ip.parse().unwrap()).collect(),
            ..crate::tests::container("c", interface, "0")
        };
        let found = interfaces(&[of(2, &["10.0.0.1", "2001:db8::1"]), of(3, &["10.0.0.1"])]);
        assert_eq!(found, BTreeMap::from([(key_of("2001:db8::1".parse().unwrap()), 2)]));
    }
}
