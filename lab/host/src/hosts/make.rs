//! The commands that create and remove both hosts.

use super::{CLIENTS, CLIENTS6, Options, Side, check_name, device, layout, state};
use crate::{Result, namespace, tool};
use std::fs;
use std::path::Path;

/// Addresses of the devices, so that each end knows the other's beforehand: locally administered.
fn link_address(side: Side) -> &'static str {
    match side {
        Side::Server => "02:00:00:00:99:01",
        Side::Client => "02:00:00:00:99:02",
    }
}

fn has_ipv6() -> bool {
    Path::new("/proc/sys/net/ipv6").exists()
}

/// Whether both namespaces are there, with their devices.
pub(super) fn is_whole(options: &Options) -> bool {
    Side::ALL.into_iter().all(|side| {
        let (space, device) = (options.namespace(side), options.device(side));
        namespace::path(&space).exists()
            && tool::output("ip", &["-n", &space, "link", "show", &device]).is_ok()
    })
}

pub(super) fn make(options: &Options) -> Result<()> {
    let [server, client] = Side::ALL.map(|side| options.namespace(side));
    for space in [&server, &client] {
        tool::run("ip", &format!("netns add {space}"))?;
        prepare(options, space)?;
    }
    let queues = format!("numrxqueues {0} numtxqueues {0}", options.queues);
    let end = |side: Side, space: &str| {
        let (name, address) = (options.device(side), link_address(side));
        format!("{name} netns {space} address {address} mtu {} {queues}", options.mtu)
    };
    let (near, far) = (end(Side::Server, &server), end(Side::Client, &client));
    tool::run("ip", &format!("link add {near} type veth peer name {far}"))?;
    for side in Side::ALL {
        set_up(options, side)?;
    }
    for side in Side::ALL {
        layout::apply(options, side)?;
    }
    Ok(())
}

/// Settings for all devices of a namespace, before any exists.
fn prepare(options: &Options, space: &str) -> Result<()> {
    tool::run("ip", &format!("-n {space} link set lo up"))?;
    if !has_ipv6() {
        return Ok(());
    }
    let mut settings = vec![("all/addr_gen_mode", "1"), ("default/addr_gen_mode", "1")];
    if space == options.namespace(Side::Client) {
        settings.push(("ip_nonlocal_bind", "1"));
    }
    namespace::within(Some(space), || {
        for (key, value) in settings {
            let file = match key.contains('/') {
                true => format!("/proc/sys/net/ipv6/conf/{key}"),
                false => format!("/proc/sys/net/ipv6/{key}"),
            };
            fs::write(&file, value).map_err(|e| format!("{file}: {e}"))?;
        }
        Ok(())
    })
}

/// Addresses, adjacent hosts and routes of one host.
fn set_up(options: &Options, side: Side) -> Result<()> {
    let (space, device) = (options.namespace(side), options.device(side));
    let ip = |words: String| tool::run("ip", &format!("-n {space} {words}"));
    let [own, own6] = side.addresses();
    let [other, other6] = side.other().addresses();
    let neighbour = link_address(side.other());
    // Without ARP the kernel joins no multicast group for an IPv6 address either, which it would
    // report within seconds (RFC 3810 §6.1).
    ip(format!("link set {device} arp off"))?;
    ip(format!("address add {own}/24 dev {device}"))?;
    ip(format!("link set {device} up"))?;
    ip(format!("neighbour replace {other} lladdr {neighbour} nud permanent dev {device}"))?;
    match side {
        Side::Server => ip(format!("route add default via {other}"))?,
        Side::Client => ip(format!("route add local {}/{} dev lo", CLIENTS.0, CLIENTS.1))?,
    }
    if !has_ipv6() {
        return Ok(());
    }
    ip(format!("address add {own6}/64 dev {device} nodad"))?;
    ip(format!("neighbour replace {other6} lladdr {neighbour} nud permanent dev {device}"))?;
    match side {
        Side::Server => ip(format!("route add default via {other6}")),
        Side::Client => ip(format!("route add local {}/{} dev lo", CLIENTS6.0, CLIENTS6.1)),
    }
}

/// Removes all existing parts of the hosts of this name; missing parts are no error.
pub(super) fn unmake(name: &str) -> Result<()> {
    check_name(name)?;
    for side in Side::ALL {
        let space = format!("{name}-{side}");
        if !namespace::path(&space).exists() {
            continue;
        }
        // Removing one end removes the other, even if a process stays in the namespace.
        let _ = tool::run("ip", &format!("-n {space} link delete {}", device(name, side)));
        tool::run("ip", &format!("netns delete {space}"))?;
    }
    state::forget(name)
}
