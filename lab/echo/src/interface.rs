//! Which interface has an address.

use crate::Error;
use netlink::{Link, LinkId, Netlink};
use std::net::IpAddr;

/// The interface that has `address`.
///
/// # Errors
/// None has it.
pub fn of_address(address: IpAddr) -> Result<Link, Error> {
    let failed = |error| Error::failed("the interfaces' addresses", error);
    let mut netlink = Netlink::open().map_err(failed)?;
    let mut addresses = netlink.addresses().map_err(failed)?.into_iter();
    let found = addresses.find(|there| there.ip == address).ok_or_else(|| {
        Error::Invalid(format!("no interface has the address {address}: `ip address` shows them"))
    })?;
    netlink.link(LinkId::Index(found.link)).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn the_loopback_interface_is_found_by_its_address() {
        assert_eq!(of_address(Ipv4Addr::LOCALHOST.into()).unwrap().name, "lo");
        let error = of_address("192.0.2.1".parse().unwrap()).unwrap_err();
        assert!(error.to_string().contains("192.0.2.1"), "{error}");
    }
}
