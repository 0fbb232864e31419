//! Every seed and every former finding of the fuzz targets `answer`, `forwarded` and `zone`, once
//! more.
use crate::{answered, forwarded, zones};
use std::cell::Cell;
use std::env;
use std::fs;
use std::path::Path;

/// Checks each file of a corpus; returns how many there are.
fn replay(corpus: &str, check: impl Fn(&[u8])) -> usize {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../testing/fuzz/corpus");
    let mut files: Vec<_> =
        fs::read_dir(folder.join(corpus)).unwrap().map(Result::unwrap).collect();
    files.sort_by_key(fs::DirEntry::path);
    for file in &files {
        println!("{}", file.path().display());
        check(&fs::read(file.path()).unwrap());
    }
    files.len()
}

/// Changes some bytes, their number, or the length of a record, by xorshift64 (Marsaglia 2003).
fn mutate(seed: &[u8], random: &mut u64) -> Vec<u8> {
    let mut next = |below: usize| {
        *random ^= *random << 13;
        *random ^= *random >> 7;
        *random ^= *random << 17;
        (*random >> 16) as usize % below.max(1)
    };
    let mut bytes = seed.to_vec();
    for _ in 0..=next(4) {
        let at = next(bytes.len());
        match next(6) {
            0 => bytes[at] = next(256) as u8,
            1 => bytes[at] ^= 1 << next(8),
            2 => bytes.insert(at, [0, 1, 0x0c, 0xc0, 0xff][next(5)]),
            3 => bytes.truncate(at.max(1)),
            4 => bytes.extend_from_within(at..),
            _ => {
                let types = [0, 1, 2, 5, 6, 12, 15, 16, 33, 39, 41, 46, 64, 250, 255];
                bytes[at] = types[next(types.len())];
            }
        }
    }
    bytes
}

#[test]
fn fuzz_corpus_passes() {
    assert!(replay("answer", answered::check) > 10, "the corpus is missing");
}

#[test]
fn fuzz_corpus_of_forwarded_names_passes() {
    assert!(replay("forwarded", forwarded::check) > 10, "the corpus is missing");
}

#[test]
fn fuzz_corpus_of_zones_passes() {
    assert!(replay("zone", zones::check) > 10, "the corpus is missing");
}

/// A short search on stable Rust; `FUZZ_ROUNDS` makes it longer, `FUZZ_SEED` another one.
#[test]
fn mutated_responses_break_no_reply() {
    let number = |name: &str| env::var(name).ok().and_then(|text| text.parse().ok());
    let (rounds, seed) = (number("FUZZ_ROUNDS").unwrap_or(30), number("FUZZ_SEED").unwrap_or(1));
    println!("FUZZ_SEED={seed}");
    let random = Cell::new(seed | 1);
    replay("forwarded", |bytes| {
        for _ in 0..rounds {
            let mut state = random.get();
            forwarded::check(&mutate(bytes, &mut state));
            random.set(state);
        }
    });
}
