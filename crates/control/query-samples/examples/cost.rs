//! The cost of a tap for a burst on its thread, and of reading a query from it: `cargo run
//! --release -p query-samples --example cost`.
//!
//! Bursts of 64 queries of 46 bytes with replies of 62, at several rates; the runner reads as in
//! the server. Each figure is the fastest of many rounds, so that other load counts little.
use packet::{Packet, Transport, Verdict};
use query_samples::limits::LOOK_QUIET;
use query_samples::{DnstapSettings, LogFormat, QueryLogSettings, TapSettings, TapThread};
use std::hint::black_box;
use std::time::{Duration, Instant};
use tap::QueryTap;

const BURST: usize = 64;
const QUERY_LEN: usize = 46;
const REPLY_LEN: usize = 62;
/// A query for `www.some-service.space.abc.a`, A.
const QUERY: &[u8; QUERY_LEN] =
    b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x03www\x0csome-service\x05space\x03abc\x01a\0\0\x01\0\x01";
const ROUNDS: usize = 40;
const BURSTS: u32 = 64;

fn main() -> std::io::Result<()> {
    let mut buffers = vec![[0u8; 512]; BURST];
    for (number, buffer) in buffers.iter_mut().enumerate() {
        buffer[..QUERY.len()].copy_from_slice(QUERY);
        buffer[QUERY.len() - 6] += number as u8 % 26;
    }
    let peer = "192.0.2.1:53".parse().expect("an address");
    let mut packets: Vec<Packet<'_>> = buffers
        .iter_mut()
        .map(|buffer| Packet::new(buffer, QUERY_LEN, peer, Transport::Datagram))
        .collect();
    for one_in in [0, 1_000, 64, 8, 1] {
        let runner =
            TapThread::start(TapSettings { hot_one_in: one_in, ..TapSettings::default() })?;
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
    let file = Some("/dev/null".into());
    let queries = QueryLogSettings { one_in: 1, file, format: LogFormat::Text };
    for (what, settings) in [
        ("the hottest", TapSettings { hot_one_in: 1, ..TapSettings::default() }),
        ("query log", TapSettings { queries, ..TapSettings::default() }),
        ("dnstap", TapSettings { dnstap: Some(without_reader()), ..TapSettings::default() }),
    ] {
        let nanos = reading(settings, &mut packets)?;
        println!("{what:>12}: {nanos:7.1} ns a query in the thread that reads");
    }
    Ok(())
}

/// dnstap to a socket without a reader: messages are encoded, buffered, and lost.
fn without_reader() -> DnstapSettings {
    DnstapSettings { one_in: 1, socket: "/nonexistent/dnstap".into(), ..DnstapSettings::default() }
}

/// The CPU time of the runner for one query.
fn reading(settings: TapSettings, packets: &mut [Packet<'_>]) -> std::io::Result<f64> {
    let runner = TapThread::start(settings)?;
    let mut tap = runner.tap(1);
    for _ in 0..ROUNDS {
        round(&mut tap, packets);
        std::thread::sleep(LOOK_QUIET * 2);
    }
    let status = runner.status();
    let read = (status.sampled - status.lost) as f64;
    for task in std::fs::read_dir("/proc/self/task")? {
        let task = task?.path();
        if std::fs::read_to_string(task.join("comm"))? == "tap\n" {
            let times = std::fs::read_to_string(task.join("schedstat"))?;
            let nanos = times.split(' ').next().and_then(|nanos| nanos.parse().ok());
            return Ok(nanos.unwrap_or(f64::NAN) / read);
        }
    }
    Ok(f64::NAN)
}

/// The time of some bursts with a tap.
fn round(tap: &mut QueryTap, packets: &mut [Packet<'_>]) -> Duration {
    let started = Instant::now();
    for _ in 0..BURSTS {
        ask(packets);
        tap.begin(packets, Duration::from_secs(1), Duration::from_secs(1));
        reply(packets);
        tap.end(packets);
    }
    started.elapsed()
}

/// The time of the same bursts without a tap.
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
