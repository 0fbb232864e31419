//! On the plane's threads the tap never allocates.

mod common;
#[path = "../../../tests/counting.rs"]
mod counting;

use common::{answer, query};
use counting::calls;
use packet::Transport;
use tap::{Runner, Settings};

#[test]
fn a_burst_allocates_nothing_even_when_the_ring_is_full() {
    let runner = Runner::start(Settings { hot_one_in: 1, ..Settings::default() }).unwrap();
    let mut tap = runner.tap(1);
    let (client, query) = ("192.0.2.1:53".parse().unwrap(), query("www.example"));
    // What the test's application allocates for each reply, with a tap that is off.
    let quiet = Runner::start(Settings::default()).unwrap();
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
    common::wait_for("all to be counted", || runner.status().sampled == 20_000);
}
