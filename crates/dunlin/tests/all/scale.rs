//! `dunlin scale`, by the binary: the cases of the cluster-proportional-autoscaler, and bad input.
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use test_support::folder::Folder;

const CASES: &str = include_str!("../../../node/scale-rules/tests/vectors/cpa_cases.json");

/// The folder of a test.
struct Dir(Folder);

impl Dir {
    fn new(test: &str) -> Self {
        Self(Folder::new(test))
    }

    fn write(&self, name: &str, content: &str) -> String {
        let path = self.0.join(name);
        fs::write(&path, content).expect("a file");
        path.display().to_string()
    }
}

fn dunlin(arguments: &[&str]) -> Output {
    let program = Path::new(env!("CARGO_BIN_EXE_dunlin"));
    Command::new(program).arg("scale").args(arguments).output().expect("dunlin runs")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The decisions of a trace, a line each.
fn simulate(
    dir: &Dir,
    params: &Value,
    trace: &[Value],
    more: &[&str],
) -> Result<Vec<Value>, String> {
    let params = dir.write("params.json", &params.to_string());
    let lines: Vec<String> = trace.iter().map(Value::to_string).collect();
    let trace = dir.write("trace.jsonl", &lines.join("\n"));
    let output = dunlin(&[&["simulate", "--params", &params, "--trace", &trace], more].concat());
    match output.status.code() {
        Some(0) => {
            let text = String::from_utf8(output.stdout).expect("UTF-8");
            Ok(text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect())
        }
        code => {
            assert_eq!(code, Some(1), "{}", stderr(&output));
            Err(stderr(&output))
        }
    }
}

fn cases(list: &str) -> Vec<Value> {
    let cases: Value = serde_json::from_str(CASES).expect("JSON");
    cases[list].as_array().expect("a list").clone()
}

#[test]
fn every_linear_case_of_cpa_agrees() {
    let dir = Dir::new("linear");
    let all = cases("linear");
    assert_eq!(all.len(), 41);
    for (index, case) in all.iter().enumerate() {
        let line = json!({"t": 0, "nodes": case["total_nodes"], "cores": case["total_cores"],
            "schedulable_nodes": case["schedulable_nodes"],
            "schedulable_cores": case["schedulable_cores"]});
        let params = json!({"linear": case["params"]});
        let decided = simulate(&dir, &params, &[line], &["--policy", "cpa"]).expect("decisions");
        assert_eq!(decided[0]["replicas"], case["exp"], "linear {index}: {}", decided[0]["reason"]);
    }
}

#[test]
fn every_ladder_case_of_cpa_agrees() {
    let dir = Dir::new("ladder");
    let all = cases("ladder");
    assert_eq!(all.len(), 33);
    for (index, case) in all.iter().enumerate() {
        let line = json!({"t": 0, "nodes": case["nodes"], "cores": case["cores"]});
        let params = json!({"ladder": {"coresToReplicas": case["coresToReplicas"],
            "nodesToReplicas": case["nodesToReplicas"]}});
        let decided = simulate(&dir, &params, &[line], &["--policy", "cpa"]).expect("decisions");
        assert_eq!(decided[0]["replicas"], case["exp"], "ladder {index}: {}", decided[0]["reason"]);
    }
}

#[test]
fn every_parser_and_target_case_of_cpa_agrees() {
    let dir = Dir::new("check");
    let (parser, targets) = (cases("linear_parse"), cases("targets_valid"));
    assert_eq!((parser.len(), targets.len()), (9, 8));
    for (index, case) in parser.iter().enumerate() {
        let params = dir.write("params.json", &json!({"linear": case["json"]}).to_string());
        let output = dunlin(&["check", "--policy", "cpa", "--params", &params]);
        let expected = i32::from(case["exp_error"].as_bool().expect("a boolean"));
        assert_eq!(output.status.code(), Some(expected), "parser {index}: {}", stderr(&output));
    }
    for (index, case) in targets.iter().enumerate() {
        let target = case[0].as_str().expect("a target");
        let output = dunlin(&["check", "--policy", "cpa", "--target", target]);
        let expected = i32::from(!case[1].as_bool().expect("a boolean"));
        assert_eq!(output.status.code(), Some(expected), "target {index}: {}", stderr(&output));
    }
}

/// What Dunlin does other than the original, and where it does the same.
#[test]
fn modes_of_dunlin_agree_with_cpa_where_there_is_no_trap() {
    let dir = Dir::new("same");
    for case in cases("linear").iter().filter(|case| case["params"]["max"] != 1) {
        let line = json!({"t": 0, "nodes": case["total_nodes"], "cores": case["total_cores"],
            "schedulable_nodes": case["schedulable_nodes"],
            "schedulable_cores": case["schedulable_cores"]});
        let params = json!({"linear": case["params"]});
        let decided = simulate(&dir, &params, &[line], &[]).expect("decisions");
        assert_eq!(decided[0]["replicas"], case["exp"], "{case}");
    }
}

#[test]
fn bad_parameters_are_refused_with_place_and_remedy() {
    let dir = Dir::new("params");
    let text = |text: &str| json!(text);
    let big = format!("{{\"min\": 1{}}}", " ".repeat(1 << 20));
    for (params, expected) in [
        (json!({"linear": {"coresPerReplicas": 2}}), "did you mean coresPerReplica?"),
        (json!({"linear": {"CoresPerReplica": 2}}), "did you mean coresPerReplica?"),
        (json!({"linear": {"nodesPerReplica": -20}}), "linear.nodesPerReplica"),
        (json!({"linear": {"nodesPerReplica": 1e308}}), "1e308 is outside of 0.001 to 1000000000"),
        (json!({"linear": text("{\"nodesPerReplica\": NaN}")}), "line 1 column 21"),
        (json!({"linear": text("{\"nodesPerReplica\": 1, \"nodesPerReplica\": 2}")}), "twice"),
        (json!({"linear": {"nodesPerReplica": 1, "min": 1.5}}), "expected a whole number, not 1.5"),
        (json!({"linear": text(&big)}), "65536 at most"),
        (json!({"linier": {}}), "did you mean linear?"),
        (json!({"linear": {}, "ladder": {}}), "expected one key"),
        (json!({}), "there are no parameters"),
        (json!([1]), "expected an object"),
        (json!({"ladder": {}}), "without steps there would be 0 replicas"),
        (json!({"ladder": {"coresToReplica": [[1, 1]]}}), "did you mean coresToReplicas?"),
        (
            json!({"ladder": {"coresToReplicas": [[64]]}}),
            "ladder.coresToReplicas[0]: expected a pair",
        ),
        (json!({"ladder": {"coresToReplicas": [[1, 2], [1, 3]]}}), "1 begins two steps"),
        (json!({"ladder": {"coresToReplicas": [[0, 0], [3, 3]]}}), "\"allowZero\": true"),
        (json!({"ladder": {"nodesToReplicas": [[-1, 2]]}}), "negative"),
        (json!({"load": {}}), "load.capacity: missing"),
        (json!({"load": {"capacity": 20_000, "headrom": 1}}), "did you mean headroom?"),
        (json!({"load": {"capacity": 20_000, "utilization": 70}}), "outside of 0.05 to 1"),
        (json!({"load": {"capacity": 20_000, "min": 5, "max": 3}}), "less than min"),
        (json!({"load": {"capacity": 20_000, "floor": {}}}), "expected one of linear and ladder"),
        (
            json!({"load": {"capacity": 1, "floor": {"linear": {"nodePerReplica": 1}}}}),
            "load.floor.linear.nodePerReplica",
        ),
        (json!({"hpa": {}}), "for simulations"),
    ] {
        let path = dir.write("params.json", &params.to_string());
        let output = dunlin(&["check", "--params", &path]);
        assert_eq!(output.status.code(), Some(1), "{params}");
        let told = stderr(&output);
        assert!(told.contains(expected) && told.contains(&path), "{params}\n{told}");
        assert!(output.stdout.is_empty(), "nothing is valid");
    }
}

/// `--strict=false` reads keys as the original does, and still does not scale DNS to nothing.
#[test]
fn lenient_parameters_ignore_unknown_keys_and_keep_dns() {
    let dir = Dir::new("lenient");
    for (params, expected) in [
        (json!({"linear": {"CORESPERREPLICA": 2, "note": "x"}}), 0),
        (json!({"ladder": {"coresToReplica": [[1, 1]]}}), 1),
        (json!({"ladder": {"coresToReplicas": [[64]]}}), 1),
        (json!({"ladder": {"coresToReplicas": [[1, 0]], "allowZero": true}}), 0),
    ] {
        let path = dir.write("params.json", &params.to_string());
        let output = dunlin(&["check", "--strict=false", "--params", &path]);
        assert_eq!(output.status.code(), Some(expected), "{params}: {}", stderr(&output));
    }
}

#[test]
fn bad_targets_are_refused() {
    for (target, expected) in [
        ("deployments/dns", "did you mean deployment?"),
        ("deployment", "has no kind"),
        ("deployment/", "is not a valid object name"),
        ("deployment/a/b", "is not a valid object name"),
        ("deployment/a,deployment/A", "named twice"),
        ("daemonset/dns", "is not a kind that can be scaled"),
        ("", "has no kind"),
    ] {
        let output = dunlin(&["check", "--target", target]);
        assert_eq!(output.status.code(), Some(1), "{target}");
        assert!(stderr(&output).contains(expected), "{target}: {}", stderr(&output));
    }
    let output = dunlin(&["check", "-o", "json", "--target", "StatefulSet/dns, deployment/b"]);
    let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(answer["targets"][0], json!({"kind": "statefulset", "name": "dns"}));
    assert_eq!(answer["valid"], true);
}

#[test]
fn without_a_cluster_the_error_says_what_was_looked_for() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dunlin"));
    command.args(["scale", "status"]).env("HOME", "/nonexistent");
    command.env_remove("KUBECONFIG").env_remove("KUBERNETES_SERVICE_HOST");
    let output = command.output().expect("it runs");
    assert_eq!(output.status.code(), Some(1));
    let expected = "dunlin: no API server is known: not running in a Pod, and there is neither \
                    KUBECONFIG nor ~/.kube/config; name --kubeconfig FILE\n";
    assert_eq!(stderr(&output), expected);
}

#[test]
fn bad_traces_are_refused_with_their_line() {
    let dir = Dir::new("trace");
    let params = json!({"linear": {"nodesPerReplica": 1}});
    let good = json!({"t": 10, "nodes": 4});
    for (line, expected) in [
        (json!({"t": 9}), "lies before"),
        (json!({"nodes": 4}), "trace.t: missing"),
        (json!({"t": 11, "node": 4}), "did you mean nodes?"),
        (json!({"t": 11, "ready": 5}), "more than all"),
        (json!({"t": 11, "qps": -1}), "expected queries a second"),
        (json!({"t": 11, "nodes": 1e12}), "outside of 0 to 1000000000"),
        (json!("x".repeat(70_000)), "more than 65536 bytes"),
        (json!(7), "expected an object"),
    ] {
        let told = simulate(&dir, &params, &[good.clone(), line], &[]).expect_err("a refusal");
        assert!(told.contains("trace.jsonl:2") && told.contains(expected), "{told}");
    }
    let missing = dunlin(&["simulate", "--params", "/no/such", "--trace", "-"]);
    assert!(stderr(&missing).contains("/no/such: No such file"), "{}", stderr(&missing));
    for (policy, params, expected) in [
        ("hpa", json!({"linear": {"nodesPerReplica": 1}}), "needs load or hpa"),
        ("cpa", json!({"load": {"capacity": 1}}), "needs linear or ladder"),
        ("load", json!({"linear": {"nodesPerReplica": 1}}), "needs load"),
    ] {
        let told = simulate(&dir, &params, std::slice::from_ref(&good), &["--policy", policy]);
        assert!(told.expect_err("a refusal").contains(expected), "{policy}");
    }
}

/// A flash crowd: the load rises at once, and no replica goes within 10 minutes of its end.
#[test]
fn load_rises_at_once_and_falls_by_thirds_after_ten_minutes() {
    let dir = Dir::new("crowd");
    let keys = json!({"capacity": 1_000, "k": 1, "headroom": 1.3, "utilization": 0.7});
    let params = json!({ "load": keys });
    let trace: Vec<Value> = (0..240)
        .map(|step| {
            let t = step * 10;
            json!({"t": t, "nodes": 9, "qps": if (600..660).contains(&t) { 8_000 } else { 1_000 }})
        })
        .collect();
    let decided = simulate(&dir, &params, &trace, &["--replicas", "2"]).expect("decisions");
    let at = |t: usize| decided[t / 10]["replicas"].as_u64().expect("a number");
    assert_eq!((at(0), at(590), at(600), at(1_260)), (2, 2, 15, 15));
    let falls: Vec<u64> =
        (1_270..2_400).step_by(10).filter(|t| at(*t) < at(t - 10)).map(at).collect();
    assert_eq!(falls, [10, 7, 5, 4, 3, 2]);
    let reason = decided[60]["reason"].as_str().expect("a reason");
    assert_eq!(
        reason,
        "a peak of 8000 queries/s asks for 15 with a headroom of 1.3 at 70 % of 1000 each"
    );
}
