//! A store whose disk is slow delays nothing but its own writes.
use super::outage::FailingStore;
use super::*;
use std::sync::mpsc::channel;
use zone_manager::Target;

#[test]
fn urgent_update_is_live_while_the_disk_of_the_store_is_slow() {
    let store = FailingStore::default();
    let scene = scene_on(Box::new(store.clone()), MemoryStore::default());
    scene.create("example.org.").unwrap();
    scene.files.sync_zone(zone_of(&scene, "file.test."), None).wait().unwrap();
    let (reached, at_disk) = channel();
    let (finish, disk_is_done) = channel::<()>();
    *store.before_commit.lock().unwrap() = Some(Box::new(move || {
        reached.send(()).unwrap();
        // Ends with an error once the test is over.
        let _ = disk_is_done.recv();
    }));
    let edits = vec![put("www.example.org.", Rtype::A, "10.0.0.1")];
    let write = scene.service.write(batch("example.org.", edits));
    at_disk.recv().unwrap();
    // The write waits for its disk from here on, however long this takes.
    let target = Target::Zone(name("file.test."));
    let change = put("www.file.test.", Rtype::A, "10.0.0.2").into();
    let applied = scene.files.urgent().apply_blocking(target, vec![change]).unwrap();
    let applied = applied.wait().unwrap();
    assert_eq!(applied.results, [Ok(())]);
    scene.publisher.wait_live(applied.sequence).wait().unwrap();
    let image = scene.publisher.image();
    let file = image.zone(name("file.test.").as_name()).unwrap();
    assert!(file.set(name("www.file.test.").as_name(), Rtype::A).is_some());
    assert_eq!(scene.answered("www.example.org.", Rtype::A), None, "it is not durable yet");
    drop(finish);
    let written = write.wait().unwrap();
    scene.publisher.wait(written.sequence).unwrap();
    assert_eq!(scene.answered("www.example.org.", Rtype::A), Some(vec![10, 0, 0, 1]));
}
