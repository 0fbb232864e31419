//! Accepted writes to zones that have another owner by now.
use super::*;
use std::sync::atomic::{AtomicBool, Ordering};

/// A file becomes the owner after the service has checked it.
#[derive(Default)]
struct RacingOwner {
    waits: AtomicBool,
    has_it: AtomicBool,
}

impl ZoneOwnership for RacingOwner {
    fn owner(&self, _: Name<'_>) -> Option<ZoneOwner> {
        if self.waits.swap(false, Ordering::Relaxed) {
            self.has_it.store(true, Ordering::Relaxed);
            return None;
        }
        let has_it = self.has_it.load(Ordering::Relaxed);
        has_it.then(|| ZoneOwner::File(PathBuf::from("/etc/dunlin/example.zone")))
    }

    fn is_built_in(&self, _: Name<'_>) -> bool {
        false
    }
}

#[test]
fn durable_write_succeeds_although_a_file_owns_the_zone() {
    let key = Arc::new(HashKey::new(std::array::from_fn(|n| n as u64 * 77 + 5)));
    let (publisher, _running) = ZonePublisher::start(Image::new(key)).unwrap();
    let hasty = Arc::new(RacingOwner::default());
    let ownership: Arc<dyn ZoneOwnership> = hasty.clone();
    let started = RecordService::start(publisher, Box::new(MemoryStore::default()), ownership);
    let (service, _serving) = started.unwrap();
    let servers = put("example.org.", Rtype::NS, "ns.example.org.");
    service.create_zone(batch("example.org.", vec![servers])).wait().unwrap();
    hasty.waits.store(true, Ordering::Relaxed);
    let edits = vec![put("www.example.org.", Rtype::A, "10.0.0.1")];
    let written = service.write(batch("example.org.", edits)).wait().unwrap();
    assert_eq!((written.revision, service.revision().unwrap()), (Revision(2), Revision(2)));
    service.wait_live(written.revision).wait().unwrap();
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
