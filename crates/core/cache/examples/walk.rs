//! How long it takes to go over all that is kept in 64 MiB, at once and in pieces of this many
//! lines of the index: `cargo run --release --package cache --example walk`.
#[path = "../tests/all/common.rs"]
mod common;

use cache::{CacheKey, Insertion, QueryKind};
use common::Owned;
use std::hint::black_box;
use std::time::{Duration, Instant};

const ENTRIES: u64 = 600_000;
const LEN: usize = 100;

fn main() {
    let mut owned = Owned::new(64 << 20);
    for number in 0..ENTRIES {
        let (name, kind) = (number.to_be_bytes(), QueryKind::new(1, 1, false, false));
        let hash = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let key = CacheKey { hash, kind, name: &name };
        assert_eq!(owned.lend().put(&key, 1, 60, &[7; LEN]), Insertion::Done);
    }
    let (entries, lines) = (owned.state.entries(), owned.lines.len());
    println!("{entries} entries, {lines} lines");
    for piece in [lines, 512, 256] {
        let (mut longest, mut all) = (Duration::ZERO, Duration::ZERO);
        for begin in (0..lines).step_by(piece) {
            let begun = Instant::now();
            owned.lend().retain(begin..begin + piece, 1, |entry| {
                black_box(entry.message.iter().fold(0, |sum, byte| sum ^ byte)) != 0xff
            });
            let took = begun.elapsed();
            (longest, all) = (longest.max(took), all + took);
        }
        println!("by {piece:>6} lines: {all:>10.1?} in all, the longest piece {longest:.1?}");
    }
}
