//! Containers that come, go and swap addresses while packets are switched, for minutes, and flows
//! to a service from each of its clients: `make campaign-cpus-fabric`.
use crate::is_root;
use crate::switch::{
    MASQUERADED, SERVICE, SERVICE_BACK, add_service, containers, run, switching_after,
};
use crate::switch_moves::ip;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use test_support::spaces::{Lan, within};

/// Seconds without `DUNLIN_SECONDS`.
const SECONDS: u64 = 600;
/// The port of the service's member, and of each host's own.
const PORT: u16 = 7_003;
/// Bytes of a long exchange.
const LONG: usize = 60_000;
const PATIENCE: Duration = Duration::from_secs(20);

/// What clients have counted.
#[derive(Default)]
struct Counts {
    exchanges: AtomicU64,
    /// Replies of a host that does not own the address.
    wrong: AtomicU64,
    /// Connections that broke although both ends stayed.
    broken: AtomicU64,
    /// Datagrams without a reply.
    lost: AtomicU64,
    /// Swaps of addresses, and containers that came.
    swaps: AtomicU64,
    came: AtomicU64,
}

fn seconds() -> u64 {
    std::env::var("DUNLIN_SECONDS").ok().map_or(SECONDS, |text| text.parse().expect("seconds"))
}

fn ipv6(host: usize) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, host as u16 + 1)
}

/// Has a host answer each byte with its number, over TCP and UDP, IPv4 and IPv6.
fn serve(lan: &Lan, host: usize) {
    let address = SocketAddr::from((Ipv6Addr::UNSPECIFIED, PORT));
    let (listener, socket) = within(&lan.hosts[host].space, || {
        (TcpListener::bind(address).unwrap(), UdpSocket::bind(address).unwrap())
    });
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            thread::spawn(move || {
                let mut bytes = vec![0; LONG];
                while let Ok(len @ 1..) = stream.read(&mut bytes) {
                    bytes[..len].fill(host as u8);
                    if stream.write_all(&bytes[..len]).is_err() {
                        return;
                    }
                }
            });
        }
    });
    thread::spawn(move || {
        let mut byte = [0];
        loop {
            let (_, from) = socket.recv_from(&mut byte).unwrap();
            let _ = socket.send_to(&[host as u8], from);
        }
    });
}

/// Exchanges bytes on one connection and one socket until the end; each reply is of this host.
fn exchange(lan: &Lan, from: usize, to: SocketAddr, host: usize, counts: &Counts, end: Instant) {
    let any: SocketAddr = match to.ip() {
        IpAddr::V4(_) => "0.0.0.0:0".parse().unwrap(),
        IpAddr::V6(_) => "[::]:0".parse().unwrap(),
    };
    let (mut stream, socket) = within(&lan.hosts[from].space, || {
        (TcpStream::connect(to).unwrap(), UdpSocket::bind(any).unwrap())
    });
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    socket.connect(to).unwrap();
    let (mut byte, mut bytes) = ([0], vec![0; LONG]);
    for number in 0_u64.. {
        if Instant::now() > end {
            return;
        }
        // Now and then more than connection tracking would take from one that has slept.
        let part = if number % 16 == 0 { &mut bytes[..] } else { &mut byte[..] };
        let by_stream = stream.write_all(part).and_then(|()| stream.read_exact(part));
        let first = part[0];
        if let Err(error) = by_stream {
            println!("{from} to {to}: {error}");
            counts.broken.fetch_add(1, Ordering::Relaxed);
            return;
        }
        counts.wrong.fetch_add(u64::from(usize::from(first) != host), Ordering::Relaxed);
        match socket.send(&[1]).and_then(|_| socket.recv(&mut byte)) {
            Ok(_) => {
                let is_wrong = usize::from(byte[0]) != host;
                counts.wrong.fetch_add(u64::from(is_wrong), Ordering::Relaxed);
            }
            Err(_) => drop(counts.lost.fetch_add(1, Ordering::Relaxed)),
        }
        counts.exchanges.fetch_add(1, Ordering::Relaxed);
    }
}

/// The switch is turned on and off in the middle of flows, and two other containers swap addresses,
/// while clients use a service, its member's own address, and IPv6.
#[test]
#[ignore = "campaign: make campaign-cpus-fabric"]
fn flows_survive_minutes_of_containers_that_change() {
    assert!(is_root());
    let lan = Lan::new("fabric-c", 4);
    add_service(&lan);
    for host in 0..4 {
        ip(&lan, host, &format!("addr add {}/64 dev eth0 nodad", ipv6(host)));
        serve(&lan, host);
    }
    let counts = Counts::default();
    let (begin, is_over) = (Instant::now(), AtomicBool::new(false));
    let end = begin + Duration::from_secs(seconds());
    let direct = SocketAddr::from((lan.hosts[1].address, PORT));
    let by_v6 = SocketAddr::from((ipv6(1), PORT));
    let mut watcher = switching_after(&lan, &[0, 1, 2, 3], Duration::from_millis(1));
    let mut changes = 0_u64;
    thread::scope(|scope| {
        let to_second = [SERVICE, MASQUERADED, direct, by_v6].map(|to| (0, to, 1));
        let clients: Vec<_> = to_second
            .into_iter()
            .chain([(1, SERVICE_BACK, 0)])
            .map(|(from, to, host)| {
                scope.spawn({
                    let (lan, counts) = (&lan, &counts);
                    move || exchange(lan, from, to, host, counts, end)
                })
            })
            .collect();
        scope.spawn(|| swap(&lan, &counts, &is_over));
        while Instant::now() < end {
            // All, all but the member of the service, none.
            let members: &[usize] = [&[0, 1, 2, 3][..], &[0, 2, 3], &[]][changes as usize % 3];
            let now = containers(&lan, members);
            within(&lan.switch, || watcher.follow(&now).unwrap());
            changes += 1;
        }
        clients.into_iter().for_each(|client| client.join().unwrap());
        is_over.store(true, Ordering::Relaxed);
    });
    let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
    let switched = watcher.read().unwrap().switch;
    println!(
        "{} s: {changes} changes of members, {} swaps of addresses, {} containers that came, {} \
         exchanges, {} from a wrong container, {} broken, {} datagrams lost; {switched:?}",
        begin.elapsed().as_secs(),
        of(&counts.swaps),
        of(&counts.came),
        of(&counts.exchanges),
        of(&counts.wrong),
        of(&counts.broken),
        of(&counts.lost)
    );
    assert!(switched.packets > 0 && of(&counts.exchanges) > 0);
    assert_eq!((of(&counts.wrong), of(&counts.broken)), (0, 0));
    // Of each flow, the one in flight.
    assert!(of(&counts.lost) <= changes + of(&counts.swaps) + of(&counts.came));
}

/// The fourth container goes, and comes again with other wires and the address that it had.
fn replace(lan: &Lan, address: std::net::Ipv4Addr) {
    let space = &lan.hosts[3].space;
    run(
        lan,
        &format!(
            "ip link del h3
             ip link add h3 type veth peer name eth0 netns {space}
             ip link set h3 master lan up"
        ),
    );
    ip(lan, 3, "link set eth0 up");
    ip(lan, 3, &format!("addr add {address}/24 dev eth0"));
    ip(lan, 3, &format!("addr add {}/64 dev eth0 nodad", ipv6(3)));
    ip(lan, 3, "route replace 10.96.0.0/16 via 192.0.2.254");
}

/// The third and fourth container swap their addresses again and again, and now and then the fourth
/// is replaced; a client of each that is new finds its owner.
fn swap(lan: &Lan, counts: &Counts, is_over: &AtomicBool) {
    let addresses = [lan.hosts[2].address, lan.hosts[3].address];
    let mut owners = [2, 3];
    while !is_over.load(Ordering::Relaxed) {
        for (address, owner) in addresses.into_iter().zip(owners) {
            ip(lan, owner, &format!("addr del {address}/24 dev eth0"));
        }
        owners.reverse();
        for (address, owner) in addresses.into_iter().zip(owners) {
            ip(lan, owner, &format!("addr add {address}/24 dev eth0"));
            ip(lan, owner, "route replace 10.96.0.0/16 via 192.0.2.254");
        }
        if counts.swaps.fetch_add(1, Ordering::Relaxed) % 8 == 7 {
            let own = if owners[0] == 3 { addresses[0] } else { addresses[1] };
            replace(lan, own);
            counts.came.fetch_add(1, Ordering::Relaxed);
        }
        for host in 0..4 {
            ip(lan, host, "neigh flush dev eth0");
        }
        for (address, owner) in addresses.into_iter().zip(owners) {
            let now = Instant::now();
            exchange(
                lan,
                1,
                (address, PORT).into(),
                owner,
                counts,
                now + Duration::from_millis(20),
            );
        }
    }
}
