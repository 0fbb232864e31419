//! `dunlin-lab sweep` on the two-host bench: interrupted, killed, resumed, verified.

use crate::common::{hold_settings, lab, missing, said, to_its_end};
use std::fs;
use std::path::Path;
use std::process::{Child, Command};
use test_support::folder::Folder;
use test_support::skip;
use test_support::wait;

fn sweep(bundle: &Path, processes: &str) -> Command {
    let mut command = lab(&["sweep", "--pattern", "a{i}.example", "--names", "100"]);
    command.args(["--processes", processes, "--runs", "3", "-l", "200ms", "--flows", "8"]);
    command.arg("--bundle").arg(bundle);
    command
}

/// Starts a sweep, and waits until its journal has so many runs more than before.
fn start(bundle: &Path, runs: usize) -> Child {
    let lines = || fs::read_to_string(bundle.with_extension("json.part"));
    let count = || lines().map_or(0, |text| text.lines().count());
    let before = count().max(1);
    wait::until("nothing else measures here", || {
        let mut child = sweep(bundle, "1,2,3").spawn().unwrap();
        let has_ended = wait::until("the runs, or the end", || {
            let has_ended = child.try_wait().unwrap().is_some();
            (has_ended || count() >= before + runs).then_some(has_ended)
        });
        if !has_ended {
            return Some(child);
        }
        let why = said(&child.wait_with_output().unwrap());
        assert!(why.contains("another measurement runs here"), "{why}");
        None
    })
}

fn kill(signal: &str, child: &Child) {
    let status = Command::new("kill").args([signal, &child.id().to_string()]).status();
    assert!(status.unwrap().success());
}

#[test]
fn an_interrupted_sweep_resumes_and_its_report_verifies() {
    let _settings = hold_settings();
    if let Some(missing) = missing() {
        return skip::skip(&missing);
    }
    let folder = Folder::new("sweep");
    let bundle = folder.join("sweep.json");
    let part = bundle.with_extension("json.part");

    let child = start(&bundle, 2);
    kill("-INT", &child);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("the same command resumes"), "{}", said(&output));
    assert!(part.exists() && !bundle.exists());
    assert!(!Path::new("/run/netns/compare-server").exists(), "the hosts are gone");

    let mut child = start(&bundle, 1);
    kill("-KILL", &child);
    child.wait().unwrap();
    // As if it had been killed in the middle of a line.
    let text = fs::read_to_string(&part).unwrap();
    fs::write(&part, text + "{\"point\":1,\"ru").unwrap();

    let output = to_its_end(sweep(&bundle, "1,2"));
    assert!(said(&output).contains("a sweep with other settings"), "{}", said(&output));

    let output = to_its_end(sweep(&bundle, "1,2,3"));
    assert!(output.status.success(), "{}", said(&output));
    assert!(said(&output).contains("runs are there already"), "{}", said(&output));
    assert!(said(&output).contains("best: "), "{}", said(&output));
    assert!(!part.exists(), "the bundle has all of it");

    let text = fs::read_to_string(&bundle).unwrap();
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    let points = value["body"]["sweep"]["points"].as_array().unwrap();
    assert_eq!(points.len(), 3);
    assert!(points.iter().all(|point| point["runs"].as_array().unwrap().len() == 3), "{points:?}");
    assert!(value["body"]["sweep"]["fits"][0]["law"]["lambda"].as_f64().unwrap() > 0.0);
    let page = bundle.with_extension("html");
    let verified = lab(&["verify"]).arg(&bundle).arg(&page).output().unwrap();
    assert!(verified.status.success(), "{}", said(&verified));
    assert!(fs::read_to_string(&page).unwrap().contains("Universal Scalability Law"));
}
