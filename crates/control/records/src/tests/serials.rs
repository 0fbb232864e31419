//! Serials of imported zones never go back (RFC 1982).
use super::*;

/// An SOA with a serial.
fn soa(serial: u32) -> Edit {
    let mut edit = put("example.org.", Rtype::SOA, "ns.example.org.");
    let value = edit.put.as_mut().unwrap();
    let numbers = [serial, 7_200, 1_800, 1_209_600, 60].map(u32::to_be_bytes).concat();
    value.data[0] = [&value.data[0], &b"\x04root\0"[..], &numbers].concat().into();
    edit
}

fn www(last: u8) -> Vec<Edit> {
    vec![put("www.example.org.", Rtype::A, &format!("10.0.0.{last}"))]
}

/// The served serial, which equals the stored one.
fn stored_serial(scene: &TestService) -> u32 {
    let set = scene.service.set(&key("example.org.", Rtype::SOA)).unwrap().unwrap();
    let numbers = set.value.data[0].last_chunk::<20>().unwrap();
    let serial = u32::from_be_bytes(*numbers.first_chunk().unwrap());
    assert_eq!(scene.serial(), Some(serial));
    serial
}

#[test]
fn zone_created_with_a_serial_serves_a_newer_one() {
    let scene = scene(MemoryStore::default());
    let edits = vec![put("example.org.", Rtype::NS, "ns.example.org."), soa(2_026_112_301)];
    let created = scene.service.create_zone(batch("example.org.", edits)).wait().unwrap();
    scene.publisher.wait(created.sequence).unwrap();
    assert_eq!((created.revision, stored_serial(&scene)), (Revision(1), 2_026_112_302));
    assert_eq!(scene.write(www(1)), Ok(Revision(2)), "the revision is none of the serial's");
    assert_eq!(stored_serial(&scene), 2_026_112_303);
    let again = self::scene(scene.store.clone());
    assert_eq!(stored_serial(&again), 2_026_112_303, "as before the start");
    again.write(www(2)).unwrap();
    assert_eq!(stored_serial(&again), 2_026_112_304);
}

#[test]
fn imported_serial_raises_that_of_the_zone() {
    let scene = with_zone();
    scene.write(www(1)).unwrap();
    assert_eq!(stored_serial(&scene), 2);
    scene.write(vec![soa(2_026_112_301)]).unwrap();
    assert_eq!(stored_serial(&scene), 2_026_112_302);
    scene.write(vec![soa(2_026_112_302)]).unwrap();
    assert_eq!(stored_serial(&scene), 2_026_112_302, "what was read is written again");
    scene.write(vec![soa(1)]).unwrap();
    assert_eq!(stored_serial(&scene), 2_026_112_302, "an older one has no say");
    scene.write(vec![soa(2_026_112_304)]).unwrap();
    scene.create("example.net.").unwrap();
    scene.write(www(2)).unwrap();
    assert_eq!(stored_serial(&scene), 2_026_112_307);
}

#[test]
fn refused_import_does_not_change_the_serial() {
    let scene = with_zone();
    scene.store.set_full(true);
    assert_eq!(scene.write(vec![soa(2_026_112_301)]), Err(Refused::Full));
    scene.store.set_full(false);
    scene.write(www(1)).unwrap();
    assert_eq!(stored_serial(&scene), 2);
}

#[test]
fn restored_zone_serves_a_newer_serial_than_before() {
    let scene = with_zone();
    let restore = |snapshot: &[u8]| {
        let from = Box::new(std::io::Cursor::new(snapshot.to_vec()));
        let done = scene.service.restore(from, WriteContext::by("someone")).wait().unwrap();
        scene.publisher.wait(done.sequence).unwrap();
    };
    let mut low = Vec::new();
    scene.service.snapshot(&mut low).unwrap();
    scene.write(vec![soa(2_026_112_301)]).unwrap();
    let mut high = Vec::new();
    scene.service.snapshot(&mut high).unwrap();
    restore(&low);
    let after = stored_serial(&scene);
    assert!(store::serial::is_newer(after, 2_026_112_302), "{after}: it was served before");
    scene.service.delete_zone(name("example.org."), WriteContext::by("x")).wait().unwrap();
    restore(&high);
    let after = stored_serial(&scene);
    assert!(store::serial::is_newer(after, 2_026_112_302), "{after}: it is in the snapshot");
    scene.write(www(1)).unwrap();
    assert_eq!(stored_serial(&scene), after + 1);
}

/// A snapshot in the format without offsets.
#[test]
fn older_snapshot_is_restored() {
    let scene = with_zone();
    let mut bytes = Vec::new();
    scene.service.snapshot(&mut bytes).unwrap();
    let mut older = bytes[..bytes.len() - 8].to_vec();
    older[15] = b'1';
    // After the mark, the revision, the kind and length of an item, the origin and its revision.
    let offset = 17 + 8 + 2 + 13 + 8;
    assert_eq!(older.drain(offset..offset + 4).collect::<Vec<_>>(), [0; 4]);
    let mut sum = siphasher::sip::SipHasher13::new();
    std::hash::Hasher::write(&mut sum, &older);
    older.extend_from_slice(&std::hash::Hasher::finish(&sum).to_le_bytes());
    let from = Box::new(std::io::Cursor::new(older));
    let done = scene.service.restore(from, WriteContext::by("someone")).wait().unwrap();
    scene.publisher.wait(done.sequence).unwrap();
    assert_eq!((done.revision, stored_serial(&scene)), (Revision(2), 2));
}
