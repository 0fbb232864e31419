//! A stuck log delays only the query log.

#[path = "all/common.rs"]
mod common;

use common::{answer, query};
use packet::Transport;
use query_samples::{QueryLogSettings, TapSettings, TapThread, limits};
use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use test_support::wait::until_true;

/// Blocks while the lock is held.
struct Stuck(Arc<Mutex<()>>);

impl Write for Stuck {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _free = self.0.lock();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn stuck_log_delays_only_the_log() {
    let lock = Arc::new(Mutex::new(()));
    let writer = lock.clone();
    tracing_subscriber::fmt().with_writer(move || Stuck(writer.clone())).init();
    let queries = QueryLogSettings { one_in: 1, ..QueryLogSettings::default() };
    let runner =
        TapThread::start(TapSettings { queries, hot_one_in: 1, ..TapSettings::default() }).unwrap();
    let mut tap = runner.tap(1);
    let client = "192.0.2.1:53".parse().unwrap();
    let held = lock.lock();
    answer(&mut tap, client, Transport::Datagram, &query("stuck.example"));
    until_true("the thread to be stuck behind the sketch", || !runner.hot().names.is_empty());
    let started = Instant::now();
    // More than a ring holds.
    (0..20_000).for_each(|_| answer(&mut tap, client, Transport::Datagram, &query("a.example")));
    assert_eq!(runner.status().logged, 0);
    runner.set(TapSettings::default()).expect("settings are taken for later");
    runner.stop();
    let took = started.elapsed();
    assert!(took >= limits::STOP_MAX, "it was not stuck: {took:?}");
    assert!(took < limits::STOP_MAX + Duration::from_secs(30), "{took:?}");
    drop(held);
}
