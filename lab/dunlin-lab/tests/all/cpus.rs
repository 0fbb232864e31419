//! `dunlin-lab cpus` in control groups of its own.

use crate::common::{lab, said, to_its_end};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use test_support::folder::Folder;
use test_support::skip;
use test_support::wait;

const CGROUP: &str = "/sys/fs/cgroup";

/// The program of Dunlin, which the build has put beside that of the lab.
fn dunlin() -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_dunlin-lab")).with_file_name("dunlin")
}

/// Whether this machine has what the experiments need.
fn has_groups() -> bool {
    let controllers = fs::read_to_string(format!("{CGROUP}/cgroup.controllers"));
    let controllers = controllers.unwrap_or_default();
    let is_root = rustix::process::geteuid().is_root();
    let has_cpus = std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() > 1);
    let has = |name: &str| controllers.split_whitespace().any(|one| one == name);
    is_root && has_cpus && dunlin().exists() && has("cpu") && has("cpuset")
}

/// The root group's settings, and whether the experiments' group is there.
fn settings() -> (String, bool) {
    let on = fs::read_to_string(format!("{CGROUP}/cgroup.subtree_control")).unwrap();
    (on, Path::new(CGROUP).join("dunlin-lab").exists())
}

/// One short run of every experiment; then one that is interrupted, and one that is killed.
#[test]
#[ignore = "kernel: it needs cgroup v2 with the cpuset controller, and two CPUs"]
fn cpus_experiments_restore_all_settings_and_their_report_verifies() {
    if !has_groups() {
        return skip::leave("root, two CPUs, dunlin, and cgroup v2 at /sys/fs/cgroup");
    }
    let folder = Folder::new("cpus");
    let (bundle, page) = (folder.join("cpus.json"), folder.join("cpus.md"));
    let before = settings();
    let words = ["cpus", "-l", "0.3", "--runs", "1", "--program", "true"];
    let command = || {
        let mut command = lab(&words);
        command.arg("--bundle").arg(&bundle).arg("--markdown").arg(&page);
        command
    };
    let output = to_its_end(command());
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(settings(), before);
    let page = fs::read_to_string(&page).unwrap();
    for what in ["Dunlin", "memory-bound", "Guaranteed beside Burstable", "bursts", "program"] {
        assert!(page.contains(what), "{what}");
    }
    assert!(folder.join("cpus-victim.svg").exists());
    let verified = lab(&["verify"]).arg(&bundle).output().unwrap();
    assert!(verified.status.success(), "{}", said(&verified));

    let begun = |mut command: Command| {
        let child = command.args(["--runs", "100"]).stdout(Stdio::null()).spawn().unwrap();
        let stress = Path::new(CGROUP).join("dunlin-lab/burstable/stress");
        wait::until_true("stress begins", || stress.exists());
        child
    };
    let long = || {
        let mut command = lab(&["cpus", "victim"]);
        command.arg("--bundle").arg(&bundle);
        command
    };
    let mut interrupted = begun(long());
    let pid = rustix::process::Pid::from_child(&interrupted);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(interrupted.wait().unwrap().code(), Some(1));
    assert_eq!(settings(), before);
    let mut killed = begun(long());
    killed.kill().unwrap();
    killed.wait().unwrap();
    let output = to_its_end(command());
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(settings(), before);
}

#[test]
#[ignore = "kernel: it needs cgroup v2 with the cpuset controller, and two CPUs"]
fn cpus_experiments_without_rights_or_groups_say_what_to_do() {
    let output = lab(&["cpus", "program"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("needs --program COMMAND"), "{}", said(&output));
    let output = lab(&["cpus", "-l", "0"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("0.1 to 600 seconds"), "{}", said(&output));
    // A program that is there: an error names what is missing before it is used.
    let command = ["cpus", "--dunlin", "/bin/true"];
    let expected = match rustix::process::geteuid().is_root() {
        true if has_groups() => return,
        true => "cgroup v2",
        false => "run it as root",
    };
    let output = to_its_end(lab(&command));
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains(expected), "{}", said(&output));
}
