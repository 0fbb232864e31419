//! Packets between containers that opt in, beside the stack's.
use crate::is_root;
use crate::watch::{PAYLOAD, exchange, group, interface_counters};
use bpf::Order;
use fabric::{Container, Watcher};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::thread;
use std::time::Duration;
use test_support::spaces::{Lan, within};

/// The address of a service whose member is the second host.
pub(crate) const SERVICE: SocketAddr = service(1);
/// One with the same member, which sees the address of the machine in place of the client's.
pub(crate) const MASQUERADED: SocketAddr = service(2);
/// One whose member is the first host.
pub(crate) const SERVICE_BACK: SocketAddr = service(3);
const MEMBER_PORT: u16 = 7_003;

const fn service(number: u8) -> SocketAddr {
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(10, 96, 0, number)), 7_002)
}

/// Runs commands in the namespace of the switch, one a line.
pub(crate) fn run(lan: &Lan, lines: &str) {
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let mut words = line.split_whitespace();
        within(&lan.switch, || {
            let out = Command::new(words.next().unwrap()).args(words).output().unwrap();
            assert!(out.status.success(), "{line}: {}", String::from_utf8_lossy(&out.stderr));
        });
    }
}

/// The containers; these hosts have opted in.
pub(crate) fn containers(lan: &Lan, members: &[usize]) -> Vec<Container> {
    let mut found = within(&lan.switch, || fabric::find().unwrap());
    for (host, one) in found.iter_mut().enumerate() {
        one.opts_in = members.contains(&host);
    }
    found
}

/// The switch with these members, for which a flow of UDP is a new one after this silence.
pub(crate) fn switching_after(lan: &Lan, members: &[usize], silence: Duration) -> Watcher {
    let containers = containers(lan, members);
    within(&lan.switch, || {
        let mut watcher = Watcher::new(None, Order::First).unwrap();
        watcher.switch_after(silence).unwrap();
        assert!(watcher.follow(&containers).unwrap().is_empty());
        watcher
    })
}

fn switching(lan: &Lan, members: &[usize]) -> Watcher {
    let containers = containers(lan, members);
    within(&lan.switch, || {
        let mut watcher = Watcher::new(Some(group()), Order::First).unwrap();
        watcher.switch().unwrap();
        let refused = watcher.follow(&containers).unwrap();
        assert!(refused.is_empty(), "{refused:?}");
        watcher
    })
}

/// Services with connection tracking that drops what it does not know, as many clusters do.
pub(crate) fn add_service(lan: &Lan) {
    let proc = "sysctl -qw net.ipv4.ip_forward=1
        sysctl -qw net.bridge.bridge-nf-call-iptables=1
        sysctl -qw net.ipv4.conf.all.rp_filter=0
        iptables -w -A FORWARD -m conntrack --ctstate INVALID -j DROP
        iptables -w -A FORWARD -j ACCEPT";
    run(lan, proc);
    for (service, host) in [(SERVICE, 1), (MASQUERADED, 1), (SERVICE_BACK, 0)] {
        let (ip, port, member) = (service.ip(), service.port(), lan.hosts[host].address);
        for protocol in ["tcp", "udp"] {
            let rule = format!("-d {ip} -p {protocol} --dport {port} -j DNAT --to {member}");
            run(lan, &format!("iptables -w -t nat -A PREROUTING {rule}:{MEMBER_PORT}"));
        }
    }
    let to_service = format!("-m conntrack --ctorigdst {} -j MASQUERADE", MASQUERADED.ip());
    run(lan, &format!("iptables -w -t nat -A POSTROUTING {to_service}"));
    for host in &lan.hosts {
        within(&host.space, || {
            let route = ["route", "add", "10.96.0.0/16", "via", "192.0.2.254"];
            assert!(Command::new("ip").args(route).status().unwrap().success());
        });
    }
}

/// A server that returns what it gets, until its listener and socket are shut.
struct Echo {
    stream: TcpListener,
    socket: UdpSocket,
}

impl Echo {
    fn new(lan: &Lan, host: usize) -> Self {
        within(&lan.hosts[host].space, || {
            let address = SocketAddr::from((Ipv4Addr::UNSPECIFIED, MEMBER_PORT));
            let socket = UdpSocket::bind(address).unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            Self { stream: TcpListener::bind(address).unwrap(), socket }
        })
    }

    /// Serves one connection after another, in a thread that ends with the process: where a test
    /// fails, it does not wait for one that never comes.
    fn serve_connections(&self) {
        let listener = self.stream.try_clone().unwrap();
        thread::spawn(move || {
            for stream in listener.incoming() {
                thread::spawn(move || Self::serve_connection(stream.unwrap()));
            }
        });
    }

    fn serve_connection(mut stream: TcpStream) {
        let mut bytes = [0; 65_536];
        loop {
            match stream.read(&mut bytes).unwrap() {
                0 => return,
                len => stream.write_all(&bytes[..len]).unwrap(),
            }
        }
    }

    fn serve_datagram(&self) {
        let mut bytes = [0; 2_048];
        let (len, from) = self.socket.recv_from(&mut bytes).unwrap();
        self.socket.send_to(&bytes[..len], from).unwrap();
    }
}

/// A connection, and that it carries each byte there and back.
fn connect(lan: &Lan, from: usize, to: SocketAddr) -> TcpStream {
    let stream = within(&lan.hosts[from].space, || TcpStream::connect(to).unwrap());
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
}

fn check_stream(stream: &mut TcpStream, seed: u8) {
    let sent: Vec<u8> = (0..200_000_u32).map(|n| (n.wrapping_mul(31) >> 3) as u8 ^ seed).collect();
    let mut other = stream.try_clone().unwrap();
    thread::scope(|scope| {
        scope.spawn(|| other.write_all(&sent).unwrap());
        let mut received = vec![0; sent.len()];
        stream.read_exact(&mut received).unwrap();
        assert!(received == sent);
    });
}

#[test]
fn flows_of_members_are_switched_in_both_directions_and_those_of_others_are_not() {
    if !is_root() {
        return;
    }
    let lan = Lan::new("fabric-s", 3);
    let watcher = switching(&lan, &[0, 1]);
    let before = interface_counters(&lan, 1);
    exchange(&lan, 0, 1);
    let counters = watcher.read().unwrap();
    assert_eq!(counters.switch.flows, 1, "the datagram waits for silence: {:?}", counters.switch);
    assert!(counters.switch.packets as usize > 2 * PAYLOAD / 1_448, "{:?}", counters.switch);
    let passed = interface_counters(&lan, 1)[1].1 - before[1].1;
    assert!(passed < 10_000, "{passed} bytes through the bridge");
    // Who reads the table sees the switched bytes, too.
    let [a, b] = [0, 1].map(|host: usize| containers(&lan, &[])[host].interface);
    let delivered = counters.delivered[&(b, fabric::Other::Container(a))];
    assert!(delivered.payload as usize >= PAYLOAD, "{delivered:?}");
    exchange(&lan, 2, 1);
    exchange(&lan, 0, 2);
    assert_eq!(watcher.read().unwrap().switch.flows, 1);
}

#[test]
fn services_between_members_work_while_direct_flows_are_switched() {
    if !is_root() {
        return;
    }
    let lan = Lan::new("fabric-v", 3);
    add_service(&lan);
    let mut watcher = switching(&lan, &[0, 1]);
    for host in [0, 1] {
        Echo::new(&lan, host).serve_connections();
    }
    let direct = SocketAddr::from((lan.hosts[1].address, MEMBER_PORT));
    let services = [(0, SERVICE), (0, MASQUERADED), (1, SERVICE_BACK)];
    let mut by_service = services.map(|(from, to)| connect(&lan, from, to));
    let mut by_address = connect(&lan, 0, direct);
    let mut check_services = |seed| by_service.iter_mut().for_each(|s| check_stream(s, seed));
    check_services(1);
    check_stream(&mut by_address, 2);
    assert_eq!(watcher.read().unwrap().switch.flows, 1);
    // The switch loses a member in mid-flow: the stack finishes both.
    let none = containers(&lan, &[]);
    within(&lan.switch, || watcher.follow(&none).unwrap());
    let moved = watcher.read().unwrap().switch.packets;
    check_services(3);
    check_stream(&mut by_address, 4);
    assert_eq!(watcher.read().unwrap().switch.packets, moved);
    // And gets it back: what the stack has stays there, and a new connection is switched.
    let both = containers(&lan, &[0, 1]);
    within(&lan.switch, || watcher.follow(&both).unwrap());
    check_services(5);
    let mut new = connect(&lan, 0, direct);
    check_stream(&mut new, 6);
    assert_eq!(watcher.read().unwrap().switch.flows, 2);
}

#[test]
fn datagrams_to_a_service_are_answered_from_it_and_those_to_a_member_are_switched_after_silence() {
    if !is_root() {
        return;
    }
    let lan = Lan::new("fabric-u", 2);
    add_service(&lan);
    let watcher = switching_after(&lan, &[0, 1], Duration::from_millis(300));
    let echo = Echo::new(&lan, 1);
    let direct = SocketAddr::from((lan.hosts[1].address, MEMBER_PORT));
    let client = |to: SocketAddr| {
        let socket = within(&lan.hosts[0].space, || UdpSocket::bind("0.0.0.0:0").unwrap());
        // The kernel hands over only what comes from there.
        socket.connect(to).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        socket
    };
    let ask = |socket: &UdpSocket, what: &[u8]| {
        socket.send(what).unwrap();
        echo.serve_datagram();
        let mut bytes = [0; 100];
        let len = socket.recv(&mut bytes).unwrap();
        assert_eq!(&bytes[..len], what);
    };
    let early = client(direct);
    ask(&early, b"before it is known what the stack has");
    assert_eq!(watcher.read().unwrap().switch.flows, 0);
    // Time itself: the silence that is waited for.
    thread::sleep(Duration::from_millis(350));
    let by_service = client(SERVICE);
    ask(&by_service, b"to the service");
    assert_eq!(watcher.read().unwrap().switch.flows, 0, "its reply has to be translated");
    let by_address = client(direct);
    ask(&by_address, b"to the member");
    let counts = watcher.read().unwrap().switch;
    assert_eq!((counts.flows, counts.packets), (1, 2), "{counts:?}");
}
