//! A server on devices of DPDK whose other end is the kernel, or DPDK's own test program. What
//! lacks is printed.
//!
//! | variable | meaning |
//! | --- | --- |
//! | `DUNLIN_KILLS` | peers of a memif that are killed (5) |

use crate::dpdk::{MAC, serve, serve_memif, status};
use crate::memif_end::{environment, frame};
use crate::pair::{Wire, is_root, leave, skip};
use crate::served::{NOERROR, ask, ask_over_tcp, binary, exchange, holds, query, rcode};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use test_support::folder::Folder;
use test_support::wait::{self, deadline};

/// An interface of the kernel without an address: by its packet socket, and by AF_XDP.
#[test]
fn interface_is_served_by_af_packet() {
    serve_interface("net_af_packet0,iface=s0,qpairs=2", 2);
}

#[test]
fn interface_is_served_by_af_xdp_of_dpdk() {
    let protocols = std::fs::read_to_string("/proc/net/protocols").unwrap_or_default();
    if !protocols.lines().any(|line| line.starts_with("XDP ")) {
        return leave("no AF_XDP in this kernel (CONFIG_XDP_SOCKETS)");
    }
    // This driver counts the queues of such an interface as one.
    serve_interface("net_af_xdp0,iface=s0", 1);
}

fn serve_interface(device: &str, queues: u32) {
    if !is_root() || environment().is_none() {
        return;
    }
    let (wire, folder) = (Wire::with_queues(queues, queues), Folder::new("dpdk-interface"));
    let at: SocketAddr = "192.0.2.53:53".parse().expect("an address");
    let neighbor = "neigh replace 192.0.2.53 lladdr 02:00:00:00:00:01 dev c0";
    let known = wire.client_command("ip").args(neighbor.split(' ')).status();
    assert!(known.expect("it runs").success());
    let program = binary().get_program().to_str().expect("a path").to_owned();
    let keys = format!("workers = {queues}\nlisten = [\"0.0.0.0:53\"]\n");
    let mut served = serve(&mut wire.command(&program), &folder, &keys, device);
    for _ in 0..20 {
        let reply = wire.in_client(|| ask(at, "ns.a.test"));
        assert!(rcode(&reply) == NOERROR && holds(&reply, &[192, 0, 2, 1]));
    }
    let soon = Duration::from_millis(200);
    let other = wire.in_client(|| exchange("192.0.2.53:54".parse().expect("one"), b"x", soon));
    assert_eq!(other, None);
    let device = &status(&folder)["dpdk"]["devices"][0];
    assert_eq!(device["sent"], 20);
    assert!(device["lost"]["other"].as_u64() >= Some(1), "{device}");
    served.end();
}

/// Runs `ip` or another program with these arguments.
fn run(mut command: Command, arguments: &str) {
    let done = command.args(arguments.split(' ')).output().expect("it runs");
    assert!(done.status.success(), "{arguments}: {}", String::from_utf8_lossy(&done.stderr));
}

/// Gives the interface that the server has made its addresses, and has `s0` be its device's alone.
pub fn set_up_interface(wire: &Wire) {
    for line in [
        "addr flush dev s0",
        "link set s0 arp off",
        "addr add 198.51.100.53/24 dev dns0",
        "addr add 2001:db8:5::53/64 dev dns0 nodad",
        "link set dns0 up",
        "route add 192.0.2.0/24 dev dns0",
        "route add 2001:db8::/64 dev dns0",
    ] {
        run(wire.command("ip"), line);
    }
    for line in ["route add 198.51.100.0/24 dev c0", "route add 2001:db8:5::/64 dev c0"] {
        run(wire.client_command("ip"), line);
    }
}

/// ARP, neighbor discovery, ICMP, fragments and TCP, by an interface that outlives the server.
#[test]
fn what_is_not_dns_goes_to_the_kernel_by_an_interface_that_stays() {
    if !is_root() || environment().is_none() {
        return;
    }
    let (wire, folder) = (Wire::new(), Folder::new("dpdk-host"));
    let program = binary().get_program().to_str().expect("a path").to_owned();
    let device = "net_af_packet0,iface=s0,qpairs=2\"]\ninterfaces = [\"dns0";
    let start =
        || serve(&mut wire.command(&program), &folder, "listen = [\"0.0.0.0:53\"]\n", device);
    let at: SocketAddr = "198.51.100.53:53".parse().expect("an address");
    let mut served = start();
    set_up_interface(&wire);
    // Of another program, such as a router.
    let other = wire.in_server(|| TcpListener::bind("198.51.100.53:179")).expect("a listener");
    let stream = wire.in_client(|| TcpStream::connect("198.51.100.53:179"));
    let (mut stream, (mut accepted, _)) = (stream.expect("joined"), other.accept().expect("one"));
    accepted.set_read_timeout(Some(deadline())).expect("a timeout");
    for round in 0..4 {
        for line in ["-c 1 -W 9", "-c 1 -W 9 -s 3000"] {
            run(wire.client_command("ping"), &format!("{line} 198.51.100.53"));
            run(wire.client_command("ping"), &format!("{line} 2001:db8:5::53"));
        }
        for _ in 0..5 {
            let reply = wire.in_client(|| ask(at, "ns.a.test"));
            assert!(rcode(&reply) == NOERROR && holds(&reply, &[192, 0, 2, 1]));
            assert_eq!(rcode(&wire.in_client(|| ask_over_tcp(at, "ns.a.test"))), NOERROR);
        }
        stream.write_all(&[round]).expect("sent");
        let mut got = [0];
        accepted.read_exact(&mut got).expect("the connection is still there");
        assert_eq!(got, [round]);
        let device = &status(&folder)["dpdk"]["devices"][0];
        let [to, from] = ["to_host", "from_host"].map(|key| device[key].as_u64());
        assert!(to > Some(30) && from > Some(30), "{device}");
        assert_eq!(device["lost"]["other"], 0);
        assert!(round == 0 || device["lost"]["host_full"] == 0, "the interface is up: {device}");
        served.end();
        served = start();
    }
    // It has one server.
    let text = std::fs::read_to_string(folder.join("dunlin.toml")).expect("a config");
    let second = folder.join("second.toml");
    let text = text.replace("0.0.0.0:53", "0.0.0.0:54").replace("/admin\"", "/second\"");
    std::fs::write(&second, text).expect("written");
    let second = wire.command(&program).args(["serve", "-c"]).arg(second).output();
    let why = String::from_utf8_lossy(&second.expect("it runs").stderr).into_owned();
    assert!(why.contains("[dpdk] interfaces: dns0: another process has it"), "{why}");
}

/// Asks a server whose workers sleep until something comes, again and again.
fn ask_while_it_sleeps(folder: &Path, ask: impl Fn() -> Vec<u8>) {
    let device = || status(folder)["dpdk"]["devices"][0].clone();
    assert_eq!(device()["interrupts"], true, "{}", device());
    let waits = || {
        let device = device();
        let queues = device["queues"].as_array().expect("queues").iter();
        queues.map(|one| one["waits"].as_u64().expect("a count")).sum::<u64>()
    };
    // There are two workers.
    let mut before = 1;
    for _ in 0..5 {
        wait::until_true("the worker sleeps", || waits() > before);
        before = waits();
        let reply = ask();
        assert!(rcode(&reply) == NOERROR && holds(&reply, &[192, 0, 2, 1]));
    }
}

/// A device with interrupts: an interface of the kernel, which DPDK makes.
#[test]
fn worker_sleeps_while_a_device_with_interrupts_receives_nothing() {
    if !is_root() || environment().is_none() {
        return;
    }
    let (wire, folder) = (Wire::new(), Folder::new("dpdk-idle"));
    let program = binary().get_program().to_str().expect("a path").to_owned();
    let device = "net_tap0,iface=dtap0";
    let keys = "listen = [\"0.0.0.0:53\"]\n";
    let mut served = serve(&mut wire.command(&program), &folder, keys, device);
    let mac = status(&folder)["dpdk"]["devices"][0]["mac"].clone();
    let mac = mac.as_str().expect("an address");
    for line in ["addr add 203.0.113.1/24 dev dtap0", "link set dtap0 up"] {
        run(wire.command("ip"), line);
    }
    run(wire.command("ip"), &format!("neigh replace 203.0.113.53 lladdr {mac} dev dtap0"));
    let at: SocketAddr = "203.0.113.53:53".parse().expect("an address");
    ask_while_it_sleeps(&folder, || wire.in_server(|| ask(at, "ns.a.test")));
    served.end();
}

/// DPDK's own program, with these devices, where the client is; killed when it is dropped.
struct Testpmd(Child);

impl Testpmd {
    /// By a command that runs it; `None`: it is not installed, which is said.
    fn start(mut command: Command, devices: &[&str], arguments: &str) -> Option<Self> {
        if Command::new("dpdk-testpmd").arg("--version").output().is_err() {
            skip("dpdk-testpmd is not installed (Debian: dpdk-dev)");
            return None;
        }
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let (process, number) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        command.arg(format!("--file-prefix=dunlin-testpmd-{process}-{number}"));
        command.args("--no-huge --no-pci --no-shconf -m 128 --lcores 0@0,1@0".split(' '));
        command.args(devices.iter().map(|device| format!("--vdev={device}")));
        command.args("-- --auto-start --total-num-mbufs=4096 --no-mlockall".split(' '));
        command.args(arguments.split(' '));
        // It ends with its input.
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        Some(Self(command.spawn().expect("it runs")))
    }
}

impl Drop for Testpmd {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn virtio_user_is_served_by_a_vhost_of_another_process() {
    if !is_root() || environment().is_none() {
        return;
    }
    let (wire, folder) = (Wire::new(), Folder::new("dpdk-virtio"));
    // The server begins with an empty folder.
    let of_peer = Folder::new("dpdk-vhost");
    let socket = of_peer.join("vhost");
    let vhost = format!("net_vhost0,iface={},queues=2", socket.display());
    let devices = ["net_tap0,iface=dtap0", &vhost];
    let Some(_peer) =
        Testpmd::start(wire.client_command("dpdk-testpmd"), &devices, "--rxq=2 --txq=2")
    else {
        return;
    };
    wait::until_true("the socket is there", || socket.exists());
    let is_there = || wire.client_command("ip").args(["link", "show", "dtap0"]).output();
    wait::until_true("the interface is there", || is_there().is_ok_and(|it| it.status.success()));
    for line in [
        "addr add 203.0.113.1/24 dev dtap0",
        "link set dtap0 up",
        "neigh replace 203.0.113.53 lladdr 02:00:00:00:00:53 dev dtap0",
    ] {
        run(wire.client_command("ip"), line);
    }
    let device = format!("virtio_user0,path={},queues=2,mac=02:00:00:00:00:53", socket.display());
    let program = binary().get_program().to_str().expect("a path").to_owned();
    let keys = "listen = [\"0.0.0.0:53\"]\n";
    let mut served = serve(&mut wire.command(&program), &folder, keys, &device);
    let at: SocketAddr = "203.0.113.53:53".parse().expect("an address");
    ask_while_it_sleeps(&folder, || wire.in_client(|| ask(at, "ns.a.test")));
    served.end();
}

/// A capture of one query, for a device that repeats it.
fn write_capture(path: &Path, frame: &[u8]) {
    let head = [0xa1b2_c3d4, 2 | 4 << 16, 0, 0, 65_535, 1];
    let packet = [0, 0, frame.len() as u32, frame.len() as u32];
    let numbers = head.into_iter().chain(packet).flat_map(u32::to_ne_bytes);
    let capture: Vec<u8> = numbers.chain(frame.iter().copied()).collect();
    std::fs::write(path, capture).expect("written");
}

/// The driver unmaps the rings while the worker reads them.
#[test]
fn peers_that_are_killed_in_a_flood_leave_the_server_and_all_buffers() {
    if environment().is_none() {
        return;
    }
    let kills = std::env::var("DUNLIN_KILLS").map_or(5, |text| text.parse().expect("a number"));
    let (folder, of_peer) = (Folder::new("dpdk-killed"), Folder::new("dpdk-flood"));
    let mut served = serve_memif(&folder);
    let device = || status(&folder)["dpdk"]["devices"][0].clone();
    let to = SocketAddr::from(([192, 0, 2, 53], served.address.port()));
    let from = "10.0.0.1:4001".parse().expect("an address");
    let query = frame((from, to), ([2, 0, 0, 0, 0, 1], MAC), &query("ns.a.test"));
    let capture = of_peer.join("query.pcap");
    write_capture(&capture, &query);
    let flood = format!("net_pcap0,rx_pcap={},infinite_rx=1", capture.display());
    let memif = folder.join("memif");
    let memif = format!("net_memif0,role=client,socket={},socket-abstract=no", memif.display());
    let before = device();
    let mut sent = 0;
    for _ in 0..kills {
        let peer = Testpmd::start(Command::new("dpdk-testpmd"), &[&flood, &memif], "--no-flush-rx");
        let Some(peer) = peer else { return };
        wait::until_true("the peer is answered", || device()["sent"].as_u64() > Some(sent));
        drop(peer);
        wait::until_true("the link is down", || device()["up"] == false);
        let device = device();
        assert_eq!(device["buffers_free"], before["buffers_free"], "{device}");
        sent = device["sent"].as_u64().expect("a count");
    }
    assert_eq!(rcode(&served.ask("ns.a.test")), NOERROR);
    served.end();
}
