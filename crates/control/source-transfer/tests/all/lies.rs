//! Primaries that do not say the truth: none of it is served.
use crate::primary::{AXFR, Asked, IXFR, Message, Reply, Rr, SOA, name, rr, soa, start};
use compile::Image;
use image::HashKey;
use source_transfer::{Secondaries, SecondarySettings, TlsFiles};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;
use test_support::folder::Folder;
use test_support::wait::{until, until_eq, until_true};
use wire::Rtype;
use zone_manager::{PublisherThread, ZonePublisher};

const HOUR: [u32; 3] = [3_600, 3_600, 86_400];

/// The records of a zone but for its SOA.
fn records(zone: &str) -> Vec<Rr> {
    let mut all = vec![rr(zone, 2, b"\x02ns\0")];
    all.extend((0..30).map(|n| rr(&format!("n{n}.{zone}"), 1, &[192, 0, 2, n])));
    all
}

/// A truthful transfer, in three messages.
fn complete(asked: &Asked, zone: &str, serial: u32) -> Vec<Message> {
    let (soa, all) = (soa(zone, serial, HOUR), records(zone));
    let (first, last) = all.split_at(10);
    let first = [std::slice::from_ref(&soa), first].concat();
    let mut later = asked.answer(vec![soa]);
    later.question = None;
    vec![asked.answer(first), asked.answer(last.to_vec()), later]
}

/// Served zones, and what follows them.
pub struct Scene {
    pub publisher: ZonePublisher,
    pub secondaries: Secondaries,
    pub folder: Folder,
    _running: PublisherThread,
}

impl Scene {
    pub fn start(test: &str, zones: &[(String, Vec<SocketAddr>)], records_max: usize) -> Self {
        Self::start_in(Folder::new(test), zones, records_max)
    }

    pub fn start_in(
        folder: Folder,
        zones: &[(String, Vec<SocketAddr>)],
        records_max: usize,
    ) -> Self {
        let key = Arc::new(HashKey::new(std::array::from_fn(|n| n as u64 * 77 + 5)));
        let (publisher, running) = ZonePublisher::start(Image::new(key)).expect("a thread");
        let settings = zones.iter().map(|(zone, primaries)| SecondarySettings {
            tls: TlsFiles::default(),
            origin: name(zone),
            primaries: primaries.iter().map(|at| (*at).into()).collect(),
            key_file: None,
            records_max,
        });
        let started = Secondaries::start(settings.collect(), &folder, &publisher);
        let secondaries = started.expect("a thread");
        Self { publisher, secondaries, folder, _running: running }
    }

    pub fn serial(&self, zone: &str) -> Option<u32> {
        self.publisher.image().zone(name(zone).as_name())?.serial()
    }

    /// The addresses of a name of a zone.
    pub fn address(&self, zone: &str, label: &str) -> Option<Vec<u8>> {
        let image = self.publisher.image();
        let served = image.zone(name(zone).as_name())?;
        let set = served.set(name(&format!("{label}.{zone}")).as_name(), Rtype::A)?;
        set.records().next().map(<[u8]>::to_vec)
    }

    pub fn status(&self, zone: &str) -> server_status::SecondaryStatus {
        let mut all = self.secondaries.status().into_iter();
        all.find(|status| status.name == zone).expect("a zone")
    }
}

/// A lie: what becomes of a truthful transfer of serial 2, and what the log says of it.
type Lie = (&'static str, fn(&mut Vec<Message>), &'static str);

const LIES: &[Lie] = &[
    ("no-last-soa", |all| drop(all.pop()), "it stops"),
    ("cut-in-the-middle", |all| all.truncate(1), "it stops"),
    (
        "last-soa-has-another-serial",
        |all| all[2].answers[0].data[12] ^= 1,
        "differs from the first",
    ),
    ("last-soa-has-another-name", |all| all[2].answers[0].data[1] ^= 1, "differs from the first"),
    ("no-first-soa", |all| drop(all[0].answers.remove(0)), "does not begin with the SOA"),
    (
        "soa-in-the-middle",
        |all| {
            let other = soa("soa-in-the-middle.test.", 7, HOUR);
            all[1].answers.insert(3, other);
        },
        "differs from the first",
    ),
    (
        "soa-below-the-apex",
        |all| {
            all[1].answers.push(soa("n1.soa-below-the-apex.test.", 2, HOUR));
        },
        "is not the apex",
    ),
    (
        "records-behind-the-end",
        |all| {
            all[2].answers.push(rr("x.records-behind-the-end.test.", 1, &[1, 2, 3, 4]));
        },
        "records follow the last SOA",
    ),
    ("other-class", |all| all[1].answers[2].class = 3, "of class CH"),
    ("other-zone", |all| all[1].answers.push(rr("n.other.test.", 1, &[1; 4])), "outside"),
    ("parent", |all| all[1].answers.push(rr("test.", 1, &[1; 4])), "outside"),
    ("short-address", |all| all[1].answers[0].data.truncate(3), "not valid"),
    ("long-address", |all| all[1].answers[0].data.push(1), "not valid"),
    ("empty-record", |all| all[1].answers[0].data.clear(), "not valid"),
    ("meta-type", |all| all[1].answers[0].rtype = 250, "query type"),
    ("query-type", |all| all[1].answers[0].rtype = 255, "query type"),
    (
        "alias-beside-records",
        |all| {
            all[1].answers.push(rr("n3.alias-beside-records.test.", 5, b"\x01a\0"));
        },
        "CNAME",
    ),
    ("no-name-servers", |all| drop(all[0].answers.remove(1)), "NS"),
    ("wrong-id", |all| all[1].id ^= 1, "another ID"),
    ("a-query", |all| all[1].flags &= 0x7fff, "no response"),
    ("another-opcode", |all| all[1].flags |= 4 << 11, "no response"),
    ("code-at-the-end", |all| all[2].flags |= 2, "SERVFAIL"),
    ("refused", |all| all[0].flags |= 5, "REFUSED"),
    (
        "question-of-another-zone",
        |all| {
            all[1].question = Some((b"\x05other\x04test\0".to_vec(), AXFR, 1));
        },
        "another query",
    ),
    ("no-question", |all| all[0].question = None, "one question"),
    (
        "authority",
        |all| {
            let record = all[1].answers[0].clone();
            all[1].authority.push(record);
        },
        "authority records",
    ),
    ("message-without-records", |all| all[1].answers.clear(), "no records"),
    (
        "same-serial",
        |all| {
            all[0].answers[0].data = soa("x.", 1, HOUR).data;
            all[2].answers[0].data = soa("x.", 1, HOUR).data;
        },
        "not newer",
    ),
    (
        "older-serial",
        |all| {
            all[0].answers[0].data = soa("x.", 0, HOUR).data;
            all[2].answers[0].data = soa("x.", 0, HOUR).data;
        },
        "not newer",
    ),
    (
        "too-many",
        |all| {
            let more = (0..=255).map(|n| rr("m.too-many.test.", 16, &[1, n]));
            all[1].answers.extend(more);
        },
        "more than 100 records",
    ),
];

#[test]
fn nothing_of_a_lying_transfer_is_served() {
    let is_lying = Arc::new(Mutex::new(false));
    let lying = Arc::clone(&is_lying);
    let primary = start(move |asked| {
        let zone = asked.zone.to_string();
        let is_lying = *lying.lock().expect("no panic");
        let serial = if is_lying { 2 } else { 1 };
        match asked.rtype {
            SOA => Reply::of([asked.answer(vec![soa(&zone, serial, HOUR)])]),
            IXFR => Reply::of([Message { flags: 0x8404, ..asked.answer(Vec::new()) }]),
            _ => {
                let mut messages = complete(asked, &zone, serial);
                let lie = LIES.iter().find(|lie| zone == format!("{}.test.", lie.0));
                if let Some((_, lie, _)) = lie.filter(|_| is_lying) {
                    lie(&mut messages);
                }
                Reply::of(messages)
            }
        }
    });
    let zone = |lie: &Lie| (format!("{}.test.", lie.0), vec![primary]);
    let zones: Vec<_> = LIES.iter().map(zone).collect();
    let scene = Scene::start("lies", &zones, 100);
    for (zone, _) in &zones {
        until_eq(&format!("the serial of {zone}"), || scene.serial(zone), Some(1));
    }
    let before = scene.publisher.image();
    *is_lying.lock().expect("no panic") = true;
    for (lie, (zone, _)) in LIES.iter().zip(&zones) {
        scene.secondaries.notify(name(zone).as_name());
        let why = until(&format!("the failure of {zone}"), || scene.status(zone).fault);
        assert!(why.contains(lie.2), "{}: {why}", lie.0);
    }
    let after = scene.publisher.image();
    for (zone, _) in &zones {
        let of = |image: &Image| image.zone(name(zone).as_name()).cloned().expect("a zone");
        assert!(of(&before).has_same_records(&of(&after)), "{zone}");
        assert_eq!(scene.serial(zone), Some(1));
    }
    // The truth is served, however often it was not told before.
    *is_lying.lock().expect("no panic") = false;
    assert!(!scene.secondaries.have_failed());
    scene.secondaries.stop();
}

/// A step of differences from serial 1 to 2: a name goes, another comes.
fn step(zone: &str) -> Vec<Rr> {
    let added = rr(&format!("new.{zone}"), 1, &[192, 0, 2, 99]);
    let [old, new] = [1, 2].map(|serial| soa(zone, serial, HOUR));
    let gone = rr(&format!("n0.{zone}"), 1, &[192, 0, 2, 0]);
    vec![new.clone(), old, gone, new.clone(), added, new]
}

/// What becomes of truthful differences; whether they are used all the same.
type Change = (&'static str, fn(&mut Vec<Rr>), bool);

const CHANGES: &[Change] = &[
    ("truth", |_| {}, true),
    ("removes-what-is-not-there", |all| all[2].data[3] = 200, false),
    (
        "removes-twice",
        |all| {
            let again = all[2].clone();
            all.insert(3, again);
        },
        false,
    ),
    (
        "adds-what-is-there",
        |all| all[4] = rr("n5.adds-what-is-there.test.", 1, &[192, 0, 2, 5]),
        false,
    ),
    ("from-another-serial", |all| all[1].data = soa("x.", 9, HOUR).data, false),
    (
        "gap",
        |all| {
            let further = [soa("gap.test.", 5, HOUR), soa("gap.test.", 6, HOUR)];
            all[0] = further[1].clone();
            all.truncate(5);
            all.extend([further[0].clone(), further[1].clone(), further[1].clone()]);
        },
        false,
    ),
    ("old-soa-differs", |all| all[1].data[1] = b'x', false),
    ("no-end", |all| drop(all.pop()), false),
    ("behind-the-end", |all| all.push(rr("x.behind-the-end.test.", 1, &[1; 4])), false),
    ("leaves-the-zone", |all| all[4] = rr("x.other.test.", 1, &[1; 4]), false),
    ("alias", |all| all[4] = rr("n7.alias.test.", 5, b"\x01a\0"), false),
    ("removes-the-servers", |all| all[2] = rr("removes-the-servers.test.", 2, b"\x02ns\0"), false),
    (
        "goes-back",
        |all| {
            all[0] = soa("x.", 0, HOUR);
        },
        false,
    ),
];

#[test]
fn differences_are_used_completely_or_the_zone_is_transferred_again() {
    let serial = Arc::new(AtomicU32::new(1));
    let current = Arc::clone(&serial);
    let primary = start(move |asked| {
        let (zone, serial) = (asked.zone.to_string(), current.load(Ordering::Relaxed));
        match asked.rtype {
            SOA => Reply::of([asked.answer(vec![soa(&zone, serial, HOUR)])]),
            IXFR => {
                let mut all = step(&zone);
                let change = CHANGES.iter().find(|change| zone == format!("{}.test.", change.0));
                change.into_iter().for_each(|change| change.1(&mut all));
                Reply::of([asked.answer(all)])
            }
            _ => Reply::of(complete(asked, &zone, serial)),
        }
    });
    let zone = |change: &Change| (format!("{}.test.", change.0), vec![primary]);
    let zones: Vec<_> = CHANGES.iter().map(zone).collect();
    let scene = Scene::start("differences", &zones, 100);
    for (zone, _) in &zones {
        until_eq(&format!("the serial of {zone}"), || scene.serial(zone), Some(1));
    }
    serial.store(2, Ordering::Relaxed);
    for ((_, _, are_used), (zone, _)) in CHANGES.iter().zip(&zones) {
        scene.secondaries.notify(name(zone).as_name());
        until_eq(&format!("the serial of {zone}"), || scene.serial(zone), Some(2));
        let is_new = |label: &str| scene.address(zone, label).is_some();
        assert_eq!((is_new("new"), is_new("n0")), (*are_used, !are_used), "{zone}");
        until_eq(
            &format!("the transfers of {zone}"),
            || {
                let status = scene.status(zone);
                (status.whole_transfers, status.difference_transfers)
            },
            if *are_used { (1, 1) } else { (2, 0) },
        );
    }
    scene.secondaries.stop();
}

#[test]
fn serial_that_grows_without_a_newer_zone_causes_no_loop_of_transfers() {
    let (serial, transfers) = (Arc::new(AtomicU32::new(1)), Arc::new(AtomicU32::new(0)));
    let (announced, counted) = (Arc::clone(&serial), Arc::clone(&transfers));
    let primary = start(move |asked| {
        let zone = asked.zone.to_string();
        match asked.rtype {
            SOA => {
                let serial = announced.fetch_add(1, Ordering::Relaxed);
                Reply::of([asked.answer(vec![soa(&zone, serial, HOUR)])])
            }
            IXFR => Reply::of([asked.answer(vec![soa(&zone, 1, HOUR)])]),
            _ => {
                counted.fetch_add(1, Ordering::Relaxed);
                Reply::of(complete(asked, &zone, 1))
            }
        }
    });
    let zone = "grows.test.".to_owned();
    let scene = Scene::start("grows", &[(zone.clone(), vec![primary])], 100);
    until_eq("the serial", || scene.serial(&zone), Some(1));
    serial.store(2, Ordering::Relaxed);
    let begin = Instant::now();
    scene.secondaries.notify(name(&zone).as_name());
    let why = until("a failure", || scene.status(&zone).fault);
    assert!(why.contains("not newer than 1"), "{why}");
    // One more is due in three quarters of an hour, or ten seconds after a NOTIFY.
    assert!((0..100).all(|_| scene.secondaries.notify(name(&zone).as_name())));
    let seen = transfers.load(Ordering::Relaxed);
    let allowed = 2 + begin.elapsed().as_secs() / 7;
    assert!(u64::from(seen) <= allowed, "{seen} transfers");
    scene.secondaries.stop();
}

#[test]
fn next_primary_is_asked_and_nothing_of_both_is_mixed() {
    let is_newer = Arc::new(Mutex::new(false));
    let newer = Arc::clone(&is_newer);
    let first = start(move |asked| {
        let zone = asked.zone.to_string();
        let serial = if *newer.lock().expect("no panic") { 2 } else { 1 };
        match asked.rtype {
            SOA => Reply::of([asked.answer(vec![soa(&zone, serial, HOUR)])]),
            // It ends before the last record, behind one that only this one has.
            _ => {
                let mut messages = complete(asked, &zone, serial);
                messages[0].answers.push(rr(&format!("first.{zone}"), 1, &[1; 4]));
                messages.truncate(2);
                Reply::of(messages)
            }
        }
    });
    let second = start(move |asked| {
        let zone = asked.zone.to_string();
        match asked.rtype {
            SOA => Reply::of([asked.answer(vec![soa(&zone, 3, HOUR)])]),
            _ => Reply::of(complete(asked, &zone, 3)),
        }
    });
    let zone = "two.test.".to_owned();
    let scene = Scene::start("two", &[(zone.clone(), vec![first, second])], 100);
    until_eq("the serial", || scene.serial(&zone), Some(3));
    assert_eq!(scene.address(&zone, "first"), None);
    until_eq("the primary", || scene.status(&zone).primary, Some(second.to_string()));
    // Its serial is older than what is served: the other one is asked.
    *is_newer.lock().expect("no panic") = true;
    scene.secondaries.notify(name(&zone).as_name());
    until_true("the second one confirms it", || scene.status(&zone).fault.is_none());
    assert_eq!(scene.serial(&zone), Some(3));
    scene.secondaries.stop();
}

#[test]
fn zone_expires_without_a_primary_and_is_served_again_once_one_confirms_it() {
    let answers = Arc::new(Mutex::new(HashMap::from([("is_there", true)])));
    let script = Arc::clone(&answers);
    let primary = start(move |asked| {
        let zone = asked.zone.to_string();
        if !script.lock().expect("no panic")["is_there"] {
            return Reply { messages: Vec::new(), closes: true };
        }
        let mut messages = complete(asked, &zone, 1);
        // It expires after 8 seconds: a refresh and a retry of 4 fit in.
        let short = soa(&zone, 1, [4, 4, 8]);
        (messages[0].answers[0], messages[2].answers[0]) = (short.clone(), short.clone());
        match asked.rtype {
            SOA => Reply::of([asked.answer(vec![short])]),
            _ => Reply::of(messages),
        }
    });
    let zones = [("kept.test.".to_owned(), vec![primary])];
    let zone = &zones[0].0;
    let scene = Scene::start("kept", &zones, 100);
    until_eq("the serial", || scene.serial(zone), Some(1));
    answers.lock().expect("no panic").insert("is_there", false);
    until_true("it expires", || scene.status(zone).is_expired);
    until_eq("the serial of the expired zone", || scene.serial(zone), None);
    let image = scene.publisher.image();
    let served = image.zone(name(zone).as_name()).expect("it is answered: SERVFAIL");
    assert!(!served.facts().loaded);
    answers.lock().expect("no panic").insert("is_there", true);
    until_eq("the serial of the confirmed zone", || scene.serial(zone), Some(1));
    until_true("it is no longer expired", || !scene.status(zone).is_expired);
    scene.secondaries.stop();
}

#[test]
fn zone_that_lost_most_is_held_until_it_is_accepted() {
    let serial = Arc::new(AtomicU32::new(1));
    let current = Arc::clone(&serial);
    let primary = start(move |asked| {
        let (zone, serial) = (asked.zone.to_string(), current.load(Ordering::Relaxed));
        let mut messages = complete(asked, &zone, serial);
        if serial > 1 {
            messages.remove(1);
        }
        match asked.rtype {
            SOA => Reply::of([asked.answer(vec![soa(&zone, serial, HOUR)])]),
            IXFR => Reply::of([Message { flags: 0x8404, ..asked.answer(Vec::new()) }]),
            _ => Reply::of(messages),
        }
    });
    let zones = [("lost.test.".to_owned(), vec![primary])];
    let zone = &zones[0].0;
    let scene = Scene::start("lost", &zones, 100);
    until_eq("the serial", || scene.serial(zone), Some(1));
    serial.store(2, Ordering::Relaxed);
    scene.secondaries.notify(name(zone).as_name());
    until_true("it is held", || scene.status(zone).is_held);
    assert_eq!((scene.serial(zone), scene.status(zone).fault), (Some(1), None));
    scene.publisher.accept(zone).wait().expect("the manager runs");
    until_eq("the accepted serial", || scene.serial(zone), Some(2));
    // Once it is confirmed, it is on disk.
    scene.secondaries.notify(name(zone).as_name());
    until_true("it is not held", || !scene.status(zone).is_held);
    scene.secondaries.stop();
    let Scene { folder, .. } = scene;
    let scene = Scene::start_in(folder, &[(zone.clone(), Vec::new())], 100);
    until_eq("the serial of the copy without a primary", || scene.serial(zone), Some(2));
    assert!(scene.address(zone, "n1").is_some());
    scene.secondaries.stop();
}
