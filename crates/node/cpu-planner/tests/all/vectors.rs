//! The kubelet's own test cases: in its order all agree, in ours each difference has its reason.

use crate::common::{list, machine, number, outcome, policy_constraints, take_case, vectors};
use cpu_planner::policy::{Policy, Qos};
use cpu_planner::state::State;
use cpu_planner::{Constraints, Order, plan};
use serde_json::Value;
use std::fmt::Write;

fn cases(vectors: &Value, name: &str) -> Vec<Value> {
    vectors[name].as_array().expect("cases").clone()
}

#[test]
fn every_take_case_agrees_in_kubelet_order() {
    let vectors = vectors("cpu_assignment_cases.json");
    let cases = cases(&vectors, "take");
    assert_eq!(cases.len(), 61);
    let mut wrong = String::new();
    for (index, case) in cases.iter().enumerate() {
        let topology = machine(&vectors["topologies"][case["topology"].as_str().expect("a name")]);
        let (free, request, constraints) = take_case(case, Order::Kubelet);
        let got = outcome(&plan(&topology, &free, &request, &constraints));
        let wanted = match case["exp_err"].as_str() {
            Some("") | None => list(&case["exp"]).to_string(),
            Some(error) => error.to_owned(),
        };
        if got != wanted {
            writeln!(wrong, "take {index}: {} got {got}, not {wanted}", case["description"])
                .expect("memory");
        }
    }
    assert_eq!(wrong, "");
}

/// The state that a case begins with.
fn state(case: &Value) -> State {
    let mut state = State { shared: list(&case["default"]), ..State::default() };
    for (pod, containers) in case["assignments"].as_object().expect("assignments") {
        for (container, cpus) in containers.as_object().expect("containers") {
            state.assignments.insert((pod.clone(), container.clone()), list(cpus));
        }
    }
    state
}

/// What a case of the static policy leads to, and what it should.
fn run(case: &Value, topologies: &Value, order: Order) -> (String, String) {
    let topology = machine(&topologies[case["topology"].as_str().expect("a name")]);
    let text = |name: &str| case[name].as_str().unwrap_or_default().to_owned();
    let constraints: Constraints = policy_constraints(case, order);
    let reserved = case["reserved"].as_array().map(|_| list(&case["reserved"]));
    let number_reserved = case["num_reserved"].as_u64().unwrap_or(0) as usize;
    let policy = match Policy::new(&topology, number_reserved, reserved, constraints) {
        Ok(policy) => policy,
        Err(error) => return (error.to_string(), text("exp_new_err")),
    };
    let mut state = state(case);
    match case["test"].as_str().expect("a test") {
        "Start" => {
            let done = policy.start(&mut state);
            let got = done.map_or_else(|error| error.to_string(), |()| state.shared.to_string());
            let wanted = match text("exp_err") {
                error if error.is_empty() => list(&case["exp_default"]).to_string(),
                error => error,
            };
            (got, wanted)
        }
        "Remove" => {
            policy.release(&mut state, (&text("pod"), &text("container")));
            (state.shared.to_string(), list(&case["exp_default"]).to_string())
        }
        _ => {
            let qos = if case["qos"] == "Guaranteed" { Qos::Guaranteed } else { Qos::Burstable };
            let milli = number(&case["request_milli"]) as u64;
            let before = state.clone();
            let done = policy.allocate(&mut state, ("pod", "container"), qos, milli);
            let got = match done.transpose() {
                None => "shared".into(),
                Some(result) => {
                    if let Ok(plan) = &result {
                        assert_eq!(before.shared.difference(&plan.cpus), state.shared);
                    } else {
                        assert_eq!(before, state, "an error changes nothing");
                    }
                    outcome(&result)
                }
            };
            let wanted = match (text("exp_err"), case["exp_alloc"].as_array()) {
                (error, _) if !error.is_empty() => error,
                (_, None) => "shared".into(),
                (_, Some(_)) => list(&case["exp_alloc"]).to_string(),
            };
            (got, wanted)
        }
    }
}

#[test]
fn every_policy_case_agrees_in_kubelet_order() {
    let vectors = vectors("policy_static_cases.json");
    let cases = cases(&vectors, "cases");
    assert_eq!(cases.len(), 51);
    let mut wrong = String::new();
    for (index, case) in cases.iter().enumerate() {
        let (got, wanted) = run(case, &vectors["topologies"], Order::Kubelet);
        if got != wanted {
            writeln!(wrong, "policy {index}: {} got {got}, not {wanted}", case["description"])
                .expect("memory");
        }
    }
    assert_eq!(wrong, "");
}

/// Why the order of Dunlin answers otherwise, by list and index.
fn reason(list: &str, index: usize) -> &'static str {
    match (list, index) {
        ("take", 5 | 36) | ("policy", 34..=36) => {
            "One CPU stays shared, so that all other containers have one (l)."
        }
        ("take", 17) => "The fullest socket is filled first; L3 domains are of no use for one CPU.",
        ("take", 27 | 28) => "Spread over cores means one thread of each core while there are any.",
        ("policy", 37 | 38) => "One of the hinted NUMA nodes has both CPUs, so none is split (b).",
        _ => panic!("{list} {index} differs without a reason"),
    }
}

/// The differences as the table of docs/cpus.md.
fn differences() -> String {
    let mut table =
        String::from("| case | kubelet | dunlin | reason |\n| --- | --- | --- | --- |\n");
    let mut row = |list: &str, index: usize, kubelet: &str, dunlin: &str| {
        let reason = reason(list, index);
        writeln!(table, "| {list} {index} | {kubelet} | {dunlin} | {reason} |").expect("memory");
    };
    let take = vectors("cpu_assignment_cases.json");
    for (index, case) in cases(&take, "take").iter().enumerate() {
        let topology = machine(&take["topologies"][case["topology"].as_str().expect("a name")]);
        let [kubelet, dunlin] = [Order::Kubelet, Order::Dunlin].map(|order| {
            let (free, request, constraints) = take_case(case, order);
            outcome(&plan(&topology, &free, &request, &constraints))
        });
        if kubelet != dunlin {
            row("take", index, &kubelet, &dunlin);
        }
    }
    let policy = vectors("policy_static_cases.json");
    for (index, case) in cases(&policy, "cases").iter().enumerate() {
        let [kubelet, dunlin] =
            [Order::Kubelet, Order::Dunlin].map(|order| run(case, &policy["topologies"], order).0);
        if kubelet != dunlin {
            row("policy", index, &kubelet, &dunlin);
        }
    }
    table
}

#[test]
fn differences_to_the_kubelet_are_listed_with_their_reasons() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/cpus.md");
    let page = std::fs::read_to_string(path).expect("docs/cpus.md");
    let table = differences();
    assert!(page.contains(&table), "docs/cpus.md lacks this table:\n{table}");
}
