//! A store whose disk fails: writes that succeeded anyway are served.
use super::*;
use std::io::{Read, Write};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

/// Does what it is asked, but reports errors while `fails`.
#[derive(Clone, Default)]
struct UnsureStore {
    store: MemoryStore,
    fails_to_write: Arc<AtomicBool>,
    fails_to_read: Arc<AtomicBool>,
}

fn failure<T>(fails: &AtomicBool) -> Result<T, StoreError> {
    fails.store(false, Ordering::Relaxed);
    Err(StoreError::Failed("the disk".into()))
}

impl Store for UnsureStore {
    fn commit(&mut self, commit: Commit) -> Result<Revision, CommitError> {
        let done = self.store.commit(commit);
        let fails = &self.fails_to_write;
        if fails.load(Ordering::Relaxed) {
            failure(fails).map_err(CommitError::Unknown)
        } else {
            done
        }
    }

    /// The disk cannot tell.
    fn outcome(&mut self, _: CommitId) -> Result<Option<Revision>, StoreError> {
        Err(StoreError::Failed("the disk".into()))
    }

    /// Its owner is its only writer.
    fn watch(&mut self, _: Revision, _: WatchWaker) -> Result<Option<Box<dyn Watch>>, StoreError> {
        Ok(None)
    }

    fn newest(&mut self) -> Result<Revision, StoreError> {
        self.revision()
    }

    fn tidy(&mut self) -> Result<bool, StoreError> {
        Ok(false)
    }

    fn restore(&mut self, from: &mut dyn Read, write: &RestoreInfo) -> Result<(), StoreError> {
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

impl Reader for UnsureStore {
    fn held(&self) -> Result<StoreSize, StoreError> {
        self.store.held()
    }

    fn revision(&self) -> Result<Revision, StoreError> {
        self.store.revision()
    }

    fn zone(&self, origin: Name<'_>) -> Result<Option<StoredZone>, StoreError> {
        self.store.zone(origin)
    }

    fn scan_zones(
        &self,
        after: Option<Name<'_>>,
        each: &mut dyn FnMut(StoredZone) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        let fails = &self.fails_to_read;
        if fails.load(Ordering::Relaxed) {
            return failure(fails);
        }
        self.store.scan_zones(after, each)
    }

    fn set(&self, key: &SetKey) -> Result<Option<(Revision, SetValue)>, StoreError> {
        self.store.set(key)
    }

    fn scan(
        &self,
        origin: Name<'_>,
        after: Option<&SetKey>,
        each: &mut dyn FnMut(&StoredZone, RawSet<'_>) -> ControlFlow<()>,
    ) -> Result<Option<StoredZone>, StoreError> {
        self.store.scan(origin, after, each)
    }

    fn journal(
        &self,
        origin: Name<'_>,
        after: Revision,
        limit: usize,
    ) -> Result<Option<JournalPart>, StoreError> {
        self.store.journal(origin, after, limit)
    }

    fn snapshot(&self, to: &mut dyn Write) -> Result<Revision, StoreError> {
        self.store.snapshot(to)
    }
}

fn shaky() -> (UnsureStore, TestService) {
    let shaky = UnsureStore::default();
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
