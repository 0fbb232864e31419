//! What must hold for the answers from any zone.
use std::sync::Arc;

use compile::{Image, Loader};
use image::{HASH_KEY_WORDS, HashKey};
use wire::{Name, NameBuf};

use crate::asking::{Way, check_question};

/// Records taken from a zone, and asked for.
const RECORDS_MAX: usize = 100;
/// What is asked besides the record's own type: A, SOA, DS, NSEC3PARAM, HTTPS, ANY.
const TYPES: [u16; 6] = [1, 6, 43, 51, 65, 255];
/// So that the zone has an apex.
const APEX: &[u8] = b"$TTL 5\n@ SOA ns host 1 2 3 4 5\n@ NS ns\n$ORIGIN example.\n";

/// Takes the bytes behind the first as a zone, where they are one, and asks one question about
/// each record. The first byte says how.
pub fn check(bytes: &[u8]) {
    let Some((&first, text)) = bytes.split_first() else { return };
    let way = Way::new(first);
    let Some((world, asked)) = load(&[APEX, text].concat()) else { return };
    for (i, (owner, rtype)) in asked.iter().enumerate() {
        let turn = i + usize::from(first >> 5);
        let below = |label: &[u8]| NameBuf::with_label(label, owner.as_name()).ok();
        let (name, rtype) = match turn % 5 {
            0 | 1 => (Some(owner.clone()), *rtype),
            2 => (Some(owner.clone()), TYPES[turn / 5 % TYPES.len()]),
            3 => (below(b"x"), *rtype),
            _ => (below(b"*"), *rtype),
        };
        if let Some(name) = name {
            check_question(&world, &way, &question(name.as_name(), rtype, turn % 3));
        }
    }
}

type Asked = Vec<(NameBuf, u16)>;

/// The world with the zone, and what to ask it for; nothing when the zone is refused.
fn load(text: &[u8]) -> Option<(Image, Asked)> {
    let origin = NameBuf::from_text(b"example.", Name::ROOT).expect("a name");
    let words: [u64; HASH_KEY_WORDS] =
        std::array::from_fn(|i| 0x9e37_79b9_7f4a_7c15u64.wrapping_mul(i as u64 + 1));
    let key = Arc::new(HashKey::new(words));
    let mut loader = Loader::new(Arc::clone(&key), origin.as_name(), None);
    let mut asked = Vec::new();
    // Another target tests faults of the text; this one uses the records before it.
    let _ = zonefile::read_stream(&mut &*text, origin.as_name(), &mut |record| {
        if asked.len() == RECORDS_MAX {
            return Err("enough".into());
        }
        asked.push((record.owner.into(), record.rtype.0));
        loader.add(record.owner, record.rtype, record.ttl, record.rdata, 0)
    });
    let zone = loader.finish().ok()?;
    let mut world = Image::new(key);
    world.put_zone(Arc::new(zone));
    Some((world, asked))
}

/// A question without EDNS, with it, or with DO.
fn question(name: Name<'_>, rtype: u16, edns: usize) -> Vec<u8> {
    let opt = [0, 0, 41, 16, 0, 0, 0, if edns == 2 { 0x80 } else { 0 }, 0, 0, 0];
    let (opt, count) = if edns == 0 { (&opt[..0], 0) } else { (&opt[..], 1) };
    let header = [0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, count];
    [&header[..], name.as_bytes(), &rtype.to_be_bytes(), &[0, 1], opt].concat()
}
