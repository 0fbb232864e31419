//! Which containers the switch moves packets between, and whether this machine allows one.
use crate::addresses::{Address, interfaces, key_of, present};
use crate::containers::Container;
use bpf::maps::{Array, HashMap as Table, MapData};
use bpf::{Direction, Order, ProgramLink, ProgramSet};
use rustix::time::{ClockId, clock_gettime};
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::fs;
use std::time::Duration;

type Failure = Box<dyn Error + Send + Sync>;

/// Silence after which a flow of UDP is a new one, at least.
const SILENCE_MIN: Duration = Duration::from_secs(30);

/// How long the kernel remembers a flow of UDP whose addresses it translates, and whether it
/// accepts a connection of which it did not see the beginning.
const UDP_TIMEOUT: &str = "/proc/sys/net/netfilter/nf_conntrack_udp_timeout_stream";
const TCP_LOOSE: &str = "/proc/sys/net/netfilter/nf_conntrack_tcp_loose";

/// Beginnings of the names of programs that move packets between containers already.
const RIVALS: [(&str, &str); 3] = [
    ("cil_", "Cilium"),
    ("cali_", "Calico's eBPF data plane"),
    ("calico_", "Calico's eBPF data plane"),
];

/// A member as the program has it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Member {
    interface: u32,
    mtu: u32,
    address: [u8; 6],
    gateway: [u8; 6],
}

impl Member {
    fn bytes(&self, since_ns: u64) -> [u8; 32] {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&since_ns.to_ne_bytes());
        bytes[8..12].copy_from_slice(&self.interface.to_ne_bytes());
        bytes[12..16].copy_from_slice(&self.mtu.to_ne_bytes());
        bytes[16..22].copy_from_slice(&self.address);
        bytes[22..28].copy_from_slice(&self.gateway);
        bytes
    }
}

/// The switch: its members, and where its program is attached.
pub(crate) struct Switch {
    // The programs refer to it by its descriptor until they are loaded.
    _settings: Array<MapData, u64>,
    members: Table<MapData, Address, [u8; 32]>,
    known: BTreeMap<Address, Member>,
    links: HashMap<u32, ProgramLink>,
}

impl Switch {
    /// Turns the switch on, without members.
    pub(crate) fn new(programs: &mut ProgramSet, silence: Duration) -> Result<Self, Failure> {
        let mut settings: Array<MapData, u64> = programs.take_map("settings")?.try_into()?;
        settings.set(0, silence.as_nanos() as u64, 0)?;
        let members = programs.take_map("members")?.try_into()?;
        Ok(Self { _settings: settings, members, known: BTreeMap::new(), links: HashMap::new() })
    }

    /// Removes the members that are none any more, or that have changed: until they are members
    /// again, the stack has their packets.
    pub(crate) fn remove_changed(&mut self, containers: &[Container]) -> Result<(), Failure> {
        let wanted = members(containers);
        let is_same =
            |(address, member): &(&Address, &Member)| wanted.get(*address) == Some(*member);
        let left: Vec<Address> =
            self.known.iter().filter(|one| !is_same(one)).map(|(address, _)| *address).collect();
        for address in left {
            present(self.members.remove(&address))?;
            self.known.remove(&address);
        }
        let is_member = |interface: &u32| wanted.values().any(|one| one.interface == *interface);
        self.links.retain(|interface, _| is_member(interface));
        Ok(())
    }

    /// Adds the new members.
    pub(crate) fn add_new(
        &mut self,
        programs: &mut ProgramSet,
        containers: &[Container],
    ) -> Result<(), Failure> {
        let now = clock_gettime(ClockId::Monotonic);
        let since_ns = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
        for (address, member) in members(containers) {
            if self.known.contains_key(&address) {
                continue;
            }
            let interface = member.interface;
            if let Entry::Vacant(link) = self.links.entry(interface) {
                let wire = containers.iter().find(|one| one.interface == interface);
                let Some(wire) = wire.map(|one| &one.wire) else { continue };
                // After all others, which may drop what it would move. One that has ended
                // meanwhile is no member.
                let attached =
                    programs.attach("switch_flow", wire, Direction::Ingress, Order::Last);
                let Ok(attached) = attached else { continue };
                link.insert(attached);
            }
            self.members.insert(address, member.bytes(since_ns), 0)?;
            self.known.insert(address, member);
        }
        Ok(())
    }
}

/// The addresses of containers that have opted in, and of Pods that may be switched.
fn members(containers: &[Container]) -> BTreeMap<Address, Member> {
    let owners = interfaces(containers);
    let mut found = BTreeMap::new();
    // What a process in a Pod says does not count: a network policy may hold for it.
    let opts_in = |one: &&Container| if one.is_pod { one.is_permitted } else { one.opts_in };
    for one in containers.iter().filter(opts_in) {
        for address in one.addresses.iter().map(|ip| key_of(*ip)) {
            if owners.get(&address) == Some(&one.interface) {
                let (interface, mtu) = (one.interface, one.mtu);
                let member = Member { interface, mtu, address: one.address, gateway: one.gateway };
                found.insert(address, member);
            }
        }
    }
    found
}

/// Silence after which a flow of UDP is a new one on this machine.
///
/// # Errors
/// Another program moves packets between containers already, or the kernel would not go on with a
/// connection that it gets back.
pub(crate) fn check_machine() -> Result<Duration, Failure> {
    refuse_rivals(&bpf::program_names()?)?;
    let number = |path: &str| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    if number(TCP_LOOSE) == Some(0) {
        return Err(format!(
            "{TCP_LOOSE} is 0: the kernel would drop the packets of a connection that the switch \
             gives back to it; set it to 1, or leave out --switch"
        )
        .into());
    }
    let remembered = number(UDP_TIMEOUT).map_or(Duration::ZERO, Duration::from_secs);
    Ok(SILENCE_MIN.max(remembered + Duration::from_secs(1)))
}

/// Fails where one of these programs of the kernel moves packets between containers.
fn refuse_rivals(names: &[String]) -> Result<(), String> {
    let is_there = |prefix: &str| names.iter().any(|name| name.starts_with(prefix));
    match RIVALS.iter().find(|(prefix, _)| is_there(prefix)) {
        None => Ok(()),
        Some((prefix, rival)) => Err(format!(
            "{rival} moves packets between containers on this machine already (the kernel has \
             programs {prefix}*): leave out --switch"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::container;
    use std::net::IpAddr;

    #[test]
    fn members_are_those_that_opt_in_and_pods_that_are_permitted() {
        let of = |interface: u32, ip: &str, opts_in, is_pod| Container {
            addresses: vec![ip.parse::<IpAddr>().unwrap()],
            opts_in,
            is_pod,
            ..container("c", interface, "0")
        };
        let containers = [
            of(2, "10.0.0.2", true, false),
            of(3, "10.0.0.3", false, false),
            of(4, "10.0.0.4", true, true),
            Container { is_permitted: true, ..of(7, "10.0.0.7", false, true) },
            Container { is_permitted: true, ..of(8, "10.0.0.8", false, false) },
            of(5, "10.0.0.5", true, false),
            // An address of two is of neither.
            of(6, "10.0.0.5", false, false),
        ];
        let found: Vec<u32> = members(&containers).values().map(|one| one.interface).collect();
        assert_eq!(found, [2, 7]);
    }

    #[test]
    fn switch_is_refused_where_others_move_packets_already() {
        // The kernel keeps 15 letters of a name.
        for (name, rival) in [
            ("cil_from_contai", Some("Cilium")),
            ("cali_tc_preambl", Some("Calico's eBPF data plane")),
            ("calico_tc_main", Some("Calico's eBPF data plane")),
            ("from_container", None),
            ("ciliary", None),
        ] {
            let told = refuse_rivals(&["switch_flow".into(), name.into()]).err();
            let says = |rival: &str| told.as_ref().is_some_and(|why| why.starts_with(rival));
            assert!(rival.map_or(told.is_none(), says), "{name}: {told:?}");
        }
    }

    #[test]
    fn member_is_what_the_program_reads() {
        let member =
            Member { interface: 7, mtu: 1_500, address: [1, 2, 3, 4, 5, 6], gateway: [9; 6] };
        let bytes = member.bytes(1 << 40);
        assert_eq!(u64::from_ne_bytes(bytes[..8].try_into().unwrap()), 1 << 40);
        assert_eq!(bytes[8..16], [&7_u32.to_ne_bytes()[..], &1_500_u32.to_ne_bytes()].concat());
        assert_eq!(bytes[16..], [1, 2, 3, 4, 5, 6, 9, 9, 9, 9, 9, 9, 0, 0, 0, 0]);
    }
}
