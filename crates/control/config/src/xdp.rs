//! `[xdp]`: the interface that AF_XDP serves.
use crate::PortKind;
use crate::limits::{INTERFACE_LEN_MAX, NICE, PRIORITY};
use crate::section::Section;
use crate::values::{self, Wrong, describe};
use cpu::CpuList;
use toml::de::DeValue;

/// `[xdp]`
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Xdp {
    /// The name of the interface; empty: none.
    pub interface: String,
    /// The queues that are served.
    pub queues: Queues,
    /// Whether queries pass to the kernel if their reply would leave by another interface.
    pub route_check: bool,
    /// The position in a dispatcher, after programs with a lower number.
    pub priority: u32,
    /// The niceness of workers while they serve queues.
    pub nice: i32,
}

/// The queues of the interface that are served.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Queues {
    #[default]
    /// All of them.
    All,
    /// These.
    Listed(Vec<u32>),
}

impl Xdp {
    /// Reads the section; it must name an interface if the workers' port is AF_XDP.
    pub fn read(mut section: Section<'_, '_>, port: PortKind) -> Self {
        let name = values::text(INTERFACE_LEN_MAX);
        let interface = section.read("interface", String::new(), name);
        if port == PortKind::Xdp && interface.is_empty() {
            section.missing("interface");
        }
        let xdp = Self {
            interface,
            queues: section.read("queues", Queues::All, queues),
            route_check: section.read("route_check", true, values::boolean),
            priority: section.read("priority", 50, values::number(PRIORITY)),
            nice: section.read("nice", -10, values::number(NICE)),
        };
        section.close();
        xdp
    }
}

/// `"all"`, or a list of queues such as `"0-3,6"`.
fn queues(value: &DeValue<'_>) -> Result<Queues, Wrong> {
    let what = "expected \"all\", or queues such as \"0-3,6\"";
    match value.as_str() {
        Some("all") => Ok(Queues::All),
        Some(list) => match list.parse::<CpuList>() {
            Ok(list) => Ok(Queues::Listed(list.as_slice().iter().map(|n| *n as u32).collect())),
            Err(error) => Err(format!("{what}: {error}").into()),
        },
        None => Err(format!("{what}, found {}", describe(value)).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;
    use std::path::Path;

    fn told(text: &str) -> Vec<String> {
        let errors = Config::parse(Path::new("f"), text).expect_err("something is wrong");
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn queues_are_all_or_listed() {
        let text = "server.port = \"xdp\"\nxdp = { interface = \"eth0\", queues = \"0-1,4\" }";
        let xdp = Config::parse(Path::new("f"), text).expect("a config").xdp;
        assert_eq!(xdp.queues, Queues::Listed(vec![0, 1, 4]));
        assert!(told("xdp.queues = 3")[0].contains("found"), "{:?}", told("xdp.queues = 3"));
        assert!(told("xdp.queues = \"many\"")[0].contains("queues such as"));
    }

    #[test]
    fn interface_must_be_named() {
        assert!(told("server.port = \"xdp\"")[0].contains("[xdp] needs the key `interface`"));
        assert!(told("xdp.interface = \"a-name-longer-than-15\"")[0].contains("15"));
    }
}
