//! All records of a zone, one message after another, for a reader that is slower than the walk.
use crate::zone::Zone;
use image::{Node, RecordSet, Tree};
use std::sync::Arc;
use wire::Rtype;

/// A place in a zone. It holds the zone, of which newer versions are served meanwhile, and copies
/// nothing of it: the sender asks for the records of the next message once that has room.
pub struct RecordWalk {
    zone: Arc<Zone>,
    /// 0: the names; 1: the hashed names of NSEC3.
    tree: usize,
    rank: usize,
    /// Records of the name at this rank that were taken.
    taken: usize,
}

/// A record of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WalkedRecord<'z> {
    /// The owner's labels below the origin, in lower case.
    pub name: &'z [u8],
    /// Its type.
    pub rtype: Rtype,
    /// Its TTL in seconds.
    pub ttl: u32,
    /// Its data, with uncompressed names.
    pub data: &'z [u8],
}

impl RecordWalk {
    /// From the beginning.
    pub fn new(zone: Arc<Zone>) -> Self {
        Self { zone, tree: 0, rank: 0, taken: 0 }
    }

    /// The zone.
    pub fn zone(&self) -> &Zone {
        &self.zone
    }

    /// Passes records to `take` until it returns false for one that has no room; that one comes
    /// first the next time. The SOA is first of all (RFC 5936 §2.2), the names follow in canonical
    /// order. Returns whether any record is left.
    pub fn advance(&mut self, mut take: impl FnMut(WalkedRecord<'_>) -> bool) -> bool {
        let Self { zone, tree, rank, taken } = self;
        for (number, names) in [&zone.names, &zone.hashed].into_iter().enumerate().skip(*tree) {
            if number > *tree {
                (*tree, *rank) = (number, 0);
            }
            while let Some(node) = names.at(*rank) {
                for record in records(node).skip(*taken) {
                    if !take(record) {
                        return true;
                    }
                    *taken += 1;
                }
                (*rank, *taken) = (*rank + 1, 0);
            }
        }
        false
    }
}

fn records(node: Node<'_>) -> impl Iterator<Item = WalkedRecord<'_>> {
    let is_soa = |set: &RecordSet<'_>| set.rtype() == Rtype::SOA;
    let others = node.sets().filter(move |set| !is_soa(set));
    node.sets().filter(is_soa).chain(others).flat_map(move |set| {
        let (name, rtype, ttl) = (node.name(), set.rtype(), set.ttl());
        set.records().map(move |data| WalkedRecord { name, rtype, ttl, data })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Loader;
    use image::{HASH_KEY_WORDS, HashKey};
    use wire::{Name, NameBuf};

    fn zone() -> Zone {
        let key = Arc::new(HashKey::new([3; HASH_KEY_WORDS]));
        let name = |text: &str| NameBuf::from_text(text.as_bytes(), Name::ROOT).expect("a name");
        let origin = name("example.");
        let mut loader = Loader::new(key, origin.as_name(), None);
        let soa = [&[0, 0][..], &[0; 20]].concat();
        let nsec3 = [&[1, 0, 0, 0, 0, 20][..], &[7; 20], &[0, 1, 0x40]].concat();
        let hashed = format!("{}.example.", "0".repeat(32));
        let records = [
            ("b.a.example.", Rtype::A, &[192, 0, 2, 1][..]),
            ("b.a.example.", Rtype::A, &[192, 0, 2, 2]),
            ("b.a.example.", Rtype::TXT, b"\x03one"),
            ("example.", Rtype::A, &[192, 0, 2, 3]),
            ("example.", Rtype::NS, &[0]),
            ("example.", Rtype::SOA, &soa),
            ("example.", Rtype::NSEC3PARAM, &[1, 0, 0, 0, 0]),
            (&hashed, Rtype::NSEC3, &nsec3),
        ];
        for (owner, rtype, data) in records {
            loader.add(name(owner).as_name(), rtype, 60, data, 0).expect("a record");
        }
        loader.finish().unwrap_or_else(|problem| panic!("{problem:?}"))
    }

    #[test]
    fn every_record_is_passed_once_however_few_have_room() {
        let zone = Arc::new(zone());
        let all: Vec<(Vec<u8>, Rtype)> = {
            let mut all = Vec::new();
            assert!(!RecordWalk::new(Arc::clone(&zone)).advance(|record| {
                all.push((record.data.to_vec(), record.rtype));
                true
            }));
            all
        };
        let types: Vec<Rtype> = all.iter().map(|(_, rtype)| *rtype).collect();
        let (a, txt) = (Rtype::A, Rtype::TXT);
        let apex = [Rtype::SOA, a, Rtype::NS, Rtype::NSEC3PARAM];
        assert_eq!(types, [&apex[..], &[a, a, txt, Rtype::NSEC3]].concat());
        for room in 1..=all.len() {
            let (mut walk, mut parts, mut is_over) =
                (RecordWalk::new(Arc::clone(&zone)), Vec::new(), false);
            while !is_over {
                let mut part = Vec::new();
                is_over = !walk.advance(|record| {
                    let has_room = part.len() < room;
                    if has_room {
                        part.push((record.data.to_vec(), record.rtype));
                    }
                    has_room
                });
                assert!(is_over || part.len() == room);
                parts.extend(part);
            }
            assert_eq!(parts, all, "{room} a message");
            assert!(!walk.advance(|_| unreachable!("it is over")));
        }
        assert_eq!(Arc::strong_count(&zone), 1, "nothing is held any more");
    }
}
