//! Every seed and every former finding of a target, once more, and what a short search makes of
//! them on stable Rust: `FUZZ_ROUNDS` makes it longer, `FUZZ_SEED` another one.
use std::path::Path;
use std::{env, fs};

/// Changes of each file.
const ROUNDS: u64 = 30;

/// Checks each file of the corpus of a target. A finding is named by the last line that is printed.
pub fn replay(target: &str, check: fn(&[u8])) {
    let files = files(target);
    assert!(files.len() > 3, "the corpus of {target} is missing");
    for (path, bytes) in files {
        println!("{path}");
        check(&bytes);
    }
}

/// Checks changed files of the corpus of a target. A finding is printed as Rust writes bytes.
#[allow(dead_code, reason = "some tests only replay")]
pub fn search(target: &str, check: fn(&[u8])) {
    let number = |name: &str| env::var(name).ok().and_then(|text| text.parse().ok());
    let (rounds, seed) =
        (number("FUZZ_ROUNDS").unwrap_or(ROUNDS), number("FUZZ_SEED").unwrap_or(1));
    println!("FUZZ_SEED={seed}");
    let mut random = seed | 1;
    let files = files(target);
    for round in 0..rounds {
        for (path, bytes) in &files {
            let changed = mutate(bytes, &mut random);
            let checked = std::panic::catch_unwind(|| check(&changed));
            assert!(checked.is_ok(), "{path}, round {round}: b\"{}\"", changed.escape_ascii());
        }
    }
}

/// The files of a corpus, by name.
fn files(target: &str) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../testing/fuzz/corpus");
    let entries = fs::read_dir(folder.join(target)).expect("the corpus");
    let paths = entries.map(|entry| entry.expect("a file").path());
    let read = |path: &Path| (path.display().to_string(), fs::read(path).expect("readable"));
    let mut files: Vec<_> = paths.map(|path| read(&path)).collect();
    files.sort();
    files
}

/// Changes some bytes, their number, or the length of a record, by xorshift64 (Marsaglia 2003).
#[allow(dead_code, reason = "some tests only replay")]
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
            2 => bytes.insert(at, b"\0\x01\x0c\xc0\xff \n\"\\.*{}/:0"[next(16)]),
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
