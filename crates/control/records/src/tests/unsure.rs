//! A store whose disk fails: writes that succeeded anyway are served.
use super::*;
use outage::FailingStore;
use std::sync::atomic::Ordering;

fn shaky() -> (FailingStore, TestService) {
    let shaky = FailingStore::that_cannot_tell();
    let scene = scene_on(Box::new(shaky.clone()), shaky.store.clone());
    scene.create("example.org.").unwrap();
    (shaky, scene)
}

fn www(address: &str) -> Vec<Edit> {
    vec![put("www.example.org.", Rtype::A, address)]
}

fn other() -> Vec<Edit> {
    vec![put("other.example.org.", Rtype::A, "10.0.0.9")]
}

#[test]
fn durable_refused_write_is_served_before_the_next_write() {
    let (shaky, scene) = shaky();
    scene.write(www("10.0.0.1")).unwrap();
    shaky.fails_to_write.store(true, Ordering::Relaxed);
    assert!(matches!(scene.write(www("10.0.0.2")), Err(Refused::Failed(_))));
    assert_eq!(scene.answered("www.example.org.", Rtype::A), Some(vec![10, 0, 0, 1]));
    assert_eq!(scene.write(other()), Ok(Revision(4)), "the third is on the disk");
    assert_eq!(scene.answered("www.example.org.", Rtype::A), Some(vec![10, 0, 0, 2]));
    assert_eq!((scene.serial(), scene.sets().len()), (Some(4), 4));
}

/// The restore is on disk: the next try finds it, and readers never see an empty store.
#[test]
fn unreadable_restore_keeps_answers_until_readable() {
    let (shaky, scene) = shaky();
    scene.write(www("10.0.0.1")).unwrap();
    let mut snapshot = Vec::new();
    scene.service.snapshot(&mut snapshot).unwrap();
    scene.write(www("10.0.0.2")).unwrap();
    scene.create("example.net.").unwrap();
    shaky.fails_to_read.store(true, Ordering::Relaxed);
    let from = Box::new(std::io::Cursor::new(snapshot));
    let restored = scene.service.restore(from, WriteContext::by("someone")).wait();
    assert!(matches!(restored, Err(Refused::Unavailable(_))), "{restored:?}");
    assert_eq!(scene.answered("www.example.org.", Rtype::A), Some(vec![10, 0, 0, 2]));
    scene.service.settle().wait().unwrap();
    assert_eq!(scene.write(other()), Ok(Revision(6)));
    assert_eq!(scene.answered("www.example.org.", Rtype::A), Some(vec![10, 0, 0, 1]));
    assert_eq!(scene.publisher.image().zones().count(), 1, "the other zone is gone");
}

#[test]
fn writes_of_the_new_process_are_served_after_it_returns_the_store() {
    let scene = with_zone();
    scene.service.close().wait().unwrap();
    let mut theirs = scene.store.clone();
    theirs.open().unwrap();
    let new_process = self::scene(theirs);
    new_process.write(www("10.0.0.1")).unwrap();
    scene.service.open().wait().unwrap();
    assert_eq!(scene.write(other()), Ok(Revision(3)));
    assert_eq!(scene.answered("www.example.org.", Rtype::A), Some(vec![10, 0, 0, 1]));
}
