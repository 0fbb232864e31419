use super::*;
use test_support::folder::Folder;

fn name(text: &str) -> NameBuf {
    NameBuf::from_text(text.as_bytes(), Name::ROOT).unwrap()
}

fn zones() -> [NameBuf; 3] {
    [name("example.org."), name("a\\032b.example."), name(".")]
}

fn list() -> String {
    let zones = zones();
    text(zones.iter().map(NameBuf::as_name), Revision(17))
}

fn names(listed: &ListedZones) -> Vec<String> {
    listed.zones.iter().map(NameBuf::to_string).collect()
}

#[test]
fn list_round_trips() {
    let listed = parse(list().as_bytes());
    assert_eq!(names(&listed), [".", "a\\032b.example.", "example.org."]);
    assert_eq!((listed.revision, listed.fault), (Revision(17), None));
    let none = parse(text(std::iter::empty(), Revision::NONE).as_bytes());
    assert!(none.zones.is_empty() && none.fault.is_none(), "{none:?}");
}

/// No flipped bit adds a zone, and each one that loses a zone is detected.
#[test]
fn flipped_bit_loses_one_line_and_is_reported() {
    let whole = list().into_bytes();
    let all = names(&parse(&whole));
    for bit in 0..whole.len() * 8 {
        let mut bytes = whole.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let listed = parse(&bytes);
        // Hexadecimal digits have two cases.
        if listed.fault.is_none() {
            assert!(bytes.eq_ignore_ascii_case(&whole), "bit {bit}");
        }
        // A flipped line end joins two lines.
        assert!(listed.zones.len() + 2 >= all.len(), "bit {bit}: {listed:?}");
        assert!(names(&listed).iter().all(|name| all.contains(name)), "bit {bit}: {listed:?}");
    }
}

#[test]
fn cut_list_is_reported_and_keeps_whole_lines() {
    let whole = list().into_bytes();
    for len in 0..whole.len() {
        let listed = parse(&whole[..len]);
        assert!(listed.fault.is_some(), "{len} bytes");
        assert!(listed.zones.len() < zones().len());
    }
}

#[test]
fn damaged_list_is_moved_aside_and_rewritten() {
    let folder = Folder::new("zone-list");
    let path = folder.join("records.zones");
    let mut kept = ZoneList::new(Some(path.clone()));
    let missing = kept.read().unwrap();
    assert!(missing.fault.unwrap().contains("records.zones is missing"));
    let damaged = list().replace("example.org.", "exbmple.org.");
    fs::write(&path, &damaged).unwrap();
    let listed = kept.read().unwrap();
    assert!(listed.fault.unwrap().contains("1 of its 3 zones"));
    let (now, zones) = (Instant::now(), zones());
    kept.changed(3, now);
    assert_eq!(kept.due(), Some(now), "at once");
    kept.write(zones.iter().map(NameBuf::as_name), Revision(17), now).unwrap();
    assert_eq!((kept.due(), fs::read_to_string(&path).unwrap()), (None, list()));
    let aside = folder.join("records.zones.damaged");
    assert_eq!(fs::read_to_string(aside).unwrap(), damaged);
    kept.changed(ZONE_LIST_SHORT + 1, now);
    assert_eq!(kept.due(), Some(now + ZONE_LIST_PAUSE), "a long one not so often");
}

#[test]
fn list_is_evidence_of_a_store_that_had_a_write() {
    let folder = Folder::new("zone-list-evidence");
    let path = folder.join(ZONE_LIST);
    let evidence = |list: &str| {
        fs::write(&path, list).unwrap();
        evidence_of_store(&folder).unwrap_or_default()
    };
    assert_eq!(evidence_of_store(&folder), None, "there is no list");
    assert_eq!(evidence(&text(std::iter::empty(), Revision::NONE)), "", "of a new store");
    let none = evidence(&text(std::iter::empty(), Revision(9)));
    assert!(none.contains("records.zones says that it was at revision 9"), "{none}");
    let all = evidence(&list());
    assert!(all.ends_with("records.zones lists 3 zones of it: ., a\\032b.example., example.org."));
    let four = [".", "a.", "b.", "c."].map(name);
    let four = evidence(&text(four.iter().map(NameBuf::as_name), Revision(17)));
    assert!(four.ends_with("lists 4 zones of it: ., a., b., …"), "{four}");
    for cut in [0, 5, list().len() - 1] {
        let found = evidence(&list()[..cut]);
        assert!(found.contains("records.zones"), "cut at {cut}: {found:?}");
    }
}

#[test]
fn failed_list_write_keeps_the_old_one_and_is_retried() {
    let folder = Folder::new("zone-list-unwritten");
    let path = folder.join("records.zones");
    fs::write(&path, list()).unwrap();
    // Blocks the path of the new file.
    fs::create_dir(folder.join("records.zones.new")).unwrap();
    let mut kept = ZoneList::new(Some(path.clone()));
    let now = Instant::now();
    let fault = kept.write(std::iter::empty(), Revision(18), now).unwrap_err();
    assert!(fault.contains("records.zones"), "{fault}");
    assert_eq!(kept.due(), Some(now + ZONE_LIST_RETRY));
    assert_eq!(fs::read_to_string(&path).unwrap(), list());
}
