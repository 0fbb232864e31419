//! Accepted writes to zones that have another owner by now.
use super::outage::FailingStore;
use super::*;

#[test]
fn durable_write_succeeds_although_a_file_owns_the_zone() {
    let store = FailingStore::default();
    let scene = scene_on(Box::new(store.clone()), MemoryStore::default());
    scene.create("example.org.").unwrap();
    // A file becomes the owner after the service has checked it.
    let (publisher, files) = (scene.publisher.clone(), scene.files.urgent());
    *store.before_commit.lock().unwrap() = Some(Box::new(move || {
        publisher.wait(files.claim(name("example.org."), Some("/etc/example.zone".into())));
    }));
    let edits = vec![put("www.example.org.", Rtype::A, "10.0.0.1")];
    let written = scene.service.write(batch("example.org.", edits)).wait().unwrap();
    let newest = scene.service.revision().unwrap();
    assert_eq!((written.revision, newest), (Revision(2), Revision(2)));
    block_on(scene.service.wait_live(written.revision)).unwrap();
    assert!(matches!(scene.write(Vec::new()), Err(Refused::NotTheOwner { .. })));
}

#[test]
fn snapshot_without_zones_is_restored() {
    let scene = scene(MemoryStore::default());
    let mut snapshot = Vec::new();
    scene.service.snapshot(&mut snapshot).unwrap();
    let restore = || {
        let from = Box::new(std::io::Cursor::new(snapshot.clone()));
        scene.service.restore(from, WriteContext::by("someone")).wait().unwrap()
    };
    assert_eq!(restore().revision, Revision(1), "in place of none");
    scene.create("example.org.").unwrap();
    scene.publisher.wait(restore().sequence).unwrap();
    assert_eq!(scene.publisher.image().zones().count(), 0);
}
