//! Builds the status on request. SIGUSR1 logs the counters.
use crate::threads::ThreadCounters;
use answer::{NOTIFY_NAMES, TYPE_NAMES};
use handler::{FIRST_NOTIFY, FIRST_TYPE, NETWORK_RCODES, PANICS, PROBE_ANSWERS, TRUNCATED};
use packet::DropReason;
use server_status::{NetworkStatus, PanicStatus, StatusHistogram, StreamStatus, ThreadStatus};
use std::collections::BTreeMap;
use std::time::Duration;
use sync::CountersView;
use wire::Rcode;
use worker::{Connections, LatencyHistogram, WorkerTotals};

/// The counters of one thread.
pub fn thread(counted: &ThreadCounters) -> ThreadStatus {
    let ThreadCounters { name, transport, cpu, plane, answers, .. } = counted;
    let totals = WorkerTotals::sum([plane]);
    let answers = answers.read();
    let named = |names: &mut dyn Iterator<Item = &'static str>, counts: &[u64]| {
        names.map(str::to_owned).zip(counts.iter().copied()).collect::<BTreeMap<_, _>>()
    };
    ThreadStatus {
        name: name.clone(),
        transport: (*transport).to_owned(),
        cpu: *cpu,
        bursts: totals.bursts,
        received: totals.received,
        replied: totals.replied,
        dropped: named(&mut DropReason::ALL.iter().map(|reason| reason.name()), &totals.dropped),
        rcodes: named(&mut Rcode::ALL.iter().map(|rcode| rcode.name()), &answers),
        types: named(&mut TYPE_NAMES.iter().copied(), &answers[FIRST_TYPE..]),
        truncated: answers[TRUNCATED],
        notifies: named(&mut NOTIFY_NAMES.iter().copied(), &answers[FIRST_NOTIFY..]),
        panics: answers[PANICS],
        latency: histogram(&totals.latency),
    }
}

/// The answers of all threads to queries of the server itself through its announced addresses.
pub fn probe_answers(counters: &[ThreadCounters]) -> u64 {
    counters.iter().map(|counted| counted.answers.read()[PROBE_ANSWERS]).sum()
}

/// Replies by network and response code, of all threads.
pub fn networks(counters: &[ThreadCounters], names: &[String]) -> Vec<NetworkStatus> {
    let sums = CountersView::sum(counters.iter().map(|counted| &counted.by_network));
    let of = |(name, counts): (&String, &[u64])| {
        let codes = NETWORK_RCODES.iter().zip(counts).filter(|(_, count)| **count > 0);
        let rcodes = codes.map(|(rcode, count)| (rcode.name().to_owned(), *count)).collect();
        NetworkStatus { name: name.clone(), rcodes }
    };
    let all = names.iter().zip(sums.chunks_exact(NETWORK_RCODES.len())).map(of);
    all.filter(|network| !network.rcodes.is_empty()).collect()
}

/// The panics of all threads.
pub fn panics(counters: &[ThreadCounters]) -> PanicStatus {
    let count = counters.iter().map(|counted| counted.answers.read()[PANICS]).sum();
    counters.first().map_or_else(PanicStatus::default, |first| first.panics.status(count))
}

fn histogram(latency: &LatencyHistogram) -> StatusHistogram {
    StatusHistogram {
        bounds_seconds: LatencyHistogram::bounds().iter().map(Duration::as_secs_f64).collect(),
        counts: latency.counts.into(),
        sum_seconds: latency.sum.as_secs_f64(),
    }
}

/// The status of TCP and TLS connections.
pub fn streams(connections: &Connections, open_max: usize, memory_max: u64) -> StreamStatus {
    StreamStatus {
        open: connections.open,
        open_max: open_max as u64,
        buffered_bytes: connections.buffered,
        buffered_bytes_max: memory_max,
        accepted: connections.accepted,
        closed: connections.by_name().map(|(name, count)| (name.to_owned(), count)).collect(),
    }
}

/// The most packets received by a worker divided by the mean; 1 is even, also without packets.
pub fn imbalance(threads: &[ThreadStatus]) -> f64 {
    let workers = threads.iter().filter(|thread| thread.transport == "udp");
    let received: Vec<u64> = workers.map(|thread| thread.received).collect();
    let sum: u64 = received.iter().sum();
    let most = received.iter().max().copied().unwrap_or_default();
    if sum == 0 { 1.0 } else { most as f64 * received.len() as f64 / sum as f64 }
}

/// Logs the counters of each thread, and of all.
pub fn log(threads: &[ThreadStatus]) {
    threads.iter().for_each(log_line);
    log_line(&sum(threads));
    let imbalance = imbalance(threads);
    tracing::info!(imbalance, "most received by a worker, over the mean");
}

/// The sum over all threads.
pub fn sum(threads: &[ThreadStatus]) -> ThreadStatus {
    let mut all = ThreadStatus { name: "all".to_owned(), ..ThreadStatus::default() };
    threads.iter().for_each(|thread| add(&mut all, thread));
    all
}

fn add(sum: &mut ThreadStatus, thread: &ThreadStatus) {
    sum.bursts += thread.bursts;
    sum.received += thread.received;
    sum.replied += thread.replied;
    sum.truncated += thread.truncated;
    sum.panics += thread.panics;
    let counts = [
        (&mut sum.dropped, &thread.dropped),
        (&mut sum.rcodes, &thread.rcodes),
        (&mut sum.notifies, &thread.notifies),
    ];
    for (sums, counts) in counts {
        for (name, count) in counts {
            *sums.entry(name.clone()).or_default() += count;
        }
    }
}

fn log_line(thread: &ThreadStatus) {
    let named = |counts: &BTreeMap<String, u64>| -> String {
        let some = counts.iter().filter(|(_, count)| **count > 0);
        some.map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", ")
    };
    let ThreadStatus { name, bursts, received, replied, truncated, .. } = thread;
    let (answers, dropped) = (named(&thread.rcodes), named(&thread.dropped));
    tracing::info!(
        thread = name,
        bursts,
        received,
        replied,
        truncated,
        answers,
        dropped,
        "counters"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imbalance_is_one_when_even() {
        let threads = |counts: &[u64]| -> Vec<ThreadStatus> {
            let udp = counts.iter().map(|&received| ("udp", received)).chain([("tcp", 99)]);
            udp.map(|(transport, received)| {
                let transport = transport.to_owned();
                ThreadStatus { transport, received, ..ThreadStatus::default() }
            })
            .collect()
        };
        assert_eq!(imbalance(&threads(&[5, 5])), 1.0);
        assert_eq!(imbalance(&threads(&[30, 10])), 1.5);
        assert_eq!(imbalance(&threads(&[0, 0])), 1.0);
        assert_eq!(imbalance(&[]), 1.0);
    }
}
