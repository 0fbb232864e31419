//! The servers themselves: each starts from its config, answers for the zone, and ends.

use test_support::ports;
use test_support::wait;

use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};

use lab::servers::{ALL, ServerSetup, Zone, ask};
use test_support::folder::Folder;
use test_support::skip::skip;

const ZONE: &str = "$ORIGIN cluster.local.\n$TTL 30\n\
    @ SOA ns.dns hostmaster 1 7200 1800 86400 5\n@ NS ns.dns\nns.dns A 127.0.0.1\n\
    svc-1.ns-1.svc A 10.0.0.1\nsvc-2.ns-2.svc A 10.0.0.2\n";

/// BIND listens on addresses of interfaces alone.
fn free_address() -> SocketAddr {
    ports::free_address(Ipv4Addr::LOCALHOST).into()
}

#[test]
fn each_server_starts_answers_for_the_zone_and_ends() {
    let folder = Folder::new("servers");
    let file = folder.join("zone");
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
        let setup = ServerSetup {
            address,
            cpus: "0".parse().unwrap(),
            threads: None,
            zone: zone.clone(),
            folder: folder.join(kind.name),
            netns: None,
            interface: None,
        };
        let server = kind.start(&from_here(&binary), &setup, None).unwrap();
        let known = b"\x05svc-2\x04ns-2\x03svc\x07cluster\x05local\x00";
        let unknown = b"\x05svc-9\x04ns-2\x03svc\x07cluster\x05local\x00";
        assert_eq!(ask(None, address, known), Ok((0, 1)), "{}", kind.name);
        assert_eq!(ask(None, address, unknown), Ok((3, 0)), "{}: NXDOMAIN", kind.name);
        assert!(server.command.contains("taskset -c 0"), "{}", server.command);
        let process = format!("/proc/{}", server.id());
        drop(server);
        assert!(!Path::new(&process).exists(), "{} is still there", kind.name);
    }
}

/// A relative path, as a user may give it.
fn from_here(path: &Path) -> PathBuf {
    let here = std::env::current_dir().unwrap();
    let up: PathBuf = here.components().skip(1).map(|_| "..").collect();
    up.join(path.strip_prefix("/").unwrap())
}

#[test]
fn a_server_ends_with_its_parent() {
    let folder = Folder::new("servers-orphans");
    let file = folder.join("zone");
    std::fs::write(&file, ZONE).unwrap();
    let zone = Zone::open("cluster.local", &file).unwrap();
    for kind in ALL.into_iter().filter(|kind| kind.name != "dunlin") {
        let Ok(binary) = kind.find() else { continue };
        let (address, cpus) = (free_address(), "0".parse().unwrap());
        let (folder, zone) = (folder.join(kind.name), zone.clone());
        let setup = ServerSetup {
            address,
            cpus,
            threads: None,
            zone,
            folder,
            netns: None,
            interface: None,
        };
        // The kernel asks about the thread. What is forgotten is not told to end by us.
        let start = move || std::mem::forget(kind.start(&binary, &setup, None).unwrap());
        std::thread::spawn(start).join().unwrap();
        wait::until_ok(&format!("{} is gone", kind.name), || {
            TcpListener::bind(address).and_then(|_| UdpSocket::bind(address))
        });
    }
}

#[test]
fn a_failed_start_reports_the_log() {
    let knot = lab::servers::ServerKind::named("knot").unwrap();
    let Ok(binary) = knot.find() else { return skip("knotd is not here: apt install knot") };
    let folder = Folder::new("servers-bad");
    let file = folder.join("zone");
    std::fs::write(&file, ZONE).unwrap();
    let zone = Zone::open("cluster.local", &file).unwrap();
    // An address of another machine.
    let address = "192.0.2.1:5399".parse().unwrap();
    let cpus = "0".parse().unwrap();
    let setup = ServerSetup {
        address,
        cpus,
        threads: None,
        zone,
        folder: folder.to_path_buf(),
        netns: Some("no-such".into()),
        interface: None,
    };
    let error = knot.start(&binary, &setup, None).unwrap_err();
    assert!(error.contains("knot") && error.contains("no-such"), "{error}");
}
