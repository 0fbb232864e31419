//! Which containers this machine has: their ends of virtual wires, addresses, names and CPUs.
//!
//! A container here is a network namespace with a virtual wire (veth) into the namespace of the
//! calling thread: that of a Pod, of a container with a network of its own, or a bare one.
use crate::limits::{FILE_LEN_MAX, NAME_LEN_MAX, NAMESPACES_MAX};
use cpu::CpuList;
use netlink::{Link, LinkAddress, Netlink, Peer};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io::{self, Read};
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;

/// The variable of a process by which its container opts in to the switch.
pub const OPT_IN: &str = "DUNLIN_FABRIC=switch";

/// The kubelet names the groups of Pods so.
const POD_GROUP: &str = "kubepods";

/// A container, by one of its virtual wires.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Container {
    /// The number of this machine's end of the wire.
    pub interface: u32,
    /// The name of that end.
    pub wire: String,
    /// Its name: the Pod's, the one that its runtime gave it, the namespace's, or the process'.
    pub name: String,
    /// The id that its runtime gave it, shortened; empty: it has none.
    pub id: String,
    /// Its addresses, without those that are for the wire alone.
    pub addresses: Vec<IpAddr>,
    /// The link address of its own end.
    #[serde(skip)]
    pub address: LinkAddress,
    /// The link address of this machine's end.
    #[serde(skip)]
    pub gateway: LinkAddress,
    /// The most bytes of a packet that its end takes.
    pub mtu: u32,
    /// The CPUs that its processes may run on.
    #[serde(serialize_with = "cpu_topology::as_text")]
    pub cpus: CpuList,
    /// A process in it has the variable that says so: the switch may move its packets.
    pub opts_in: bool,
    /// It is a Pod of Kubernetes.
    pub is_pod: bool,
    /// The uid of that Pod.
    #[serde(skip)]
    pub pod: Option<String>,
    /// It is a Pod with the label that says so, and no network policy selects it: the switch may
    /// move its packets.
    pub is_permitted: bool,
}

/// This machine's ends of virtual wires, by the namespace and the number of the other end.
type Wires = HashMap<(u32, u32), Link>;

/// A network namespace, and the processes in it.
#[derive(Debug)]
struct Namespace {
    path: PathBuf,
    name: Option<String>,
    processes: Vec<PathBuf>,
}

/// The containers behind virtual wires of this thread's network namespace, by interface.
///
/// # Errors
/// The kernel refuses to list interfaces: root, or CAP_SYS_ADMIN and CAP_SYS_PTRACE, may do all.
pub fn find() -> io::Result<Vec<Container>> {
    let mut netlink = Netlink::open()?;
    let mut wires: Wires = HashMap::new();
    for link in netlink.links()? {
        if let Some(Peer { index, namespace: Some(namespace) }) = link.peer {
            wires.insert((namespace, index), link);
        }
    }
    if wires.is_empty() {
        return Ok(Vec::new());
    }
    let mut known = Vec::new();
    for namespace in namespaces()? {
        // One that has ended meanwhile has no wire.
        let Ok(file) = File::open(&namespace.path) else { continue };
        if let Ok(Some(id)) = netlink.namespace_id(&file) {
            known.push((id, file, namespace));
        }
    }
    // A thread of its own: it goes into one namespace after another.
    let mut found = thread::scope(|scope| {
        let look = || {
            let each = known.iter().map(|(id, file, one)| read_namespace(*id, file, one, &wires));
            each.flatten().collect::<Vec<_>>()
        };
        scope.spawn(look).join().unwrap_or_default()
    });
    found.sort_by_key(|one| one.interface);
    found.dedup_by_key(|one| one.interface);
    Ok(found)
}

/// All network namespaces but this thread's.
fn namespaces() -> io::Result<Vec<Namespace>> {
    let own = fs::metadata("/proc/thread-self/ns/net")?.ino();
    let mut found: BTreeMap<u64, Namespace> = BTreeMap::new();
    for entry in fs::read_dir("/run/netns").into_iter().flatten().flatten() {
        let Ok(inode) = entry.metadata().map(|metadata| metadata.ino()) else { continue };
        let name = entry.file_name().into_string().ok();
        let namespace = Namespace { path: entry.path(), name, processes: Vec::new() };
        found.insert(inode, namespace);
    }
    for entry in fs::read_dir("/proc")?.flatten() {
        let is_process = entry.file_name().to_string_lossy().bytes().all(|b| b.is_ascii_digit());
        let path = entry.path().join("ns/net");
        let Some(inode) = fs::metadata(&path).ok().filter(|_| is_process).map(|m| m.ino()) else {
            continue;
        };
        let new = || Namespace { path, name: None, processes: Vec::new() };
        found.entry(inode).or_insert_with(new).processes.push(entry.path());
    }
    found.remove(&own);
    Ok(found.into_values().take(NAMESPACES_MAX).collect())
}

/// The containers of a namespace. One that ends meanwhile has none.
fn read_namespace(id: u32, file: &File, namespace: &Namespace, wires: &Wires) -> Vec<Container> {
    let look = || -> io::Result<_> {
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?;
        let mut netlink = Netlink::open()?;
        Ok((netlink.links()?, netlink.addresses()?))
    };
    let Ok((links, addresses)) = look() else { return Vec::new() };
    let identity = Identity::of(namespace);
    let mut found = Vec::new();
    for link in links {
        let Some(wire) = wires.get(&(id, link.index)) else { continue };
        let (Some(address), Some(gateway)) = (link.address, wire.address) else { continue };
        let own = addresses.iter().filter(|one| one.link == link.index).map(|one| one.ip);
        found.push(Container {
            interface: wire.index,
            wire: wire.name.clone(),
            name: identity.name.clone().unwrap_or_else(|| wire.name.clone()),
            id: identity.id.clone(),
            addresses: own.filter(|ip| !is_for_the_wire(ip)).collect(),
            address,
            gateway,
            mtu: link.mtu.min(wire.mtu),
            cpus: identity.cpus.clone(),
            opts_in: identity.opts_in,
            is_pod: identity.is_pod,
            pod: identity.pod.clone(),
            is_permitted: false,
        });
    }
    found
}

/// Link-local addresses are the same on many wires.
fn is_for_the_wire(ip: &IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    }
}

/// Who the processes of a namespace are.
#[derive(Debug, Default)]
struct Identity {
    name: Option<String>,
    id: String,
    cpus: CpuList,
    opts_in: bool,
    is_pod: bool,
    pod: Option<String>,
}

impl Identity {
    fn of(namespace: &Namespace) -> Self {
        let read = |process: &Path, file: &str| text(&process.join(file));
        let groups = namespace.processes.iter().filter_map(|process| read(process, "cgroup"));
        let mut of_pods = groups.filter(|groups| groups.contains(POD_GROUP)).peekable();
        let is_pod = of_pods.peek().is_some();
        let pod = of_pods.find_map(|groups| pod_uid(&groups));
        let environments = namespace.processes.iter().filter_map(|one| read(one, "environ"));
        let opts_in = environments.into_iter().any(|all| all.split('\0').any(|one| one == OPT_IN));
        let ids = namespace.processes.iter().filter_map(|process| {
            let id = container_id(&read(process, "cgroup")?)?;
            Some((id, process))
        });
        let first = ids.min();
        let lists = namespace.processes.iter().filter_map(|process| {
            let status = read(process, "status")?;
            let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
            CpuList::from_kernel(list).ok()
        });
        let cpus = lists.fold(CpuList::default(), |all, one| all.union(&one));
        let host = first.as_ref().and_then(|(_, process)| read(process, "root/etc/hostname"));
        let of_host = host.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty());
        let program = || {
            let process = namespace.processes.first()?;
            let number = process.file_name()?.to_string_lossy().into_owned();
            Some(format!("{}-{number}", read(process, "comm")?.trim()))
        };
        let id = first.map(|(id, _)| id).unwrap_or_default();
        let short = Some(id.clone()).filter(|id| !id.is_empty());
        let name = of_host.or(short).or_else(|| namespace.name.clone()).or_else(program);
        let name = name.map(|name| command_line::plain(&name).chars().take(NAME_LEN_MAX).collect());
        Self { name, id, cpus, opts_in, is_pod, pod }
    }
}

/// The start of the id in the path of a control group: runtimes name groups by 64 hexadecimal
/// digits.
fn container_id(groups: &str) -> Option<String> {
    let mut parts = groups.split(|c: char| !c.is_ascii_hexdigit());
    let id = parts.rfind(|part| part.len() == 64)?;
    id.get(..12).map(str::to_owned)
}

/// The uid of a Pod in the path of a control group: the kubelet names groups by it, systemd with
/// underscores.
fn pod_uid(groups: &str) -> Option<String> {
    let mut parts = groups
        .split(['/', '\n'])
        .flat_map(|part| part.split("pod"))
        .map(|part| part.trim_end_matches(".slice").replace('_', "-"));
    let is_uid = |part: &String| {
        let lens: Vec<usize> = part.split('-').map(str::len).collect();
        lens == [8, 4, 4, 4, 12] && part.bytes().all(|b| b == b'-' || b.is_ascii_hexdigit())
    };
    parts.find(is_uid)
}

/// The text of a small file; `None`: it is gone, or not readable.
fn text(path: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(FILE_LEN_MAX).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_is_that_of_the_innermost_group_of_a_runtime() {
        let id = "0123456789abcdef".repeat(4);
        let other = "fedcba9876543210".repeat(4);
        let of = |groups: String| container_id(&groups);
        let short = Some("0123456789ab".to_owned());
        assert_eq!(of(format!("0::/kubepods.slice/pod7.slice/cri-containerd-{id}.scope\n")), short);
        assert_eq!(of(format!("0::/docker/{id}\n")), short);
        assert_eq!(of(format!("0::/kind/{other}/kubelet/{id}")), short);
        assert_eq!(of("0::/user.slice/session-1.scope\n".into()), None);
    }

    #[test]
    fn addresses_of_a_wire_alone_are_no_container_s() {
        let is = |ip: &str| is_for_the_wire(&ip.parse().unwrap());
        assert!(is("169.254.1.1") && is("fe80::1"));
        assert!(!is("10.0.0.1") && !is("2001:db8::1"));
    }

    #[test]
    fn uid_is_that_in_the_path_of_the_kubelet_s_group() {
        let uid = Some("0a1b2c3d-0123-4567-89ab-0123456789ab".to_owned());
        let of = |path: &str| pod_uid(path);
        assert_eq!(
            of("0::/kubepods/burstable/pod0a1b2c3d-0123-4567-89ab-0123456789ab/0123\n"),
            uid
        );
        assert_eq!(
            of("0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-\
                pod0a1b2c3d_0123_4567_89ab_0123456789ab.slice/cri-containerd-01.scope\n"),
            uid
        );
        // A static Pod's is the hash of its file, by which the API server does not know it.
        assert_eq!(of("0::/kubepods/pod0123456789abcdef0123456789abcdef/01\n"), None);
        assert_eq!(of("0::/system.slice/ssh.service\n"), None);
    }
}
