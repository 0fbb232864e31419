//! Measurements of a load over AF_XDP, on the two-host bench.

use lab_echo::{Echo, Model};
use lab_host::hosts::{Hosts, Side};
use lab_load::arrivals::{Arrivals, Rate, Spacing};
use lab_load::names::{Order, QuestionSet, QuestionSpec};
use lab_load::query::QueryFormat;
use lab_load::{LoadMode, Options, Path, QuerySource};
use rustix::fs::{FlockOperation, flock};
use std::fs::File;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use test_support::skip::skip;
use wire::Rtype;

pub const NAME: &str = "bypass";
const QUERIES: u64 = 2_000;

/// A load of a second, by whole frames from several sources.
pub fn load(server: SocketAddr) -> Options {
    let form = QueryFormat::default();
    let set =
        Arc::new(QuestionSet::from_pattern("svc-{i}.example", 1_000, Rtype::A, form).unwrap());
    let what = QuestionSpec { set, order: Order::Given, unique: 0.0, nxdomain: 0.0, under: None };
    let rate = Rate::Constant(QUERIES as f64);
    Options {
        path: Path::Xdp,
        when: LoadMode::Open(Arrivals { rate, spacing: Spacing::Even, burst: 1 }),
        length_ns: 1_000_000_000,
        timeout_ns: 2_000_000_000,
        channels: 16,
        sources: "10.98.0.0/16".parse().ok(),
        netns: Some(format!("{NAME}-{}", Side::Client)),
        ..Options::new(server, QuerySource::Questions(what.into()))
    }
}

/// Hosts that are removed when this is dropped.
pub struct Up;

impl Drop for Up {
    fn drop(&mut self) {
        // The next creation reports a leftover that cannot be removed.
        let _ = Hosts::down(NAME, false);
    }
}

/// Devices count frames that come and go past the stack. Sockets do not: where they cannot have
/// read what was answered, nothing is said of them.
#[test]
fn packet_balance_over_af_xdp_leaves_out_unknown_counts() {
    if !rustix::process::geteuid().is_root() {
        return skip("the two-host bench needs root");
    }
    let alone = File::create("/run/lock/dunlin-bench").unwrap();
    flock(&alone, FlockOperation::LockExclusive).unwrap();
    let options = match lab_host::hosts::Options::new(NAME, None, None) {
        Ok(options) => options,
        Err(missing) => return skip(&missing),
    };
    Hosts::up(&options).unwrap();
    let _up = Up;
    let server = "10.99.0.1:5300".parse().unwrap();
    for model in [Model::Recvmmsg, Model::AfXdp] {
        let netns = Some(format!("{NAME}-{}", Side::Server));
        let options = lab_echo::Options { netns, ..lab_echo::Options::new(server, model) };
        let echo = Echo::start(options).unwrap();
        let stop = AtomicBool::new(false);
        let run = lab::observer::measure(&load(server), &[], &stop, &mut |_| {}).unwrap();
        let (balance, counts) = (&run.measurements.balance, run.report.counts);
        assert!(counts.answered > 0, "{model:?}: {counts:?}");
        let by_sockets = model == Model::Recvmmsg;
        for (place, count) in balance.places() {
            let is_of_sockets = place.contains("sockets") || place == "answered by the server";
            // Neighbor discovery sends packets, too.
            let all = counts.answered..=counts.sent + 100;
            let is_right = count.is_some_and(|count| all.contains(&count));
            let is_unknown = count.is_none() && is_of_sockets && !by_sockets;
            assert!(is_right || is_unknown, "{model:?}: {count:?} {place}: {balance:?}");
        }
        // On a machine that does other things rings may have been full: the report says so.
        let d = &run.measurements.drops;
        let dropped = [d.server_socket, d.server_device, d.generator_socket, d.generator_device];
        let dropped: u64 = dropped.into_iter().flatten().sum();
        let lost = counts.sent - counts.answered - counts.late;
        assert_eq!(lost, dropped, "{model:?}: {:?}", run.measurements);
        echo.stop().unwrap();
    }
}
