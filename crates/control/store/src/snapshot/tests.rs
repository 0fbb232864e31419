use super::*;
use crate::View;

fn name(text: &str) -> NameBuf {
    NameBuf::from_text(text.as_bytes(), Name::ROOT).unwrap()
}

fn key(relative: &[u8], rtype: Rtype) -> Vec<u8> {
    let mut key = Vec::new();
    codec::set_key(&mut key, relative, View::DEFAULT, rtype);
    key
}

fn value(revision: u64, data: &[u8]) -> Vec<u8> {
    let value = SetValue { ttl: 60, policy: Policy::All, data: vec![data.into()] };
    let mut bytes = Vec::new();
    codec::set_value(&mut bytes, Revision(revision), &value);
    bytes
}

/// Reads a snapshot with a correct checksum.
fn read_again(
    revision: u64,
    write: impl FnOnce(&mut SnapshotWriter<'_>),
) -> Result<Revision, String> {
    let mut bytes = Vec::new();
    let mut writer = SnapshotWriter::new(&mut bytes, Revision(revision), Form::NEWEST).unwrap();
    write(&mut writer);
    writer.finish().unwrap();
    read(&mut &bytes[..], &mut |_| Ok(())).map_err(|why| why.to_string())
}

/// A snapshot of two sets: a plain one, and this one at www.
fn snapshot_of(format: u8, www: &SetValue) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = SnapshotWriter::in_format(&mut bytes, Revision(7), format).unwrap();
    let stamp = SerialStamp { revision: Revision(7), offset: 9 };
    writer.zone(name("example.org.").as_name(), stamp).unwrap();
    writer.set(&key(b"\x01a", Rtype::A), &value(3, &[10, 0, 0, 2])).unwrap();
    let mut packed = Vec::new();
    codec::set_value(&mut packed, Revision(7), www);
    writer.set(&key(b"\x03www", Rtype::A), &packed).unwrap();
    writer.finish().unwrap();
    bytes
}

/// Upgrade, write, go back: the older version reads all but what it does not know, and that is
/// listed.
#[test]
fn snapshot_in_an_older_format_lists_what_it_loses() {
    let plain = SetValue::new(60, vec![[10, 0, 0, 1][..].into()]);
    let with = |policy: &Policy| SetValue { policy: policy.clone(), ..plain.clone() };
    let checked = Policy::new(SetRules { check: "web".into(), ..SetRules::default() });
    let both = checked.clone().with_comment("rack 7");
    let comment = Policy::All.with_comment("rack 7");
    let locations = ["eu".into()].into();
    let near = SetRules { choice: model::Choice::Nearest, locations, ..SetRules::default() };
    let near = Policy::new(near).with_comment("rack 7");
    for (format, policy, kept, loses) in [
        (5, &near, &near, None),
        (4, &near, &comment, Some("its policy, check, tiers, weights and locations")),
        (3, &near, &Policy::All, Some("its policy, check, tiers, weights, locations and comment")),
        (4, &both, &both, None),
        (3, &both, &checked, Some("its comment")),
        (3, &comment, &Policy::All, Some("its comment")),
        (3, &checked, &checked, None),
        (2, &both, &Policy::All, Some("its policy, check, tiers and comment")),
        (2, &checked, &Policy::All, Some("its policy, check and tiers")),
        (2, &comment, &Policy::All, Some("its comment")),
        (2, &Policy::All, &Policy::All, None),
    ] {
        let newest = snapshot_of(FORMAT, &with(policy));
        let mut older = Vec::new();
        let lost = convert(&mut &newest[..], &mut older, Revision(7), format).unwrap();
        let lost: Vec<String> = lost.iter().map(ToString::to_string).collect();
        let listed = loses.map(|loses| format!("www.example.org. A: {loses}"));
        assert_eq!(lost, listed.into_iter().collect::<Vec<_>>());
        assert_eq!(older, snapshot_of(format, &with(kept)), "as the older version writes it");
        let wrong = read(&mut &snapshot_of(format, &with(policy))[..], &mut |_| Ok(()));
        assert_eq!(wrong.is_err(), loses.is_some(), "format {format} does not know {loses:?}");
    }
}

#[test]
fn snapshot_with_invalid_content_is_refused() {
    let (net, org) = (name("example.net."), name("example.org."));
    let zone = |writer: &mut SnapshotWriter<'_>, origin: &NameBuf| {
        writer.zone(origin.as_name(), SerialStamp { revision: Revision(7), offset: 9 }).unwrap();
    };
    let (www, address) = (key(b"\x03www", Rtype::A), value(7, &[10, 0, 0, 1]));
    let whole = read_again(7, |writer| {
        zone(writer, &net);
        writer.set(&www, &address).unwrap();
        zone(writer, &org);
        writer.set(&www, &address).unwrap();
    });
    assert_eq!(whole, Ok(Revision(7)));
    let long = [&[49][..], &[b'a'; 49]].concat().repeat(5);
    for (what, set) in [
        ("unended", (&b"www\0\0\0\x01"[..], &address)),
        ("no name", (&b"\0\0\0\0\x01"[..], &address)),
        ("too long", (&key(&long, Rtype::A), &address)),
        ("in capitals", (&key(b"\x03Www", Rtype::A), &address)),
        ("cut off", (&www, &address[..9].to_vec())),
        ("newer than all", (&www, &value(8, &[10, 0, 0, 1]))),
        ("no address", (&www, &value(7, &[10, 0, 0]))),
        ("no record type", (&key(b"\x03www", Rtype::ANY), &address)),
    ] {
        let found = read_again(7, |writer| {
            zone(writer, &org);
            writer.set(set.0, set.1).unwrap();
        });
        assert!(found.clone().is_err_and(|why| why.contains("example.org")), "{what}: {found:?}");
    }
    let refused = |revision, write: &dyn Fn(&mut SnapshotWriter<'_>)| {
        assert!(read_again(revision, write).unwrap_err().contains("damaged"));
    };
    refused(1 << 63, &|_| ());
    refused(7, &|writer| writer.set(&www, &address).unwrap());
    refused(7, &|writer| [&org, &net].into_iter().for_each(|origin| zone(writer, origin)));
    refused(7, &|writer| [&org, &org].into_iter().for_each(|origin| zone(writer, origin)));
    refused(6, &|writer| zone(writer, &org));
    refused(7, &|writer| {
        zone(writer, &org);
        writer.set(&www, &address).unwrap();
        writer.set(&www, &address).unwrap();
    });
    let many = read_again(7, |writer| {
        for n in 0..=ZONES_MAX {
            zone(writer, &name(&format!("n{n:05}.example.")));
        }
    });
    assert!(many.unwrap_err().contains("too many zones"));
}
