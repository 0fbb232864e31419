//! The snapshot under real threads, and its bookkeeping in one.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use sync::limits::READERS_MAX;
use sync::{Publisher, ReadersFull};

/// A value that knows whether it was dropped and counts how many are alive.
struct Canary {
    number: u64,
    mark: u64,
    alive: Arc<AtomicUsize>,
}

const ALIVE: u64 = 0x5eed_5eed_5eed_5eed;

impl Canary {
    fn new(number: u64, alive: &Arc<AtomicUsize>) -> Self {
        alive.fetch_add(1, Ordering::Relaxed);
        Self { number, mark: ALIVE, alive: alive.clone() }
    }
}

impl Drop for Canary {
    fn drop(&mut self) {
        self.mark = 0;
        self.alive.fetch_sub(1, Ordering::Relaxed);
    }
}

#[test]
fn an_image_is_freed_when_its_last_reader_moves_on_or_parks() {
    let alive = Arc::new(AtomicUsize::new(0));
    let mut publisher = Publisher::new(Canary::new(1, &alive));
    let mut one = publisher.reader().unwrap();
    let mut two = publisher.reader().unwrap();
    assert_eq!((one.refresh().number, two.refresh().number), (1, 1));

    assert_eq!(publisher.publish(Canary::new(2, &alive)), 2);
    assert_eq!(publisher.collect(), 1, "both readers may still read the first image");
    assert!(publisher.is_live(1) && !publisher.is_live(2));
    assert_eq!(one.refresh().number, 2);
    assert_eq!(publisher.collect(), 1, "one reader may");
    two.park();
    assert_eq!(publisher.collect(), 0);
    assert!(publisher.is_live(2), "one reader has it, the other is parked");
    assert!(!publisher.is_live(3), "nothing was published under 3");
    assert_eq!(alive.load(Ordering::Relaxed), 1);
    assert_eq!(two.refresh().number, 2);
}

#[test]
fn an_idle_active_reader_holds_every_later_image() {
    let alive = Arc::new(AtomicUsize::new(0));
    let mut publisher = Publisher::new(Canary::new(1, &alive));
    let mut reader = publisher.reader().unwrap();
    reader.refresh();
    for number in 2..=10 {
        publisher.publish(Canary::new(number, &alive));
    }
    assert_eq!(publisher.collect(), 9);
    reader.refresh();
    assert_eq!(publisher.collect(), 0);
}

#[test]
fn a_dropped_reader_holds_nothing_and_its_place_is_free() {
    let mut publisher = Publisher::new(1);
    let mut readers: Vec<_> = (0..READERS_MAX).map(|_| publisher.reader().unwrap()).collect();
    assert_eq!(publisher.reader().err(), Some(ReadersFull));
    readers[0].refresh();
    publisher.publish(2);
    assert_eq!(publisher.collect(), 1);
    readers.remove(0);
    assert_eq!(publisher.collect(), 0);
    assert!(publisher.reader().is_ok());
}

#[test]
fn everything_is_freed_whoever_goes_first() {
    let alive = Arc::new(AtomicUsize::new(0));
    let mut publisher = Publisher::new(Canary::new(1, &alive));
    let mut reader = publisher.reader().unwrap();
    reader.refresh();
    publisher.publish(Canary::new(2, &alive));
    drop(publisher);
    assert_eq!(alive.load(Ordering::Relaxed), 2);
    assert_eq!(reader.refresh().number, 2, "a reader outlives its publisher");
    drop(reader);
    assert_eq!(alive.load(Ordering::Relaxed), 0);
}

#[test]
fn readers_never_see_a_freed_or_an_older_image() {
    const IMAGES: u64 = 20_000;
    const STOP: u64 = IMAGES + 1;
    let alive = Arc::new(AtomicUsize::new(0));
    let mut publisher = Publisher::new(Canary::new(1, &alive));
    let readers: Vec<_> = (0..3).map(|_| publisher.reader().unwrap()).collect();
    std::thread::scope(|scope| {
        for (index, mut reader) in readers.into_iter().enumerate() {
            scope.spawn(move || {
                let mut last = 0;
                for turn in 0u64.. {
                    let seen = reader.refresh();
                    assert_eq!(seen.mark, ALIVE);
                    assert!(seen.number >= last, "{} after {last}", seen.number);
                    last = seen.number;
                    if last == STOP {
                        break;
                    }
                    if turn % (index as u64 + 2) == 0 {
                        reader.park();
                    }
                }
            });
        }
        for number in 2..=IMAGES {
            let generation = publisher.publish(Canary::new(number, &alive));
            publisher.collect();
            if number % 64 == 0 {
                while !publisher.is_live(generation) {
                    std::thread::yield_now();
                }
            }
        }
        publisher.publish(Canary::new(STOP, &alive));
    });
    drop(publisher);
    assert_eq!(alive.load(Ordering::Relaxed), 0);
}
