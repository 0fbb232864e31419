//! Network namespaces.

use crate::Netlink;
use crate::message::{attribute, cut_short, word};
use std::io;
use std::os::fd::{AsFd, AsRawFd};

// `linux/rtnetlink.h`, `linux/net_namespace.h`.
const GET_NAMESPACE: u16 = 90;
/// Bytes of the header of a message about a namespace.
const HEADER: usize = 4;
const ID: u16 = 1;
const DESCRIPTOR: u16 = 3;

impl Netlink {
    /// The number by which this namespace knows another one; `None`: it has none.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn namespace_id(&mut self, namespace: impl AsFd) -> io::Result<Option<u32>> {
        let descriptor = namespace.as_fd().as_raw_fd().to_ne_bytes();
        read(self.request(GET_NAMESPACE, 0, &[0; HEADER], &[(DESCRIPTOR, &descriptor)])?)
    }
}

pub(crate) fn read(body: &[u8]) -> io::Result<Option<u32>> {
    let attributes = body.get(HEADER..).ok_or_else(cut_short)?;
    let id = word(attribute(attributes, ID).ok_or_else(cut_short)?, 0)?;
    // -1 stands for none.
    Ok(Some(id).filter(|id| *id != u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn namespace_that_no_wire_leads_to_has_no_number() {
        let own = File::open("/proc/self/ns/net").unwrap();
        assert_eq!(Netlink::open().unwrap().namespace_id(&own).unwrap(), None);
        let other = File::open("/proc/self/ns/uts").unwrap();
        assert!(Netlink::open().unwrap().namespace_id(&other).is_err());
    }
}
