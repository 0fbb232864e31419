use super::*;
use compile::Loader;
use image::HashKey;
use model::RecordSet;
use wire::{NameBuf, Rtype};

fn name(text: &str) -> NameBuf {
    NameBuf::from_text(text.as_bytes(), Name::ROOT).unwrap()
}

/// A zone with SOA and NS only.
fn zone(image: &Image, origin: &str) -> Zone {
    let origin = name(origin);
    let mut soa = b"\x02ns\0\x04root\0".to_vec();
    soa.extend([0; 20]);
    let mut loader = Loader::new(Arc::clone(image.key()), origin.as_name(), None);
    loader.add(origin.as_name(), Rtype::SOA, 60, &soa, 0).unwrap();
    loader.add(origin.as_name(), Rtype::NS, 60, b"\x02ns\0", 0).unwrap();
    loader.finish().unwrap()
}

fn start() -> (ZonePublisher, PublisherThread) {
    let image = Image::new(Arc::new(HashKey::new(std::array::from_fn(|n| n as u64 * 77 + 5))));
    let zone = zone(&image, "example.org.");
    let (publisher, running) = ZonePublisher::start(image).unwrap();
    let sequence = publisher.put_zone(zone).unwrap();
    publisher.wait(sequence).unwrap();
    (publisher, running)
}

fn change(at: &str, address: Option<[u8; 4]>) -> Change {
    let set = address
        .map(|address| RecordSet::new(Rtype::A, 30, [Box::from(address.as_slice())]).unwrap());
    Change { zone: name("example.org."), name: name(at), rtype: Rtype::A, set }
}

fn address(publisher: &ZonePublisher, at: &str) -> Option<Vec<u8>> {
    let image = publisher.image();
    let set = image.zone(name("example.org.").as_name())?.set(name(at).as_name(), Rtype::A)?;
    set.records().next().map(<[u8]>::to_vec)
}

#[test]
fn change_is_applied_and_reaches_readers() {
    let (publisher, running) = start();
    let mut reader = publisher.reader().unwrap();
    let before = reader.refresh().zone(name("example.org.").as_name()).unwrap().count().0;
    let sequence = publisher.put(change("www.example.org.", Some([10, 0, 0, 1]))).unwrap();
    let generation = publisher.wait(sequence).unwrap();
    assert!(!publisher.is_live(generation), "the reader still holds the older image");
    let after = reader.refresh().zone(name("example.org.").as_name()).unwrap().count().0;
    assert!(publisher.is_live(generation));
    assert_eq!((before, after), (1, 2));
    assert_eq!(address(&publisher, "www.example.org."), Some(vec![10, 0, 0, 1]));
    running.stop();
}

#[test]
fn the_latest_change_of_a_set_wins() {
    let (publisher, _running) = start();
    let mut sequence = None;
    for n in 0..200 {
        sequence = Some(publisher.put(change("www.example.org.", Some([10, 0, 0, n]))).unwrap());
    }
    publisher.wait(sequence.unwrap()).unwrap();
    assert_eq!(address(&publisher, "www.example.org."), Some(vec![10, 0, 0, 199]));
    publisher.wait(publisher.put(change("www.example.org.", None)).unwrap()).unwrap();
    assert_eq!(address(&publisher, "www.example.org."), None);
}

#[test]
fn refused_change_does_not_block_others() {
    let (publisher, _running) = start();
    publisher.put(change("www.example.com.", Some([10, 0, 0, 1]))).unwrap();
    let mut elsewhere = change("www.example.net.", Some([10, 0, 0, 1]));
    elsewhere.zone = name("example.net.");
    publisher.put(elsewhere).unwrap();
    let sequence = publisher.put(change("a.example.org.", Some([10, 0, 0, 2]))).unwrap();
    publisher.wait(sequence).unwrap();
    assert_eq!(address(&publisher, "a.example.org."), Some(vec![10, 0, 0, 2]));
    assert_eq!(publisher.image().zones().count(), 1);
}

#[test]
fn full_queue_refuses_new_sets_and_accepts_replacements() {
    // No thread empties this queue.
    let queue = UpdateQueue::default();
    for n in 0..limits::UPDATES_MAX {
        queue.put(change(&format!("{n}.example.org."), None)).unwrap();
    }
    assert_eq!(queue.put(change("more.example.org.", None)).unwrap_err(), UpdateQueueFull);
    queue.put(change("7.example.org.", Some([10, 0, 0, 1]))).unwrap();
    let updates = queue.take(false).unwrap();
    let ZoneUpdate::Changes(changes) = &updates[0] else { panic!("changes of one zone") };
    assert_eq!((updates.len(), changes.len()), (1, limits::UPDATES_MAX));
    queue.put(change("more.example.org.", None)).unwrap();
}

#[test]
fn waiters_return_when_the_thread_stops() {
    let (publisher, running) = start();
    let sequence = publisher.put(change("www.example.org.", Some([10, 0, 0, 1]))).unwrap();
    running.stop();
    assert!(publisher.wait(sequence).is_some(), "what was in the queue is applied first");
    let late = publisher.put(change("x.example.org.", None)).unwrap();
    assert_eq!(publisher.wait(late), None);
    assert!(!publisher.has_failed(), "it was message to");
}

#[test]
fn waiters_return_when_the_thread_panics() {
    let queue = UpdateQueue::default();
    let sequence = queue.put(change("www.example.org.", None)).unwrap();
    let ended = std::thread::scope(|scope| {
        let body = || {
            let _taker = QueueReceiver(&queue);
            panic!("message to");
        };
        scope.spawn(body).join()
    });
    assert!(ended.is_err() && queue.has_failed());
    assert_eq!(queue.wait(sequence), None);
    for n in 0..=limits::UPDATES_MAX {
        let late = queue.put(change(&format!("{n}.example.org."), None)).unwrap();
        assert_eq!(queue.wait(late), None, "nor does anything pile up");
    }
}

#[test]
fn removed_zone_can_be_added_again() {
    let (publisher, _running) = start();
    let origin = name("example.org.");
    publisher.put(change("www.example.org.", Some([10, 0, 0, 1]))).unwrap();
    publisher.wait(publisher.remove_zone(origin.as_name()).unwrap()).unwrap();
    assert_eq!(publisher.image().zones().count(), 0);
    let again = zone(&publisher.image(), "example.org.");
    publisher.remove_zone(origin.as_name()).unwrap();
    publisher.wait(publisher.put_zone(again).unwrap()).unwrap();
    assert_eq!(address(&publisher, "www.example.org."), None, "what was removed stays so");
    assert_eq!(publisher.image().zones().count(), 1);
}

#[test]
fn latest_hosts_files_win_and_change_the_map() {
    use image::ZoneTable;
    let (publisher, running) = start();
    let hosts = |count: usize| {
        let image = publisher.image();
        (0..count).map(|_| Arc::new(zone(&image, "."))).collect::<Vec<_>>()
    };
    let count = || (0..).take_while(|number| publisher.image().hosts(*number).is_some()).count();
    let mut maps = vec![publisher.image().map()];
    for (put, there) in [(vec![2, 1], 1), (vec![1, 3, 2], 2), (vec![0], 0), (vec![0], 0)] {
        let tickets = put.into_iter().map(|many| publisher.put_hosts(hosts(many)).unwrap());
        publisher.wait(tickets.max().unwrap()).unwrap();
        assert_eq!(count(), there);
        maps.push(publisher.image().map());
    }
    assert!(maps.windows(2).all(|pair| pair[0] != pair[1]), "{maps:?}");
    assert!(publisher.image().zone(name("example.org.").as_name()).is_some(), "zones stay");
    running.stop();
}

#[test]
fn last_sequence_covers_all_updates() {
    let (publisher, running) = start();
    assert_eq!(publisher.wait(publisher.last()), publisher.wait(publisher.last()), "nothing waits");
    publisher.put(change("www.example.org.", Some([10, 0, 0, 1]))).unwrap();
    publisher.wait(publisher.last()).unwrap();
    assert_eq!(address(&publisher, "www.example.org."), Some(vec![10, 0, 0, 1]));
    running.stop();
}
