//! A store whose disk fails: what it did all the same is what is answered.
use super::*;
use std::io::{Read, Write};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

/// Does what it is asked, and says that it failed while it is told to.
#[derive(Clone, Default)]
struct Shaky {
    store: Memory,
    fails_to_write: Arc<AtomicBool>,
    fails_to_read: Arc<AtomicBool>,
}

fn failure<T>(fails: &AtomicBool) -> Result<T, StoreError> {
    fails.store(false, Ordering::Relaxed);
    Err(StoreError::Failed("the disk".into()))
}

impl Store for Shaky {
    fn commit(&mut self, writes: Vec<Prepared>) -> Result<(), StoreError> {
        let done = self.store.commit(writes);
        let fails = &self.fails_to_write;
        if fails.load(Ordering::Relaxed) { failure(fails) } else { done }
    }

    fn newest(&mut self) -> Result<Revision, StoreError> {
        self.revision()
    }

    fn tidy(&mut self) -> Result<bool, StoreError> {
        Ok(false)
    }

    fn restore(&mut self, from: &mut dyn Read, write: &Restoring) -> Result<(), StoreError> {
        self.store.restore(from, write)
    }

    fn close(&mut self) {
        self.store.close();
    }

    fn open(&mut self) -> Result<(), StoreError> {
        self.store.open()
    }

    fn reader(&self) -> Arc<dyn Reader> {
        Arc::new(self.clone())
    }
}

impl Reader for Shaky {
    fn held(&self) -> Result<Held, StoreError> {
        self.store.held()
    }

    fn revision(&self) -> Result<Revision, StoreError> {
        self.store.revision()
    }

    fn zone(&self, origin: Name<'_>) -> Result<Option<StoredZone>, StoreError> {
        self.store.zone(origin)
    }

    fn zones(&self) -> Result<Vec<StoredZone>, StoreError> {
        let fails = &self.fails_to_read;
        if fails.load(Ordering::Relaxed) { failure(fails) } else { self.store.zones() }
    }

    fn set(&self, key: &SetKey) -> Result<Option<(Revision, SetValue)>, StoreError> {
        self.store.set(key)
    }

    fn scan(
        &self,
        origin: Name<'_>,
        after: Option<&SetKey>,
        each: &mut dyn FnMut(RawSet<'_>) -> ControlFlow<()>,
    ) -> Result<Option<StoredZone>, StoreError> {
        self.store.scan(origin, after, each)
    }

    fn journal(
        &self,
        origin: Name<'_>,
        after: Revision,
        limit: usize,
    ) -> Result<Option<(Vec<JournalEntry>, Revision)>, StoreError> {
        self.store.journal(origin, after, limit)
    }

    fn snapshot(&self, to: &mut dyn Write) -> Result<Revision, StoreError> {
        self.store.snapshot(to)
    }
}

fn shaky() -> (Shaky, Scene) {
    let shaky = Shaky::default();
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
fn what_was_refused_and_is_on_the_disk_is_answered_before_anything_more_is_written() {
    let (shaky, scene) = shaky();
    scene.write(www("10.0.0.1")).unwrap();
    shaky.fails_to_write.store(true, Ordering::Relaxed);
    assert!(matches!(scene.write(www("10.0.0.2")), Err(Refused::Failed(_))));
    assert_eq!(scene.answered("www.example.org.", Rtype::A), Some(vec![10, 0, 0, 1]));
    assert_eq!(scene.write(other()), Ok(Revision(4)), "the third is on the disk");
    assert_eq!(scene.answered("www.example.org.", Rtype::A), Some(vec![10, 0, 0, 2]));
    assert_eq!((scene.serial(), scene.sets().len()), (Some(4), 4));
}

/// It is on the disk then: who writes next finds it, and nobody an empty store meanwhile.
#[test]
fn a_restore_that_cannot_be_read_leaves_what_is_answered_until_it_can() {
    let (shaky, scene) = shaky();
    scene.write(www("10.0.0.1")).unwrap();
    let mut snapshot = Vec::new();
    scene.desk.snapshot(&mut snapshot).unwrap();
    scene.write(www("10.0.0.2")).unwrap();
    scene.create("example.net.").unwrap();
    shaky.fails_to_read.store(true, Ordering::Relaxed);
    let from = Box::new(std::io::Cursor::new(snapshot));
    let restored = scene.desk.restore(from, "someone".into(), SystemTime::now()).wait();
    assert!(matches!(restored, Err(Refused::Failed(_))), "{restored:?}");
    assert_eq!(scene.answered("www.example.org.", Rtype::A), Some(vec![10, 0, 0, 2]));
    assert_eq!(scene.write(other()), Ok(Revision(6)));
    assert_eq!(scene.answered("www.example.org.", Rtype::A), Some(vec![10, 0, 0, 1]));
    assert_eq!(scene.control.image().zones().count(), 1, "the other zone is gone");
}

#[test]
fn what_a_successor_wrote_before_it_gave_the_store_back_is_answered() {
    let scene = with_zone();
    scene.desk.close().wait().unwrap();
    let mut theirs = scene.store.clone();
    theirs.open().unwrap();
    let successor = self::scene(theirs);
    successor.write(www("10.0.0.1")).unwrap();
    scene.desk.open().wait().unwrap();
    assert_eq!(scene.write(other()), Ok(Revision(3)));
    assert_eq!(scene.answered("www.example.org.", Rtype::A), Some(vec![10, 0, 0, 1]));
}
