//! What must hold for any update.
use std::collections::BTreeSet;
use std::sync::Arc;

use compile::{Loader, Zone};
use dynamic_update::Update;
use image::{HASH_KEY_WORDS, HashKey};
use records::{Edit, Hiding, Refused, SetKey, WriteRights};
use wire::{Name, NameBuf, Rcode, Rtype};

/// Who may write everything but addresses of `deny`.
#[derive(Debug)]
struct Rights;

impl WriteRights for Rights {
    fn may_write(&self, set: &SetKey) -> bool {
        !is_denied(set.name.as_name(), set.rtype)
    }

    fn covers(&self, set: &SetKey) -> bool {
        self.may_write(set)
    }

    fn hiding(&self, _: &SetKey) -> Hiding {
        Hiding::Allowed
    }
}

fn is_denied(name: Name<'_>, rtype: Rtype) -> bool {
    rtype == Rtype::A && name.labels().next() == Some(b"deny")
}

/// Plans an update of a zone: the edits are of the zone, each set once, and nothing that may not
/// be written.
pub fn check(message: &[u8]) {
    let Ok(update) = Update::read(message) else { return };
    assert!(update.summary().len() < 16 * 1_100);
    let zone = zone();
    let origin = zone.origin();
    let plan = update.planned(Arc::new(Rights));
    let edits = match plan.edits(&zone) {
        Ok(edits) => edits,
        Err(Refused::Unmet { rcode, what }) => {
            assert!(rcode != Rcode::NoError && !what.is_empty());
            return;
        }
        Err(other) => panic!("{other}"),
    };
    let mut seen = BTreeSet::new();
    for Edit { name, rtype, put, .. } in &edits {
        assert!(name.as_name().is_within(origin) && !rtype.is_meta());
        assert!(!is_denied(name.as_name(), *rtype));
        assert!(seen.insert((name.as_name().as_bytes().to_vec(), rtype.0)), "{name} {rtype} twice");
        let held = zone.set(name.as_name(), *rtype);
        match put {
            None => assert!(held.is_some(), "{name} {rtype} is removed and was not there"),
            Some(value) => assert!(!value.data.is_empty(), "an empty set is none"),
        }
        let is_apex = name.as_name() == origin;
        let is_needed = is_apex && matches!(*rtype, Rtype::SOA | Rtype::NS);
        assert!(!is_needed || put.is_some(), "a zone keeps its SOA and its servers");
    }
    let again = plan.edits(&zone).map(|edits| edits.len()).ok();
    assert_eq!(again, Some(edits.len()), "a plan can be asked again");
}

fn zone() -> Zone {
    let key = Arc::new(HashKey::new([3; HASH_KEY_WORDS]));
    let name = |text: &[u8]| NameBuf::from_text(text, Name::ROOT).expect("a name");
    let mut loader = Loader::new(key, name(b"z.").as_name(), None);
    let soa = [&[0, 0][..], &[0; 20]].concat();
    let records: [(&[u8], Rtype, &[u8]); 7] = [
        (b"z.", Rtype::SOA, &soa),
        (b"z.", Rtype::NS, b"\x02ns\x01z\0"),
        (b"ns.z.", Rtype::A, &[192, 0, 2, 1]),
        (b"www.z.", Rtype::A, &[192, 0, 2, 2]),
        (b"www.z.", Rtype::TXT, b"\x03old"),
        (b"deny.z.", Rtype::A, &[192, 0, 2, 3]),
        (b"alias.z.", Rtype::CNAME, b"\x03www\x01z\0"),
    ];
    for (owner, rtype, data) in records {
        loader.add(name(owner).as_name(), rtype, 60, data, 0).expect("a record");
    }
    loader.finish().unwrap_or_else(|problems| panic!("{problems:?}"))
}
