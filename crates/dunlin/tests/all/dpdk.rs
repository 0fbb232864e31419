//! A server on devices of DPDK: memif, whose other end is in this process, and a network interface.
//! What lacks is printed.

use crate::memif_end::{ClientEnd, environment, frame};
use crate::pair::{Wire, is_root};
use crate::served::{
    HEAD, NOERROR, Served, ask, ask_over_tcp, binary, exchange, holds, query, rcode, zone,
};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use test_support::dpdk;
use test_support::folder::Folder;
use test_support::wait::{self, deadline};

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 0x53];
/// Private, as the client on this host is for the access lists.
const CLIENT: &str = "10.0.0.1:4001";

/// Starts a server with these keys, and these devices of DPDK. No set of its zone has several
/// records, whose order would be random.
fn serve(command: &mut Command, folder: &Path, keys: &str, devices: &str) -> Served {
    let library = dpdk::library().expect("DPDK");
    let config = format!(
        "{keys}port = \"dpdk\"\n[dpdk]\nhuge_pages = false\nlibrary = \"{}\"\n\
         devices = [\"{devices}\"]\n[admin]\nsocket = \"{}\"\n{}",
        library.display(),
        folder.join("admin").display(),
        zone("a.test")
    );
    let zone =
        format!("{HEAD}* TXT \"any\"\nmany A 192.0.2.2\nmany AAAA 2001:db8::2\nalias CNAME many\n");
    Served::start_by(command, folder, &config, &[("a.test.zone", &zone)])
}

fn serve_memif(folder: &Path) -> Served {
    let mac = MAC.map(|byte| format!("{byte:02x}")).join(":");
    let socket = folder.join("memif");
    let memif =
        format!("net_memif0,role=server,socket-abstract=no,mac={mac},socket={}", socket.display());
    serve(&mut binary(), folder, "listen = [\"0.0.0.0:0\"]\n", &memif)
}

fn status(folder: &Path) -> Value {
    let socket = folder.join("admin");
    let mut command = Command::new(binary().get_program());
    let shown = command.args(["status", "-o", "json", "--socket"]).arg(socket).output();
    serde_json::from_slice(&shown.expect("it runs").stdout).expect("a status")
}

/// The other end, and the address of its server.
struct MemifClient {
    end: ClientEnd,
    server: SocketAddr,
}

impl MemifClient {
    fn new(folder: &Path, port: u16) -> Self {
        let server = SocketAddr::from(([192, 0, 2, 53], port));
        let mut end = ClientEnd::open(&folder.join("memif"), 2, &[CLIENT.parse().expect("one")]);
        end.wait();
        Self { end, server }
    }

    fn send(&mut self, queue: usize, message: &[u8]) {
        let way = (CLIENT.parse().expect("one"), self.server);
        let frame = frame(way, (self.end.view.info.mac, MAC), message);
        self.end.send(queue, &frame);
    }

    /// The replies until one with this ID.
    fn receive_until(&mut self, queue: usize, id: u16) -> Vec<Vec<u8>> {
        let mut replies: Vec<Vec<u8>> = Vec::new();
        wait::until_true("the last reply comes", || {
            let got = self.end.receive(queue).into_iter();
            replies.extend(got.map(|(_, from, reply)| {
                assert_eq!(from, self.server);
                reply
            }));
            replies.last().is_some_and(|reply| reply[..2] == id.to_be_bytes())
        });
        replies
    }

    fn ask(&mut self, queue: usize, name: &str) -> Vec<u8> {
        let message = query(name);
        self.send(queue, &message);
        self.receive_until(queue, 0x1234).pop().expect("a reply")
    }
}

/// The replies over UDP until one with this ID.
fn receive_until(socket: &UdpSocket, id: u16) -> Vec<Vec<u8>> {
    let mut replies: Vec<Vec<u8>> = Vec::new();
    while replies.last().is_none_or(|reply| reply[..2] != id.to_be_bytes()) {
        let mut reply = vec![0; 65_535];
        let len = socket.recv(&mut reply).expect("a reply");
        reply.truncate(len);
        replies.push(reply);
    }
    replies
}

/// A query, or what is left of one after damage behind its flags.
fn generated(random: &mut fastrand::Rng, id: u16) -> Vec<u8> {
    let names = ["a.test", "ns.a.test", "many.a.test", "alias.a.test", "x.y.A.tESt", "b.test", ""];
    let types: [u16; 12] = [1, 2, 5, 6, 15, 16, 28, 43, 65, 251, 255, 65_280];
    let [high, low] = id.to_be_bytes();
    let edns = random.bool();
    let mut message = vec![high, low, u8::from(random.bool()), random.u8(..) & 0x30, 0, 1];
    message.extend_from_slice(&[0, 0, 0, 0, 0, edns.into()]);
    let name = names[random.usize(..names.len())];
    for label in name.split('.').filter(|label| !label.is_empty()) {
        message.push(label.len() as u8);
        message.extend_from_slice(label.as_bytes());
    }
    message.push(0);
    message.extend_from_slice(&types[random.usize(..types.len())].to_be_bytes());
    message.extend_from_slice(&[0, if random.u8(..) < 8 { 3 } else { 1 }]);
    if edns {
        let [high, low] = random.u16(256..2048).to_be_bytes();
        let version = u8::from(random.u8(..) < 16);
        let flags = if random.bool() { 0x80 } else { 0 };
        let option = [&[0, 3, 0, 0][..], &[0xff, 0, 0, 1, 7], &[]][random.usize(..3)];
        message.extend_from_slice(&[0, 0, 41, high, low, 0, version, flags, 0]);
        message.extend_from_slice(&[0, option.len() as u8]);
        message.extend_from_slice(option);
    }
    if random.u8(..) < 32 {
        let at = random.usize(4..message.len());
        message[at] = random.u8(..);
    }
    if random.u8(..) < 8 {
        message.truncate(random.usize(..=message.len()));
    }
    message
}

#[test]
fn queries_over_memif_give_the_bytes_of_sockets() {
    if environment().is_none() {
        return;
    }
    const BATCH: u16 = 24;
    let folder = Folder::new("dpdk");
    let mut served = serve_memif(&folder);
    let mut client = MemifClient::new(&folder, served.address.port());
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let local = SocketAddr::from(([127, 0, 0, 1], served.address.port()));
    socket.connect(local).expect("an address");
    socket.set_read_timeout(Some(deadline())).expect("a timeout");
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut asked, mut answered) = (0, 0);
    while asked < 36_000 {
        let queue = asked % 2;
        let mut batch: Vec<_> = (0..BATCH).map(|id| generated(&mut random, id)).collect();
        // One worker answers in order, so that with this reply all others have come.
        let mut last = query("ns.a.test");
        last[..2].copy_from_slice(&BATCH.to_be_bytes());
        batch.push(last);
        for message in &batch {
            client.send(queue, message);
            socket.send(message).expect("sent");
        }
        let by_memif = client.receive_until(queue, BATCH);
        let by_socket = receive_until(&socket, BATCH);
        for (memif, socket) in by_memif.iter().zip(&by_socket) {
            assert_eq!(memif, socket, "{:02x?}", batch[usize::from(memif[1])]);
        }
        assert_eq!(by_memif.len(), by_socket.len());
        (asked, answered) = (asked + batch.len() - 1, answered + by_memif.len() - 1);
    }
    assert!(answered * 10 > asked * 9, "{answered} of {asked} were answered");
    let dpdk = &status(&folder)["dpdk"];
    let device = &dpdk["devices"][0];
    assert_eq!((&dpdk["failed"], &device["failed"]), (&Value::Null, &Value::Null));
    assert_eq!((&device["driver"], &device["up"]), (&"net_memif".into(), &true.into()));
    assert_eq!(device["queues"].as_array().map(Vec::len), Some(2), "one for each worker");
    assert!(device["received"].as_u64() > Some(36_000) && device["sent"].as_u64() > Some(32_000));
    assert!(device["lost"].as_object().expect("counts").values().all(|count| *count == 0));
    served.end();
}

#[test]
fn peer_that_comes_back_is_answered_and_no_buffer_is_lost() {
    if environment().is_none() {
        return;
    }
    let folder = Folder::new("dpdk-peer");
    let served = serve_memif(&folder);
    let free = |folder: &Path| status(folder)["dpdk"]["devices"][0]["buffers_free"].as_u64();
    let before = free(&folder);
    for _ in 0..5 {
        let mut client = MemifClient::new(&folder, served.address.port());
        for queue in [0, 1] {
            let reply = client.ask(queue, "ns.a.test");
            assert!(rcode(&reply) == NOERROR && holds(&reply, &[192, 0, 2, 1]));
        }
        drop(client);
        let is_up = || status(&folder)["dpdk"]["devices"][0]["up"] == true;
        wait::until_true("the link is down", || !is_up());
    }
    assert_eq!(free(&folder), before);
}

/// Each of these is one error of the start; sockets answer meanwhile.
#[test]
fn dpdk_that_cannot_be_used_is_one_error_and_sockets_answer() {
    if environment().is_none() {
        return;
    }
    let folder = Folder::new("dpdk-none");
    let library = dpdk::library().expect("DPDK");
    let library = library.to_str().expect("a path");
    for (library, devices, memory, wanted) in [
        ("/nonexistent/libdunlin-dpdk.so", "net_null0", "64MiB", "install the package dunlin-dpdk"),
        (library, "net_null0", "64GiB", "huge_pages = false"),
        (library, "net_af_packet0,iface=nonesuch", "", "net_af_packet0: it cannot be made"),
        (library, "net_af_packet0,iface=lo", "", "it has 1 queue: set [server] workers = 1"),
        (library, "0000:ff:1f.7", "", "there is no such device: `lspci -D` lists them"),
    ] {
        if devices.ends_with("iface=lo") && !is_root() {
            continue;
        }
        let memory = match memory {
            "" => "huge_pages = false".to_owned(),
            size => format!("memory = \"{size}\""),
        };
        let config = format!(
            "port = \"dpdk\"\n[dpdk]\n{memory}\nlibrary = \"{library}\"\n\
             devices = [\"{devices}\"]\n[admin]\nsocket = \"{}\"\n{}",
            folder.join("admin").display(),
            zone("a.test")
        );
        let served = Served::start_by(&mut binary(), &folder, &config, &[("a.test.zone", HEAD)]);
        let told: Vec<_> = served.start.iter().filter(|line| line.contains("[dpdk]")).collect();
        assert!(told.len() == 1 && told[0].contains(wanted), "{wanted}: {told:?}");
        assert_eq!(rcode(&served.ask("ns.a.test")), NOERROR);
        let faults = status(&folder)["faults"].to_string();
        assert!(faults.contains("dpdk_missing") && faults.contains(wanted), "{faults}");
        drop(served);
    }
    // What the machine lacks is known before the start.
    let text = std::fs::read_to_string(folder.join("dunlin.toml")).expect("a config");
    let text = text.replace(library, "/nonexistent/libdunlin-dpdk.so");
    std::fs::write(folder.join("dunlin.toml"), text).expect("written");
    let checked = binary().arg("check").arg("-c").arg(folder.join("dunlin.toml")).output();
    let checked = checked.expect("it runs");
    let shown = String::from_utf8_lossy(&[checked.stdout, checked.stderr].concat()).into_owned();
    assert_eq!(checked.status.code(), Some(1));
    assert!(shown.contains("install the package dunlin-dpdk"), "{shown}");
    assert!(shown.contains("0000:ff:1f.7: there is no such device"), "{shown}");
}

#[test]
fn hot_restart_on_dpdk_is_refused_with_the_reason() {
    if environment().is_none() {
        return;
    }
    let folder = Folder::new("dpdk-restart");
    let served = serve_memif(&folder);
    let config = folder.join("dunlin.toml");
    let second = binary().args(["serve", "--hot-restart", "-c"]).arg(config).output();
    let second = second.expect("it runs");
    let why = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(!second.status.success() && why.contains("only one process can open"), "{why}");
    assert_eq!(rcode(&served.ask("ns.a.test")), NOERROR);
}

/// An interface of the kernel without an address, by its packet socket.
#[test]
fn interface_is_served_by_af_packet() {
    if !is_root() || environment().is_none() {
        return;
    }
    let (wire, folder) = (Wire::new(), Folder::new("dpdk-packet"));
    let at: SocketAddr = "192.0.2.53:53".parse().expect("an address");
    let neighbor = "neigh replace 192.0.2.53 lladdr 02:00:00:00:00:01 dev c0";
    let known = wire.client_command("ip").args(neighbor.split(' ')).status();
    assert!(known.expect("it runs").success());
    let program = binary().get_program().to_str().expect("a path").to_owned();
    let keys = "listen = [\"0.0.0.0:53\"]\n";
    let device = "net_af_packet0,iface=s0,qpairs=2";
    let mut served = serve(&mut wire.command(&program), &folder, keys, device);
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
fn set_up_interface(wire: &Wire) {
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

/// A device with interrupts: an interface of the kernel, which DPDK makes.
#[test]
fn worker_sleeps_while_a_device_with_interrupts_receives_nothing() {
    if !is_root() || environment().is_none() {
        return;
    }
    let (wire, folder) = (Wire::new(), Folder::new("dpdk-idle"));
    let program = binary().get_program().to_str().expect("a path").to_owned();
    let device = "net_tap0,iface=dtap0,mac=02:00:00:00:00:53";
    let keys = "listen = [\"0.0.0.0:53\"]\n";
    let mut served = serve(&mut wire.command(&program), &folder, keys, device);
    let of_device = |key: &str| status(&folder)["dpdk"]["devices"][0][key].clone();
    assert_eq!(of_device("interrupts"), true, "{}", of_device("failed"));
    for line in ["addr add 203.0.113.1/24 dev dtap0", "link set dtap0 up"] {
        run(wire.command("ip"), line);
    }
    let mac = of_device("mac");
    let mac = mac.as_str().expect("an address");
    run(wire.command("ip"), &format!("neigh replace 203.0.113.53 lladdr {mac} dev dtap0"));
    let waits = || {
        let queues = of_device("queues");
        let counts = queues.as_array().expect("queues").iter().map(|one| one["waits"].as_u64());
        counts.map(|count| count.expect("a count")).sum::<u64>()
    };
    // There are two workers.
    let mut before = 1;
    for _ in 0..5 {
        wait::until_true("the worker sleeps", || waits() > before);
        before = waits();
        let at: SocketAddr = "203.0.113.53:53".parse().expect("an address");
        let reply = wire.in_server(|| ask(at, "ns.a.test"));
        assert!(rcode(&reply) == NOERROR && holds(&reply, &[192, 0, 2, 1]));
    }
    served.end();
}
