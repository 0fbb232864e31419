//! Containers that change while packets are switched, and what the switch must not break.
use crate::is_root;
use crate::switch::{add_service, containers, run, switching_after};
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::thread;
use std::time::Duration;
use test_support::spaces::{Lan, within};
use test_support::wait;

const PORT: u16 = 7_011;
const SWAPS: usize = 40;

/// Has a host say its number to each client, over TCP and UDP.
fn say_number(lan: &Lan, host: usize) {
    let address = SocketAddr::from((Ipv4Addr::UNSPECIFIED, PORT));
    let (listener, socket) = within(&lan.hosts[host].space, || {
        (TcpListener::bind(address).unwrap(), UdpSocket::bind(address).unwrap())
    });
    thread::spawn(move || {
        for stream in listener.incoming() {
            // The client may be gone.
            let _ = stream.unwrap().write_all(&[host as u8]);
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

pub(crate) fn ip(lan: &Lan, host: usize, arguments: &str) {
    within(&lan.hosts[host].space, || {
        let done = Command::new("ip").args(arguments.split_whitespace()).output().unwrap();
        assert!(done.status.success(), "ip {arguments}: {done:?}");
    });
}

/// The number of the host that answers at an address.
fn who_is(lan: &Lan, address: Ipv4Addr) -> [usize; 2] {
    let to = SocketAddr::from((address, PORT));
    let mut byte = [0];
    let mut stream = within(&lan.hosts[0].space, || TcpStream::connect(to).unwrap());
    stream.read_exact(&mut byte).unwrap();
    let by_stream = byte[0].into();
    let socket = within(&lan.hosts[0].space, || UdpSocket::bind("0.0.0.0:0").unwrap());
    socket.connect(to).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    socket.send(&[0]).unwrap();
    socket.recv(&mut byte).unwrap();
    [by_stream, byte[0].into()]
}

/// Two containers swap their addresses again and again: each address is answered by its owner, also
/// before the switch knows of it, and is switched once it does.
#[test]
fn addresses_that_move_are_answered_by_their_owner_before_and_after_the_switch_knows() {
    if !is_root() {
        return;
    }
    let lan = Lan::new("fabric-m", 3);
    let mut watcher = switching_after(&lan, &[0, 1, 2], Duration::from_nanos(1));
    let addresses = [lan.hosts[1].address, lan.hosts[2].address];
    for host in [1, 2] {
        say_number(&lan, host);
    }
    let check = |owners: [usize; 2]| {
        for (address, owner) in addresses.into_iter().zip(owners) {
            assert_eq!(who_is(&lan, address), [owner; 2], "{address}");
        }
    };
    check([1, 2]);
    for swap in 0..SWAPS {
        let owners = if swap % 2 == 0 { [2, 1] } else { [1, 2] };
        for (address, owner) in addresses.into_iter().zip(owners) {
            ip(&lan, 3 - owner, &format!("addr del {address}/24 dev eth0"));
        }
        for (address, owner) in addresses.into_iter().zip(owners) {
            ip(&lan, owner, &format!("addr add {address}/24 dev eth0"));
        }
        for host in 0..3 {
            ip(&lan, host, "neigh flush dev eth0");
        }
        check(owners);
        let now = containers(&lan, &[0, 1, 2]);
        within(&lan.switch, || watcher.follow(&now).unwrap());
        let before = watcher.read().unwrap().switch;
        check(owners);
        let after = watcher.read().unwrap().switch;
        assert!(after.flows >= before.flows + 2, "swap {swap}: {before:?} {after:?} {now:?}");
    }
}

/// The stack knows nothing of a switched flow, and a rule drops errors about what it does not know.
#[test]
fn error_about_a_switched_datagram_arrives() {
    if !is_root() {
        return;
    }
    let lan = Lan::new("fabric-i", 2);
    add_service(&lan);
    let watcher = switching_after(&lan, &[0, 1], Duration::from_nanos(1));
    let closed = SocketAddr::from((lan.hosts[1].address, 9));
    let socket = within(&lan.hosts[0].space, || UdpSocket::bind("0.0.0.0:0").unwrap());
    socket.connect(closed).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    wait::until_true("the port is known to be closed", || {
        let is_refused = |error: std::io::Error| error.kind() == ErrorKind::ConnectionRefused;
        socket.send(&[1]).is_err_and(is_refused) || socket.recv(&mut [0]).is_err_and(is_refused)
    });
    assert!(watcher.read().unwrap().switch.packets >= 2);
}

/// The sender's end takes long packets, the receiver's does not at first.
#[test]
fn packets_that_are_too_long_for_the_other_end_are_left_to_the_stack_and_long_ones_are_moved() {
    if !is_root() {
        return;
    }
    let lan = Lan::new("fabric-j", 2);
    let widen = |host: usize| {
        ip(&lan, host, "link set eth0 mtu 9000");
        run(&lan, &format!("ip link set h{host} mtu 9000"));
    };
    widen(0);
    let mut watcher = switching_after(&lan, &[0, 1], Duration::from_nanos(1));
    let to = SocketAddr::from((lan.hosts[1].address, PORT));
    let receiver = within(&lan.hosts[1].space, || UdpSocket::bind(to).unwrap());
    let sender = within(&lan.hosts[0].space, || UdpSocket::bind("0.0.0.0:0").unwrap());
    receiver.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut bytes = vec![0; 9_000];
    // The bridge drops the long one, as without the switch.
    for len in [100, 8_000, 101] {
        sender.send_to(&vec![7; len], to).unwrap();
    }
    assert_eq!([100, 101], [(); 2].map(|()| receiver.recv(&mut bytes).unwrap()));
    assert_eq!(watcher.read().unwrap().switch.packets, 2);
    widen(1);
    let both = containers(&lan, &[0, 1]);
    within(&lan.switch, || watcher.follow(&both).unwrap());
    sender.send_to(&vec![9; 8_000], to).unwrap();
    assert_eq!(receiver.recv(&mut bytes).unwrap(), 8_000);
    assert!(bytes[..8_000].iter().all(|byte| *byte == 9));
    assert_eq!(watcher.read().unwrap().switch.packets, 3);
}

/// Datagrams in fragments, and those of a flow that they belong to.
#[test]
fn fragments_arrive_and_give_their_flow_to_the_stack() {
    if !is_root() {
        return;
    }
    let lan = Lan::new("fabric-r", 2);
    add_service(&lan);
    let watcher = switching_after(&lan, &[0, 1], Duration::from_secs(60));
    let to = SocketAddr::from((lan.hosts[1].address, PORT));
    let receiver = within(&lan.hosts[1].space, || UdpSocket::bind(to).unwrap());
    let sender = within(&lan.hosts[0].space, || UdpSocket::bind("0.0.0.0:0").unwrap());
    receiver.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    for len in [100, 8_000, 100, 40_000] {
        sender.send_to(&vec![len as u8; len], to).unwrap();
        let mut bytes = vec![0; 65_536];
        assert_eq!(receiver.recv(&mut bytes).unwrap(), len);
        assert!(bytes[..len].iter().all(|byte| *byte == len as u8));
    }
    assert_eq!(watcher.read().unwrap().switch.packets, 0);
}
