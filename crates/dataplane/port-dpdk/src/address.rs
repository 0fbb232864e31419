//! The address of a device, as DPDK writes it.

use crate::DpdkError;
use crate::limits::ADDRESS_LEN_MAX;
use std::fmt;
use std::str::FromStr;

/// A device: `net_memif0,role=server,socket=/run/m`, virtual with its arguments, or
/// `0000:01:00.0`, on the PCI bus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceAddress {
    name: String,
    arguments: String,
}

impl DeviceAddress {
    /// Its name, without arguments.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The arguments behind the name.
    pub fn arguments(&self) -> &str {
        &self.arguments
    }

    /// Whether it is on the PCI bus.
    pub fn is_pci(&self) -> bool {
        self.name.contains(':')
    }
}

impl FromStr for DeviceAddress {
    type Err = DpdkError;

    fn from_str(text: &str) -> Result<Self, DpdkError> {
        let (name, arguments) = text.split_once(',').unwrap_or((text, ""));
        let is_plain =
            text.len() <= ADDRESS_LEN_MAX && text.bytes().all(|byte| byte.is_ascii_graphic());
        // A PCI device has no arguments here: DPDK reads them before any other check.
        let is_known = match name.contains(':') {
            true => is_pci(name) && arguments.is_empty(),
            false => is_virtual(name),
        };
        if !is_plain || !is_known {
            return Err(DpdkError::Address(format!(
                "{text:?} is no device: \"0000:01:00.0\" is one on the PCI bus, \
                 \"net_memif0,role=server,socket=/run/memif.sock\" a virtual one"
            )));
        }
        Ok(Self { name: name.to_owned(), arguments: arguments.to_owned() })
    }
}

impl fmt::Display for DeviceAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// `net_NAMEn`, or `virtio_usern`; DPDK finds the driver by the begin of a name.
fn is_virtual(name: &str) -> bool {
    let kind = name.trim_end_matches(|letter: char| letter.is_ascii_digit());
    let is_word = |byte: u8| byte.is_ascii_lowercase() || byte == b'_' || byte.is_ascii_digit();
    let is_network = kind == "virtio_user" || kind.len() > 4 && kind.starts_with("net_");
    is_network && kind.len() < name.len() && name.len() < 64 && kind.bytes().all(is_word)
}

/// `DOMAIN:BUS:DEVICE.FUNCTION`, as `lspci -D` prints it.
fn is_pci(name: &str) -> bool {
    let parts: Vec<&str> = name.split([':', '.']).collect();
    let is_hex = |part: &str| part.bytes().all(|byte| byte.is_ascii_hexdigit());
    let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
    lengths == [4, 2, 2, 1] && name.as_bytes()[10] == b'.' && parts.iter().all(|part| is_hex(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_is_virtual_or_on_the_pci_bus() {
        for (text, name, arguments, is_on_bus) in [
            ("net_memif0,role=server,id=1", "net_memif0", "role=server,id=1", false),
            ("net_af_packet12,iface=eth0", "net_af_packet12", "iface=eth0", false),
            ("virtio_user0,path=/run/s", "virtio_user0", "path=/run/s", false),
            ("0000:01:00.0", "0000:01:00.0", "", true),
        ] {
            let address: DeviceAddress = text.parse().expect(text);
            assert_eq!((address.name(), address.arguments()), (name, arguments));
            assert_eq!(address.is_pci(), is_on_bus);
        }
    }

    #[test]
    fn what_is_no_device_is_refused() {
        let long = format!("net_memif0,socket={}", "/".repeat(ADDRESS_LEN_MAX));
        for text in [
            "",
            "eth0",
            "net_",
            "net_memif",
            "01:00.0",
            "0000:01:00",
            "0000:01:00.0,x=1",
            "0000.01:00:0",
            "net_memif0, role=server",
            "--help",
            "net_memif0\n",
            "crypto_null0",
            &long,
        ] {
            assert!(matches!(text.parse::<DeviceAddress>(), Err(DpdkError::Address(_))), "{text}");
        }
    }
}
