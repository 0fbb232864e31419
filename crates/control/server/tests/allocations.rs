//! A burst of queries allocates nothing, from the snapshot's reader to the reply; a dump of a large
//! zone holds little.
use test_support::counting;
use test_support::wait::until_eq;

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

use compile::{AnswerRules, ChosenRecords, ChosenSets, Image, Loader, SetChange, Zone};
use counting::{calls, most_held};
use handler::{Answerer, FIRST_TYPE, TRUNCATED};
use image::{HASH_KEY_WORDS, HashKey, Location, Node, Order, RecordSet};
use packet::{BURST_MAX, Packet, Transport, Verdict};
use query_samples::TapThread;
use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use sync::Publisher;
use wire::{Name, NameBuf, Rtype};
use worker::App;
use zone_manager::ZonePublisher;

/// A query of one query, with OPT and a client cookie.
fn query(name: &str, rtype: Rtype) -> Vec<u8> {
    let mut query = vec![0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1];
    let name = NameBuf::from_text(name.as_bytes(), Name::ROOT).expect("a name");
    query.extend(name.as_name().as_bytes());
    query.extend(rtype.0.to_be_bytes());
    query.extend([0, 1, 0, 0, 41, 4, 208, 0, 0, 128, 0, 0, 12]);
    query.extend([0, 10, 0, 8, 1, 2, 3, 4, 5, 6, 7, 8]);
    query
}

/// Sets that answers are chosen from, with their order and the most records of an answer.
const CHOSEN: [(&str, Order, u16); 4] = [
    ("weighted", Order::Weighted, 1),
    ("hash", Order::Hash, 1),
    ("few", Order::Weighted, 3),
    ("near", Order::Random, u16::MAX),
];

fn with_chosen_sets(mut zone: Zone) -> Zone {
    let data: Vec<Vec<u8>> = (0..8).map(|last| vec![10, 9, 9, last]).collect();
    for (name, ..) in CHOSEN {
        let name = [&[name.len() as u8][..], name.as_bytes()].concat();
        // Any rules: the chooser has those that count.
        let set = Some((30, &data[..]));
        let change = SetChange { name: &name, rtype: Rtype::A, set, rules: vec![0] };
        zone.change_all(&[change]).expect("a set");
    }
    let mut choose = |_, node: Node<'_>, set: RecordSet<'_>| {
        let chosen = CHOSEN.iter().find(|(known, ..)| known.as_bytes() == &node.name()[1..]);
        let selection = chosen.map(|(_, order, others)| AnswerRules {
            order: *order,
            others: *others,
            weights: (0..set.count() as u16).collect(),
            locations: vec![Location::UNKNOWN; set.count()],
            ..AnswerRules::default()
        });
        let numbers = (0..set.count()).collect();
        Some(ChosenRecords { ttl: 30, numbers, selection }.into())
    };
    zone.chosen(None, &zone.changed_leaves(None), ChosenSets::Ruled, &mut choose)
}

/// Answers by this config, and may query upstreams.
fn answerer(test: &str, config: &str) -> Answerer<Image> {
    let key = Arc::new(HashKey::new(std::array::from_fn::<_, HASH_KEY_WORDS, _>(|n| n as u64 + 1)));
    let mut image = Image::new(Arc::clone(&key));
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/fleet");
    let origin = NameBuf::from_text(b"cluster.local", Name::ROOT).expect("a name");
    let file = folder.join("cluster.local.zone");
    let (zone, _) = source_file::load(&file, origin.as_name(), &key, None).expect("the demo fleet");
    image.put_zone(with_chosen_sets(zone).into());
    let (control, running) = ZonePublisher::start(image).expect("a thread");
    let image = control.reader().expect("a reader");
    running.stop();
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}.toml"));
    fs::write(&file, config).expect("a file");
    let mut settings = Publisher::new(data_plane::settings_of_file(Some(&file)).expect("settings"));
    let tap = TapThread::start(query_samples::TapSettings { hot_one_in: 2, ..Default::default() })
        .expect("a tap");
    Answerer::new(image, settings.reader().expect("a reader"), tap.tap(1), 1).expect("an app")
}

#[test]
fn burst_allocates_nothing() {
    burst("plain", "[server]\nnsid = \"here\"\n");
}

#[test]
fn burst_within_limits_allocates_nothing() {
    let limits = "[acl]\nquery = [\"any\", \"!10.0.0.0/8\"]\n\
                  [limits.rate]\nper_second = 1000\n[limits.responses]\nper_second = 1000\n";
    burst("limits", limits);
}

/// The address of a server that answers every query with 192.0.2.1 and a TTL of one hour.
fn server() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let address = socket.local_addr().expect("an address");
    thread::spawn(move || {
        let mut message = [0; 512];
        while let Ok((_, from)) = socket.recv_from(&mut message) {
            let end = 12 + message[12..].iter().position(|byte| *byte == 0).expect("a name") + 5;
            message[2..12].copy_from_slice(&[0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]);
            let answer = [0xc0, 12, 0, 1, 0, 1, 0, 0, 0x0e, 0x10, 0, 4, 192, 0, 2, 1];
            message[end..end + answer.len()].copy_from_slice(&answer);
            socket.send_to(&message[..end + answer.len()], from).expect("sent");
        }
    });
    address
}

#[test]
fn burst_of_cached_names_allocates_nothing() {
    let config = format!(
        "[forward]\n\".\" = {{ servers = [\"{}\"], mix_case = false }}\n\
         [acl]\nrecursion = [\"any\"]\n",
        server()
    );
    let mut answerer = answerer("others", &config);
    let plain = |nth: usize| {
        let mut query = query(&format!("host-{nth}.example"), Rtype::A);
        query.truncate(query.len() - 12);
        let len = query.len();
        query[len - 2..].fill(0);
        query[len - 4] = 0;
        query
    };
    let peer = SocketAddr::from(([192, 0, 2, 1], 4242));
    let mut buffers = vec![[0u8; 1232]; BURST_MAX];
    let mut burst = |answerer: &mut Answerer<Image>| {
        let packets = buffers.iter_mut().enumerate().map(|(nth, buffer)| {
            let query = plain(nth);
            buffer[..query.len()].copy_from_slice(&query);
            Packet::new(buffer, query.len(), peer, Transport::Datagram)
        });
        let mut packets: Vec<Packet<'_>> = packets.collect();
        let before = calls();
        answerer.burst(&mut packets, Duration::from_secs(1));
        let allocations = calls() - before;
        answerer.park();
        let replies = packets.iter().filter(|packet| packet.verdict == Verdict::Reply);
        (replies.count(), allocations)
    };
    assert_eq!(burst(&mut answerer).0, 0, "the cache is empty");
    let mut late = 0;
    let answers = || {
        answerer.poll_deferred(Duration::from_secs(1), &mut |_, _| late += 1);
        late
    };
    until_eq("deferred answers", answers, BURST_MAX);
    // The first burst confirms that these names are forwarded, the second uses that.
    for _ in 0..2 {
        assert_eq!(burst(&mut answerer), (BURST_MAX, 0));
    }
}

/// Asserts that a burst of all kinds of queries allocates nothing.
fn burst(test: &str, config: &str) {
    let mut answerer = answerer(test, config);
    let queries = [
        query("api.cart-prod.svc.cluster.local", Rtype::A),
        query("API.cart-prod.svc.cluster.local", Rtype::AAAA),
        query("worker.orders-dev.svc.cluster.local", Rtype::A),
        query("_peer._tcp.queue.orders-dev.svc.cluster.local", Rtype::SRV),
        query("static.orders-dev.svc.cluster.local", Rtype::A),
        query("weighted.cluster.local", Rtype::A),
        query("hash.cluster.local", Rtype::A),
        query("few.cluster.local", Rtype::A),
        query("near.cluster.local", Rtype::A),
        query("cart-prod.svc.cluster.local", Rtype::ANY),
        query("absent.cart-prod.svc.cluster.local", Rtype::A),
        query("cluster.local", Rtype::SOA),
        query("elsewhere.example", Rtype::A),
        vec![0; 12],
        vec![0; 3],
    ];
    let peer = SocketAddr::from(([192, 0, 2, 1], 4242));
    let mut buffers = vec![[0u8; 1232]; BURST_MAX];
    let queries = queries.iter().cycle();
    let mut packets: Vec<Packet<'_>> = buffers
        .iter_mut()
        .zip(queries)
        .map(|(buffer, query)| {
            buffer[..query.len()].copy_from_slice(query);
            Packet::new(buffer, query.len(), peer, Transport::Datagram)
        })
        .collect();
    let before = calls();
    answerer.burst(&mut packets, Duration::ZERO);
    answerer.park();
    let allocations = calls() - before;
    let replies = packets.iter().filter(|packet| packet.verdict == Verdict::Reply).count();
    assert!(replies > BURST_MAX / 2, "{replies} replies");
    assert_eq!(allocations, 0);
    let views = answerer.counters();
    let counts = views.read();
    let by_rcode: u64 = counts[..FIRST_TYPE].iter().sum();
    let by_type: u64 = counts[FIRST_TYPE..TRUNCATED].iter().sum();
    assert_eq!([by_rcode, by_type], [replies as u64; 2], "each reply is counted once");
}

/// A million records, in text of 55 MB.
#[test]
fn dump_of_a_million_records_holds_two_pieces() {
    let name = |text: &str| NameBuf::from_text(text.as_bytes(), Name::ROOT).expect("a name");
    let (origin, records) = (name("example."), 1_000_000);
    let key = Arc::new(HashKey::new(std::array::from_fn::<_, HASH_KEY_WORDS, _>(|n| n as u64 + 1)));
    let mut loader = Loader::new(key, origin.as_name(), None);
    let soa = [&[0, 0][..], &[0; 20]].concat();
    for (rtype, data) in [(Rtype::SOA, &soa[..]), (Rtype::NS, &[0])] {
        loader.add(origin.as_name(), rtype, 60, data, 0).expect("a record");
    }
    for number in 0..records / 200 {
        let owner = name(&format!("host-{number}.a-name-of-usual-length.example."));
        for host in 0..200 {
            let data = [192, 0, 2, host];
            loader.add(owner.as_name(), Rtype::A, 60, &data, 0).expect("a record");
        }
    }
    let zone = Arc::new(loader.finish().unwrap_or_else(|problem| panic!("{problem:?}")));
    let (mut bytes, mut lines) = (0, 0);
    let held = most_held(|| {
        for piece in api::ZoneText::new(Arc::clone(&zone)) {
            bytes += piece.len();
            lines += piece.iter().filter(|byte| **byte == b'\n').count();
        }
    });
    // With a comment, the SOA and NS.
    assert_eq!(lines, records + 3);
    let most = 2 * (api::limits::DUMP_PIECE_LEN + 1_024);
    assert!(held <= most && bytes > 100 * most, "{held} of {bytes} bytes were held");
}
