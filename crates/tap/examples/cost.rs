//! What a tap costs the thread it is on, a burst: `cargo run --release -p tap --example cost`.
//!
//! Bursts of 64 queries of 45 octets with replies of 61, at several rates; the runner reads as it
//! does in the server. Each figure is the quickest of many rounds, so that what else the machine
//! does counts little.
use packet::{Packet, Transport, Verdict};
use std::hint::black_box;
use std::time::{Duration, Instant};
use tap::limits::LOOK_QUIET;
use tap::{Runner, Settings, Tap};

const BURST: usize = 64;
const QUERY_LEN: usize = 45;
const REPLY_LEN: usize = 61;
const ROUNDS: usize = 40;
const BURSTS: u32 = 64;

fn main() -> std::io::Result<()> {
    let mut buffers = vec![[7u8; 512]; BURST];
    let peer = "192.0.2.1:53".parse().expect("an address");
    let mut packets: Vec<Packet<'_>> = buffers
        .iter_mut()
        .map(|buffer| Packet::new(buffer, QUERY_LEN, peer, Transport::Datagram))
        .collect();
    for one_in in [0, 1_000, 64, 8, 1] {
        let runner = Runner::start(Settings { hot_one_in: one_in, ..Settings::default() })?;
        let mut tap = runner.tap(1);
        let rounds = (0..ROUNDS).map(|_| {
            // A ring has room for some 80 bursts: each round begins with an empty one.
            std::thread::sleep(LOOK_QUIET * 2);
            round(&mut tap, &mut packets)
        });
        let best = rounds.min().expect("rounds");
        let bare = (0..ROUNDS).map(|_| bare(&mut packets)).min().expect("rounds");
        let nanos = best.saturating_sub(bare).as_nanos() as f64 / f64::from(BURSTS);
        let lost = runner.status().lost;
        println!("one in {one_in:>5}: {nanos:7.1} ns a burst of {BURST}, {lost} lost");
    }
    Ok(())
}

/// The time of some bursts, seen by the tap.
fn round(tap: &mut Tap, packets: &mut [Packet<'_>]) -> Duration {
    let started = Instant::now();
    for _ in 0..BURSTS {
        ask(packets);
        tap.begin(packets, Duration::from_secs(1), Duration::from_secs(1));
        reply(packets);
        tap.end(packets);
    }
    started.elapsed()
}

/// The time of the same without a tap.
fn bare(packets: &mut [Packet<'_>]) -> Duration {
    let started = Instant::now();
    for _ in 0..BURSTS {
        ask(packets);
        reply(packets);
    }
    started.elapsed()
}

fn ask(packets: &mut [Packet<'_>]) {
    packets.iter_mut().for_each(|packet| packet.len = black_box(QUERY_LEN));
}

fn reply(packets: &mut [Packet<'_>]) {
    for packet in packets {
        (packet.len, packet.verdict) = (black_box(REPLY_LEN), Verdict::Reply);
    }
}
