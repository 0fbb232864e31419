//! The program that the kernel runs for every packet of an interface: it selects the packets for
//! this server.

use crate::interface::{Interface, addresses};
use crate::limits::TARGETS_MAX;
use bpf::maps::{HashMap, MapData, MapError, XskMap};
use bpf::{AttachMode, AttachedProgram, EbpfLoader, ProgramMaps, XdpError};
use packet::frame::NETWORK_MAX;
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd};

/// `bpf/filter.c`, compiled.
static OBJECT: &[u8] = bpf::include_bytes_aligned!("../bpf/filter.o");

/// The value of a target that every queue accepts: `ANY_QUEUE` of the program.
const ANY_QUEUE: u32 = u32::MAX;

/// Which packets are accepted.
#[derive(Clone, Debug, Default)]
pub struct FilterRules {
    /// Addresses and ports; an unspecified address stands for all of its family on this host.
    pub listen: Vec<SocketAddr>,
    /// Whether a packet is left to the kernel if its reply would take another route.
    pub route_check: bool,
    /// The priority in a dispatcher of libxdp: programs with a lower number run first. `None`: no
    /// dispatcher is joined.
    pub priority: Option<u32>,
}

/// Counters of the program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FilterCounts {
    /// Packets accepted.
    pub taken: u64,
    /// Of these, those whose route the kernel did not report (`net.ipv4.conf.lo.forwarding` and
    /// `net.ipv6.conf.lo.forwarding` are off).
    pub unchecked: u64,
    /// Left to the kernel, because the reply takes another route.
    pub route: u64,
    /// Left to the kernel, which must first resolve the client's link address.
    pub neighbour: u64,
    /// Left to the kernel, because the packet is too long.
    pub long: u64,
    /// Left to the kernel, because no socket serves the queue, or another one is meant
    /// ([`FilterProgram::admit`]).
    pub socket: u64,
    /// Left to the kernel, because the link address is another host's.
    pub foreign: u64,
    /// Left to the kernel, one in some thousands, so that it checks whether the next hop is still
    /// reachable.
    pub probe: u64,
}

/// The attached program. It is detached when this value is dropped, and when the process ends in
/// any way. A component may stay in a dispatcher, and then leaves all packets to the kernel.
#[derive(Debug)]
pub struct FilterProgram {
    attached: AttachedProgram,
    _routes: Option<RouteGuard>,
}

impl FilterProgram {
    /// Loads the program and attaches it to an interface, by the driver if possible. It accepts
    /// nothing before a queue is [`serve`](Self::serve)d.
    ///
    /// # Errors
    /// Why not, and what to do.
    pub fn attach(interface: &Interface, rules: &FilterRules) -> Result<Self, XdpError> {
        Self::with_table(interface, rules, TARGETS_MAX as u32)
    }

    /// The same for a client of servers, such as a load generator: up to `targets_max` local
    /// addresses and ports are added one by one ([`admit`](Self::admit)), and routes are not
    /// checked.
    ///
    /// # Errors
    /// As [`attach`](Self::attach).
    pub fn attach_for_answers(interface: &Interface, targets_max: u32) -> Result<Self, XdpError> {
        Self::with_table(interface, &FilterRules::default(), targets_max)
    }

    fn with_table(
        interface: &Interface,
        rules: &FilterRules,
        targets_max: u32,
    ) -> Result<Self, XdpError> {
        let room = interface.mtu.saturating_sub(NETWORK_MAX) as u32;
        let check = u32::from(rules.route_check);
        let mut loader = EbpfLoader::new();
        loader.override_global("room", &room, true).override_global("route_check", &check, true);
        loader.override_global("own", &interface.address, true);
        loader.override_global("interface", &interface.index, true);
        loader.map_max_entries("targets", targets_max);
        let prepare = |tables: &mut ProgramMaps| {
            set_targets(tables, &rules.listen)?;
            let table = |error: MapError| XdpError::Table("links", error.into());
            let mut links =
                HashMap::<_, u32, u32>::try_from(tables.get("links")?).map_err(table)?;
            let networks = interface.networks().map_err(XdpError::Interface)?;
            networks
                .into_iter()
                .try_for_each(|(index, tags)| links.insert(index, tags, 0).map_err(table))
        };
        let device = interface.device();
        let routes = rules.route_check.then(RouteGuard::let_be_asked);
        let attached = AttachedProgram::new(loader, OBJECT, &device, rules.priority, prepare)?;
        Ok(Self { attached, _routes: routes })
    }

    /// Where it runs.
    pub fn mode(&self) -> AttachMode {
        self.attached.mode()
    }

    /// Whether it is a component of a dispatcher.
    pub fn is_joined(&self) -> bool {
        self.attached.is_joined()
    }

    /// Whether it is still attached. Others can change that in a dispatcher.
    pub fn is_there(&self) -> bool {
        self.attached.is_there()
    }

    /// Passes the packets of a queue to this AF_XDP socket from now on.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn serve(&mut self, queue: u32, socket: impl AsFd) -> Result<(), XdpError> {
        let table = |error: MapError| XdpError::Table("sockets", error.into());
        let mut sockets = XskMap::try_from(self.attached.tables.get("sockets")?).map_err(table)?;
        sockets.set(queue, socket.as_fd().as_raw_fd(), 0).map_err(table)
    }

    /// Accepts packets for these addresses and ports from now on, and no others; as in
    /// [`FilterRules::listen`].
    ///
    /// # Errors
    /// They are too many, and the old ones stay; or the kernel refuses.
    pub fn listen(&mut self, listen: &[SocketAddr]) -> Result<(), XdpError> {
        set_targets(&mut self.attached.tables, listen)
    }

    /// Accepts packets for one address and port in this queue only; in others they are left to the
    /// kernel.
    ///
    /// # Errors
    /// The map is full, or the kernel refuses.
    pub fn admit(&mut self, target: SocketAddr, queue: u32) -> Result<(), XdpError> {
        targets(&mut self.attached.tables)?.insert(key(target), queue, 0).map_err(of_targets)
    }

    /// Leaves packets for an address and port to the kernel from now on.
    ///
    /// # Errors
    /// They were not accepted, or the kernel refuses.
    pub fn dismiss(&mut self, target: SocketAddr) -> Result<(), XdpError> {
        targets(&mut self.attached.tables)?.remove(&key(target)).map_err(of_targets)
    }

    /// The counters.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn passed(&self) -> Result<FilterCounts, XdpError> {
        let counts = self.attached.counts()?;
        let [taken, unchecked, route, neighbour, long, socket, foreign, probe] = counts;
        Ok(FilterCounts { taken, unchecked, route, neighbour, long, socket, foreign, probe })
    }

    /// Detaches it, as dropping does, but reports errors.
    ///
    /// # Errors
    /// It stays in its dispatcher, where it passes all packets on.
    pub fn leave(mut self) -> Result<(), XdpError> {
        self.refuse_all();
        self.attached.leave()
    }

    /// The component may be unable to leave its dispatcher. It accepts nothing then.
    fn refuse_all(&mut self) {
        if self.is_joined() {
            let _ = self.listen(&[]);
        }
    }
}

impl Drop for FilterProgram {
    fn drop(&mut self) {
        self.refuse_all();
    }
}

/// The kernel reports the route of a packet to a program only on interfaces that forward. Asked for
/// the loopback, by which only local packets arrive, it reports the route of a packet of this host.
/// So forwarding is enabled for the loopback while this value lives. If that is not possible,
/// replies leave by the interface of their query, and are counted as [`FilterCounts::unchecked`].
#[derive(Debug)]
struct RouteGuard(Vec<String>);

impl RouteGuard {
    fn let_be_asked() -> Self {
        let files = ["ipv4", "ipv6"].map(|of| format!("/proc/sys/net/{of}/conf/lo/forwarding"));
        let is_off = |file: &String| std::fs::read_to_string(file).is_ok_and(|on| on.trim() == "0");
        let set = |file: &String| is_off(file) && std::fs::write(file, "1").is_ok();
        Self(files.into_iter().filter(set).collect())
    }
}

impl Drop for RouteGuard {
    fn drop(&mut self) {
        // Without the privilege the setting stays as it is.
        self.0.iter().for_each(|file| drop(std::fs::write(file, "0")));
    }
}

/// An address and port as the program's map key.
fn key(target: SocketAddr) -> [u8; 20] {
    let address = match target.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    let mut key = [0; 20];
    key[..16].copy_from_slice(&address.octets());
    key[16..18].copy_from_slice(&target.port().to_be_bytes());
    key
}

fn of_targets(error: MapError) -> XdpError {
    XdpError::Table("targets", error.into())
}

/// The map of addresses, each with its queue.
fn targets(tables: &mut ProgramMaps) -> Result<HashMap<&mut MapData, [u8; 20], u32>, XdpError> {
    HashMap::try_from(tables.get("targets")?).map_err(of_targets)
}

/// Sets the map of addresses.
fn set_targets(tables: &mut ProgramMaps, listen: &[SocketAddr]) -> Result<(), XdpError> {
    let own = addresses().map_err(XdpError::Interface)?;
    let asked = expand(listen, &own);
    if asked.len() > TARGETS_MAX {
        let why = format!(
            "{} listening addresses are more than the maximum of {TARGETS_MAX}: list those of \
             [server] \
             listen one by one",
            asked.len()
        );
        return Err(XdpError::Table("targets", why.into()));
    }
    let wanted: BTreeSet<_> = asked.into_iter().map(key).collect();
    let mut map = targets(tables)?;
    let there: BTreeSet<_> = map.keys().collect::<Result<_, _>>().map_err(of_targets)?;
    // First removes entries, to make room.
    there.difference(&wanted).try_for_each(|gone| map.remove(gone).map_err(of_targets))?;
    let mut new = wanted.difference(&there);
    new.try_for_each(|new| map.insert(new, ANY_QUEUE, 0).map_err(of_targets))
}

/// The addresses to listen on, one by one.
fn expand(listen: &[SocketAddr], own: &[IpAddr]) -> Vec<SocketAddr> {
    let mut targets = Vec::new();
    for target in listen {
        if target.ip().is_unspecified() {
            let family = own.iter().filter(|ip| ip.is_ipv4() == target.is_ipv4());
            targets.extend(family.map(|ip| SocketAddr::new(*ip, target.port())));
        } else {
            targets.push(SocketAddr::new(target.ip(), target.port()));
        }
    }
    targets.sort();
    targets.dedup();
    targets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_address_means_those_that_there_are() {
        let own = ["192.0.2.1", "2001:db8::1", "192.0.2.2"].map(|ip| ip.parse().unwrap());
        let listen = ["0.0.0.0:53", "192.0.2.2:53", "[::]:54", "198.51.100.1:55"];
        let targets = expand(&listen.map(|at| at.parse().unwrap()), &own);
        let expected = ["192.0.2.1:53", "192.0.2.2:53", "198.51.100.1:55", "[2001:db8::1]:54"];
        assert_eq!(targets, expected.map(|at| at.parse().unwrap()));
    }

    #[test]
    fn map_key_has_the_form_of_the_program() {
        let key = key("192.0.2.1:53".parse().unwrap());
        assert_eq!(key[10..], [0xff, 0xff, 192, 0, 2, 1, 0, 53, 0, 0]);
    }
}
