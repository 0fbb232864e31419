//! What is counted, beside what the interfaces count.
use crate::is_root;
use bpf::Order;
use fabric::{Container, Counters, Other, Traffic, Watcher};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::thread;
use test_support::spaces::{Lan, within};
use test_support::wait;

const GROUPS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
const PORT: u16 = 7_001;
pub(crate) const PAYLOAD: usize = 3_000_000;

pub(crate) fn group() -> &'static Path {
    let found = GROUPS.map(Path::new).into_iter().find(|g| g.join("cgroup.controllers").exists());
    found.expect("cgroup v2 is mounted")
}

/// What an interface of the switch has received and sent: frames and bytes.
pub(crate) fn interface_counters(lan: &Lan, host: usize) -> [(u64, u64); 2] {
    let out = Command::new("ip")
        .args(["-n", &lan.switch, "-j", "-s", "link", "show", "dev", &format!("h{host}")])
        .output()
        .unwrap();
    let told: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    ["rx", "tx"].map(|way| {
        let of = |what: &str| told[0]["stats64"][way][what].as_u64().unwrap();
        (of("packets"), of("bytes"))
    })
}

/// What the interfaces of hosts have counted, and what is read at that time: no frame comes between
/// the two.
pub(crate) fn at_once<T>(
    lan: &Lan,
    hosts: usize,
    mut read: impl FnMut() -> T,
) -> (Vec<[(u64, u64); 2]>, T) {
    let interfaces = || (0..hosts).map(|host| interface_counters(lan, host)).collect::<Vec<_>>();
    wait::until("no frame comes", || {
        let (before, value) = (interfaces(), read());
        (interfaces() == before).then_some((before, value))
    })
}

/// Sends a payload there and back over TCP, and one datagram.
pub(crate) fn exchange(lan: &Lan, from: usize, to: usize) {
    let address = SocketAddr::from((lan.hosts[to].address, PORT));
    let listener = within(&lan.hosts[to].space, || TcpListener::bind(address).unwrap());
    let receiver = within(&lan.hosts[to].space, || UdpSocket::bind(address).unwrap());
    thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, _) = listener.accept().unwrap();
            let mut bytes = vec![0; PAYLOAD];
            stream.read_exact(&mut bytes).unwrap();
            stream.write_all(&bytes).unwrap();
        });
        within(&lan.hosts[from].space, || {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.set_read_timeout(Some(std::time::Duration::from_secs(30))).unwrap();
            let mut other = stream.try_clone().unwrap();
            thread::scope(|scope| {
                scope.spawn(move || other.write_all(&vec![1; PAYLOAD]).unwrap());
                stream.read_exact(&mut vec![0; PAYLOAD]).unwrap();
            });
            let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
            socket.send_to(&[7; 100], address).unwrap();
        });
        receiver.set_read_timeout(Some(std::time::Duration::from_secs(30))).unwrap();
        receiver.recv(&mut [0; 200]).unwrap();
    });
}

pub(crate) fn sum(
    counters: &std::collections::BTreeMap<(u32, Other), Traffic>,
    interface: u32,
) -> (u64, u64) {
    let own = counters.iter().filter(|((one, _), _)| *one == interface);
    own.fold((0, 0), |sum, (_, more)| (sum.0 + more.frames, sum.1 + more.bytes))
}

pub(crate) fn start(lan: &Lan, order: Order) -> (Watcher, Vec<Container>) {
    within(&lan.switch, || {
        let found = fabric::find().unwrap();
        let mut watcher = Watcher::new(Some(group()), order).unwrap();
        let refused = watcher.follow(&found).unwrap();
        assert!(refused.is_empty(), "{refused:?}");
        (watcher, found)
    })
}

/// The frames of all interfaces, as counted here and by themselves, agree.
fn expect_agreement(
    containers: &[Container],
    counters: &Counters,
    interfaces: [&[[(u64, u64); 2]]; 2],
) {
    let [before, now] = interfaces;
    for (host, one) in containers.iter().enumerate() {
        let less = |way: usize| {
            let (now, then) = (now[host][way], before[host][way]);
            (now.0 - then.0, now.1 - then.1)
        };
        assert_eq!(sum(&counters.sent, one.interface), less(0), "sent by {host}");
        assert_eq!(sum(&counters.delivered, one.interface), less(1), "delivered to {host}");
    }
}

#[test]
fn bytes_of_each_pair_are_those_of_the_interfaces_and_payload_is_what_was_written() {
    if !is_root() {
        return;
    }
    let lan = Lan::new("fabric-w", 3);
    let (watcher, containers) = start(&lan, Order::First);
    assert_eq!(containers.len(), 3);
    let names: Vec<_> = lan.hosts.iter().map(|host| host.space.as_str()).collect();
    assert_eq!(containers.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), names);
    let (before, start) = at_once(&lan, 3, || watcher.read().unwrap());
    exchange(&lan, 0, 1);
    exchange(&lan, 2, 1);
    let (now, counters) = at_once(&lan, 3, || watcher.read().unwrap().since(&start));
    expect_agreement(&containers, &counters, [&before, &now]);
    let [a, b, c] = [0, 1, 2].map(|host: usize| containers[host].interface);
    for (from, to) in [(a, b), (b, a), (c, b), (b, c)] {
        let sent = counters.sent[&(from, Other::Container(to))];
        let payload = PAYLOAD as u64;
        let expected = if to == b { payload + 100 } else { payload };
        // What was sent again counts again.
        assert!((expected..expected + expected / 10).contains(&sent.payload), "{sent:?}");
        assert!(sent.packets >= sent.frames && sent.packets >= payload / 1_448, "{sent:?}");
        let trips = counters.round_trips[&(from, Other::Container(to))];
        assert!(trips.number > 0 && trips.buckets.iter().sum::<u64>() == trips.number, "{trips:?}");
    }
    assert!(!counters.sent.contains_key(&(a, Other::Container(c))), "{:?}", counters.sent);
    assert_eq!(counters.not_counted, 0);
}
