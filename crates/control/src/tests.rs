use super::*;
use compile::Loader;
use image::HashKey;
use model::RecordSet;
use wire::{NameBuf, Rtype};

fn name(text: &str) -> NameBuf {
    NameBuf::from_text(text.as_bytes(), Name::ROOT).unwrap()
}

/// A zone with a name server and nothing else.
fn zone(image: &Image, origin: &str) -> Zone {
    let origin = name(origin);
    let mut soa = b"\x02ns\0\x04root\0".to_vec();
    soa.extend([0; 20]);
    let mut loader = Loader::new(Arc::clone(image.key()), origin.as_name(), None);
    loader.add(origin.as_name(), Rtype::SOA, 60, &soa, 0).unwrap();
    loader.add(origin.as_name(), Rtype::NS, 60, b"\x02ns\0", 0).unwrap();
    loader.finish().unwrap()
}

fn start() -> (Control, Running) {
    let image = Image::new(Arc::new(HashKey::new(std::array::from_fn(|n| n as u64 * 77 + 5))));
    let zone = zone(&image, "example.org.");
    let (control, running) = Control::start(image).unwrap();
    let ticket = control.put_zone(zone).unwrap();
    control.wait(ticket).unwrap();
    (control, running)
}

fn change(at: &str, address: Option<[u8; 4]>) -> Change {
    let set = address
        .map(|address| RecordSet::new(Rtype::A, 30, [Box::from(address.as_slice())]).unwrap());
    Change { zone: name("example.org."), name: name(at), rtype: Rtype::A, set }
}

fn address(control: &Control, at: &str) -> Option<Vec<u8>> {
    let image = control.image();
    let set = image.zone(name("example.org.").as_name())?.set(name(at).as_name(), Rtype::A)?;
    set.records().next().map(<[u8]>::to_vec)
}

#[test]
fn a_change_is_applied_and_seen_by_readers() {
    let (control, running) = start();
    let mut reader = control.reader().unwrap();
    let before = reader.refresh().zone(name("example.org.").as_name()).unwrap().count().0;
    let ticket = control.put(change("www.example.org.", Some([10, 0, 0, 1]))).unwrap();
    let generation = control.wait(ticket).unwrap();
    assert!(!control.is_live(generation), "the reader still holds the older image");
    let after = reader.refresh().zone(name("example.org.").as_name()).unwrap().count().0;
    assert!(control.is_live(generation));
    assert_eq!((before, after), (1, 2));
    assert_eq!(address(&control, "www.example.org."), Some(vec![10, 0, 0, 1]));
    running.stop();
}

#[test]
fn the_latest_change_of_a_set_wins() {
    let (control, _running) = start();
    let mut ticket = None;
    for n in 0..200 {
        ticket = Some(control.put(change("www.example.org.", Some([10, 0, 0, n]))).unwrap());
    }
    control.wait(ticket.unwrap()).unwrap();
    assert_eq!(address(&control, "www.example.org."), Some(vec![10, 0, 0, 199]));
    control.wait(control.put(change("www.example.org.", None)).unwrap()).unwrap();
    assert_eq!(address(&control, "www.example.org."), None);
}

#[test]
fn what_is_refused_changes_nothing_and_holds_nothing_up() {
    let (control, _running) = start();
    control.put(change("www.example.com.", Some([10, 0, 0, 1]))).unwrap();
    let mut elsewhere = change("www.example.net.", Some([10, 0, 0, 1]));
    elsewhere.zone = name("example.net.");
    control.put(elsewhere).unwrap();
    let ticket = control.put(change("a.example.org.", Some([10, 0, 0, 2]))).unwrap();
    control.wait(ticket).unwrap();
    assert_eq!(address(&control, "a.example.org."), Some(vec![10, 0, 0, 2]));
    assert_eq!(control.image().zones().count(), 1);
}

#[test]
fn a_full_mailbox_says_so_and_still_takes_what_replaces() {
    // No loop empties this one.
    let mailbox = Mailbox::default();
    for n in 0..limits::LETTERS_MAX {
        mailbox.put(change(&format!("{n}.example.org."), None)).unwrap();
    }
    assert_eq!(mailbox.put(change("more.example.org.", None)).unwrap_err(), MailboxFull);
    mailbox.put(change("7.example.org.", Some([10, 0, 0, 1]))).unwrap();
    let letters = mailbox.take(false).unwrap();
    let Letter::Changes(changes) = &letters[0] else { panic!("changes of one zone") };
    assert_eq!((letters.len(), changes.len()), (1, limits::LETTERS_MAX));
    mailbox.put(change("more.example.org.", None)).unwrap();
}

#[test]
fn a_stopped_loop_leaves_nobody_waiting() {
    let (control, running) = start();
    let ticket = control.put(change("www.example.org.", Some([10, 0, 0, 1]))).unwrap();
    running.stop();
    assert!(control.wait(ticket).is_some(), "what was in the mailbox is applied first");
    let late = control.put(change("x.example.org.", None)).unwrap();
    assert_eq!(control.wait(late), None);
    assert!(!control.has_failed(), "it was told to");
}

#[test]
fn a_loop_that_panics_leaves_nobody_waiting() {
    let mailbox = Mailbox::default();
    let ticket = mailbox.put(change("www.example.org.", None)).unwrap();
    let ended = std::thread::scope(|scope| {
        let body = || {
            let _taker = Taker(&mailbox);
            panic!("told to");
        };
        scope.spawn(body).join()
    });
    assert!(ended.is_err() && mailbox.has_failed());
    assert_eq!(mailbox.wait(ticket), None);
    for n in 0..=limits::LETTERS_MAX {
        let late = mailbox.put(change(&format!("{n}.example.org."), None)).unwrap();
        assert_eq!(mailbox.wait(late), None, "nor does anything pile up");
    }
}

#[test]
fn a_removed_zone_is_gone_and_may_come_again() {
    let (control, _running) = start();
    let origin = name("example.org.");
    control.put(change("www.example.org.", Some([10, 0, 0, 1]))).unwrap();
    control.wait(control.remove_zone(origin.as_name()).unwrap()).unwrap();
    assert_eq!(control.image().zones().count(), 0);
    let again = zone(&control.image(), "example.org.");
    control.remove_zone(origin.as_name()).unwrap();
    control.wait(control.put_zone(again).unwrap()).unwrap();
    assert_eq!(address(&control, "www.example.org."), None, "what was removed stays so");
    assert_eq!(control.image().zones().count(), 1);
}

#[test]
fn the_latest_of_hosts_files_holds_and_draws_another_map() {
    use image::World;
    let (control, running) = start();
    let hosts = |count: usize| {
        let image = control.image();
        (0..count).map(|_| Arc::new(zone(&image, "."))).collect::<Vec<_>>()
    };
    let count = || (0..).take_while(|number| control.image().hosts(*number).is_some()).count();
    let mut maps = vec![control.image().map()];
    for (put, there) in [(vec![2, 1], 1), (vec![1, 3, 2], 2), (vec![0], 0), (vec![0], 0)] {
        let tickets = put.into_iter().map(|many| control.put_hosts(hosts(many)).unwrap());
        control.wait(tickets.max().unwrap()).unwrap();
        assert_eq!(count(), there);
        maps.push(control.image().map());
    }
    assert!(maps.windows(2).all(|pair| pair[0] != pair[1]), "{maps:?}");
    assert!(control.image().zone(name("example.org.").as_name()).is_some(), "zones stay");
    running.stop();
}

#[test]
fn the_last_ticket_stands_for_all_that_was_put() {
    let (control, running) = start();
    assert_eq!(control.wait(control.last()), control.wait(control.last()), "nothing waits");
    control.put(change("www.example.org.", Some([10, 0, 0, 1]))).unwrap();
    control.wait(control.last()).unwrap();
    assert_eq!(address(&control, "www.example.org."), Some(vec![10, 0, 0, 1]));
    running.stop();
}
