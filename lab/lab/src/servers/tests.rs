use super::*;
use proptest::prelude::*;
use test_support::folder::Folder;

const ZONE: &str = "$ORIGIN cluster.local.\n$TTL 30\n\
    @ SOA ns.dns hostmaster 1 7200 1800 86400 5\n@ NS ns.dns\nns.dns A 127.0.0.1\n\
    svc-1.ns-1.svc A 10.0.0.1\nsvc-1.ns-1.svc AAAA fd00::1\n*.wild A 10.0.0.2\n";

fn setup(folder: &Folder, address: &str) -> ServerSetup {
    let file = folder.join("zone");
    fs::write(&file, ZONE).unwrap();
    let zone = Zone::open("cluster.local", &file).unwrap();
    let cpus = "0".parse::<CpuList>().unwrap();
    ServerSetup {
        address: address.parse().unwrap(),
        cpus,
        threads: None,
        zone,
        folder: folder.to_path_buf(),
        netns: None,
        interface: None,
    }
}

#[test]
fn a_config_names_address_zone_and_threads() {
    let folder = Folder::new("configs");
    let mut setup = setup(&folder, "127.0.0.3:5399");
    setup.cpus = "0-1".parse::<CpuList>().unwrap();
    for kind in ALL {
        let text = kind.config(&setup).unwrap();
        for word in ["127.0.0.3", "5399", "cluster.local"] {
            assert!(text.contains(word), "{} lacks {word}: {text}", kind.name);
        }
    }
    for (kind, word) in [
        ("dunlin", "workers = 2"),
        ("knot", "udp-workers: 2"),
        ("nsd", "server-count: 2"),
        ("unbound", "num-threads: 2"),
        ("dnsmasq", "host-record=svc-1.ns-1.svc.cluster.local,fd00::1,30\n"),
    ] {
        let text = ServerKind::named(kind).unwrap().config(&setup).unwrap();
        assert!(text.contains(word), "{kind}: {text}");
    }
    assert!(!ServerKind::named("dnsmasq").unwrap().config(&setup).unwrap().contains('*'));
}

#[test]
fn an_unknown_server_is_refused_with_the_known_names() {
    let error = ServerKind::named("djbdns").unwrap_err();
    assert!(error.contains("\"djbdns\"") && error.contains("dunlin, knot, nsd"), "{error}");
}

#[test]
fn a_zone_without_an_address_and_no_zone_are_refused() {
    let folder = Folder::new("zones");
    let file = folder.join("empty");
    fs::write(&file, "@ 30 SOA ns.dns hostmaster 1 7200 1800 86400 5\n").unwrap();
    let empty = Zone::open("cluster.local.", &file).unwrap();
    assert!(empty.probe().unwrap_err().contains("no A record"));
    fs::write(&file, "what is this\n").unwrap();
    assert!(Zone::open("cluster.local.", &file).is_err());
    assert!(Zone::open("cluster.local.", Path::new("/no/such/zone")).is_err());
}

proptest! {
    #[test]
    fn any_reply_is_parsed_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let server = socket.local_addr().unwrap();
        let sent = bytes.clone();
        let peer = std::thread::spawn(move || {
            let (_, from) = socket.recv_from(&mut [0; 512]).unwrap();
            socket.send_to(&sent, from).unwrap();
        });
        let said = ask(None, server, &[0]);
        peer.join().unwrap();
        let ours = bytes.len() >= 8 && bytes.starts_with(&[0x4c, 0x41]) && bytes[2] & 0x80 != 0;
        prop_assert_eq!(said.is_ok(), ours);
    }
}
