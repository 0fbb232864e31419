//! Which interface has an address.

use crate::Error;
use std::ffi::CStr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::{io, ptr};

/// The number of the interface that has `address`.
///
/// # Errors
/// None has it.
pub fn of_address(address: IpAddr) -> Result<u32, Error> {
    let mut first: *mut libc::ifaddrs = ptr::null_mut();
    // SAFETY: the kernel's list is put where the pointer is.
    if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
        return Err(Error::failed("the interfaces' addresses", io::Error::last_os_error()));
    }
    let (mut entry, mut found) = (first, None);
    while !entry.is_null() && found.is_none() {
        // SAFETY: the list is whole until it is freed below: each entry has a name that ends, and
        // an address of the family it says, or none.
        unsafe {
            if ip((*entry).ifa_addr) == Some(address) {
                found = Some(libc::if_nametoindex((*entry).ifa_name));
            }
            entry = (*entry).ifa_next;
        }
    }
    // SAFETY: it is the list from above, and nothing of it is used any more.
    unsafe { libc::freeifaddrs(first) };
    let found = found.filter(|index| *index != 0);
    found.ok_or_else(|| {
        Error::Invalid(format!("no interface has the address {address}: `ip address` shows them"))
    })
}

/// The name of an interface.
///
/// # Errors
/// It is gone.
pub fn name(index: u32) -> io::Result<String> {
    let mut name = [0; libc::IF_NAMESIZE];
    // SAFETY: there is room for the longest name and its end.
    let found = unsafe { libc::if_indextoname(index, name.as_mut_ptr()) };
    if found.is_null() {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it was found, so a name that ends is there.
    let name = unsafe { CStr::from_ptr(name.as_ptr()) };
    Ok(name.to_string_lossy().into_owned())
}

/// # Safety
/// The pointer is null, or leads to a socket address of the family it says.
unsafe fn ip(address: *const libc::sockaddr) -> Option<IpAddr> {
    if address.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    unsafe {
        match i32::from((*address).sa_family) {
            libc::AF_INET => {
                let bytes = (*address.cast::<libc::sockaddr_in>()).sin_addr.s_addr;
                Some(Ipv4Addr::from(u32::from_be(bytes)).into())
            }
            libc::AF_INET6 => {
                let bytes = (*address.cast::<libc::sockaddr_in6>()).sin6_addr.s6_addr;
                Some(Ipv6Addr::from(bytes).into())
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_is_found_by_its_address() {
        let index = of_address(Ipv4Addr::LOCALHOST.into()).unwrap();
        assert_eq!(name(index).unwrap(), "lo");
        assert!(name(u32::MAX).is_err());
        let text = std::fs::read_to_string("/sys/class/net/lo/ifindex").unwrap();
        assert_eq!(text.trim().parse(), Ok(index));
        let error = of_address("192.0.2.1".parse().unwrap()).unwrap_err();
        assert!(error.to_string().contains("192.0.2.1"), "{error}");
    }
}
