//! On the plane's threads the tap never allocates.

mod common;

use common::{answer, query};
use packet::Transport;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use tap::{Runner, Settings};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, counting what this thread asks of it.
struct Counting;

// SAFETY: everything is passed on to the system's allocator; counting does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promises are the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are the same.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn a_burst_allocates_nothing_even_when_the_ring_is_full() {
    let runner = Runner::start(Settings { hot_one_in: 1, ..Settings::default() }).unwrap();
    let mut tap = runner.tap(1);
    let (client, query) = ("192.0.2.1:53".parse().unwrap(), query("www.example"));
    // What the test's application allocates for each reply, with a tap that is off.
    let quiet = Runner::start(Settings::default()).unwrap();
    let mut off = quiet.tap(1);
    let before = ALLOCATIONS.get();
    answer(&mut off, client, Transport::Datagram, &query);
    let each = ALLOCATIONS.get() - before;
    assert!(each > 0, "the counter counts");
    let before = ALLOCATIONS.get();
    for _ in 0..20_000 {
        answer(&mut tap, client, Transport::Datagram, &query);
    }
    assert_eq!(ALLOCATIONS.get() - before, 20_000 * each);
    common::wait_for("all to be counted", || runner.status().sampled == 20_000);
}
