//! Taps do not allocate on worker threads.

#[path = "all/common.rs"]
mod common;
use test_support::counting;

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

use common::{answer, query};
use counting::calls;
use packet::Transport;
use query_samples::{TapSettings, TapThread};
use test_support::wait::until_true;

#[test]
fn burst_does_not_allocate_even_with_a_full_ring() {
    let runner = TapThread::start(TapSettings { hot_one_in: 1, ..TapSettings::default() }).unwrap();
    let mut tap = runner.tap(1);
    let (client, query) = ("192.0.2.1:53".parse().unwrap(), query("www.example"));
    // The allocations of the test application itself, with an inactive tap.
    let quiet = TapThread::start(TapSettings::default()).unwrap();
    let mut off = quiet.tap(1);
    let before = calls();
    answer(&mut off, client, Transport::Datagram, &query);
    let each = calls() - before;
    assert!(each > 0, "the counter counts");
    let before = calls();
    for _ in 0..20_000 {
        answer(&mut tap, client, Transport::Datagram, &query);
    }
    assert_eq!(calls() - before, 20_000 * each);
    until_true("all to be counted", || runner.status().sampled == 20_000);
}
