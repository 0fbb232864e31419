//! The query log goes into a log that is stuck: nobody else is.

mod common;

use common::{answer, query, wait_for};
use packet::Transport;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tap::{Queries, Runner, Settings, limits};

/// Writes while nobody holds the lock.
struct Stuck(Arc<Mutex<()>>);

impl Write for Stuck {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        let _free = self.0.lock();
        Ok(octets.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_stuck_log_delays_nobody_but_the_log() {
    let lock = Arc::new(Mutex::new(()));
    let writer = lock.clone();
    tracing_subscriber::fmt().with_writer(move || Stuck(writer.clone())).init();
    let queries = Queries { one_in: 1, ..Queries::default() };
    let runner = Runner::start(Settings { queries, hot_one_in: 1, ..Settings::default() }).unwrap();
    let mut tap = runner.tap(1);
    let client = "192.0.2.1:53".parse().unwrap();
    let held = lock.lock();
    answer(&mut tap, client, Transport::Datagram, &query("stuck.example"));
    wait_for("the thread to be stuck behind the sketch", || !runner.hot().names.is_empty());
    let started = Instant::now();
    // More than a ring holds.
    (0..20_000).for_each(|_| answer(&mut tap, client, Transport::Datagram, &query("a.example")));
    assert_eq!(runner.status().logged, 0);
    runner.set(Settings::default()).expect("settings are taken for later");
    runner.stop();
    let took = started.elapsed();
    assert!(took >= limits::STOP_MAX, "it was not stuck: {took:?}");
    assert!(took < limits::STOP_MAX + Duration::from_secs(30), "{took:?}");
    drop(held);
}
