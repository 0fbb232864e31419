//! Metrics of replicas: what they come to, and what lies.
use scale_rules::cost::Costs;
use scale_rules::replicas::{Meter, Sample, Work, parse};

const DUNLIN: &str = "\
# HELP dunlin_messages_received_total Messages received.
# TYPE dunlin_messages_received_total counter
dunlin_messages_received_total{thread=\"0\",transport=\"udp\"} 700
dunlin_messages_received_total{thread=\"1\",transport=\"udp\"} 300
dunlin_messages_dropped_total{thread=\"0\",transport=\"udp\",reason=\"unsent\"} 5
dunlin_messages_dropped_total{thread=\"0\",transport=\"udp\",reason=\"denied\"} 50
dunlin_socket_dropped_datagrams_total 40
dunlin_cache_lookups_total{result=\"hit\"} 90
dunlin_cache_lookups_total{result=\"miss\"} 10
dunlin_reply_duration_seconds_bucket{thread=\"0\",le=\"0.001\"} 600
dunlin_reply_duration_seconds_bucket{thread=\"0\",le=\"+Inf\"} 700
dunlin_reply_duration_seconds_bucket{thread=\"1\",le=\"0.001\"} 300
dunlin_reply_duration_seconds_bucket{thread=\"1\",le=\"+Inf\"} 300
process_cpu_seconds_total 1.5
";

#[test]
fn metrics_of_dunlin_and_coredns_are_read() {
    let sample = parse(DUNLIN).expect("metrics");
    let latencies = vec![(0.001, 900.0), (f64::INFINITY, 1_000.0)];
    let expected = Sample { queries: 1_040.0, dropped: 45.0, misses: 10.0, cpu_s: 1.5, latencies };
    assert_eq!(sample, expected);
    let coredns = "coredns_dns_requests_total{family=\"1\",type=\"A\"} 4 1700000000\n\
        coredns_dns_requests_total{family=\"1\",type=\"AAAA\"} 6\n\
        coredns_cache_misses_total{server=\"dns://:53\"} 3\nprocess_cpu_seconds_total 2e1\n\
        coredns_dns_request_duration_seconds_bucket{zone=\".\",le=\"0.00025\"} 9\n";
    let sample = parse(coredns).expect("metrics");
    assert_eq!((sample.queries, sample.misses, sample.cpu_s), (10.0, 3.0, 20.0));
}

#[test]
fn lying_metrics_are_refused() {
    for (text, expected) in [
        ("", "no counter of queries"),
        ("<html>moved</html>", "no counter of queries"),
        ("dunlin_messages_received_total NaN", "not a finite positive number"),
        ("dunlin_messages_received_total -5", "not a finite positive number"),
        ("dunlin_messages_received_total{thread=\"0\"} +Inf", "not a finite positive number"),
        ("dunlin_messages_received_total{", "not a finite positive number"),
        ("coredns_dns_requests_total 1\nprocess_cpu_seconds_total \u{1b}[2J", "\u{fffd}[2J"),
    ] {
        let error = parse(text).expect_err(text);
        assert!(error.contains(expected), "{error}");
    }
}

fn sample(queries: f64, cpu_s: f64) -> Sample {
    Sample { queries, cpu_s, ..Sample::default() }
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|index| format!("pod-{index}")).collect()
}

#[test]
fn demand_is_the_sum_of_rates() {
    let (mut meter, pods) = (Meter::default(), names(2));
    for pod in &pods {
        assert_eq!(meter.add(pod, 0.0, parse(DUNLIN).expect("metrics")), None);
    }
    assert_eq!(meter.demand(0.0, &pods), None, "there is no rate of one sample");
    for pod in &pods {
        let mut next = parse(DUNLIN).expect("metrics");
        (next.queries, next.dropped) = (next.queries + 5_000.0, next.dropped + 50.0);
        next.latencies = vec![(0.001, 900.0 + 4_000.0), (f64::INFINITY, 1_000.0 + 4_010.0)];
        assert!(meter.add(pod, 10.0, next).is_some());
    }
    let demand = meter.demand(10.0, &pods).expect("a demand");
    assert_eq!((demand.qps, demand.dropped, demand.p99_ms), (1_000.0, 0.01, Some(1.0)));
}

/// A replica that starts again keeps its last rate; one that has just come counts as nothing; most
/// must be known.
#[test]
fn resets_new_and_silent_replicas_are_distinguished() {
    let (mut meter, pods) = (Meter::default(), names(4));
    for time in [0.0, 10.0] {
        meter.add(&pods[0], time, sample(time * 100.0, time));
        meter.add(&pods[1], time, sample(time * 100.0, time));
    }
    assert_eq!(meter.demand(10.0, &pods[..2]).expect("a demand").qps, 200.0);
    assert_eq!(meter.add(&pods[0], 20.0, sample(5.0, 0.1)), None, "begun anew");
    assert_eq!(meter.demand(20.0, &pods[..2]).expect("a demand").qps, 200.0);
    meter.add(&pods[2], 20.0, sample(1e9, 5.0));
    assert_eq!(meter.demand(20.0, &pods).expect("a demand").qps, 200.0, "3 of 4 are known");
    let many = [pods.clone(), names(9)[4..].to_vec()].concat();
    assert_eq!(meter.demand(20.0, &many), None, "3 of 9");
    assert_eq!(meter.demand(90.0, &pods), None, "too old");
}

fn work(qps: f64, misses: f64, cpus: f64) -> Work {
    Work { qps, misses, cpus, ..Work::default() }
}

#[test]
fn capacity_follows_the_cpu_time_of_a_query() {
    let mut costs = Costs::default();
    let small = vec!["small".to_owned()];
    assert_eq!(costs.capacity(&small, 0.1, 0.0, 2_000.0), 2_000.0, "no evidence");
    for tick in 1..=10 {
        costs.add("small", 0.1, f64::from(tick) * 10.0, 10.0, &work(2_000.0, 0.0, 0.08));
    }
    let capacity = costs.capacity(&small, 0.1, 0.0, 2_000.0);
    assert!((capacity - 2_500.0).abs() < 1.0, "{capacity}");
    let both = ["small", "other"].map(String::from);
    let mixed = costs.capacity(&both, 0.1, 0.0, 2_000.0);
    assert!((mixed - 2_250.0).abs() < 1.0, "{mixed}");
    assert_eq!(costs.capacity(&small, 0.1, 0.0, 100.0), 400.0, "four times at most");
    assert_eq!(costs.capacity(&small, 0.1, 0.0, 1e6), 250_000.0);
}

#[test]
fn misses_cost_apart() {
    let mut costs = Costs::default();
    for tick in 1..=60 {
        let misses = f64::from(tick % 7) * 50.0;
        let cpus = (1_000.0 - misses) * 20e-6 + misses * 200e-6;
        costs.add("a", 0.1, f64::from(tick) * 10.0, 10.0, &work(1_000.0, misses, cpus));
    }
    let cost = costs.cost("a").expect("evidence");
    assert!((cost.hit_s - 20e-6).abs() < 1e-7 && (cost.miss_s - 200e-6).abs() < 1e-6, "{cost:?}");
    let capacity = costs.capacity(&["a".to_owned()], 1.0, 0.5, 9_000.0);
    assert!((capacity - 1.0 / 110e-6).abs() < 10.0, "{capacity}");
}

/// A query of an idle replica costs more than one under load. That says nothing of what it carries.
#[test]
fn idle_replicas_are_no_evidence() {
    let mut costs = Costs::default();
    for tick in 1..=600 {
        let time_s = f64::from(tick) * 10.0;
        costs.add("a", 0.1, time_s, 10.0, &work(100.0, 0.0, 0.02));
    }
    assert_eq!(costs.cost("a"), None);
    // Half of what is offered is dropped by the kernel, which costs the replica nothing.
    let busy = Work { dropped: 2_000.0, ..work(4_000.0, 0.0, 0.06) };
    costs.add("a", 0.1, 6_010.0, 20.0, &busy);
    let cost = costs.cost("a").expect("evidence");
    assert!((cost.hit_s - 30e-6).abs() < 1e-9, "{cost:?}");
}

#[test]
fn node_types_are_bounded() {
    let mut costs = Costs::default();
    for index in 0..1_000 {
        costs.add(&index.to_string(), 1.0, 10.0, 10.0, &work(1_000.0, 0.0, 1.0));
    }
    assert!(costs.cost("31").is_some() && costs.cost("32").is_none());
}
