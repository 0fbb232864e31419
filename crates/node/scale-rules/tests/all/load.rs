//! The mode `load`: what raises the count, what lets it fall, what keeps it.
#[allow(dead_code, reason = "each test uses some of it")]
use crate::common::{asked, scaler, seen};
use scale_rules::{Demand, Scaler};

const LOAD: &str = r#"{"load": {"capacity": 1000, "p99Ms": 50, "k": 1, "headroom": 1.3,
    "utilization": 0.7, "floor": {"linear": {"nodesPerReplica": 2}}}}"#;

/// Decides every 10 seconds of a span, and returns the last count.
fn run(scaler: &mut Scaler, span: std::ops::Range<u32>, mut replicas: u32, qps: f64) -> u32 {
    for time in span.step_by(10) {
        replicas = scaler.decide(&asked(seen(time.into(), 4, replicas), qps)).replicas;
    }
    replicas
}

#[test]
fn each_term_can_decide() {
    let mut loaded = asked(seen(0.0, 4, 2), 10_000.0);
    let decide = |params: &str, seen| scaler(params).decide(&seen);
    assert_eq!(decide(LOAD, loaded).replicas, 19, "10000 x 1.3 / 700");
    assert_eq!(decide(r#"{"load": {"capacity": 1000}}"#, loaded).replicas, 15, "10000 x 1.2 / 800");
    let spare = r#"{"load": {"capacity": 1000, "headroom": 1, "utilization": 1, "k": 5}}"#;
    assert_eq!(decide(spare, loaded).replicas, 15);
    loaded.largest_zone = 0.5;
    assert_eq!(decide(spare, loaded).replicas, 20, "half of them are enough");
    assert_eq!(decide(LOAD, asked(seen(0.0, 30, 2), 10.0)).replicas, 15, "the floor");
    assert_eq!(decide(LOAD, asked(seen(0.0, 1, 1), 0.0)).replicas, 2, "min");
    let decision = decide(LOAD, asked(seen(0.0, 1, 1), 1e300));
    assert_eq!(decision.replicas, 50, "max");
    assert!(decision.reason.ends_with("max is 50"), "{}", decision.reason);
}

#[test]
fn known_capacity_is_used_and_nonsense_is_not() {
    let mut loaded = asked(seen(0.0, 4, 2), 10_000.0);
    loaded.capacity = Some(2_000.0);
    assert_eq!(scaler(LOAD).decide(&loaded).replicas, 10, "10000 x 1.3 / 1400");
    for nonsense in [f64::NAN, 0.0, -1.0, f64::INFINITY] {
        loaded.capacity = Some(nonsense);
        assert_eq!(scaler(LOAD).decide(&loaded).replicas, 19, "{nonsense}");
    }
}

/// Metrics that are stale or lie never lower the count; the floor still raises it.
#[test]
fn stale_metrics_keep_the_count() {
    let mut scaler = scaler(LOAD);
    assert_eq!(run(&mut scaler, 0..600, 2, 6_000.0), 12);
    for time in (600..3_000).step_by(10) {
        let mut stale = seen(f64::from(time), 4, 12);
        let lies = [None, Some(f64::NAN), Some(f64::INFINITY), Some(-5.0)];
        let lie = lies[(time / 10) as usize % lies.len()];
        stale.demand = lie.map(|qps| Demand { qps, dropped: 0.0, p99_ms: None });
        let decision = scaler.decide(&stale);
        assert_eq!(decision.replicas, 12, "{}", decision.reason);
        assert!(decision.reason.contains("stale"), "{}", decision.reason);
    }
    assert_eq!(scaler.decide(&seen(3_000.0, 60, 12)).replicas, 30, "the floor is higher");
    assert_eq!(run(&mut scaler, 3_010..3_620, 12, 100.0), 12, "quiet begins with fresh metrics");
    assert_eq!(run(&mut scaler, 3_620..3_630, 12, 100.0), 8);
}

#[test]
fn broken_objective_raises_at_once_and_within_bounds() {
    let mut scaler = scaler(LOAD);
    assert_eq!(run(&mut scaler, 0..600, 2, 5_000.0), 10);
    let slow = |time: u32, replicas| {
        let mut slow = seen(time.into(), 4, replicas);
        slow.demand = Some(Demand { qps: 5_000.0, dropped: 0.0, p99_ms: Some(80.0) });
        slow
    };
    let decision = scaler.decide(&slow(600, 10));
    assert_eq!(decision.replicas, 13, "{}", decision.reason);
    assert!(decision.reason.contains("p99 is 80 ms, the objective 50 ms"), "{}", decision.reason);
    assert_eq!(scaler.decide(&slow(610, 13)).replicas, 13, "replicas need time to start");
    assert_eq!(scaler.decide(&slow(660, 13)).replicas, 17);
    let mut replicas = 17;
    for time in (720..4_000).step_by(10) {
        replicas = scaler.decide(&slow(time, replicas)).replicas;
    }
    assert_eq!(replicas, 20, "more than twice what the load asks for does not help");
}

#[test]
fn dropped_queries_raise_at_once() {
    let mut scaler = scaler(LOAD);
    run(&mut scaler, 0..100, 2, 1_000.0);
    let mut dropping = seen(100.0, 4, 2);
    dropping.demand = Some(Demand { qps: 1_000.0, dropped: 0.05, p99_ms: None });
    let decision = scaler.decide(&dropping);
    assert_eq!(decision.replicas, 3, "{}", decision.reason);
    assert!(decision.reason.contains("5.0 % of the queries are dropped"), "{}", decision.reason);
}

#[test]
fn nothing_falls_during_a_rollout() {
    let mut scaler = scaler(LOAD);
    for time in (0..2_000).step_by(10) {
        let mut rolling = asked(seen(f64::from(time), 4, 9), 100.0);
        rolling.is_rolling_out = true;
        assert_eq!(scaler.decide(&rolling).replicas, 9);
    }
    let decision = scaler.decide(&asked(seen(2_000.0, 4, 9), 100.0));
    assert_eq!(decision.replicas, 6, "{}", decision.reason);
}

#[test]
fn falls_are_a_third_every_three_minutes_after_ten_quiet_ones() {
    let mut scaler = scaler(LOAD);
    let mut replicas = run(&mut scaler, 0..10, 2, 20_000.0);
    let mut falls = Vec::new();
    for time in (10..3_600).step_by(10) {
        let next = scaler.decide(&asked(seen(f64::from(time), 4, replicas), 100.0)).replicas;
        if next != replicas {
            falls.push((time, next));
        }
        replicas = next;
    }
    assert_eq!(
        falls,
        [
            (620, 26),
            (800, 18),
            (980, 12),
            (1_160, 8),
            (1_340, 6),
            (1_520, 4),
            (1_700, 3),
            (1_880, 2)
        ]
    );
}

/// A random course: no fall within 10 minutes of a rise, and no count out of bounds.
#[test]
fn no_course_falls_within_ten_minutes_of_a_rise() {
    let seed = fastrand::u64(..);
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..50 {
        let mut scaler = scaler(LOAD);
        let (mut replicas, mut risen_s, mut stepped_s) = (2, f64::NEG_INFINITY, f64::NEG_INFINITY);
        let mut time_s = 0.0;
        for _ in 0..500 {
            time_s += random.f64() * 30.0;
            let mut next = asked(seen(time_s, random.u64(1..40), replicas), random.f64() * 2e4);
            if random.u8(..) < 20 {
                next.demand = None;
            }
            next.largest_zone = random.f64();
            next.unschedulable = u32::from(random.u8(..) < 20);
            let decided = scaler.decide(&next).replicas;
            assert!((2..=50).contains(&decided), "seed {seed}");
            if decided > replicas {
                risen_s = time_s;
            }
            if decided < replicas {
                assert!(
                    time_s - risen_s >= 600.0,
                    "seed {seed}: fell {} s after a rise",
                    time_s - risen_s
                );
                assert!(time_s - stepped_s >= 180.0, "seed {seed}");
                assert!(replicas - decided <= (replicas / 3).max(1), "seed {seed}");
                stepped_s = time_s;
            }
            replicas = decided;
        }
    }
}
