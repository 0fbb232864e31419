//! The traps of the cluster-proportional-autoscaler, each as Dunlin decides.
#[allow(dead_code, reason = "each test uses some of it")]
use crate::common::{away, scaler, seen};
use scale_rules::{Dialect, Params, Scaler};

const LINEAR: &str = r#"{"linear": {"nodesPerReplica": 1}}"#;

#[test]
fn single_point_of_failure_is_prevented_within_max() {
    let params = r#"{"linear": {"nodesPerReplica": 16, "min": 1, "max": 1,
        "preventSinglePointFailure": true}}"#;
    assert_eq!(scaler(params).decide(&seen(0.0, 5, 1)).replicas, 1);
    let cpa = Params::from_file(params, Dialect::Cpa).expect("parameters");
    assert_eq!(Scaler::new(cpa).decide(&seen(0.0, 5, 1)).replicas, 2);
    let wider = params.replace("\"max\": 1", "\"max\": 3");
    assert_eq!(scaler(&wider).decide(&seen(0.0, 5, 1)).replicas, 2);
}

#[test]
fn nodes_that_are_not_ready_shrink_dns_after_ten_minutes() {
    let mut scaler = scaler(LINEAR);
    assert_eq!(scaler.decide(&seen(0.0, 10, 10)).replicas, 10);
    for time in (1_000..1_600).step_by(10) {
        let decision = scaler.decide(&away(seen(f64::from(time), 10, 10), 6));
        assert_eq!((decision.replicas, decision.need), (10, 4), "{}", decision.reason);
        assert!(decision.reason.contains("6 nodes are not ready"), "{}", decision.reason);
    }
    assert_eq!(scaler.decide(&away(seen(1_611.0, 10, 10), 6)).replicas, 4);
}

/// What was before the start is not known, so a partition that is under way changes nothing.
#[test]
fn scaler_that_starts_in_a_partition_keeps_the_count_for_ten_minutes() {
    let mut scaler = scaler(LINEAR);
    assert_eq!(scaler.decide(&away(seen(50.0, 10, 10), 9)).replicas, 10);
    assert_eq!(scaler.decide(&away(seen(640.0, 10, 10), 9)).replicas, 10);
    assert_eq!(scaler.decide(&away(seen(700.0, 10, 10), 9)).replicas, 1);
}

/// The hold is no reason to grow, nor does it keep replicas of nodes that were removed.
#[test]
fn removed_nodes_shrink_at_once_and_unready_ones_never_grow_dns() {
    let mut scaler = scaler(LINEAR);
    assert_eq!(scaler.decide(&away(seen(0.0, 10, 3), 5)).replicas, 5);
    assert_eq!(scaler.decide(&seen(10.0, 4, 10)).replicas, 4);
}

#[test]
fn disruption_budget_is_a_floor_of_falls_only() {
    let mut scaler = scaler(LINEAR);
    let mut one = seen(0.0, 1, 5);
    one.min_available = Some(2);
    let decision = scaler.decide(&one);
    assert_eq!((decision.replicas, decision.need), (3, 1), "{}", decision.reason);
    one.replicas = 2;
    assert_eq!(scaler.decide(&one).replicas, 2, "a budget does not raise");
    one.min_available = Some(u32::MAX);
    assert_eq!(scaler.decide(&one).replicas, 2);
}

#[test]
fn replicas_that_no_node_takes_stop_growth_and_no_fall() {
    let mut scaler = scaler(r#"{"linear": {"coresPerReplica": 1}}"#);
    let mut large = seen(0.0, 8, 15);
    large.unschedulable = 7;
    let decision = scaler.decide(&large);
    assert_eq!((decision.replicas, decision.need), (15, 32));
    assert!(decision.reason.contains("no node takes 7 of them"), "{}", decision.reason);
    large.replicas = 40;
    assert_eq!(scaler.decide(&large).replicas, 32);
}

#[test]
fn ladder_below_its_first_step_has_the_replicas_of_it() {
    let mut scaler = scaler(r#"{"ladder": {"coresToReplicas": [[64, 3]]}}"#);
    assert_eq!(scaler.decide(&seen(0.0, 1, 1)).replicas, 3);
}

#[test]
fn extreme_clusters_give_bounded_counts() {
    let params = r#"{"linear": {"coresPerReplica": 0.001, "nodesPerReplica": 1}}"#;
    let mut many = seen(0.0, 5_000, 1);
    many.nodes.schedulable_cores = u64::MAX;
    assert_eq!(scaler(params).decide(&many).replicas, 100_000);
    let mut none = seen(0.0, 5_000, 1);
    none.nodes.schedulable_cores = 0;
    assert_eq!(scaler(params).decide(&none).replicas, 5_000);
    assert_eq!(scaler(params).decide(&seen(0.0, 0, 1)).replicas, 1);
}
