//! `[dpdk]`: the devices that DPDK serves.
use crate::limits::{DPDK_DEVICES_MAX, DPDK_MEMORY, INTERFACE_LEN_MAX};
use crate::section::Section;
use crate::values::{self, Wrong};
use crate::{PortKind, units};
use port_dpdk::DeviceAddress;
use std::path::PathBuf;
use toml::de::DeValue;

/// `[dpdk]`
#[derive(Clone, Debug, PartialEq)]
pub struct Dpdk {
    /// The devices; empty: none.
    pub devices: Vec<DeviceAddress>,
    /// The interface of the kernel for each device, in order; an empty name, or none: it has none.
    pub interfaces: Vec<String>,
    /// Whether DPDK's memory is in huge pages.
    pub huge_pages: bool,
    /// Bytes of DPDK's memory.
    pub memory: u64,
    /// The library of its calls.
    pub library: PathBuf,
    /// Whether a worker pauses while its devices receive nothing.
    pub sleep: PollSleep,
}

/// When a worker pauses between polls of its devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PollSleep {
    /// While nothing comes, for longer and longer.
    Adaptive,
    /// Never.
    Never,
}

/// Where the package `dunlin-dpdk` has it.
const LIBRARY: &str = "/usr/lib/dunlin/libdunlin-dpdk.so";

impl Dpdk {
    /// Reads the section; it must name devices if the workers' port is DPDK.
    pub fn read(mut section: Section<'_, '_>, port: PortKind) -> Self {
        let sleep = [("adaptive", PollSleep::Adaptive), ("never", PollSleep::Never)];
        let devices = section.list("devices", Vec::new(), DPDK_DEVICES_MAX, device);
        if port == PortKind::Dpdk && devices.is_empty() {
            match section.has("devices") {
                false => section.missing("devices"),
                true => {
                    section.wrong("devices", "names no device", "name one, or take another port")
                }
            }
        }
        let dpdk = Self {
            interfaces: section.list("interfaces", Vec::new(), DPDK_DEVICES_MAX, interface),
            huge_pages: section.read("huge_pages", true, values::boolean),
            memory: section.read("memory", 64 << 20, units::bytes(DPDK_MEMORY)),
            library: section.read("library", LIBRARY.into(), library),
            sleep: section.read("sleep", PollSleep::Adaptive, values::word(sleep)),
            devices,
        };
        let is_twice = |(nth, device): &(usize, &DeviceAddress)| {
            dpdk.devices[..*nth].iter().any(|before| before.name() == device.name())
        };
        if let Some((_, device)) = dpdk.devices.iter().enumerate().find(is_twice) {
            let help = "give each device its own number, as in net_memif0 and net_memif1";
            section.wrong("devices", &format!("names {device} twice"), help);
        }
        if dpdk.interfaces.len() > dpdk.devices.len() {
            let devices = dpdk.devices.len();
            let help = "the first is that of the first device, and \"\" is none";
            section.wrong("interfaces", &format!("has more names than {devices} devices"), help);
        }
        section.close();
        dpdk
    }
}

fn device(value: &DeValue<'_>) -> Result<DeviceAddress, Wrong> {
    let Some(text) = value.as_str() else { return values::expected("a device of DPDK", value) };
    text.parse().map_err(|error: port_dpdk::DpdkError| error.to_string().into())
}

/// A name that the kernel does not change: it has `%d` replaced by a number.
fn interface(value: &DeValue<'_>) -> Result<String, Wrong> {
    let name = values::text(INTERFACE_LEN_MAX)(value)?;
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"/:%".contains(&byte);
    match name.bytes().all(is_plain) && name != "." && name != ".." {
        true => Ok(name),
        false => Err(format!("{name:?} is no name of an interface, such as \"dns0\"").into()),
    }
}

fn library(value: &DeValue<'_>) -> Result<PathBuf, Wrong> {
    let path = values::file(value)?;
    match path.is_absolute() {
        true => Ok(path),
        false => Err(format!("expected an absolute path such as \"{LIBRARY}\"").into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;
    use std::path::Path;

    fn errors(text: &str) -> String {
        let errors = Config::parse(Path::new("f"), text).expect_err("something is wrong");
        errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn devices_have_names_and_arguments() {
        let text = "server.port = \"dpdk\"\n[dpdk]\nhuge_pages = false\nmemory = \"128MiB\"\n\
                    devices = [\"net_memif0,role=server,id=1\", \"0000:01:00.0\"]";
        let dpdk = Config::parse(Path::new("f"), text).expect("a config").dpdk;
        let names: Vec<_> = dpdk.devices.iter().map(DeviceAddress::name).collect();
        assert_eq!(names, ["net_memif0", "0000:01:00.0"]);
        assert_eq!((dpdk.huge_pages, dpdk.memory), (false, 128 << 20));
        assert_eq!(dpdk.library, Path::new(LIBRARY));
    }

    #[test]
    fn missing_and_wrong_devices_are_errors() {
        assert!(errors("server.port = \"dpdk\"").contains("[dpdk] needs the key `devices`"));
        let none = errors("server.port = \"dpdk\"\ndpdk.devices = []");
        assert!(none.contains("`devices` names no device"), "{none}");
        assert!(errors("dpdk.devices = [\"eth0\"]").contains("f:1:17: \"eth0\" is no device"));
        assert!(errors("dpdk.devices = [3]").contains("a device of DPDK, found the number 3"));
        let twice = errors("dpdk.devices = [\"net_null0\", \"net_null0,size=64\"]");
        assert!(twice.contains("names net_null0 twice"), "{twice}");
        let few = "server.port = \"dpdk\"\n[dpdk]\ndevices = [\"net_null0\"]\n\
                   interfaces = [\"a\", \"b\"]";
        let few = errors(few);
        assert!(few.contains("has more names than 1 devices"), "{few}");
        // Also where another port leaves both alone.
        let unused = errors("dpdk.interfaces = [\"dns0\"]");
        assert!(unused.contains("has more names than 0 devices"), "{unused}");
        for name in ["dns%d", "a/b", "a b", ".."] {
            let wrong = errors(&format!("dpdk.interfaces = [\"{name}\"]"));
            assert!(wrong.contains("is no name of an interface"), "{wrong}");
        }
        assert!(errors("dpdk.library = \"dpdk.so\"").contains("absolute path"));
        assert!(errors("dpdk.memory = \"1MiB\"").contains("\"16MiB\""));
    }
}
