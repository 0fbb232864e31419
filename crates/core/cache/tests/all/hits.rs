//! Hit rates on traces, beside a least-recently-used cache with the same room.

use crate::common::Owned;
use crate::trace::{mix, zipf};
use cache::limits::MEMORY_MIN;
use cache::{CacheKey, Insertion, QueryKind};
use std::collections::{BTreeMap, HashMap};

const NAMES: usize = 100_000;
const VALUE_LEN: usize = 100;
const ASKED: usize = 1_000_000;

fn ours(names: &[u64]) -> f64 {
    let mut owned = Owned::new(4 * MEMORY_MIN);
    let mut hits = 0;
    for name in names {
        let mut cache = owned.lend();
        let bytes = name.to_be_bytes();
        let key =
            CacheKey { hash: mix(*name), kind: QueryKind::new(1, 1, false, false), name: &bytes };
        match cache.find(&key, 0) {
            Some(_) => hits += 1,
            None => assert_eq!(cache.put(&key, 0, 1, &[0; VALUE_LEN]), Insertion::Done),
        }
    }
    println!("{} entries in {} bytes", owned.state.entries(), owned.bytes.len());
    hits as f64 / names.len() as f64
}

/// With room for as many entries as all of our memory could hold.
fn least_recently_used(names: &[u64]) -> f64 {
    let entry = (40 + 8 + VALUE_LEN).next_multiple_of(8);
    let room = 4 * MEMORY_MIN / entry;
    let (mut used, mut order, mut hits) = (HashMap::new(), BTreeMap::new(), 0);
    for (time, name) in names.iter().enumerate() {
        match used.insert(*name, time) {
            Some(before) => {
                hits += 1;
                order.remove(&before);
            }
            None if used.len() > room => {
                let (_, oldest) = order.pop_first().expect("one for each that is there");
                used.remove(&oldest);
            }
            None => {}
        }
        order.insert(time, *name);
    }
    hits as f64 / names.len() as f64
}

fn compare(what: &str, names: &[u64]) -> (f64, f64) {
    let rates = (ours(names), least_recently_used(names));
    println!("{what}: {:.4}, least recently used {:.4}", rates.0, rates.1);
    rates
}

#[test]
fn popular_names_stay() {
    for exponent in [0.8, 1.0, 1.2] {
        let mut next = zipf(exponent, NAMES, 1);
        let names: Vec<u64> = (0..ASKED).map(|_| next()).collect();
        let (ours, other) = compare(&format!("Zipf {exponent}"), &names);
        assert!(ours > other, "{ours} {other}");
    }
}

/// Half of the queries are for names that are queried only once.
#[test]
fn scan_evicts_only_itself() {
    let mut next = zipf(1.0, NAMES, 2);
    let names: Vec<u64> =
        (0..ASKED as u64).flat_map(|time| [next(), NAMES as u64 + time]).collect();
    let (ours, other) = compare("half a scan", &names);
    assert!(ours > other * 1.05, "{ours} {other}");
}

/// Popularity that moves on: what was popular must go.
#[test]
fn name_without_queries_is_evicted() {
    let mut next = zipf(1.0, NAMES, 3);
    let names: Vec<u64> =
        (0..ASKED).map(|time| next() + (time / (ASKED / 10) * NAMES) as u64).collect();
    let (ours, other) = compare("ten generations", &names);
    assert!(ours > other * 0.95, "{ours} {other}");
}
