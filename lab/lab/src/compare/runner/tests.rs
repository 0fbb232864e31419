use super::*;
use lab_host::hosts::Layout;
use lab_load::names::QuestionSet;
use lab_load::query::QueryFormat;
use std::net::UdpSocket;
use std::time::Duration;
use test_support::folder::Folder;

/// What a load comes to that is as in a comparison, but of this host, where an answer is the
/// query with what `change` makes of it.
fn asked(test: &str, change: fn(&mut Vec<u8>)) -> (Result<()>, QueryCounts) {
    let folder = Folder::new(test);
    let zone = folder.join("zone");
    std::fs::write(&zone, "@ 30 SOA ns hostmaster 1 1 1 1 1\nns 30 A 192.0.2.1\n").unwrap();
    let form = QueryFormat { edns: true, ..QueryFormat::default() };
    let set = QuestionSet::from_pattern("ns.example", 1, wire::Rtype::A, form).unwrap();
    let (order, under) = (Order::Given, None);
    let asks = QuestionSpec { set: set.into(), order, unique: 0.0, nxdomain: 0.0, under };
    let options = CompareOptions {
        kinds: Vec::new(),
        binaries: BTreeMap::new(),
        zone: Zone::open("example", &zone).unwrap(),
        asks: QuerySource::Questions(asks.into()),
        path: Path::Udp { segments: false },
        forward: false,
        rounds: 1,
        length_ns: 100_000_000,
        highest: 4_000.0,
        folder: folder.to_path_buf(),
    };
    let cpus = || cpu::allowed().unwrap().as_slice()[0].to_string();
    let hosts = hosts::Options {
        name: "field".into(),
        layout: Layout::Whole,
        server_cpus: cpus(),
        client_cpus: cpus(),
        queues: 1,
        mtu: 1_500,
    };
    let load = load(&options, &hosts).unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    let load = Options { server: socket.local_addr().unwrap(), netns: None, ..load };
    let server = std::thread::spawn(move || {
        let mut room = [0; 512];
        while let Ok((len, from)) = socket.recv_from(&mut room) {
            // Header and question; the query has EDNS after them.
            let mut answer = room[..len.min(12 + 12 + 4)].to_vec();
            answer[2] |= 0x80;
            answer[6..12].fill(0);
            change(&mut answer);
            socket.send_to(&answer, from).unwrap();
        }
    });
    let report = lab_load::run(&load, &AtomicBool::new(false), &mut |_| {}).unwrap();
    server.join().unwrap();
    (check("knot", &report.counts, false), report.counts)
}

/// An A record of the question's name.
fn address(answer: &mut Vec<u8>, last: u8) {
    answer[7] = 1;
    answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 30, 0, 4, 192, 0, 2, last]);
}

#[test]
fn servers_with_right_answers_are_compared() {
    let (checked, counts) = asked("right", |answer| address(answer, 1));
    assert_eq!(checked, Ok(()));
    assert!(counts.answered > 50 && counts.checked > 2, "{counts:?}");
    let mut none = counts;
    none.rcodes[3] = 1;
    assert_eq!(check("knot", &none, false), Ok(()), "NXDOMAIN");
    let mut failing = QueryCounts { wrong: counts.wrong + 2, ..counts };
    failing.rcodes[2] = 2;
    assert_eq!(check("unbound", &failing, true), Ok(()), "a forwarder with too much to do");
    assert!(check("unbound", &failing, false).is_err());
}

#[test]
fn servers_with_wrong_answers_are_refused() {
    let error = asked("wrong", |answer| address(answer, 2)).0.unwrap_err();
    assert!(error.contains("held to the zone not as it says"), "{error}");
    let error = asked("refused", |answer| answer[3] |= 5).0.unwrap_err();
    assert!(error.starts_with("knot answers wrong: ") && error.contains(" REFUSED"), "{error}");
    let error = asked("cut", |answer| answer[2] |= 2).0.unwrap_err();
    assert!(error.contains(" cut; nothing was compared"), "{error}");
}
