//! Instructions of an answer with the address of a ClusterIP service, counted by valgrind: from the
//! names of a cluster, and from a zone file with the same names and records. A warm burst of 64.
//!
//! More than a limit fails the run: `cargo bench -p source-kube --bench instructions`.
#![allow(missing_docs, reason = "the macros make undocumented items")]
mod filled;

use answer::{AnswerCounts, NoForwarding, Now, Policy, Scratch, batch};
use compile::{Image, Loader};
use filled::{origin, settings};
use gungraun::prelude::*;
use gungraun::{Callgrind, EntryPoint, EventKind};
use packet::{BURST_MAX, Packet, Transport};
use source_kube::saved;
use source_kube::source::KubernetesSource;
use std::hint::black_box;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use wire::{Name, NameBuf};

const SERVICES: u32 = 10_000;
const FILE_MAX: u64 = 400 * BURST_MAX as u64;
/// Ten more for each answer.
const CLUSTER_MAX: u64 = FILE_MAX + 10 * BURST_MAX as u64;
/// Room of each packet.
const ROOM: usize = 1232;

struct Responder {
    image: Image,
    scratch: Box<Scratch>,
    packets: Vec<Vec<u8>>,
    counts: AnswerCounts,
}

/// The image that the source of a cluster publishes.
fn published() -> Image {
    let folder = std::env::temp_dir().join(format!("dunlin-bench-{}", std::process::id()));
    let cluster = filled::cluster(SERVICES);
    saved::save(&folder, &["cluster.local.".to_owned()], &cluster).expect("it is saved");
    let (manager, thread) = filled::publisher();
    let running = manager
        .start_source(KubernetesSource { settings: settings(&folder), fleet: None })
        .expect("a thread");
    let image = manager.image();
    drop(running);
    thread.stop();
    let _ = std::fs::remove_dir_all(&folder);
    image
}

/// The same names and records, as a zone file loads them.
fn loaded() -> Image {
    let published = published();
    let origin = origin();
    let zone = published.zone(origin.as_name()).expect("the zone");
    let mut loader = Loader::new(Arc::clone(published.key()), origin.as_name(), None);
    for node in zone.nodes() {
        let owner = NameBuf::joined(node.name(), origin.as_name()).expect("a name");
        for set in node.sets() {
            for data in set.records() {
                let added = loader.add(owner.as_name(), set.rtype(), set.ttl(), data, 0);
                added.expect("in the zone");
            }
        }
    }
    let mut image = Image::new(Arc::clone(published.key()));
    image.put_zone(Arc::new(loader.finish().expect("a zone")));
    image
}

/// A query for A with RD and OPT, as resolvers send it.
fn question(number: u32) -> Vec<u8> {
    let text = format!("ip-{number}.shop.svc.cluster.local.");
    let name = NameBuf::from_text(text.as_bytes(), Name::ROOT).expect("a name");
    let mut bytes = (number as u16).to_be_bytes().to_vec();
    bytes.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, 1]);
    bytes.extend(name.as_name().as_bytes());
    bytes.extend([0, 1, 0, 1]);
    bytes.extend([0, 0, 41, 0x04, 0xd0, 0, 0, 0, 0, 0, 0]);
    bytes
}

fn warm(image: Image) -> Responder {
    let (scratch, packets) = (Box::default(), vec![vec![0; ROOM]; BURST_MAX]);
    let responder = Responder { image, scratch, packets, counts: AnswerCounts::default() };
    let responder = burst(responder, warming);
    Responder { counts: AnswerCounts::default(), ..responder }
}

type Answer = fn(&Image, &mut Scratch, &mut [Packet<'_>], &mut AnswerCounts);

fn burst(mut responder: Responder, answer: Answer) -> Responder {
    let mut packets: Vec<Packet<'_>> = Vec::with_capacity(BURST_MAX);
    for (at, buffer) in (0..).zip(&mut responder.packets) {
        let question = question(1 + at * (SERVICES * 9 / 10 / BURST_MAX as u32 - 1));
        buffer.fill(0);
        buffer[..question.len()].copy_from_slice(&question);
        let client = Ipv4Addr::from_bits((at + 1).wrapping_mul(0x9e37_79b1));
        let client = SocketAddr::from((client, 5353));
        packets.push(Packet::new(buffer, question.len(), client, Transport::Datagram));
    }
    answer(&responder.image, &mut responder.scratch, &mut packets, &mut responder.counts);
    drop(packets);
    responder
}

/// The same as [`measured`], but not counted.
#[inline(never)]
fn warming(
    image: &Image,
    scratch: &mut Scratch,
    packets: &mut [Packet<'_>],
    counts: &mut AnswerCounts,
) {
    let now = Now { unix_seconds: 1_800_000_000, monotonic_micros: 0, seed: 6 };
    let policy = Policy::default();
    batch(image, &policy, now, &mut NoForwarding, scratch, black_box(packets), counts);
}

#[inline(never)]
fn measured(
    image: &Image,
    scratch: &mut Scratch,
    packets: &mut [Packet<'_>],
    counts: &mut AnswerCounts,
) {
    let now = Now { unix_seconds: 1_800_000_000, monotonic_micros: 0, seed: 7 };
    let policy = Policy::default();
    batch(image, &policy, now, &mut NoForwarding, scratch, black_box(packets), counts);
}

fn of_a_cluster() -> Responder {
    warm(published())
}

fn of_a_file() -> Responder {
    warm(loaded())
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

fn all_answered(responder: Responder) -> Responder {
    let responder = burst(responder, measured);
    assert_eq!(responder.counts.rcodes[0], BURST_MAX as u32, "every name is there");
    responder
}

#[library_benchmark(config = config(FILE_MAX))]
#[bench::cluster_ip(setup = of_a_file)]
fn file(responder: Responder) -> Responder {
    all_answered(responder)
}

#[library_benchmark(config = config(CLUSTER_MAX))]
#[bench::cluster_ip(setup = of_a_cluster)]
fn cluster(responder: Responder) -> Responder {
    all_answered(responder)
}

library_benchmark_group!(name = instructions, benchmarks = [file, cluster]);
main!(library_benchmark_groups = instructions);
