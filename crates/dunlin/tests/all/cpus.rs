//! `dunlin cpus` as a command: the kubelet's own test cases, and invalid input.
#[path = "../../../node/cpu-planner/tests/all/common/mod.rs"]
mod common;

use common::{list, machine, number, vectors};
use cpu_topology::{Device, DeviceKind};
use serde_json::Value;
use std::fmt::Write;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use test_support::folder::Folder;
use test_support::skip::skip;
use test_support::wait;

/// The folder of a test.
struct Dir(Folder);

impl Dir {
    fn new(test: &str) -> Self {
        Self(Folder::new(test))
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

fn dunlin(arguments: &[String]) -> Output {
    let program = Path::new(env!("CARGO_BIN_EXE_dunlin"));
    Command::new(program).arg("cpus").args(arguments).output().expect("dunlin runs")
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The plan as JSON, or the error.
fn plan(arguments: &[String]) -> Result<Value, String> {
    let mut all = words("plan -o json");
    all.extend_from_slice(arguments);
    let output = dunlin(&all);
    if output.status.success() {
        return Ok(serde_json::from_slice(&output.stdout).expect("JSON"));
    }
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let problem: Value = serde_json::from_slice(&output.stderr).expect("an error as JSON");
    Err(problem["error"].as_str().expect("a text").to_owned())
}

/// Saves every machine of the vectors.
fn save_machines(dir: &Dir, vectors: &Value) {
    for (name, value) in vectors["topologies"].as_object().expect("machines") {
        cpu_topology::save(&machine(value), &dir.0.join(name)).expect("saved");
    }
}

/// The difference between an answer and the expected one; `None` if there is none.
fn compare(answer: &Result<Value, String>, field: &str, expected: &Value, error: &str) -> String {
    match answer {
        Ok(answer) if error.is_empty() => {
            let (got, expected) = (answer[field].clone(), list(expected).to_string());
            if got == *expected { String::new() } else { format!("{got}, not {expected}") }
        }
        Err(got) if !error.is_empty() && got.contains(error) => String::new(),
        other => format!("{other:?}, not {expected} {error:?}"),
    }
}

#[test]
fn every_take_case_agrees_through_the_binary() {
    let vectors = vectors("cpu_assignment_cases.json");
    let dir = Dir::new("take");
    save_machines(&dir, &vectors);
    let mut wrong = String::new();
    let cases = vectors["take"].as_array().expect("cases");
    assert_eq!(cases.len(), 61);
    for (index, case) in cases.iter().enumerate() {
        let mut arguments = words("--order kubelet --sysfs");
        arguments.push(dir.path(case["topology"].as_str().expect("a name")));
        arguments.extend(words(&format!("--request {}", number(&case["num_cpus"]))));
        arguments.extend(["--free".to_owned(), list(&case["available"]).to_string()]);
        if case["fn"] == "distributed" {
            let group = number(&case["cpu_group_size"]);
            arguments.extend(words(&format!("--across-nodes --group {group}")));
        }
        for (option, flag) in [
            ("PreferAlignByUncoreCacheOption", "--prefer-l3"),
            ("DistributeCPUsAcrossCores", "--across-cores"),
        ] {
            if case["options"][option] == true {
                arguments.push(flag.to_owned());
            }
        }
        let error = case["exp_err"].as_str().unwrap_or_default();
        let difference = compare(&plan(&arguments), "list", &case["exp"], error);
        if !difference.is_empty() {
            writeln!(wrong, "take {index}: {difference}").expect("memory");
        }
    }
    assert_eq!(wrong, "");
}

/// The kubelet's state file at the begin of a case.
fn state(case: &Value) -> String {
    let mut entries = case["assignments"].clone();
    for containers in entries.as_object_mut().into_iter().flatten() {
        for cpus in containers.1.as_object_mut().into_iter().flatten() {
            *cpus.1 = list(cpus.1).to_string().into();
        }
    }
    let shared = list(&case["default"]).to_string();
    serde_json::json!({
        "policyName": "static", "defaultCpuSet": shared, "entries": entries, "checksum": 0,
    })
    .to_string()
}

/// The arguments for a case, and the field of the answer that is compared.
fn policy_arguments(case: &Value, dir: &Dir) -> (Vec<String>, &'static str) {
    let mut arguments = words("--order kubelet --sysfs");
    arguments.push(dir.path(case["topology"].as_str().expect("a name")));
    if let Some(reserve) = case["num_reserved"].as_u64().filter(|number| *number > 0) {
        arguments.extend(words(&format!("--reserve {reserve}")));
    }
    if case["reserved"].is_array() {
        arguments.extend(["--reserved".to_owned(), list(&case["reserved"]).to_string()]);
    }
    for (option, flag) in [
        ("full-pcpus-only", "--full-cores"),
        ("align-by-socket", "--align-by-socket"),
        ("strict-cpu-reservation", "--strict-reservation"),
    ] {
        if case["options"][option] == "true" {
            arguments.push(flag.to_owned());
        }
    }
    if let Some(nodes) = case["numa_hint"].as_array() {
        let nodes: Vec<String> = nodes.iter().map(Value::to_string).collect();
        arguments.extend(["--nodes".to_owned(), nodes.join(",")]);
    }
    if case["test"] == "Allocate" {
        arguments.extend(["--free".to_owned(), list(&case["default"]).to_string()]);
        let qos = case["qos"].as_str().expect("a class").to_lowercase();
        let request = number(&case["request_milli"]);
        arguments.extend(words(&format!("--request {request}m --qos {qos}")));
        return (arguments, "list");
    }
    fs::write(dir.0.join("state"), state(case)).expect("a state");
    arguments.extend(["--state".to_owned(), dir.path("state")]);
    if case["test"] == "Remove" {
        let text = |name: &str| case[name].as_str().expect("a name").to_owned();
        arguments
            .extend(["--release".to_owned(), format!("{}/{}", text("pod"), text("container"))]);
    }
    (arguments, "shared")
}

#[test]
fn every_policy_case_agrees_through_the_binary() {
    let vectors = vectors("policy_static_cases.json");
    let dir = Dir::new("policy");
    save_machines(&dir, &vectors);
    let mut wrong = String::new();
    let cases = vectors["cases"].as_array().expect("cases");
    assert_eq!(cases.len(), 51);
    for (index, case) in cases.iter().enumerate() {
        let (arguments, field) = policy_arguments(case, &dir);
        let text = |name: &str| case[name].as_str().unwrap_or_default().to_owned();
        let error = text("exp_err") + &text("exp_new_err");
        let expected = if field == "list" { &case["exp_alloc"] } else { &case["exp_default"] };
        let answer = plan(&arguments);
        let shares = expected.is_null() && error.is_empty();
        let difference = match &answer {
            // A container in the shared pool has no list.
            Ok(answer) if shares && answer["list"].is_null() => String::new(),
            _ => compare(&answer, field, expected, &error),
        };
        if !difference.is_empty() {
            writeln!(wrong, "policy {index} {}: {difference}", case["test"]).expect("memory");
        }
    }
    assert_eq!(wrong, "");
}

/// A saved machine with a network interface on NUMA node 3.
fn saved_with_devices(dir: &Dir) -> String {
    let vectors = vectors("cpu_assignment_cases.json");
    let mut machine = machine(&vectors["topologies"]["topoDualSocketMultiNumaPerSocketHT"]);
    let device = |name: &str, kind, node| Device {
        name: name.into(),
        kind,
        pci: None,
        node,
        local: cpu::CpuList::default(),
        interrupts: Vec::new(),
    };
    machine.devices = vec![
        device("eth0", DeviceKind::Network, Some(3)),
        device("veth0", DeviceKind::Network, None),
    ];
    machine.cpus.retain(|cpu| cpu.id != 79);
    machine.offline = cpu::CpuList::from_iter([79]);
    cpu_topology::save(&machine, &dir.0.join("machine")).expect("saved");
    dir.path("machine")
}

#[test]
fn plan_has_its_reason() {
    let dir = Dir::new("why");
    let machine = saved_with_devices(&dir);
    let output = dunlin(&words(&format!("plan --request 4 --near eth0 --sysfs {machine}")));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(text.starts_with("CPUs 3"), "{text}");
    for line in
        ["local to eth0, where 19 are free", "all in NUMA node 3", "shared by all others: 0-"]
    {
        assert!(text.contains(line), "{line} in\n{text}");
    }
    let free = "0-1,40-41,10-11,50-51";
    let split = dunlin(&words(&format!("plan --request 6 --free {free} --sysfs {machine}")));
    let text = String::from_utf8_lossy(&split.stdout);
    assert!(
        text.contains("split over 2 NUMA nodes because none has 6 free (the most is 4)"),
        "{text}"
    );
}

#[test]
fn bad_input_is_an_error_with_a_remedy() {
    let dir = Dir::new("bad");
    let machine = saved_with_devices(&dir);
    fs::write(dir.0.join("state"), r#"{"policyName":"static","defaultCpu"#).expect("a file");
    let state = dir.path("state");
    for (arguments, code, what) in [
        ("plan --request 81", 1, "request at most 79"),
        ("plan --request 79", 1, "1 must stay for all others: request at most 78"),
        ("plan --request 1 --free 0-78,80", 1, "there is no CPU 80"),
        ("plan --request 1 --reserved 79", 1, "CPU 79 is offline: bring it online"),
        ("plan --request 1 --near eth9", 1, "dunlin cpus topology"),
        ("plan --request 1 --near veth0", 1, "name the device behind it"),
        ("plan --request 1.5", 2, "expected whole CPUs such as 4"),
        ("plan --request 1 --free 5-2", 2, "ends before it begins"),
        ("plan", 2, "--request"),
        (&format!("plan --state {state}"), 1, "delete it"),
        (&format!("plan --state {state}x"), 1, "cannot be read"),
        ("topology --measure", 2, "--sysfs"),
    ] {
        let output = dunlin(&words(&format!("{arguments} --sysfs {machine}")));
        let error = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{arguments}: {error}");
        assert!(error.contains(what), "{arguments}: {what} in {error}");
    }
    let missing = dunlin(&words(&format!("topology --sysfs {}", dir.path("nothing"))));
    assert_eq!(missing.status.code(), Some(1));
    assert!(stderr(&missing).contains("--save DIR"), "{}", stderr(&missing));
}

#[test]
fn saved_machine_is_drawn_like_the_live_one() {
    let dir = Dir::new("draw");
    let machine = saved_with_devices(&dir);
    let drawn = dunlin(&words(&format!("topology --sysfs {machine}")));
    let text = String::from_utf8_lossy(&drawn.stdout).into_owned();
    for part in ["79 CPUs, 40 cores", "offline: 79", "socket 1", "NUMA node 3", "eth0", "[39]"] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    let save = dir.path("again");
    let saved = dunlin(&words(&format!("topology --sysfs {machine} --save {save}")));
    assert!(saved.status.success(), "{}", stderr(&saved));
    let again = dunlin(&words(&format!("topology --sysfs {save}")));
    assert_eq!(String::from_utf8_lossy(&again.stdout), text);
    // This machine.
    let own = dunlin(&words("topology -o json"));
    let own: Value = serde_json::from_slice(&own.stdout).expect("JSON");
    let cpus = own["machine"]["cpus"].as_array().expect("CPUs");
    assert!(!cpus.is_empty() && own["machine"]["allowed"].is_string(), "{own}");
}

#[test]
fn manager_that_cannot_start_gives_a_reason() {
    let dir = Dir::new("manage");
    fs::write(dir.0.join("good"), "[[group]]\npath = \"a\"\ncpus = 1\n").expect("a file");
    fs::write(dir.0.join("bad"), "[[group]]\npath = \"a\"\ncpus = 0.5\n").expect("a file");
    let kubelet = r#"{"policyName":"static","defaultCpuSet":"0-3","checksum":0}"#;
    fs::write(dir.0.join("kubelet"), kubelet).expect("a file");
    let begin = |rules: &str, kubelet: &str| {
        let path = |name| dir.path(name);
        let arguments = format!(
            "manage --once --rules {} --kubelet-state {} --cgroup {} --state {}",
            path(rules),
            path(kubelet),
            path(""),
            path("state"),
        );
        let output = dunlin(&words(&arguments));
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        stderr(&output)
    };
    for (rules, kubelet, what) in [
        ("none", "none", "cannot read"),
        ("bad", "none", "expected whole CPUs"),
        ("good", "kubelet", "cpuManagerPolicy: none"),
        ("good", "none", "is not cgroup v2"),
    ] {
        let error = begin(rules, kubelet);
        assert!(error.contains(what), "{rules}, {kubelet}: {error}");
    }
    fs::write(dir.0.join("cgroup.controllers"), "cpu memory\n").expect("a file");
    assert!(begin("good", "none").contains("no cpuset controller"));
}

#[test]
fn cache_line_times_of_the_machine_are_measured() {
    let output = dunlin(&words("topology --measure --samples 2 -o json"));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let measured = &report["measured"];
    let cpus = measured["cpus"].as_array().expect("CPUs").len();
    assert_eq!(measured["pairs"].as_array().expect("pairs").len(), cpus * (cpus - 1));
    assert_eq!(measured["classes"].as_object().expect("classes").len(), 6);
}

/// The control groups are files, so that no process of this machine is moved.
#[test]
fn second_manager_is_refused_and_uninstall_ends_the_first() {
    if cpu::allowed().expect("CPUs").len() < 2 {
        return skip("two CPUs: one stays shared");
    }
    let dir = Dir::new("lock");
    let folder = &dir.0;
    for group in ["groups", "groups/a"] {
        fs::create_dir_all(folder.join(group)).expect("a folder");
        for file in ["cgroup.procs", "cgroup.subtree_control", "cpuset.cpus", "cpu.max"] {
            fs::write(folder.join(group).join(file), "").expect("a file");
        }
    }
    fs::write(folder.join("groups/cgroup.controllers"), "cpuset").expect("a file");
    let rules = "interrupts = \"keep\"\n[[group]]\npath = \"a\"\ncpus = 1\n";
    fs::write(folder.join("rules"), rules).expect("a file");
    let command = |act: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dunlin"));
        command.args(["cpus", act]).arg("--cgroup").arg(folder.join("groups"));
        command.arg("--state").arg(folder.join("new/state")).stdout(Stdio::null());
        command
    };
    let manage = || {
        let mut command = command("manage");
        command.arg("--rules").arg(folder.join("rules"));
        command.arg("--kubelet-state").arg(folder.join("kubelet"));
        command
    };
    let mut first = manage().stderr(Stdio::null()).spawn().expect("dunlin runs");
    let set = || fs::read_to_string(folder.join("groups/a/cpuset.cpus")).expect("a file");
    wait::until_true("it has a set", || !set().trim().is_empty());
    let second = manage().arg("--once").output().expect("dunlin runs");
    let told = String::from_utf8_lossy(&second.stderr);
    assert_eq!(second.status.code(), Some(1), "{told}");
    assert!(told.contains(&format!("another manager runs (process {}", first.id())), "{told}");

    let undone = command("uninstall").output().expect("dunlin runs");
    assert!(undone.status.success(), "{}", String::from_utf8_lossy(&undone.stderr));
    assert_eq!(first.wait().expect("it ended").signal(), Some(15));
    assert_eq!(set().trim(), "");
    // Nothing is in the way of the next one.
    let next = manage().arg("--once").stderr(Stdio::null()).status();
    next.expect("dunlin runs");
    assert!(!set().trim().is_empty());
}
