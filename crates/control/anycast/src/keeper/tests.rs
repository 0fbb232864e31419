use super::*;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::thread;
use test_support::skip::skip;
use test_support::spaces::{Spaces, within};
use test_support::wait;

const ADDRESSES: [&str; 2] = ["192.0.2.53", "2001:db8::53"];

fn announcement(table: u32) -> Announcement {
    let addresses = ADDRESSES.map(|address| address.parse().expect("an address"));
    Announcement { addresses: addresses.into(), table }
}

/// A server's end, and the keeper of the other one in a thread of this namespace.
fn keeper(space: &str) -> OwnedFd {
    let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    let pair = rustix::net::socketpair(family, kind, SocketFlags::CLOEXEC, None);
    let (server, other) = pair.expect("a pair");
    let space = space.to_owned();
    let run = move || Keeper::new(other, announcement(153)).run();
    thread::spawn(move || within(&space, run).expect("it ends with the server"));
    server
}

fn beat(server: &OwnedFd, is_announced: bool) {
    let heartbeat = Heartbeat { is_announced, sent: now() }.to_bytes();
    send(server, &heartbeat, SendFlags::DONTWAIT).expect("the keeper receives");
}

fn last_report(server: &OwnedFd) -> Option<Report> {
    let mut buffer = [0; MESSAGE_LEN_MAX];
    let mut last = None;
    while let Ok((len @ 1.., _)) = recv(server, &mut buffer, RecvFlags::DONTWAIT) {
        last = Report::from_bytes(&buffer[..len]);
    }
    last
}

/// The routes of the table, both families.
fn routes(spaces: &Spaces) -> String {
    let of = |family: &str| {
        // An empty table may be absent.
        spaces.told_by(&format!("ip -n {{s}} -{family} route show table 153")).unwrap_or_default()
    };
    of("4") + &of("6")
}

fn devices(spaces: &Spaces) -> usize {
    let devices = spaces.told_by("ip -n {s} -o link show").expect("devices");
    devices.lines().filter(|line| line.contains("dunlin")).count()
}

fn wait_for_routes(spaces: &Spaces, server: &OwnedFd) {
    wait::until_value(
        "routes to both addresses",
        || {
            beat(server, true);
            routes(spaces)
        },
        |routes| ADDRESSES.iter().all(|address| routes.contains(address)),
    );
}

fn wait_for_nothing(spaces: &Spaces) {
    wait::until_eq(
        "no route and no device",
        || (routes(spaces), devices(spaces)),
        (String::new(), 0),
    );
}

#[test]
fn routes_last_as_long_as_heartbeats_say_so() {
    if !rustix::process::geteuid().is_root() {
        return skip("network namespaces: run it as root");
    }
    let spaces = Spaces::new("dunlin-keeper");
    let server = keeper(&spaces.server);
    wait_for_routes(&spaces, &server);
    assert!(routes(&spaces).contains("proto 153"), "{}", routes(&spaces));
    let report = wait::until("a report", || last_report(&server));
    assert_eq!((report.state, report.text.as_str()), (KeeperState::Announced, "dunlin0"));
    // A word of the server.
    beat(&server, false);
    wait_for_nothing(&spaces);
    // Silence.
    wait_for_routes(&spaces, &server);
    wait_for_nothing(&spaces);
    // What others remove comes back.
    wait_for_routes(&spaces, &server);
    spaces.run("ip -n {s} route flush table 153");
    wait_for_routes(&spaces, &server);
    // The keeper removes it, too, while no heartbeat comes.
    wait::until("a device that can be removed", || {
        beat(&server, true);
        spaces.told_by("ip -n {s} link del dunlin0").ok()
    });
    wait_for_routes(&spaces, &server);
    // The end of the server.
    drop(server);
    wait_for_nothing(&spaces);
}

#[test]
fn refused_route_is_reported_and_retried() {
    if !rustix::process::geteuid().is_root() {
        return skip("network namespaces: run it as root");
    }
    let spaces = Spaces::new("dunlin-refused");
    spaces.run("ip -n {s} link set lo up\nip -n {s} route add 192.0.2.53/32 dev lo table 153");
    let server = keeper(&spaces.server);
    let failed = |what: &str| {
        wait::until_value(
            what,
            || {
                beat(&server, true);
                last_report(&server).unwrap_or_default()
            },
            |report| report.state == KeeperState::Failed && report.text.contains(what),
        );
        assert_eq!(devices(&spaces), 0, "a part is not announced");
    };
    failed("table 153 gets no route to 192.0.2.53");
    within(&spaces.server, || {
        std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1").expect("it can be set");
    });
    spaces.run("ip -n {s} route del 192.0.2.53/32 dev lo table 153");
    failed("net.ipv6.conf.default.disable_ipv6");
    within(&spaces.server, || {
        std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "0").expect("it can be set");
    });
    wait_for_routes(&spaces, &server);
}
