//! A sample status of a running server, for tests.
use server_status::{
    ConfigStatus, HotEntry, HottestNames, Process, ServerState, Status, StatusHistogram,
    StreamStatus, ThreadStatus, ZoneState, ZoneStatus,
};

/// The time of the sample, in seconds since 1970.
pub const NOW: f64 = 1_795_269_603.0;

/// A status with so many workers and zones; `times` scales all counters.
pub fn status(workers: usize, zones: usize, times: u64) -> Status {
    let mut threads: Vec<ThreadStatus> =
        (0..workers).map(|n| thread(&format!("worker-{n}"), "udp", Some(n), times)).collect();
    threads.push(thread("streams-0", "tcp", None, times / 10));
    let rank = |what: &str, share| HotEntry { what: what.into(), share };
    Status {
        version: "0.1.0".into(),
        pid: 4_242,
        state: ServerState::Serving,
        started_seconds: NOW - 7_980.0,
        gathered_seconds: NOW,
        listen: vec!["0.0.0.0:53".into(), "[::]:53".into()],
        config: ConfigStatus {
            file: "/etc/dunlin/dunlin.toml".into(),
            loaded_seconds: NOW - 7_980.0,
            ..ConfigStatus::default()
        },
        generation: 12,
        generation_seconds: NOW - 190.0,
        zones: (0..zones).map(zone).collect(),
        threads,
        streams: StreamStatus {
            open: 12,
            open_max: 1_024,
            buffered_bytes: 80 << 10,
            buffered_bytes_max: 160 << 20,
            accepted: 4_312,
            closed: [("idle".to_owned(), 2), ("slow".to_owned(), 0)].into(),
        },
        imbalance: 1.034,
        process: Process {
            resident_bytes: 50_541_363,
            cpu_seconds: 754.2,
            open_files: 63,
            open_files_max: 65_536,
            dropped_datagrams: 0,
        },
        hot: HottestNames {
            samples: 12_000,
            names: vec![
                rank("kubernetes.default.svc.cluster.local.", 0.214),
                rank("api.checkout-prod.svc.cluster.local.", 0.087),
                rank("example.org.", 0.012),
            ],
            clients: vec![rank("10.244.3.17", 0.31), rank("fd00:10:244::2a", 0.045)],
        },
        ..Status::default()
    }
}

fn zone(n: usize) -> ZoneStatus {
    ZoneStatus {
        name: format!("zone-{n}.example."),
        file: format!("/etc/dunlin/zone-{n}.zone"),
        state: ZoneState::Current,
        serial: Some(2_026_112_101 + n as u32),
        records: 1_234 * (n as u64 % 7) + 4,
        loaded_seconds: Some(NOW - 190.0 * (n as f64 + 1.0)),
        ..ZoneStatus::default()
    }
}

fn thread(name: &str, transport: &str, cpu: Option<usize>, times: u64) -> ThreadStatus {
    let counted = |counts: &[(&str, u64)]| {
        counts.iter().map(|(what, count)| ((*what).to_owned(), count * times)).collect()
    };
    ThreadStatus {
        name: name.into(),
        transport: transport.into(),
        cpu,
        bursts: 40 * times,
        received: 1_000 * times,
        replied: 998 * times,
        dropped: counted(&[("short", 1), ("rate_limited", 1), ("undecided", 0)]),
        rcodes: counted(&[("NOERROR", 900), ("NXDOMAIN", 97), ("SERVFAIL", 1), ("REFUSED", 0)]),
        types: counted(&[("A", 600), ("AAAA", 390), ("SRV", 8), ("other", 0)]),
        truncated: 2 * times,
        notifies: counted(&[("accepted", 0)]),
        panics: 0,
        latency: StatusHistogram {
            bounds_seconds: vec![0.00001, 0.00002, 0.00008, 0.001, 1.0],
            counts: [300, 500, 190, 8, 0, 0].map(|count| count * times).into(),
            sum_seconds: 0.02 * times as f64,
        },
    }
}
