//! The zones that questions are asked about: a little of everything.
use std::sync::{Arc, LazyLock};

use compile::{Image, Loader};
use image::{HASH_KEY_WORDS, HashKey};
use wire::{Name, NameBuf};

const ZONES: [(&str, &[u8]); 4] = [
    ("example.", include_bytes!("../zones/example.zone")),
    ("sub.example.", include_bytes!("../zones/sub.example.zone")),
    ("signed.", include_bytes!("../zones/signed.zone")),
    ("hashed.", include_bytes!("../zones/hashed.zone")),
];

/// All zones, compiled; the hash key is always the same, so that a finding can be repeated.
pub static WORLD: LazyLock<Image> = LazyLock::new(|| {
    let words = std::array::from_fn(|i| 0x9e37_79b9_7f4a_7c15u64.wrapping_mul(i as u64 + 1));
    let words: [u64; HASH_KEY_WORDS] = words;
    let key = Arc::new(HashKey::new(words));
    let mut image = Image::new(Arc::clone(&key));
    for (origin, mut text) in ZONES {
        let origin = NameBuf::from_text(origin.as_bytes(), Name::ROOT).expect("a name");
        let mut loader = Loader::new(Arc::clone(&key), origin.as_name(), None);
        zonefile::read_stream(&mut text, origin.as_name(), &mut |record| {
            let place = record.place.line as u32;
            loader.add(record.owner, record.rtype, record.ttl, record.rdata, place)
        })
        .expect("the zone is right");
        image.put_zone(Arc::new(loader.finish().expect("the zone is sound")));
    }
    image
});
