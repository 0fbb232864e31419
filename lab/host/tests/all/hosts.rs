//! Two hosts, for real. Needs root.

use test_support::skip;

use lab_host::counters::{Host, Reading};
use lab_host::hosts::{Hosts, HostsState, Layout, Options, Side};
use lab_host::namespace;
use std::net::UdpSocket;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

/// Hosts that are gone in the end.
struct Bench(Hosts);

impl Drop for Bench {
    fn drop(&mut self) {
        Hosts::down(&self.0.options().name, true).unwrap();
    }
}

/// Whether we are root, with two CPUs. Where not, this says so, and fails if nothing may be
/// skipped.
fn possible() -> bool {
    let why = match Options::new("x", None, None) {
        Err(why) => why,
        Ok(_) if !rustix::process::geteuid().is_root() => "network namespaces need root".into(),
        Ok(_) => return true,
    };
    skip::skip(&why);
    false
}

/// A name that no other run has.
fn options(prefix: char) -> Options {
    Options::new(&format!("{prefix}{}", std::process::id()), None, None).unwrap()
}

fn exists(options: &Options) -> bool {
    Side::ALL.into_iter().any(|side| namespace::path(&options.namespace(side)).exists())
}

/// A query from `from` to `server`, and back; in both namespaces.
fn ask(options: &Options, server: &str, from: &str) {
    let [near, far] = [Side::Server, Side::Client].map(|side| options.namespace(side));
    let bind = |space: &str, address: &str| {
        namespace::within(Some(space), || UdpSocket::bind((address, 0)).map_err(|e| e.to_string()))
    };
    let (server, client) = (bind(&near, server).unwrap(), bind(&far, from).unwrap());
    let wait = Some(std::time::Duration::from_secs(5));
    server.set_read_timeout(wait).unwrap();
    client.set_read_timeout(wait).unwrap();
    client.send_to(b"question", server.local_addr().unwrap()).unwrap();
    let (length, peer) = server.recv_from(&mut [0; 64]).unwrap();
    assert_eq!((length, peer), (8, client.local_addr().unwrap()));
    server.send_to(b"answer", peer).unwrap();
    assert_eq!(client.recv(&mut [0; 64]).unwrap(), 6);
}

/// ICMPv6 messages that the kernel of a host has sent by itself: solicitations, advertisements and
/// multicast listener reports.
fn announcements(space: &str) -> u64 {
    // Not /proc/net: that is of the namespace of the process's first thread.
    let file = "/proc/thread-self/net/snmp6";
    let read = || std::fs::read_to_string(file).map_err(|e| format!("{file}: {e}"));
    let counters = namespace::within(Some(space), read).unwrap();
    let sent = counters.lines().find_map(|line| line.strip_prefix("Icmp6OutMsgs"));
    sent.expect("the kernel counts ICMPv6").trim().parse().unwrap()
}

/// How a thread is scheduled, field 41 of /proc/PID/stat: sched(7).
const OTHER: &str = "0";
const FIFO: &str = "1";

#[test]
fn every_address_reaches_the_server_and_every_packet_is_accounted_for() {
    if !possible() {
        return;
    }
    for (prefix, layout) in ['w', 's', 't'].into_iter().zip(Layout::ALL) {
        let options = Options { layout, queues: 2, mtu: 4_000, ..options(prefix) };
        let bench = Bench(Hosts::up(&options).unwrap().0);
        let host = |side| Host {
            netns: Some(options.namespace(side)),
            device: Some(options.device(side)),
            ..Host::default()
        };
        let read = |side| Reading::take(&host(side)).unwrap();
        let before = Side::ALL.map(read);
        let pairs = [
            ("10.99.0.1", "10.99.0.2"),
            ("10.99.0.1", "10.98.0.0"),
            ("10.99.0.1", "10.98.255.255"),
            ("fd99::1", "fd99::2"),
            ("fd99::1", "fd98::1:2:3:4"),
        ];
        for (server, from) in pairs {
            ask(&options, server, from);
        }
        let [server, client] =
            [(0, Side::Server), (1, Side::Client)].map(|(i, side)| read(side).since(&before[i]));
        // Each datagram is counted by both kernels, and was carried by both devices.
        let count = pairs.len() as u64;
        for host in [&server, &client] {
            let udp = (host.udp.in_datagrams, host.udp.out_datagrams);
            assert_eq!(udp, (count, count), "{layout}");
            let device = host.device.unwrap();
            assert!(
                device.rx_packets >= count && device.tx_packets >= count,
                "{layout}: {device:?}"
            );
        }
        // The kernels themselves ask for no neighbour and announce no address.
        for side in Side::ALL {
            assert_eq!(announcements(&options.namespace(side)), 0, "{layout} {side}");
            let (space, device) = (options.namespace(side), options.device(side));
            let shown = Command::new("ip").args(["-n", &space, "link", "show", &device]).output();
            let shown = String::from_utf8(shown.unwrap().stdout).unwrap();
            assert!(shown.contains("NOARP"), "{layout}: {shown}");
        }
        // Each polling thread is on its side's CPU.
        let status = bench.0.status().unwrap();
        for (host, policy) in status.hosts.iter().zip([OTHER, FIFO]) {
            let wanted = if layout == Layout::Steered { 0 } else { 2 };
            assert_eq!(host.polling.len(), wanted, "{layout}: {host:?}");
            for thread in &host.polling {
                let pid = thread.rsplit_once('(').unwrap().1.trim_end_matches(')');
                let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
                let allowed = status.lines().find_map(|l| l.strip_prefix("Cpus_allowed_list:"));
                assert_eq!(allowed.map(str::trim), Some(host.cpus.as_str()), "{layout}: {thread}");
                // The clients' goes before a generator that is busy.
                let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
                let fields = stat.rsplit_once(") ").unwrap().1;
                assert_eq!(fields.split(' ').nth(38), Some(policy), "{layout}: {thread}");
            }
        }
    }
}

#[test]
fn up_and_down_are_idempotent_and_down_removes_what_a_killed_process_leaves() {
    if !possible() {
        return;
    }
    let options = options('i');
    let bench = Bench(Hosts::up(&options).unwrap().0);
    let mut kills_itself =
        bench.0.command(Side::Server, &words("sh -c 'sleep 60 & kill -9 $$'")).unwrap();
    assert_eq!(kills_itself.status().unwrap().signal(), Some(9));
    // Its leftovers block other options only.
    assert_eq!(Hosts::up(&options).unwrap().1, HostsState::Already);
    let other = Options { mtu: 9_000, ..options.clone() };
    let said = Hosts::up(&other).unwrap_err();
    assert!(said.contains("up with other options") && said.contains("sleep"), "{said}");
    assert!(Hosts::down(&options.name, true).unwrap().is_empty());
    assert!(!exists(&options));
    assert_eq!(Hosts::find(&options.name).unwrap(), None);
    assert!(Hosts::down(&options.name, true).unwrap().is_empty());

    assert_eq!(Hosts::up(&options).unwrap().1, HostsState::Anew);
    assert_eq!(Hosts::up(&other).unwrap().1, HostsState::Anew);
    let found = Hosts::find(&options.name).unwrap().expect("they are up");
    assert_eq!(found.options(), &other);
    // Half of it is gone.
    let device = options.device(Side::Server);
    let space = options.namespace(Side::Server);
    let deleted = Command::new("ip").args(["-n", &space, "link", "delete", &device]).status();
    assert!(deleted.unwrap().success());
    let said = Hosts::find(&options.name).unwrap_err();
    assert!(said.contains("incomplete"), "{said}");
    assert_eq!(Hosts::up(&other).unwrap().1, HostsState::Anew);
}

fn words(text: &str) -> Vec<String> {
    let (begin, quoted) = text.split_once(" '").unwrap();
    begin.split(' ').chain([quoted.trim_end_matches('\'')]).map(str::to_owned).collect()
}

#[test]
fn a_command_runs_on_the_cpus_of_its_host_and_gives_its_exit_status() {
    if !possible() {
        return;
    }
    let options = options('c');
    let bench = Bench(Hosts::up(&options).unwrap().0);
    let script = "sh -c 'grep Cpus_allowed_list /proc/self/status; ls /sys/class/net; exit 7'";
    let output = bench.0.command(Side::Client, &words(script)).unwrap().output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(7), "{said}");
    assert!(said.contains(&format!("Cpus_allowed_list:\t{}\n", options.client_cpus)), "{said}");
    assert!(said.contains(&options.device(Side::Client)), "{said}");
    assert!(!said.contains("eth0"), "{said}");
}
