//! Transfers as their clients receive them.
use crate::delivery::send;
use crate::limits::{MESSAGE_LEN_MAX, STREAMS_PER_CLIENT_MAX};
use crate::message::MessageWriter;
use crate::notifications::NotifyTarget;
use crate::request::Message;
use crate::source::ZoneRecords;
use crate::transfers::{Access, KeyOwner, KnownKey, Response, Transfers};
use compile::{Loader, Zone};
use image::{HASH_KEY_WORDS, HashKey};
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use tokio::io::AsyncReadExt;
use tsig::{Algorithm, Exchange, Key, Refusal};
use wire::{HEADER_LEN, Name, NameBuf, Rcode, Records, Rtype, skip_name};

const NOW: u64 = 1_795_269_603;
const CLIENT: &str = "192.0.2.1:5300";
const ORIGIN: &str = "zone.test.";

fn name(text: &str) -> NameBuf {
    NameBuf::from_text(text.as_bytes(), Name::ROOT).expect("a name")
}

fn client() -> SocketAddr {
    CLIENT.parse().expect("an address")
}

fn key(secret: &[u8]) -> Arc<Key> {
    Arc::new(Key::new(name("secondary."), Algorithm::Sha256, secret))
}

/// A server with one zone and one key.
struct Server {
    zone: Mutex<Option<Arc<Zone>>>,
    refusals: Mutex<Vec<String>>,
    allowed: bool,
}

struct Owner;

impl KeyOwner for Owner {
    fn name(&self) -> &'static str {
        "secondary"
    }

    fn may_transfer(&self, zone: Name<'_>) -> bool {
        zone != name("secret.test.").as_name()
    }
}

impl Access for Server {
    fn zone(&self, origin: Name<'_>) -> Option<Arc<Zone>> {
        let zone = self.zone.lock().expect("no panic").clone();
        zone.filter(|zone| zone.origin() == origin)
    }

    fn key(&self, of: Name<'_>) -> Option<KnownKey> {
        let known = || KnownKey { key: key(b"secret"), owner: Arc::new(Owner) };
        (of == name("secondary.").as_name()).then(known)
    }

    fn certificate_owner(&self, names: &[String]) -> Option<Arc<dyn KeyOwner>> {
        names.contains(&"secondary.test".to_owned()).then(|| Arc::new(Owner) as Arc<dyn KeyOwner>)
    }

    fn allows(&self, client: IpAddr) -> bool {
        self.allowed && client == self::client().ip()
    }

    fn record_refusal(&self, refusal: &Refusal, _: SocketAddr) {
        self.refusals.lock().expect("no panic").push(refusal.fault.word().into());
    }

    fn now(&self) -> u64 {
        NOW
    }

    fn generation(&self) -> u64 {
        0
    }

    fn zones(&self) -> Vec<Arc<Zone>> {
        self.zone.lock().expect("no panic").clone().into_iter().collect()
    }

    fn notify_targets(&self) -> Vec<NotifyTarget> {
        Vec::new()
    }
}

/// A server with a zone, whose clients without a key may have it.
fn scene(zone: Option<Zone>) -> (Arc<Server>, Arc<Transfers>) {
    let zone = Mutex::new(zone.map(Arc::new));
    let server = Arc::new(Server { zone, refusals: Mutex::default(), allowed: true });
    (Arc::clone(&server), Arc::new(Transfers::new(server, 6)))
}

fn soa(serial: u32) -> Vec<u8> {
    let mut data = b"\x02ns\x04zone\x04test\0\x04root\0".to_vec();
    data.extend([serial, 1, 1, 604_800, 30].iter().flat_map(|number| number.to_be_bytes()));
    data
}

/// A zone with a serial and so many names, each with two records.
fn zone(serial: u32, names: usize) -> Zone {
    let key = Arc::new(HashKey::new([3; HASH_KEY_WORDS]));
    let origin = name(ORIGIN);
    let mut loader = Loader::new(key, origin.as_name(), None);
    let mut add = |owner: NameBuf, rtype, data: &[u8]| {
        loader.add(owner.as_name(), rtype, 60, data, 0).expect("a record");
    };
    add(name(ORIGIN), Rtype::SOA, &soa(serial));
    add(name(ORIGIN), Rtype::NS, b"\x02ns\x04zone\x04test\0");
    for number in 0..names {
        let owner = format!("a-name-of-some-length-{number}.{ORIGIN}");
        add(name(&owner), Rtype::A, &(number as u32).to_be_bytes());
        add(name(&owner), Rtype::MX, b"\x00\x0a\x04mail\x04zone\x04test\0");
    }
    loader.finish().unwrap_or_else(|problem| panic!("{problem:?}"))
}

/// The next version of a zone, with a set of a name replaced or removed.
fn changed(zone: &Zone, owner: &str, addresses: &[[u8; 4]], serial: u32) -> Zone {
    let mut next = zone.clone();
    let data: Vec<&[u8]> = addresses.iter().map(|address| &address[..]).collect();
    let set = (!data.is_empty()).then_some((60, &data[..]));
    next.change(name(&format!("{owner}.{ORIGIN}")).as_name(), Rtype::A, set).expect("a change");
    next.change(name(ORIGIN).as_name(), Rtype::SOA, Some((60, &[&soa(serial)]))).expect("an SOA");
    next
}

/// A query; an IXFR has a serial.
fn query(zone: &str, rtype: Rtype, serial: Option<u32>) -> Vec<u8> {
    let authority = u8::from(serial.is_some());
    let mut message = vec![0xab, 0xcd, 0, 0, 0, 1, 0, 0, 0, authority, 0, 0];
    message.extend(name(zone).as_name().as_bytes());
    message.extend([rtype.0.to_be_bytes(), [0, 1]].concat());
    if let Some(serial) = serial {
        let data = soa(serial);
        message.extend(b"\xc0\x0c\x00\x06\x00\x01\x00\x00\x00\x00\x00");
        message.push(data.len() as u8);
        message.extend(data);
    }
    message
}

/// A record as text, so that records can be compared and shown.
type Read = (String, u16, u32, Vec<u8>);

/// The code and the records of a message.
fn read(message: &[u8]) -> (u8, Vec<Read>) {
    assert_eq!((&message[..2], message[2] & 0x80), (&[0xab, 0xcd][..], 0x80), "a response");
    let count = |at: usize| usize::from(u16::from_be_bytes([message[at], message[at + 1]]));
    let mut at = HEADER_LEN;
    for _ in 0..count(4) {
        at = skip_name(message, at).expect("a question") + 4;
    }
    let total = count(6) + count(8) + count(10);
    let mut records = Records::new(message, at, total);
    let mut read = Vec::new();
    for number in 0..total {
        let record = records.next().expect("as many as counted").expect("well formed");
        let mut room = [0; MESSAGE_LEN_MAX];
        let data = record.expand(&mut room).expect("well formed").to_vec();
        if number < count(6) {
            let owner = record.owner().expect("well formed").to_string();
            read.push((owner, record.rtype.0, record.ttl, data));
        }
    }
    assert_eq!(records.at(), message.len(), "nothing is behind the records");
    (message[3] & 0xf, read)
}

/// The records of a whole response of one or many messages.
fn collect(response: Response) -> (u8, Vec<Read>) {
    match response {
        Response::One(message) => read(&message),
        Response::Many(mut messages) => {
            let mut all = Vec::new();
            while let Some(message) = messages.next_message().expect("no record is too long") {
                let (code, records) = read(&message);
                assert_eq!(code, 0);
                all.extend(records);
            }
            (0, all)
        }
        Response::NotOurs => panic!("it is for a transfer"),
    }
}

fn records(zone: &Zone) -> BTreeSet<Read> {
    let mut all = BTreeSet::new();
    let _ = compile::RecordWalk::new(Arc::new(zone.clone())).advance(|record| {
        let owner = NameBuf::joined(record.name, zone.origin()).expect("a name").to_string();
        all.insert((owner, record.rtype.0, record.ttl, record.data.to_vec()));
        true
    });
    all
}

#[test]
fn zone_has_its_soa_first_and_last_in_messages_that_are_full() {
    let zone = zone(7, 5_000);
    let (_, transfers) = scene(Some(zone.clone()));
    let response = transfers.answer_stream(&query(ORIGIN, Rtype::AXFR, None), client());
    let Response::Many(mut messages) = response else { panic!("many messages") };
    let (mut all, mut lens) = (Vec::new(), Vec::new());
    while let Some(message) = messages.next_message().expect("no record is too long") {
        lens.push(message.len());
        all.extend(read(&message).1);
    }
    assert_eq!(messages.records(), 10_003);
    let (last, full) = lens.split_last().expect("messages");
    assert!(full.iter().all(|len| (65_000..=MESSAGE_LEN_MAX).contains(len)), "{full:?}");
    assert!(*last <= MESSAGE_LEN_MAX && full.len() > 3, "{last}");
    assert_eq!((all[0].1, &all[0]), (Rtype::SOA.0, all.last().expect("records")));
    assert_eq!(all.iter().filter(|record| record.1 == Rtype::SOA.0).count(), 2);
    assert_eq!(all.into_iter().collect::<BTreeSet<_>>(), records(&zone));
}

#[test]
fn every_message_of_a_signed_transfer_is_signed() {
    let (server, transfers) = scene(Some(zone(7, 5_000)));
    let mut message = query(ORIGIN, Rtype::AXFR, None);
    let mut exchange = Exchange::sign(key(b"secret"), &mut message, NOW);
    let response = transfers.answer_stream(&message, client());
    let Response::Many(mut messages) = response else { panic!("many messages") };
    let mut count = 0;
    while let Some(message) = messages.next_message().expect("no record is too long") {
        assert!(message.len() <= MESSAGE_LEN_MAX);
        read(&exchange.verify(&message, NOW).expect("signed"));
        assert!(exchange.is_settled());
        count += 1;
    }
    assert!(count > 3, "{count}");
    // Another secret, and a zone that the key may not have, beside one that its address may.
    let mut forged = query(ORIGIN, Rtype::AXFR, None);
    Exchange::sign(key(b"another"), &mut forged, NOW);
    assert_eq!(collect(transfers.answer_stream(&forged, client())).0, Rcode::NotAuth as u8);
    assert_eq!(*server.refusals.lock().expect("no panic"), ["MAC"]);
    let mut secret = query("secret.test.", Rtype::AXFR, None);
    let mut exchange = Exchange::sign(key(b"secret"), &mut secret, NOW);
    let Response::One(refused) = transfers.answer_stream(&secret, client()) else {
        panic!("one message")
    };
    let refused = exchange.verify(&refused, NOW).expect("signed");
    assert_eq!(read(&refused).0, Rcode::Refused as u8);
}

#[test]
fn refusal_says_what_is_wrong_and_not_more_to_those_who_may_have_nothing() {
    let (_, transfers) = scene(Some(zone(7, 1)));
    let stranger = "198.51.100.1:53".parse().expect("an address");
    let code = |zone: &str, from| {
        collect(transfers.answer_stream(&query(zone, Rtype::AXFR, None), from)).0
    };
    assert_eq!(code(ORIGIN, stranger), Rcode::Refused as u8);
    assert_eq!(code("other.test.", stranger), Rcode::Refused as u8);
    assert_eq!(code("other.test.", client()), Rcode::NotAuth as u8);
    assert_eq!(code(ORIGIN, client()), 0);
    let malformed = query(ORIGIN, Rtype::IXFR, None);
    let refused = collect(transfers.answer_stream(&malformed, client()));
    assert_eq!(refused.0, Rcode::FormErr as u8);
    let other = transfers.answer_stream(&query(ORIGIN, Rtype::SOA, None), client());
    assert!(matches!(other, Response::NotOurs));
    let refused = transfers.status().refused;
    assert_eq!((refused["not_allowed"], refused["no_zone"], refused["malformed"]), (2, 1, 1));
    let unloaded =
        Zone::unloaded(Arc::new(HashKey::new([3; HASH_KEY_WORDS])), name(ORIGIN).as_name());
    let (_, transfers) = scene(Some(unloaded));
    let refused = collect(transfers.answer_stream(&query(ORIGIN, Rtype::AXFR, None), client()));
    assert_eq!(refused.0, Rcode::ServFail as u8);
}

#[test]
fn transfers_beyond_the_limits_are_refused_until_others_end() {
    let (_, transfers) = scene(Some(zone(7, 1)));
    let ask = |from: &str| {
        let from: SocketAddr = from.parse().expect("an address");
        // Only this client may have it without a key.
        let mut message = query(ORIGIN, Rtype::AXFR, None);
        Exchange::sign(key(b"secret"), &mut message, NOW);
        transfers.answer_stream(&message, from)
    };
    let is_refused = |response: &Response| match response {
        Response::One(message) => message[3] & 0xf == Rcode::Refused as u8,
        _ => false,
    };
    let mut open: Vec<Response> = (0..STREAMS_PER_CLIENT_MAX).map(|_| ask(CLIENT)).collect();
    assert!(!open.iter().any(is_refused));
    assert!(is_refused(&ask("192.0.2.1:9")), "all of one client");
    open.extend([ask("192.0.2.2:9"), ask("192.0.2.3:9")]);
    assert!(!open.iter().any(is_refused));
    assert!(is_refused(&ask("192.0.2.4:9")), "all of all clients");
    assert_eq!((transfers.status().active, transfers.status().refused["full"]), (6, 2));
    open.truncate(1);
    assert!(!is_refused(&ask("192.0.2.4:9")));
    drop(open);
    assert_eq!(transfers.status().active, 0);
}

#[test]
fn record_that_no_message_has_room_for_ends_the_transfer() {
    let mut large = zone(7, 1);
    let (data, owner) = (vec![7; 600], format!("x.{ORIGIN}"));
    large.change(name(&owner).as_name(), Rtype(65_280), Some((60, &[&data]))).expect("a change");
    let message = query(ORIGIN, Rtype::AXFR, None);
    let Message::Transfer(request) = Message::read(&message, false) else { panic!("a transfer") };
    let mut source = ZoneRecords::new(Arc::new(large)).expect("it is loaded");
    let mut writer = MessageWriter::new(&request, 0, 512, 0);
    assert!(writer.next_message(&mut source).expect("those before have room").1, "more are left");
    let error = writer.next_message(&mut source).expect_err("too long").to_string();
    assert!(error.contains("TYPE65280") && error.contains(ORIGIN), "{error}");
}

/// Applies the records of an IXFR response to a secondary's zone, as RFC 1995 §4 says.
fn apply(zone: &mut BTreeSet<Read>, response: &[Read], serial: u32) {
    let is_soa = |record: &Read| record.1 == Rtype::SOA.0;
    let soa_serial = |record: &Read| {
        let numbers = record.3.last_chunk::<20>().expect("an SOA");
        u32::from_be_bytes(*numbers.first_chunk().expect("a serial"))
    };
    let (first, rest) = response.split_first().expect("records");
    let (last, between) = rest.split_last().expect("records");
    assert_eq!(first, last, "the newest SOA is first and last");
    if !between.first().is_some_and(is_soa) {
        zone.clear();
        zone.extend(response.iter().cloned());
        return;
    }
    assert_eq!(soa_serial(&between[0]), serial, "it begins where the client is");
    let mut removes = false;
    for record in between {
        removes ^= is_soa(record);
        match removes {
            true => assert!(zone.remove(record), "{record:?} was there"),
            false => assert!(zone.insert(record.clone()), "{record:?} was not there"),
        }
    }
    assert!(zone.contains(first), "it ends at the newest version");
}

#[test]
fn random_changes_arrive_by_differences_whichever_version_a_client_has() {
    let seed = fastrand::u64(..);
    let mut random = fastrand::Rng::with_seed(seed);
    let mut newest = zone(u32::MAX - 20, 30);
    let (server, transfers) = scene(Some(newest.clone()));
    let mut versions = vec![(newest.serial().expect("a serial"), records(&newest))];
    transfers.record(&Arc::new(newest.clone()));
    for round in 0..60_u32 {
        let serial = versions[0].0.wrapping_add(1 + round);
        let owner = format!("n{}", random.u8(0..20));
        let addresses: Vec<[u8; 4]> = (0..random.u8(0..4)).map(|n| [n; 4]).collect();
        newest = changed(&newest, &owner, &addresses, serial);
        transfers.record(&Arc::new(newest.clone()));
        versions.push((serial, records(&newest)));
        *server.zone.lock().expect("no panic") = Some(Arc::new(newest.clone()));
        let (from, before) = random.choice(&versions).expect("a version").clone();
        let message = query(ORIGIN, Rtype::IXFR, Some(from));
        let (_, response) = collect(transfers.answer_stream(&message, client()));
        if from == serial {
            assert_eq!(response.len(), 1, "the SOA record alone");
            continue;
        }
        let mut zone = before;
        apply(&mut zone, &response, from);
        assert_eq!(zone, records(&newest), "seed {seed}, round {round}, from {from}");
    }
    let served = transfers.status().served;
    assert!(served["whole_instead"] == 0, "every version is known: {served:?}");
    let unknown = query(ORIGIN, Rtype::IXFR, Some(versions[0].0.wrapping_sub(1)));
    let (_, response) = collect(transfers.answer_stream(&unknown, client()));
    assert_eq!(response.into_iter().collect::<BTreeSet<_>>(), records(&newest));
}

#[test]
fn serial_with_two_contents_and_one_that_went_back_begin_no_difference() {
    let first = zone(1, 3);
    let other = changed(&first, "x", &[[1; 4]], 1);
    let second = changed(&other, "y", &[[2; 4]], 2);
    let (server, transfers) = scene(None);
    let ask = |zone: &Zone, from| {
        *server.zone.lock().expect("no panic") = Some(Arc::new(zone.clone()));
        let message = query(ORIGIN, Rtype::IXFR, Some(from));
        collect(transfers.answer_stream(&message, client())).1.len()
    };
    let whole = |zone: &Zone| records(zone).len() + 1;
    assert_eq!(ask(&first, 1), 1);
    assert_eq!(ask(&other, 0), whole(&other));
    assert_eq!(ask(&second, 1), whole(&second), "1 had two contents");
    let third = changed(&second, "z", &[[3; 4]], 3);
    assert_eq!(ask(&third, 2), 5, "2 has one");
    assert_eq!(ask(&third, 1), whole(&third));
    let back = changed(&third, "z", &[], 2);
    assert_eq!(ask(&back, 1), whole(&back), "the serial went back");
    assert_eq!(ask(&changed(&back, "z", &[[4; 4]], 4), 3), whole(&third));
}

#[test]
fn datagram_has_the_differences_that_fit_or_the_soa_record() {
    let first = zone(1, 3);
    let second = changed(&first, "y", &[[2; 4]], 2);
    let (server, transfers) = scene(Some(second.clone()));
    transfers.record(&Arc::new(first));
    let ask = |from, len_max| {
        let message = query(ORIGIN, Rtype::IXFR, Some(from));
        let answer = transfers.answer_datagram(&message, None, client(), len_max);
        let answer = answer.expect("a transfer");
        assert!(answer.len() <= len_max);
        read(&answer)
    };
    assert_eq!(ask(1, 512).1.len(), 5);
    assert_eq!(ask(1, 120).1.len(), 1, "it does not fit");
    assert_eq!(ask(2, 512).1.len(), 1);
    assert_eq!(ask(0, 512).1.len(), 1, "what has changed since then is not known");
    let whole = query(ORIGIN, Rtype::AXFR, None);
    let refused = transfers.answer_datagram(&whole, None, client(), 512).expect("a transfer");
    assert_eq!(read(&refused).0, Rcode::FormErr as u8);
    let other = query(ORIGIN, Rtype::SOA, None);
    assert_eq!(transfers.answer_datagram(&other, None, client(), 512), None);
    let stranger = "198.51.100.1:53".parse().expect("an address");
    let message = query(ORIGIN, Rtype::IXFR, Some(1));
    let refused = transfers.answer_datagram(&message, None, stranger, 512).expect("a transfer");
    assert_eq!(read(&refused).0, Rcode::Refused as u8);
    let signed = transfers.answer_datagram(&message, Some(&Owner), stranger, 512);
    assert_eq!(read(&signed.expect("a transfer")).1.len(), 5);
    assert!(server.refusals.lock().expect("no panic").is_empty());
}

#[tokio::test(start_paused = true)]
async fn client_that_does_not_read_is_cut_off_and_one_that_reads_has_all() {
    let (_, transfers) = scene(Some(zone(7, 5_000)));
    let message = query(ORIGIN, Rtype::AXFR, None);
    let (mut here, there) = tokio::io::duplex(4_096);
    let response = transfers.answer_stream(&message, client());
    assert!(!send(&transfers, &mut here, response, client()).await);
    assert_eq!(transfers.status().cut["slow_reader"], 1);
    drop(there);
    let response = transfers.answer_stream(&message, client());
    assert!(!send(&transfers, &mut here, response, client()).await);
    assert_eq!((transfers.status().cut["broken"], transfers.status().active), (1, 0));
    let (mut here, mut there) = tokio::io::duplex(4_096);
    let reading = tokio::spawn(async move {
        let mut bytes = Vec::new();
        there.read_to_end(&mut bytes).await.expect("read");
        bytes.len()
    });
    let response = transfers.answer_stream(&message, client());
    assert!(send(&transfers, &mut here, response, client()).await);
    drop(here);
    let (read, status) = (reading.await.expect("no panic"), transfers.status());
    assert_eq!((status.bytes, status.records, status.served["whole"]), (read as u64, 10_003, 1));
}
