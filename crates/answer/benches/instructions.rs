//! Instructions per query of `answer::batch`, counted by valgrind: a warm burst of 64 questions
//! with OPT against a zone of a million names, which is what a worker on a busy core sees.
//!
//! A limit that is passed fails the run: `cargo bench -p answer`.
#![allow(missing_docs, reason = "the macros make undocumented items")]

use answer::{Now, Policy, Scratch, Tally, batch};
use compile::{Image, Loader};
use gungraun::prelude::*;
use gungraun::{Callgrind, EntryPoint, EventKind};
use image::HashKey;
use packet::{BURST_MAX, Packet, Transport};
use std::hint::black_box;
use std::sync::Arc;
use wire::{Name, NameBuf, Rtype};

/// Services of the anchor zone.
const NAMES: u32 = 1_000_000;
/// Most instructions of a burst of hits, and of names that do not exist.
const HIT_MAX: u64 = 400 * BURST_MAX as u64;
const NXDOMAIN_MAX: u64 = 600 * BURST_MAX as u64;
/// Room of each packet.
const ROOM: usize = 1232;

struct Bench {
    image: Image,
    scratch: Box<Scratch>,
    questions: Vec<Vec<u8>>,
    packets: Vec<Vec<u8>>,
    tally: Tally,
}

fn name(text: &str) -> NameBuf {
    NameBuf::from_text(text.as_bytes(), Name::ROOT).expect("a name")
}

fn service(n: u32) -> String {
    format!("svc-{n}.ns-{}.svc.cluster.local.", n % 100)
}

fn load() -> Image {
    let mut image = Image::new(Arc::new(HashKey::new(std::array::from_fn(|word| {
        (word as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }))));
    let origin = name("cluster.local.");
    let mut loader = Loader::new(Arc::clone(image.key()), origin.as_name(), None);
    let mut soa = Vec::new();
    soa.extend(name("ns.dns.cluster.local.").as_name().octets());
    soa.extend(name("hostmaster.cluster.local.").as_name().octets());
    soa.extend([1u32, 7200, 1800, 86400, 30].iter().flat_map(|n| n.to_be_bytes()));
    let mut add = |owner: &str, rtype, data: &[u8]| {
        loader.add(name(owner).as_name(), rtype, 30, data, 0).expect("in the zone");
    };
    add("cluster.local.", Rtype::SOA, &soa);
    add("cluster.local.", Rtype::NS, name("ns.dns.cluster.local.").as_name().octets());
    for n in 0..NAMES {
        add(&service(n), Rtype::A, &(0x0a00_0000 | n).to_be_bytes());
    }
    image.put_zone(Arc::new(loader.finish().expect("a zone")));
    image
}

/// A query for A with RD and OPT, as resolvers send it.
fn question(text: &str, id: u16) -> Vec<u8> {
    let mut octets = id.to_be_bytes().to_vec();
    octets.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, 1]);
    octets.extend(name(text).as_name().octets());
    octets.extend([0, 1, 0, 1]);
    octets.extend([0, 0, 41, 0x04, 0xd0, 0, 0, 0, 0, 0, 0]);
    octets
}

fn warm(names: impl Fn(u32) -> String) -> Bench {
    let questions: Vec<_> =
        (0..BURST_MAX as u32).map(|n| question(&names(n * 15_013), n as u16)).collect();
    let packets = vec![vec![0; ROOM]; BURST_MAX];
    let scratch = Box::default();
    let mut bench = Bench { image: load(), scratch, questions, packets, tally: Tally::default() };
    bench = burst(bench, warming);
    bench.tally = Tally::default();
    bench
}

type Answer = fn(&Image, &mut Scratch, &mut [Packet<'_>], &mut Tally);

fn burst(mut bench: Bench, answer: Answer) -> Bench {
    let peer = "127.0.0.1:5353".parse().expect("an address");
    let mut packets: Vec<Packet<'_>> = Vec::with_capacity(BURST_MAX);
    for (buf, question) in bench.packets.iter_mut().zip(&bench.questions) {
        buf[..question.len()].copy_from_slice(question);
        packets.push(Packet::new(buf, question.len(), peer, Transport::Datagram));
    }
    answer(&bench.image, &mut bench.scratch, &mut packets, &mut bench.tally);
    drop(packets);
    bench
}

/// The same as [`measured`], but not counted.
#[inline(never)]
fn warming(image: &Image, scratch: &mut Scratch, packets: &mut [Packet<'_>], tally: &mut Tally) {
    let now = Now { unix_seconds: 1_800_000_000, monotonic_micros: 0, seed: 6 };
    batch(image, &Policy::default(), now, scratch, black_box(packets), tally);
}

#[inline(never)]
fn measured(image: &Image, scratch: &mut Scratch, packets: &mut [Packet<'_>], tally: &mut Tally) {
    let now = Now { unix_seconds: 1_800_000_000, monotonic_micros: 0, seed: 7 };
    batch(image, &Policy::default(), now, scratch, black_box(packets), tally);
}

fn hits() -> Bench {
    warm(service)
}

fn missing() -> Bench {
    warm(|n| format!("svc-{n}x.ns-{}.svc.cluster.local.", n % 100))
}

/// Only what happens within `measured` counts.
fn config(limit: u64) -> LibraryBenchmarkConfig {
    let mut callgrind = Callgrind::default();
    callgrind
        .entry_point(EntryPoint::Custom("*::measured".to_owned()))
        .hard_limits([(EventKind::Ir, limit)]);
    let mut config = LibraryBenchmarkConfig::default();
    config.tool(callgrind);
    config
}

#[library_benchmark(config = config(HIT_MAX))]
#[bench::a_with_opt(setup = hits)]
fn hit(bench: Bench) -> Bench {
    let bench = burst(bench, measured);
    assert_eq!(bench.tally.rcodes[0], BURST_MAX as u32, "every name is there");
    bench
}

#[library_benchmark(config = config(NXDOMAIN_MAX))]
#[bench::a_with_opt(setup = missing)]
fn nxdomain(bench: Bench) -> Bench {
    let bench = burst(bench, measured);
    assert_eq!(bench.tally.rcodes[3], BURST_MAX as u32, "no name is there");
    bench
}

library_benchmark_group!(name = instructions, benchmarks = [hit, nxdomain]);
main!(library_benchmark_groups = instructions);
