//! The servers themselves: each starts from its config, answers for the zone, and ends.

mod common;

use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::path::PathBuf;

use common::skip;
use lab::servers::{ALL, Site, Zone, ask};

const ZONE: &str = "$ORIGIN cluster.local.\n$TTL 30\n\
    @ SOA ns.dns hostmaster 1 7200 1800 86400 5\n@ NS ns.dns\nns.dns A 127.0.0.1\n\
    svc-1.ns-1.svc A 10.0.0.1\nsvc-2.ns-2.svc A 10.0.0.2\n";

/// A folder that is removed in the end.
#[derive(Debug)]
pub struct Folder(pub PathBuf);

impl Folder {
    /// A fresh one for `test`.
    pub fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("dunlin-lab-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed is left to the system's own housekeeping.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A port of the loopback address (BIND listens on addresses of interfaces alone) that is free over
/// UDP and TCP, and below those that the kernel gives to sockets which ask for none.
fn free_address() -> SocketAddr {
    let begin = std::process::id() as u16 % 10_000;
    let mut addresses = (begin..20_000).map(|n| SocketAddr::from(([127, 0, 0, 1], 10_000 + n)));
    let is_free = |a: &SocketAddr| UdpSocket::bind(a).is_ok() && TcpListener::bind(a).is_ok();
    addresses.find(is_free).unwrap()
}

#[test]
fn each_server_starts_answers_for_the_zone_and_ends() {
    let folder = Folder::new("servers");
    let file = folder.0.join("zone");
    std::fs::write(&file, ZONE).unwrap();
    let zone = Zone::open("cluster.local", &file).unwrap();
    // Dunlin has tests of its own, and its program is not built by these.
    for kind in ALL.into_iter().filter(|kind| kind.name != "dunlin") {
        let binary = match kind.find() {
            Ok(binary) => binary,
            // Debian has no package of CoreDNS: comparing builds it (scripts/require
            // bench-compare).
            Err(_) if kind.name == "coredns" => continue,
            Err(missing) => {
                skip(&missing);
                continue;
            }
        };
        let version = kind.version(&binary).unwrap();
        assert!(version.version.chars().any(|c| c.is_ascii_digit()), "{}: {version:?}", kind.name);
        let address = free_address();
        let site = Site {
            address,
            cpus: "0".parse().unwrap(),
            zone: zone.clone(),
            folder: folder.0.join(kind.name),
            netns: None,
        };
        let server = kind.start(&binary, &site, None).unwrap();
        let known = b"\x05svc-2\x04ns-2\x03svc\x07cluster\x05local\x00";
        let unknown = b"\x05svc-9\x04ns-2\x03svc\x07cluster\x05local\x00";
        assert_eq!(ask(None, address, known), Ok((0, 1)), "{}", kind.name);
        assert_eq!(ask(None, address, unknown), Ok((3, 0)), "{}: NXDOMAIN", kind.name);
        assert!(server.command.contains("taskset -c 0"), "{}", server.command);
        let process = format!("/proc/{}", server.id());
        drop(server);
        assert!(!std::path::Path::new(&process).exists(), "{} is still there", kind.name);
    }
}

#[test]
fn a_server_that_cannot_start_says_why() {
    let knot = lab::servers::Kind::named("knot").unwrap();
    let Ok(binary) = knot.find() else { return skip("knotd is not here: apt install knot") };
    let folder = Folder::new("servers-bad");
    let file = folder.0.join("zone");
    std::fs::write(&file, ZONE).unwrap();
    let zone = Zone::open("cluster.local", &file).unwrap();
    // An address of somebody else's.
    let address = "192.0.2.1:5399".parse().unwrap();
    let cpus = "0".parse().unwrap();
    let site =
        Site { address, cpus, zone, folder: folder.0.clone(), netns: Some("no-such".into()) };
    let error = knot.start(&binary, &site, None).unwrap_err();
    assert!(error.contains("knot") && error.contains("no-such"), "{error}");
}
