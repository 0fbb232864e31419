//! Answers are limited in bytes, and tries in time.
use super::*;
use crate::limits::PAGE_BYTES_MAX;
use store::limits::JOURNAL_PAGE_BYTES_MAX;

/// A set of some 60 KiB.
fn large(number: usize) -> Edit {
    let data = (0..240).map(|n| data(Rtype::TXT, &format!("{n:0>250}"))).collect();
    let value = SetValue { ttl: 60, policy: Policy::All, data };
    Edit { put: Some(value), ..remove(&format!("n{number:02}.example.org."), Rtype::TXT) }
}

#[test]
fn pages_and_journals_are_bounded_in_bytes_and_resume() {
    let scene = with_zone();
    for number in 0..40 {
        scene.write(vec![large(number)]).unwrap();
    }
    let origin = name("example.org.");
    let (mut after, mut seen) = (None, 0);
    loop {
        let page =
            scene.service.page(origin.as_name(), after.as_ref(), &SetFilter::default(), 1_000);
        let page = page.unwrap();
        let bytes = |set: &StoredSet| set.value.data.iter().map(|data| data.len()).sum::<usize>();
        let all: usize = page.sets.iter().map(bytes).sum();
        assert!(all < PAGE_BYTES_MAX + (64 << 10), "{all}");
        seen += page.sets.len();
        match page.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    assert_eq!(seen, 42, "all of them, though not at once");
    let (mut after, mut revisions) = (Revision::NONE, Vec::new());
    loop {
        let journal = scene.service.journal(origin.as_name(), Some(after), 1_000).unwrap();
        assert!(journal.entries.len() < JOURNAL_PAGE_BYTES_MAX / (60 << 10) + 2);
        revisions.extend(journal.entries.iter().map(|entry| entry.revision.0));
        after = journal.entries.last().expect("an entry at least").revision;
        if !journal.more {
            break;
        }
    }
    assert_eq!(revisions, (1..=41).collect::<Vec<u64>>());
}

#[test]
fn requests_above_the_limits_are_refused() {
    let queue = queue::WriteQueue::default();
    let many = |count: usize| {
        let edits = vec![put("a.example.org.", Rtype::A, "10.0.0.1"); count];
        let request = queue::ZoneRequest::Write(batch("example.org.", edits));
        queue::WriteRequest::Zone(Box::new(request), answer().0)
    };
    for _ in 0..limits::QUEUE_EDITS_MAX / 10_000 {
        queue.put(many(10_000)).unwrap();
    }
    assert_eq!(queue.put(many(1)), Err(Refused::Busy));
    assert_eq!(queue.take(None).unwrap().len(), 10);
    for _ in 0..limits::QUEUE_REQUESTS_MAX {
        queue.put(many(0)).unwrap();
    }
    assert_eq!(queue.put(many(0)), Err(Refused::Busy));
    assert!(!queue.has_failed());
    queue.end();
    assert!(queue.has_failed(), "its thread panicked");
    assert_eq!(queue.put(many(0)), Err(Refused::Stopping));
    let scene = with_zone();
    let edits = vec![remove("a.example.org.", Rtype::A); store::limits::EDITS_MAX + 1];
    assert_eq!(scene.write(edits), Err(Refused::EDITS));
    // The SOA that a new zone gets does not count.
    let servers = put("example.net.", Rtype::NS, "ns.example.net.");
    let address = |n: usize| put(&format!("n{n}.example.net."), Rtype::A, "10.0.0.1");
    let most = [servers].into_iter().chain((1..store::limits::EDITS_MAX).map(address)).collect();
    scene.service.create_zone(batch("example.net.", most)).wait().unwrap();
}

/// A client that disconnects leaves its request in the queue, which is bounded.
#[test]
fn queued_edits_are_bounded_in_bytes() {
    const EACH: usize = 8 << 20;
    let queue = queue::WriteQueue::default();
    let put_one = || {
        let mut edit = put("a.example.org.", Rtype::TXT, "");
        edit.put.as_mut().unwrap().data[0] = vec![0; EACH].into();
        let request = batch("example.org.", vec![edit]);
        let request = queue::ZoneRequest::Write(request);
        queue.put(queue::WriteRequest::Zone(Box::new(request), answer().0))
    };
    let fit = std::iter::repeat_with(put_one).take_while(Result::is_ok).count();
    assert_eq!(fit, limits::QUEUE_BYTES_MAX / EACH - 1, "with what it takes to keep them");
    assert_eq!(put_one(), Err(Refused::Busy));
    assert_eq!(queue.take(None).unwrap().len(), fit);
    put_one().unwrap();
}

#[test]
fn write_that_others_outrun_is_tried_for_seconds_and_its_refusal_says_why() {
    let scene = with_zone();
    let write = |text| scene.write(vec![put("www.example.org.", Rtype::A, text)]);
    scene.store.set_outrun(50);
    assert_eq!(write("10.0.0.1"), Ok(Revision(2)));
    scene.store.set_outrun(u64::MAX);
    match write("10.0.0.2") {
        Err(Refused::Unreachable(why)) => assert!(why.contains("other servers wrote"), "{why}"),
        other => panic!("{other:?}"),
    }
    scene.store.set_outrun(0);
    assert_eq!(write("10.0.0.2"), Ok(Revision(3)));
}
