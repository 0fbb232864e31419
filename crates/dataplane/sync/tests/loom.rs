//! The snapshot and the events in every interleaving that loom finds: `make test` runs it, or
//! `RUSTFLAGS="--cfg loom" cargo test -p sync --release --test loom`.
#![cfg(loom)]

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;
use sync::{Publisher, events};

/// A value whose reading and freeing loom watches: a read that does not happen before the drop is
/// an error in the interleaving where it comes first, which loom always visits.
struct Watched {
    number: UnsafeCell<u64>,
}

// SAFETY: loom checks each access; that is what the test is for.
unsafe impl Sync for Watched {}

impl Watched {
    fn new(number: u64) -> Self {
        Self { number: UnsafeCell::new(number) }
    }

    fn read(&self) -> u64 {
        // SAFETY: read only; loom panics if something may write at the same time.
        self.number.with(|number| unsafe { *number })
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        // SAFETY: as above.
        self.number.with_mut(|number| unsafe { *number = u64::MAX });
    }
}

#[test]
fn an_active_reader_never_reads_what_is_freed() {
    loom::model(|| {
        let mut publisher = Publisher::new(Watched::new(1));
        let mut reader = publisher.reader().unwrap();
        reader.refresh();
        let reading = thread::spawn(move || {
            let first = reader.refresh().read();
            let second = reader.refresh().read();
            assert!(first <= second && second <= 3);
        });
        publisher.publish(Watched::new(2));
        publisher.collect();
        publisher.publish(Watched::new(3));
        publisher.collect();
        reading.join().unwrap();
        assert_eq!(publisher.collect(), 0);
    });
}

#[test]
fn a_reader_that_parks_and_wakes_never_reads_what_is_freed() {
    loom::model(|| {
        let mut publisher = Publisher::new(Watched::new(1));
        let mut reader = publisher.reader().unwrap();
        let reading = thread::spawn(move || {
            assert!(reader.refresh().read() <= 2);
            reader.park();
            assert!(reader.refresh().read() <= 2);
        });
        publisher.publish(Watched::new(2));
        publisher.collect();
        publisher.collect();
        reading.join().unwrap();
    });
}

#[test]
fn once_live_a_generation_is_what_everybody_sees_next() {
    loom::model(|| {
        let mut publisher = Publisher::new(Watched::new(1));
        let mut reader = publisher.reader().unwrap();
        // Parked until it refreshes, and never parked again: the reader comes back with the thread.
        let reading = thread::spawn(move || (reader.refresh().read(), reader));
        let generation = publisher.publish(Watched::new(2));
        let live = publisher.is_live(generation);
        let (seen, mut reader) = reading.join().unwrap();
        assert!(seen == 2 || !live, "it was called live and then not seen");
        assert_eq!(publisher.is_live(generation), seen == 2);
        assert_eq!(reader.refresh().read(), 2);
        assert!(publisher.is_live(generation));
    });
}

#[test]
fn two_readers_are_each_waited_for() {
    // All interleavings of three threads take minutes; those with two forced switches seconds.
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let mut publisher = Publisher::new(Watched::new(1));
        let mut readers = [publisher.reader().unwrap(), publisher.reader().unwrap()];
        readers[0].refresh();
        let threads = readers.map(|mut reader| {
            thread::spawn(move || {
                assert!(reader.refresh().read() <= 2);
            })
        });
        publisher.publish(Watched::new(2));
        publisher.collect();
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(publisher.collect(), 0, "readers that are gone hold nothing");
    });
}

#[test]
fn events_are_complete_and_in_order_or_counted_as_lost() {
    loom::model(|| {
        // Four words: one event of three, or one of two beside another of two, has room.
        let (mut writer, mut reader) = events(32);
        let writing = thread::spawn(move || {
            let first = writer.write([&[1; 16]]);
            let second = writer.write([&[2; 8]]);
            let third = writer.write([&[3; 4], &[4; 4]]);
            [first, second, third]
        });
        let mut seen = Vec::new();
        reader.drain(|event| seen.push(event.to_vec()));
        reader.drain(|event| seen.push(event.to_vec()));
        let taken = writing.join().unwrap();
        assert!(reader.is_closed());
        reader.drain(|event| seen.push(event.to_vec()));
        let all = [vec![1; 16], vec![2; 8], vec![3, 3, 3, 3, 0, 0, 0, 0, 4, 4, 4, 4, 0, 0, 0, 0]];
        let written: Vec<_> = all
            .into_iter()
            .zip(taken)
            .filter_map(|(event, taken)| taken.then_some(event))
            .collect();
        assert_eq!(seen, written);
        assert_eq!(seen.len() as u64 + reader.lost(), 3);
    });
}

#[test]
fn a_closed_ring_has_been_written_to_the_end() {
    loom::model(|| {
        let (mut writer, mut reader) = events(32);
        let writing = thread::spawn(move || {
            writer.write([&[7; 8]]);
        });
        let closed = reader.is_closed();
        let seen = reader.drain(|event| assert_eq!(event, [7; 8]));
        assert!(seen == 1 || !closed, "it was closed, and something followed");
        writing.join().unwrap();
    });
}

#[test]
fn sleeping_reader_is_woken_for_the_next_event() {
    loom::model(|| {
        let (mut writer, mut reader) = events(64);
        let waker = Arc::new(AtomicBool::new(false));
        let ringing = waker.clone();
        let writing = thread::spawn(move || {
            for _ in 0..2 {
                writer.write([&[1; 8]]);
                if writer.must_wake() {
                    ringing.store(true, Ordering::SeqCst);
                }
            }
        });
        let mut seen = 0;
        for _ in 0..2 {
            // Awake: it has heard the bell, and reads what there is.
            waker.store(false, Ordering::SeqCst);
            seen += reader.drain(|_| {});
            if reader.is_empty() {
                break;
            }
            // As it rings for itself where it leaves something.
            waker.store(true, Ordering::SeqCst);
        }
        writing.join().unwrap();
        assert!(seen == 2 || waker.load(Ordering::SeqCst), "it sleeps and misses an item");
    });
}
