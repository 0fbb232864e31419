//! A store that cannot be opened, or fails later, affects only its own zones (invariant I11).
use super::*;
use std::fs;
use std::io::{Cursor, Read, Write};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use test_support::folder::Folder;
use test_support::wait;

/// What happens once.
type Happening = Box<dyn FnOnce() + Send>;

/// A store that fails while it has an error.
#[derive(Clone, Default)]
pub(super) struct FailingStore {
    pub store: MemoryStore,
    /// It does not know what became of a commit, nor of others' writes.
    cannot_tell: bool,
    /// It does the next write, and reports an error; it does not do the next read.
    pub fails_to_write: Arc<AtomicBool>,
    pub fails_to_read: Arc<AtomicBool>,
    error: Arc<Mutex<Option<StoreError>>>,
    /// The only zone that cannot be read.
    unreadable: Arc<Mutex<Option<NameBuf>>>,
    opened: Arc<AtomicU32>,
    /// The revision of a replacement.
    replaced: Arc<AtomicU64>,
    /// What happens before the next commit.
    pub before_commit: Arc<Mutex<Option<Happening>>>,
}

impl FailingStore {
    pub fn that_cannot_tell() -> Self {
        Self { cannot_tell: true, ..Self::default() }
    }

    fn check(&self) -> Result<&MemoryStore, StoreError> {
        let error = self.error.lock().unwrap().clone();
        error.map_or(Ok(&self.store), Err)
    }

    /// Once while this is set.
    fn check_once(fails: &AtomicBool) -> Result<(), StoreError> {
        let fails = fails.swap(false, Ordering::Relaxed);
        if fails { Err(StoreError::Failed("the disk".into())) } else { Ok(()) }
    }

    fn set(&self, error: Option<StoreError>) {
        *self.error.lock().unwrap() = error;
    }
}

impl Store for FailingStore {
    fn commit(&mut self, commit: Commit) -> Result<Revision, CommitError> {
        if let Some(happens) = self.before_commit.lock().unwrap().take() {
            happens();
        }
        self.check().map_err(CommitError::Unknown)?;
        let done = self.store.commit(commit);
        Self::check_once(&self.fails_to_write).map_err(CommitError::Unknown)?;
        done
    }

    fn outcome(&mut self, id: CommitId) -> Result<Option<Revision>, StoreError> {
        self.check()?;
        match self.cannot_tell {
            true => Err(StoreError::Failed("the disk".into())),
            false => self.store.outcome(id),
        }
    }

    fn watch(
        &mut self,
        from: Revision,
        waker: WatchWaker,
    ) -> Result<Option<Box<dyn Watch>>, StoreError> {
        if self.cannot_tell { Ok(None) } else { self.store.watch(from, waker) }
    }

    fn newest(&mut self) -> Result<Revision, StoreError> {
        self.revision()
    }

    fn tidy(&mut self) -> Result<bool, StoreError> {
        Ok(false)
    }

    fn restore(&mut self, from: &mut dyn Read, write: &RestoreInfo) -> Result<(), StoreError> {
        match self.check() {
            Err(StoreError::Damaged(_)) => {
                self.store.restore(from, write)?;
                self.replaced.store(write.revision.0, Ordering::Relaxed);
                self.set(None);
                Ok(())
            }
            checked => checked.map(drop).and_then(|()| self.store.clone().restore(from, write)),
        }
    }

    fn close(&mut self) {}

    fn open(&mut self) -> Result<(), StoreError> {
        self.opened.fetch_add(1, Ordering::Relaxed);
        self.check().map(drop)
    }

    fn reader(&self) -> Arc<dyn Reader> {
        Arc::new(self.clone())
    }
}

impl Reader for FailingStore {
    fn held(&self) -> Result<StoreSize, StoreError> {
        self.check()?.held()
    }

    fn revision(&self) -> Result<Revision, StoreError> {
        self.check()?.revision()
    }

    fn zone(&self, origin: Name<'_>) -> Result<Option<StoredZone>, StoreError> {
        self.check()?.zone(origin)
    }

    fn scan_zones(
        &self,
        after: Option<Name<'_>>,
        each: &mut dyn FnMut(StoredZone) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        Self::check_once(&self.fails_to_read)?;
        self.check()?.scan_zones(after, each)
    }

    fn set(&self, key: &SetKey) -> Result<Option<(Revision, SetValue)>, StoreError> {
        self.check()?.set(key)
    }

    fn scan(
        &self,
        origin: Name<'_>,
        after: Option<&SetKey>,
        each: &mut dyn FnMut(&StoredZone, RawSet<'_>) -> ControlFlow<()>,
    ) -> Result<Option<StoredZone>, StoreError> {
        if self.unreadable.lock().unwrap().as_ref().is_some_and(|zone| zone.as_name() == origin) {
            return Err(StoreError::Damaged("records.redb: a checksum is wrong".into()));
        }
        self.check()?.scan(origin, after, each)
    }

    fn journal(
        &self,
        origin: Name<'_>,
        after: Revision,
        limit: usize,
    ) -> Result<Option<JournalPart>, StoreError> {
        self.check()?.journal(origin, after, limit)
    }

    fn snapshot(&self, to: &mut dyn Write) -> Result<Revision, StoreError> {
        self.check()?.snapshot(to)
    }
}

fn damaged() -> Option<StoreError> {
    Some(StoreError::Damaged("records.redb: a checksum is wrong".into()))
}

fn failed() -> Option<StoreError> {
    Some(StoreError::Failed("records.redb: Input/output error".into()))
}

/// The file of a list of zones.
struct TestZoneList(Folder);

impl TestZoneList {
    fn new(test: &str) -> Self {
        Self(Folder::new(test))
    }

    fn path(&self) -> PathBuf {
        self.0.join("records.zones")
    }

    fn text(&self) -> String {
        fs::read_to_string(self.path()).unwrap()
    }
}

fn scene_with(faulty: &FailingStore, list: &TestZoneList) -> TestService {
    scene_opened(StoreSource {
        store: Box::new(faulty.clone()),
        fleet: None,
        waits: false,
        list: Some(list.path()),
        may_write: true,
        mirror: None,
        views: KnownViews::default(),
    })
}

fn answers_servfail(scene: &TestService, zone: &str) -> bool {
    let image = scene.publisher.image();
    image.zone(name(zone).as_name()).is_some_and(|zone| zone.serial().is_none())
}

/// Waits until a zone is served again.
fn await_zone(scene: &TestService, zone: &str) {
    let serial = || {
        let image = scene.publisher.image();
        image.zone(name(zone).as_name()).and_then(|zone| zone.serial())
    };
    let is_served = || serial().map(drop).ok_or_else(|| format!("{:?}", scene.service.health()));
    wait::until_ok(&format!("{zone} is served"), is_served);
}

fn www() -> Vec<Edit> {
    vec![put("www.example.org.", Rtype::A, "10.0.0.1")]
}

/// A store with two zones, and a list of them.
fn with_two_zones(test: &str) -> (FailingStore, TestZoneList) {
    let (faulty, list) = (FailingStore::default(), TestZoneList::new(test));
    let scene = scene_with(&faulty, &list);
    scene.create("example.org.").unwrap();
    scene.create("example.net.").unwrap();
    scene.write(www()).unwrap();
    (faulty, list)
}

#[test]
fn unopenable_store_answers_servfail_until_it_opens() {
    let (faulty, list) = with_two_zones("outage-start");
    faulty.set(failed());
    let scene = scene_with(&faulty, &list);
    assert!(answers_servfail(&scene, "example.org.") && answers_servfail(&scene, "example.net."));
    let health = scene.service.health();
    assert!(health.unavailable.unwrap().contains("Input/output error"));
    assert_eq!((health.was_read, health.unreadable_count, health.list), (false, 2, None));
    let zone = name("example.org.");
    assert!(matches!(scene.service.zone(zone.as_name()), Err(Refused::Unavailable(_))));
    assert!(matches!(scene.service.writable(), Err(Refused::Unavailable(_))));
    assert!(matches!(scene.write(www()), Err(Refused::Unavailable(_))));
    assert!(matches!(scene.create("example.com."), Err(Refused::Unavailable(_))));
    scene.claim_by_file("file.test.");
    assert!(
        scene.service.zone(name("file.test.").as_name()).unwrap().is_some(),
        "not of the store"
    );
    faulty.set(None);
    await_zone(&scene, "example.org.");
    await_zone(&scene, "example.net.");
    assert_eq!(scene.answered("www.example.org.", Rtype::A), Some(vec![10, 0, 0, 1]));
    scene.create("example.com.").unwrap();
    let health = scene.service.health();
    assert_eq!((health.unavailable, health.unreadable_count), (None, 0));
}

#[test]
fn settling_retries_a_failed_store_at_once() {
    let (faulty, list) = with_two_zones("outage-settle");
    faulty.set(failed());
    let scene = scene_with(&faulty, &list);
    faulty.set(None);
    scene.service.settle().wait().unwrap();
    assert_eq!(scene.service.health().unavailable, None);
    assert_eq!(scene.service.zones(None, 9, false, |_| true).unwrap().0.len(), 2);
}

#[test]
fn zones_that_are_not_listed_are_reported_as_unknown() {
    let (faulty, list) = with_two_zones("outage-unlisted");
    fs::remove_file(list.path()).unwrap();
    faulty.set(damaged());
    let scene = scene_with(&faulty, &list);
    let health = scene.service.health();
    assert!(health.list.unwrap().contains("records.zones is missing"));
    assert_eq!(scene.publisher.image().zones().count(), 0);
    assert!(!list.path().exists(), "what is not known is not written");
    faulty.set(None);
    scene.service.settle().wait().unwrap();
    assert!(list.text().contains("2 zones") && scene.service.health().list.is_none());
}

#[test]
fn unreadable_zone_does_not_affect_others() {
    let (faulty, list) = with_two_zones("outage-zone");
    *faulty.unreadable.lock().unwrap() = Some(name("example.net."));
    let scene = scene_with(&faulty, &list);
    assert!(answers_servfail(&scene, "example.net."));
    assert_eq!(scene.answered("www.example.org.", Rtype::A), Some(vec![10, 0, 0, 1]));
    let health = scene.service.health();
    assert_eq!((health.unavailable.clone(), health.unreadable_count), (None, 1));
    assert!(health.unreadable[0].1.contains("checksum"), "{health:?}");
    scene.write(www()).unwrap();
    let deleted = scene.service.delete_zone(name("example.net."), WriteContext::by("x"));
    deleted.wait().unwrap();
    assert_eq!(scene.service.health().unreadable_count, 0);
}

#[test]
fn snapshot_replaces_a_damaged_store_and_revisions_do_not_go_back() {
    let (faulty, list) = with_two_zones("outage-replace");
    let mut snapshot = Vec::new();
    faulty.store.snapshot(&mut snapshot).unwrap();
    faulty.set(damaged());
    let scene = scene_with(&faulty, &list);
    let from = Box::new(Cursor::new(snapshot));
    let restored = scene.service.restore(from, WriteContext::by("someone")).wait().unwrap();
    scene.publisher.wait(restored.sequence).unwrap();
    assert_eq!(faulty.replaced.load(Ordering::Relaxed), restored.revision.0);
    assert!(restored.revision.0 > limits::REPLACED_AHEAD);
    assert_eq!(scene.answered("www.example.org.", Rtype::A), Some(vec![10, 0, 0, 1]));
    assert_eq!(scene.service.health().unavailable, None);
    let other = vec![put("www.example.org.", Rtype::A, "10.0.0.2")];
    assert_eq!(scene.write(other).unwrap(), restored.revision.next());
}

/// An unreadable store can meet no condition.
#[test]
fn snapshot_on_a_condition_does_not_replace_a_damaged_store() {
    let (faulty, list) = with_two_zones("outage-condition");
    let mut snapshot = Vec::new();
    faulty.store.snapshot(&mut snapshot).unwrap();
    faulty.set(damaged());
    let scene = scene_with(&faulty, &list);
    for expect in [Precondition::Present, Precondition::Absent, Precondition::At(Revision(3))] {
        let context = WriteContext { expect, ..WriteContext::by("someone") };
        let from = Box::new(Cursor::new(snapshot.clone()));
        let restored = scene.service.restore(from, context).wait();
        assert!(matches!(restored, Err(Refused::Unavailable(_))), "{restored:?}");
    }
    assert_eq!(faulty.replaced.load(Ordering::Relaxed), 0);
}

/// Files that are unreadable for another reason may be good and stay.
#[test]
fn snapshot_does_not_replace_a_store_that_is_not_damaged() {
    let (faulty, list) = with_two_zones("outage-kept");
    let mut snapshot = Vec::new();
    faulty.store.snapshot(&mut snapshot).unwrap();
    faulty.set(failed());
    let scene = scene_with(&faulty, &list);
    let from = Box::new(Cursor::new(snapshot));
    let restored = scene.service.restore(from, WriteContext::by("someone")).wait();
    assert!(matches!(restored, Err(Refused::Failed(_))), "{restored:?}");
    assert_eq!(faulty.replaced.load(Ordering::Relaxed), 0);
}

#[test]
fn store_failure_keeps_answers() {
    let (faulty, list) = with_two_zones("outage-later");
    let scene = scene_with(&faulty, &list);
    faulty.set(damaged());
    assert!(scene.write(vec![put("a.example.org.", Rtype::A, "10.0.0.2")]).is_err());
    // A failed read triggers a check of the store.
    wait::until("the store is known to be unavailable", || {
        assert!(scene.service.held().is_err());
        scene.service.health().unavailable
    });
    assert!(scene.service.health().was_read);
    assert_eq!(scene.answered("www.example.org.", Rtype::A), Some(vec![10, 0, 0, 1]));
    faulty.set(None);
    scene.service.settle().wait().unwrap();
    scene.write(vec![put("a.example.org.", Rtype::A, "10.0.0.2")]).unwrap();
}

/// Writes do not overload a slow store with tries.
#[test]
fn requests_rarely_retry_a_slow_failed_store() {
    let (faulty, list) = with_two_zones("outage-often");
    faulty.set(failed());
    let scene = scene_with(&faulty, &list);
    let health = scene.service.health();
    for _ in 0..1_000 {
        assert!(scene.write(www()).is_err());
    }
    let later = scene.service.health();
    // A try reads the form.
    assert_eq!(crate::StoreHealth { form: health.form, ..later }, health);
    let opened = faulty.opened.load(Ordering::Relaxed);
    assert!(opened < 1_000, "{opened} tries");
}

#[test]
fn list_follows_created_and_deleted_zones() {
    let (faulty, list) = (FailingStore::default(), TestZoneList::new("outage-list"));
    let scene = scene_with(&faulty, &list);
    assert!(list.text().contains(" 0 zones"), "{}", list.text());
    scene.create("example.org.").unwrap();
    assert!(list.text().contains("\nexample.org. "), "before the answer: {}", list.text());
    scene.create("example.net.").unwrap();
    assert!(list.text().contains("\nexample.net. "), "{}", list.text());
    let deleted = scene.service.delete_zone(name("example.org."), WriteContext::by("x"));
    deleted.wait().unwrap();
    assert!(!list.text().contains("example.org."), "{}", list.text());
    for n in 0..store::limits::ZONE_LIST_SHORT + 5 {
        scene.create(&format!("n{n}.example.")).unwrap();
    }
    drop(scene);
    assert!(list.text().contains(" 262 zones"), "the end writes what is due: {}", list.text());
}
