//! What is written though nobody answers it from the store.
use super::*;
use std::sync::atomic::{AtomicBool, Ordering};

/// A file that takes the zone after the desk has looked whose it is.
#[derive(Default)]
struct Hasty {
    waits: AtomicBool,
    has_it: AtomicBool,
}

impl Others for Hasty {
    fn owner(&self, _: Name<'_>) -> Option<Owner> {
        if self.waits.swap(false, Ordering::Relaxed) {
            self.has_it.store(true, Ordering::Relaxed);
            return None;
        }
        let has_it = self.has_it.load(Ordering::Relaxed);
        has_it.then(|| Owner::File(PathBuf::from("/etc/dunlin/example.zone")))
    }

    fn is_built_in(&self, _: Name<'_>) -> bool {
        false
    }

    fn instead(&self, _: Name<'_>, _: &Arc<HashKey>) -> Option<Zone> {
        None
    }
}

#[test]
fn what_is_on_the_disk_is_no_refusal_though_the_zone_went_to_a_file_meanwhile() {
    let key = Arc::new(HashKey::new(std::array::from_fn(|n| n as u64 * 77 + 5)));
    let (control, _running) = Control::start(Image::new(key)).unwrap();
    let hasty = Arc::new(Hasty::default());
    let others: Arc<dyn Others> = hasty.clone();
    let started = Desk::start(control, Box::new(Memory::default()), others);
    let (desk, _serving) = started.unwrap();
    let servers = put("example.org.", Rtype::NS, "ns.example.org.");
    desk.create_zone(batch("example.org.", vec![servers])).wait().unwrap();
    hasty.waits.store(true, Ordering::Relaxed);
    let edits = vec![put("www.example.org.", Rtype::A, "10.0.0.1")];
    let written = desk.write(batch("example.org.", edits)).wait().unwrap();
    assert_eq!((written.revision, desk.revision().unwrap()), (Revision(2), Revision(2)));
    desk.wait_live(written.revision).wait().unwrap();
}

#[test]
fn a_snapshot_without_a_zone_is_restored_too() {
    let scene = scene(Memory::default());
    let mut snapshot = Vec::new();
    scene.desk.snapshot(&mut snapshot).unwrap();
    let restore = || {
        let from = Box::new(std::io::Cursor::new(snapshot.clone()));
        scene.desk.restore(from, "someone".into(), SystemTime::now()).wait().unwrap()
    };
    assert_eq!(restore().revision, Revision(1), "in place of none");
    scene.create("example.org.").unwrap();
    scene.control.wait(restore().ticket).unwrap();
    assert_eq!(scene.control.image().zones().count(), 0);
}
