//! What must hold for any hosts file.
use std::path::Path;
use std::sync::Arc;

use image::{HASH_KEY_WORDS, HashKey};
use source_file::{LoadedHosts, read_hosts};

/// Reads the bytes as a hosts file. Its errors lie inside of the text; without one, it is a zone
/// that another load shares, and it is cut off where its last line has no end.
pub fn check(bytes: &[u8]) {
    let words: [u64; HASH_KEY_WORDS] =
        std::array::from_fn(|i| 0x9e37_79b9_7f4a_7c15u64.wrapping_mul(i as u64 + 1));
    let key = Arc::new(HashKey::new(words));
    let read = |old: Option<&LoadedHosts>| {
        read_hosts(Path::new("hosts"), bytes, 60, &key, old.map(|old| &old.zone))
    };
    let loaded = match read(None) {
        Err(failure) => {
            assert!(!failure.errors.is_empty());
            let lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
            for error in &failure.errors {
                let place = error.place();
                let line = usize::try_from(place.line).expect("a line");
                assert!((1..=lines.len()).contains(&line), "{error}");
                assert!(place.column <= lines[line - 1].len() as u64 + 1, "{error}");
            }
            return;
        }
        Ok(loaded) => loaded,
    };
    let is_cut = bytes.last().is_some_and(|last| *last != b'\n');
    assert_eq!(loaded.cut_off.is_some(), is_cut);
    // Each name stands behind its address: two words and a blank are four bytes at least.
    assert!(loaded.names as usize <= bytes.len() / 2);
    let again = read(Some(&loaded)).unwrap_or_else(|_| panic!("it was read before"));
    assert_eq!(again.names, loaded.names);
    let names = |hosts: &LoadedHosts| hosts.zone.nodes().count();
    assert_eq!(names(&again), names(&loaded));
}
