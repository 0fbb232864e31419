//! Addresses that a name spells: `10-0-0-1.shop.pod.cluster.local`; and parts of sets.

use crate::common::{Burst, NOW, RD, key, loader, name, query};
use answer::{Now, Policy};
use compile::{AnswerRules, ChosenRecords, ChosenSets, Image, SetChange};
use image::Declared;
use std::sync::Arc;
use wire::{Records, Rtype};

fn zones() -> Image {
    let mut image = Image::new(key());
    let text = "$TTL 7\n@ SOA ns root 1 2 3 4 30\n@ NS ns\nns A 192.0.2.1\n";
    let mut loader = loader(&key(), "cluster.local.", text);
    let wildcard = name("*.shop.pod.cluster.local.");
    loader.declare(wildcard.as_name(), Declared::Addresses, 0).unwrap();
    let plain = name("*.other.pod.cluster.local.");
    loader.declare(plain.as_name(), Declared::Name, 0).unwrap();
    let mut zone = loader.finish().unwrap();
    let late = b"\x01*\x04late\x03pod";
    zone.declare(late, Declared::Addresses).unwrap();
    let data: Vec<Vec<u8>> = (0..5).map(|last| vec![10, 0, 0, last]).collect();
    for name in [b"\x01p", b"\x01q"] {
        let set = Some((7, &data[..]));
        // Any rules: here the test chooses.
        let change = SetChange { name, rtype: Rtype::A, set, rules: vec![0] };
        zone.change_all(&[change]).unwrap();
    }
    let mut choose = |_, node: image::Node<'_>, _: image::RecordSet<'_>| {
        let part = AnswerRules { first: 1, others: 2, ..AnswerRules::default() };
        let selection = Some(part).filter(|_| node.name() == b"\x01p");
        let numbers = if selection.is_some() { vec![4, 0, 1, 2, 3] } else { Vec::new() };
        Some(ChosenRecords { ttl: 7, numbers, selection }.into())
    };
    let leaves = zone.changed_leaves(None);
    image.put_zone(Arc::new(zone.chosen(None, &leaves, ChosenSets::Ruled, &mut choose)));
    image
}

/// A part of a set: the first record in each answer, and two of the others, each as often.
#[test]
fn part_of_a_set_rotates_and_an_empty_choice_is_no_data() {
    let mut counts = [0; 5];
    for seed in 1..=400 {
        let (code, records) = ask_by("p.cluster.local.", Rtype::A, seed);
        assert_eq!((code, records.len()), (0, 3), "{records:?}");
        for (last, count) in counts.iter_mut().enumerate() {
            let record = format!("7 A [10, 0, 0, {last}]");
            *count += records.iter().filter(|found| **found == record).count();
        }
    }
    assert_eq!(counts[4], 400, "{counts:?}");
    assert!(counts[..4].iter().all(|count| (140..260).contains(count)), "{counts:?}");
    assert_eq!(ask("q.cluster.local.", Rtype::A), (0, Vec::new()));
}

/// The code, and each record of the answer as `TTL type data`.
fn ask(owner: &str, rtype: Rtype) -> (u8, Vec<String>) {
    ask_by(owner, rtype, 1)
}

fn ask_by(owner: &str, rtype: Rtype, seed: u64) -> (u8, Vec<String>) {
    let query = query(RD, owner, rtype.0, &[]);
    let (zones, policy) = (zones(), Policy::default());
    let now = Now { seed, ..NOW };
    let (_, reply, _) = Burst { now, ..Burst::new(&zones, &policy) }.send_one(&query);
    let count = u16::from_be_bytes([reply[6], reply[7]]);
    let records = Records::new(&reply, query.len(), count.into());
    let records = records.map(|record| {
        let record = record.unwrap();
        let mut room = [0; 64];
        format!("{} {} {:?}", record.ttl, record.rtype, record.expand(&mut room).unwrap())
    });
    (reply[3] & 15, records.collect())
}

#[test]
fn an_address_is_answered_and_anything_else_does_not_exist() {
    const NXDOMAIN: u8 = 3;
    let v6 = "7 AAAA [253, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]";
    for (owner, rtype, expected) in [
        ("10-0-0-1.shop.pod.cluster.local.", Rtype::A, (0, vec!["7 A [10, 0, 0, 1]"])),
        ("10-0-0-1.SHOP.pod.cluster.local.", Rtype::ANY, (0, vec!["7 A [10, 0, 0, 1]"])),
        ("10-0-0-1.late.pod.cluster.local.", Rtype::A, (0, vec!["7 A [10, 0, 0, 1]"])),
        ("10-0-0-1.shop.pod.cluster.local.", Rtype::AAAA, (0, vec![])),
        ("10-0-0-1.shop.pod.cluster.local.", Rtype::TXT, (0, vec![])),
        ("fd00--1.shop.pod.cluster.local.", Rtype::AAAA, (0, vec![v6])),
        ("fd00--1.shop.pod.cluster.local.", Rtype::A, (0, vec![])),
        ("web-0.shop.pod.cluster.local.", Rtype::A, (NXDOMAIN, vec![])),
        ("10-0-0-256.shop.pod.cluster.local.", Rtype::A, (NXDOMAIN, vec![])),
        ("x.10-0-0-1.shop.pod.cluster.local.", Rtype::A, (NXDOMAIN, vec![])),
        ("10-0-0-1.10-0-0-2.shop.pod.cluster.local.", Rtype::A, (NXDOMAIN, vec![])),
        ("10-0-0-1.absent.pod.cluster.local.", Rtype::A, (NXDOMAIN, vec![])),
        ("10-0-0-1.other.pod.cluster.local.", Rtype::A, (0, vec![])),
        ("shop.pod.cluster.local.", Rtype::A, (0, vec![])),
    ] {
        let (code, records) = ask(owner, rtype);
        assert_eq!(
            (code, records.iter().map(String::as_str).collect()),
            expected,
            "{owner} {rtype}"
        );
    }
}
