//! Looks names up as programs do, by `getaddrinfo` of the C library that it is built with, at a
//! steady rate, until standard input ends. It needs no crate: `rustc -O bench/lookups.rs`.
//!
//! `lookups RATE THREADS FILE`: each line of the file is a name and the address that is right for
//! it. It prints how many lookups there were, how many failed or were wrong, and the median, the
//! 99.9th percentile and the slowest in milliseconds. A lookup that begins late, because its thread
//! still waits, counts from the time when it should have begun.
use std::io::Read;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{env, fs, io, thread};

/// Reasons that are printed.
const SHOWN_MAX: usize = 5;

/// What a thread saw.
#[derive(Default)]
struct Observed {
    micros: Vec<u64>,
    failed: usize,
    reasons: Vec<String>,
}

fn main() {
    let words: Vec<String> = env::args().skip(1).collect();
    let [rate, threads, file] = &words[..] else { panic!("RATE THREADS FILE") };
    let (rate, threads): (f64, u32) = (rate.parse().unwrap(), threads.parse().unwrap());
    let text = fs::read_to_string(file).unwrap();
    let names: Vec<(String, IpAddr)> = text.lines().map(read).collect();
    let (start, is_over) = (Instant::now(), AtomicBool::new(false));
    let all: Vec<Observed> = thread::scope(|scope| {
        let run = |number| {
            let (names, is_over) = (&names, &is_over);
            scope.spawn(move || resolve_names(names, start, (rate, threads, number), is_over))
        };
        let running: Vec<_> = (0..threads).map(run).collect();
        io::stdin().read_to_end(&mut Vec::new()).unwrap();
        is_over.store(true, Ordering::Relaxed);
        running.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    print(&all);
}

fn read(line: &str) -> (String, IpAddr) {
    let (name, address) = line.split_once(' ').unwrap();
    (name.to_owned(), address.parse().unwrap())
}

fn resolve_names(
    names: &[(String, IpAddr)],
    start: Instant,
    (rate, threads, number): (f64, u32, u32),
    is_over: &AtomicBool,
) -> Observed {
    let mut seen = Observed::default();
    for turn in 0_u64.. {
        let index = turn * u64::from(threads) + u64::from(number);
        let due = start + Duration::from_secs_f64(index as f64 / rate);
        thread::sleep(due.saturating_duration_since(Instant::now()));
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        let (name, expected) = &names[index as usize % names.len()];
        let found = (name.as_str(), 80).to_socket_addrs();
        let why = match found.map(|mut all| all.any(|one| one.ip() == *expected)) {
            Ok(true) => None,
            Ok(false) => Some("another address".to_owned()),
            Err(why) => Some(why.to_string()),
        };
        let micros = due.elapsed().as_micros() as u64;
        seen.micros.push(micros);
        if let Some(why) = why {
            seen.failed += 1;
            seen.reasons.push(format!("{name} after {micros} us: {why}"));
        }
    }
    seen
}

fn print(all: &[Observed]) {
    let mut micros: Vec<u64> = all.iter().flat_map(|seen| seen.micros.iter().copied()).collect();
    micros.sort_unstable();
    let at = |share: f64| {
        let index = (micros.len() as f64 * share) as usize;
        micros[index.min(micros.len() - 1)] as f64 / 1_000.0
    };
    let failed: usize = all.iter().map(|seen| seen.failed).sum();
    for why in all.iter().flat_map(|seen| &seen.reasons).take(SHOWN_MAX) {
        eprintln!("failed: {why}");
    }
    let (median, late, slowest) = (at(0.5), at(0.999), at(1.0));
    println!("{} {failed} {median:.1} {late:.1} {slowest:.1}", micros.len());
}
