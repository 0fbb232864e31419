//! A server on devices of DPDK: memif, whose other end is in this process.
//! What lacks is printed.

use crate::memif_end::{ClientEnd, alone, environment, frame};
use crate::pair::is_root;
use crate::served::{HEAD, NOERROR, Served, binary, holds, query, rcode, zone};
use serde_json::Value;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::Command;
use test_support::dpdk;
use test_support::folder::Folder;
use test_support::wait::{self, deadline};

pub const MAC: [u8; 6] = [2, 0, 0, 0, 0, 0x53];
/// Private, as the client on this host is for the access lists.
const CLIENT: &str = "10.0.0.1:4001";

/// Starts a server with these keys, and these devices of DPDK. No set of its zone has several
/// records, whose order would be random.
pub fn serve(command: &mut Command, folder: &Path, keys: &str, devices: &str) -> Served {
    let zone =
        format!("{HEAD}* TXT \"any\"\nmany A 192.0.2.2\nmany AAAA 2001:db8::2\nalias CNAME many\n");
    serve_zone(command, folder, (keys, devices), &zone)
}

fn serve_zone(command: &mut Command, folder: &Path, devices: (&str, &str), text: &str) -> Served {
    serve_by(&dpdk::library().expect("DPDK"), command, folder, devices, text)
}

fn serve_by(
    library: &Path,
    command: &mut Command,
    folder: &Path,
    (keys, devices): (&str, &str),
    text: &str,
) -> Served {
    let config = format!(
        "{keys}port = \"dpdk\"\n[dpdk]\nhuge_pages = false\nlibrary = \"{}\"\n\
         devices = [\"{devices}\"]\n[admin]\nsocket = \"{}\"\n{}",
        library.display(),
        folder.join("admin").display(),
        zone("a.test")
    );
    Served::start_by(command, folder, &config, &[("a.test.zone", text)])
}

pub fn serve_memif(folder: &Path) -> Served {
    serve(&mut binary(), folder, "listen = [\"0.0.0.0:0\"]\n", &memif(folder))
}

/// A server on a memif, with these keys and this zone.
pub fn serve_with(folder: &Path, keys: &str, zone: &str) -> Served {
    let keys = format!("{keys}listen = [\"0.0.0.0:0\"]\n");
    serve_zone(&mut binary(), folder, (&keys, &memif(folder)), zone)
}

fn memif(folder: &Path) -> String {
    let mac = MAC.map(|byte| format!("{byte:02x}")).join(":");
    let socket = folder.join("memif");
    format!("net_memif0,role=server,socket-abstract=no,mac={mac},socket={}", socket.display())
}

pub fn status(folder: &Path) -> Value {
    let socket = folder.join("admin");
    let mut command = Command::new(binary().get_program());
    let shown = command.args(["status", "-o", "json", "--socket"]).arg(socket).output();
    let shown = shown.expect("it runs");
    let why = String::from_utf8_lossy(&shown.stderr);
    serde_json::from_slice(&shown.stdout).unwrap_or_else(|_| panic!("no status: {why}"))
}

/// The other end, and the address of its server.
struct MemifClient {
    end: ClientEnd,
    server: SocketAddr,
}

impl MemifClient {
    fn new(folder: &Path, port: u16) -> Self {
        let server = SocketAddr::from(([192, 0, 2, 53], port));
        let mut end =
            ClientEnd::open(alone(), &folder.join("memif"), 2, &[CLIENT.parse().expect("one")]);
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

#[test]
fn two_servers_on_one_machine_do_not_meet() {
    if environment().is_none() {
        return;
    }
    let folders = ["dpdk-first", "dpdk-second"].map(Folder::new);
    let mut served = folders.each_ref().map(|folder| serve_memif(folder));
    for (folder, one) in folders.iter().zip(&served) {
        let mut client = MemifClient::new(folder, one.address.port());
        for queue in [0, 1] {
            let reply = client.ask(queue, "ns.a.test");
            assert!(rcode(&reply) == NOERROR && holds(&reply, &[192, 0, 2, 1]));
        }
    }
    served.iter_mut().for_each(Served::end);
}

/// With the library that is packed beside it. The program of a release is static, and could not.
#[test]
#[ignore = "slow: packs a program"]
fn program_of_the_package_opens_its_library() {
    if dpdk::library().is_none() {
        return;
    }
    let (folder, packages) = (Folder::new("dpdk-package"), Folder::new("dpdk-packages"));
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut build = Command::new(root.join("packaging/dpdk/build"));
    build.arg(&*packages).arg(binary().get_program()).env("COMPRESSION", "none");
    assert!(build.status().expect("it runs").success());
    let mut files = std::fs::read_dir(&*packages).expect("a folder");
    let package = files.next().expect("a package").expect("a file").path();
    let unpacked = packages.join("root");
    let unpack = Command::new("dpkg-deb").arg("-x").arg(package).arg(&unpacked).status();
    assert!(unpack.expect("it runs").success());
    let program = unpacked.join("usr/lib/dunlin/dunlin");
    let library = unpacked.join("usr/lib/dunlin/libdunlin-dpdk.so");
    let memif = memif(&folder);
    let mut served = serve_by(&library, &mut Command::new(program), &folder, ("", &memif), HEAD);
    let device = &status(&folder)["dpdk"]["devices"][0];
    assert_eq!(device["driver"], "net_memif", "{device}");
    served.end();
}
