//! BIRD over the interface of a device of DPDK: its session ends neither with the server nor with
//! its restarts. What lacks is printed.
//!
//! | variable | meaning |
//! | --- | --- |
//! | `DUNLIN_RESTARTS` | of the server (5) |

use crate::anycast_bed::{missing, router};
use crate::dpdk::serve;
use crate::dpdk_devices::set_up_interface;
use crate::memif_end::environment;
use crate::pair::{Wire, skip};
use crate::served::{NOERROR, binary, exchange, query, rcode};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use test_support::folder::Folder;
use test_support::wait;

const SERVER: (&str, u32) = ("198.51.100.53", 64_512);
const CLIENT: (&str, u32) = ("192.0.2.2", 64_513);

/// A router that has a session with the other one.
fn config((own, own_as): (&str, u32), (other, other_as): (&str, u32)) -> String {
    format!(
        "router id {own};\nprotocol device {{ }}\nprotocol bgp peer {{\n  \
         local {own} as {own_as};\n  neighbor {other} as {other_as};\n  multihop;\n  \
         connect delay time 1;\n  connect retry time 1;\n  \
         ipv4 {{ import all; export none; }};\n}}\n"
    )
}

/// Since when the session is established, as the router writes it.
fn established(folder: &Path, name: &str) -> Option<String> {
    let mut command = Command::new("birdc");
    command.arg("-s").arg(folder.join(name)).args(["show", "protocols"]);
    let shown = command.output().expect("birdc runs").stdout;
    let shown = String::from_utf8_lossy(&shown).into_owned();
    let line = shown.lines().find(|line| line.starts_with("peer "))?;
    line.trim_end().ends_with("Established").then(|| line.to_owned())
}

/// Asks until the end: how long each silence was.
fn silences(wire: &Wire, at: SocketAddr, stop: &AtomicBool) -> Vec<Duration> {
    let ask = || exchange(at, &query("ns.a.test"), Duration::from_millis(20));
    wire.in_client(|| {
        let (mut found, mut last) = (Vec::new(), Instant::now());
        while !stop.load(Ordering::Relaxed) {
            if ask().is_some_and(|reply| rcode(&reply) == NOERROR) {
                found.push(last.elapsed());
                last = Instant::now();
            }
        }
        found
    })
}

#[test]
#[ignore = "slow: sessions of BIRD, and restarts of the server"]
fn session_of_bgp_outlives_restarts_of_the_server() {
    if let Some(why) = missing() {
        return skip(why);
    }
    if environment().is_none() {
        return;
    }
    let restarts: usize =
        std::env::var("DUNLIN_RESTARTS").map_or(5, |text| text.parse().expect("a number"));
    let (wire, folder, of_routers) =
        (Wire::new(), Folder::new("dpdk-router"), Folder::new("dpdk-routers"));
    let program = binary().get_program().to_str().expect("a path").to_owned();
    let device = "net_af_packet0,iface=s0,qpairs=2\"]\ninterfaces = [\"dns0";
    let start =
        || serve(&mut wire.command(&program), &folder, "listen = [\"0.0.0.0:53\"]\n", device);
    let mut served = start();
    set_up_interface(&wire);
    let _routers = [
        router(wire.server_name(), &of_routers, "server", &config(SERVER, CLIENT)),
        router(wire.client_name(), &of_routers, "neighbor", &config(CLIENT, SERVER)),
    ];
    let both = || ["server", "neighbor"].map(|name| established(&of_routers, name));
    let before = wait::until_value("a session", both, |both| both.iter().all(Option::is_some));
    let at = SocketAddr::new(SERVER.0.parse().expect("an address"), 53);
    let stop = AtomicBool::new(false);
    let mut found = std::thread::scope(|scope| {
        let asked = scope.spawn(|| silences(&wire, at, &stop));
        for _ in 0..restarts {
            served.end();
            served = start();
        }
        stop.store(true, Ordering::Relaxed);
        asked.join().expect("a client")
    });
    assert_eq!(both(), before, "the same session");
    found.sort();
    found.reverse();
    let median = found.get(restarts / 2).copied().unwrap_or_default();
    let most = found.first().copied().unwrap_or_default();
    println!("{restarts} restarts: without answers for {median:.0?} (median), {most:.0?} (most)");
    assert!(found.len() > restarts, "{} answers", found.len());
    served.end();
}
