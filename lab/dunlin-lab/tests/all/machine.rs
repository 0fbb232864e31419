//! `dunlin-lab`: the machine that is measured on.

use crate::common::hold_settings;
use test_support::folder::Folder;
use test_support::{skip, wait};

use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};

fn lab(words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dunlin-lab"));
    command.args(words).output().expect("dunlin runs")
}

fn said(output: &Output) -> String {
    let told = [output.stdout.as_slice(), output.stderr.as_slice()];
    told.map(String::from_utf8_lossy).concat()
}

/// Writes a manifest; its path.
fn write(folder: &Folder, name: &str, manifest: &Value) -> String {
    let path = folder.join(name);
    fs::write(&path, manifest.to_string()).expect("a file");
    path.display().to_string()
}

fn manifest() -> Value {
    let output = lab(&["manifest", "-o", "json"]);
    assert!(output.status.success(), "{}", said(&output));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn manifests_differ_only_between_machines() {
    let _settings = hold_settings();
    let folder = Folder::new("manifest");
    let mut manifest = manifest();
    assert_eq!(manifest["software"]["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(manifest["fingerprint"].as_str().map(str::len), Some(16));
    let one = write(&folder, "one", &manifest);
    manifest["now"]["load"] = serde_json::json!([99.0]);
    let later = write(&folder, "later", &manifest);
    let alike = lab(&["manifest", "diff", &one, &later]);
    assert_eq!(alike.status.code(), Some(0), "{}", said(&alike));
    assert!(said(&alike).starts_with("What matters is alike.\n"), "{}", said(&alike));
    assert!(said(&alike).contains("now.load"), "{}", said(&alike));

    manifest["kernel"]["release"] = "9.9".into();
    let other = write(&folder, "other", &manifest);
    let differ = lab(&["manifest", "diff", &one, &other]);
    assert_eq!(differ.status.code(), Some(1), "{}", said(&differ));
    let line = said(&differ).lines().nth(1).expect("a line").to_owned();
    assert!(line.contains("kernel.release") && line.ends_with("→  9.9"), "{line}");
    let json = lab(&["manifest", "diff", "-o", "json", &one, &other]);
    let found: Value = serde_json::from_slice(&json.stdout).expect("JSON");
    assert_eq!((&found[0]["path"], &found[0]["matters"]), (&"kernel.release".into(), &true.into()));

    fs::write(&one, "{}").expect("a file");
    let wrong = lab(&["manifest", "diff", &one, &other]);
    assert_eq!(wrong.status.code(), Some(1));
    assert!(said(&wrong).contains("not a manifest"), "{}", said(&wrong));
    assert_eq!(lab(&["manifest", "diff", &one]).status.code(), Some(2));
}

/// A socket that is not answered: what a load of it holds is the machine, and that is enough here.
#[test]
fn results_hold_their_machine() {
    let _settings = hold_settings();
    let folder = Folder::new("results");
    let deaf = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let port = deaf.local_addr().expect("an address").port().to_string();
    let words = ["load", "-s", "127.0.0.1", "-p", &port, "--pattern", "a{i}", "--rate", "50"];
    let load = lab(&[&words[..], &["-l", "0.1", "-t", "0.1", "-o", "json"]].concat());
    assert!(load.status.success(), "{}", said(&load));
    let results = folder.join("results");
    fs::write(&results, &load.stdout).expect("a file");
    let results = results.display().to_string();
    let header: Value =
        serde_json::from_str(said(&load).lines().next().expect("a header")).expect("JSON");
    assert_eq!(header["manifest"], header["machine"]["fingerprint"]);

    let here = write(&folder, "here", &manifest());
    let alike = lab(&["manifest", "diff", &results, &here]);
    assert_eq!(alike.status.code(), Some(0), "{}", said(&alike));
    let mut elsewhere = serde_json::json!({"date": "today", "manifest": manifest()});
    elsewhere["manifest"]["cpu"]["model"] = "another".into();
    let comparison = write(&folder, "comparison", &elsewhere);
    let differ = lab(&["manifest", "diff", &results, &comparison]);
    assert_eq!(differ.status.code(), Some(1), "{}", said(&differ));
    assert!(said(&differ).contains("cpu.model"), "{}", said(&differ));
}

#[test]
fn the_doctor_reads_a_given_manifest() {
    let folder = Folder::new("doctor");
    let mut manifest = manifest();
    // A healthy machine, whatever this one is.
    manifest["now"]["busy"] = serde_json::json!({});
    manifest["now"]["steal"] = 0.0.into();
    manifest["now"]["swaps_pages"] = 0.into();
    manifest["software"]["profile"] = "release".into();
    manifest["virtualisation"]["quota"] = Value::Null;
    manifest["virtualisation"]["allowed"] = "0-1".into();
    manifest["frequency"]["policies"] = serde_json::json!({});
    manifest["kernel"]["irqbalance"] = false.into();
    manifest["devices"] = serde_json::json!({});
    let healthy = lab(&["doctor", "--manifest", &write(&folder, "healthy", &manifest)]);
    assert_eq!(healthy.status.code(), Some(0), "{}", said(&healthy));

    manifest["kernel"]["irqbalance"] = true.into();
    let path = write(&folder, "moved", &manifest);
    let wrong = lab(&["doctor", "--manifest", &path]);
    assert_eq!(wrong.status.code(), Some(1), "{}", said(&wrong));
    assert!(said(&wrong).starts_with("invalid  irqbalance runs\n   why   "), "{}", said(&wrong));
    let json = lab(&["doctor", "--manifest", &path, "-o", "json"]);
    let found: Value = serde_json::from_slice(&json.stdout).expect("JSON");
    assert_eq!(found[0]["severity"], "invalid");
    assert_eq!(json.status.code(), Some(1));
}

#[test]
fn impossible_requests_report_the_alternative() {
    for (words, wanted) in [
        (&["manifest", "--device", "nope"][..], "no device nope"),
        (&["tune", "--device", "nope", "--cpus", "0", "--dry-run"], "no device nope"),
        (&["hosts", "status", "--name", "absent"], "`dunlin-lab hosts up --name absent`"),
        (&["hosts", "up", "--name", "a/b"], "characters a-z, 0-9 and -"),
        (&["hosts", "up", "--queues", "99"], "1 to 64"),
        (&["hosts", "up", "--server-cpus", "1000"], "CPU 1000, for the server, is not one"),
    ] {
        let output = lab(words);
        assert_eq!(output.status.code(), Some(1), "{words:?}: {}", said(&output));
        assert!(said(&output).contains(wanted), "{words:?}: {}", said(&output));
    }
    for words in [
        &["tune", "--device", "lo"][..],
        &["tune", "--skip", "all"],
        &["tune", "--busy-poll", "1001"],
        &["hosts", "exec", "neither", "--", "true"],
        &["hosts", "up", "--layout", "half"],
    ] {
        let output = lab(words);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {}", said(&output));
    }
}

/// Two hosts, removed in the end with the processes in them.
struct Hosts(String);

impl Hosts {
    /// Nothing where we are not root; that fails if nothing may be skipped.
    fn up(prefix: char) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            skip::skip("two hosts need root");
            return None;
        }
        let hosts = Self(format!("{prefix}{}", std::process::id()));
        let words = ["hosts", "up", "--name", &hosts.0, "--layout", "steered", "--queues", "2"];
        let output = lab(&words);
        assert!(output.status.success(), "{}", said(&output));
        Some(hosts)
    }

    /// A command on the clients' host.
    fn exec(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dunlin-lab"));
        command.args(["hosts", "exec", "--name", &self.0, "client", "--"]).args(words);
        command
    }

    /// How the client's packets are steered.
    fn steering(&self) -> String {
        let file = format!("/sys/class/net/{}-gen/queues/rx-1/rps_cpus", self.0);
        let output = self.exec(&["cat", &file]).output().expect("it runs");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        lab(&["hosts", "down", "--end", "--name", &self.0]);
    }
}

#[test]
fn tuned_settings_are_restored_after_every_kill() {
    let Some(hosts) = Hosts::up('m') else { return };
    let device = format!("{}-gen", hosts.0);
    let before = hosts.steering();
    let own = ["buffers", "budget", "governor"].map(|kind| ["--skip", kind]).concat();
    let tune = [env!("CARGO_BIN_EXE_dunlin-lab"), "tune", "--device", &device, "--cpus", "0"];
    let tuned = |words: &[&str]| hosts.exec(&[&tune[..], &own, &["--"], words].concat());

    let file = format!("/sys/class/net/{device}/queues/rx-1/rps_cpus");
    let output = tuned(&["sh", "-c", &format!("cat {file}; exit 7")]).output().expect("it runs");
    let shown = String::from_utf8_lossy(&output.stdout);
    assert_eq!((output.status.code(), shown.trim()), (Some(7), "1"), "{}", said(&output));
    assert_eq!(hosts.steering(), before);

    let waiting = ["sh", "-c", "echo ready; sleep 60"];
    let mut killed = tuned(&waiting).stdout(Stdio::piped()).spawn().expect("it runs");
    let mut line = String::new();
    let mut out = BufReader::new(killed.stdout.take().expect("a pipe"));
    out.read_line(&mut line).expect("a line");
    assert_eq!(line, "ready\n");
    assert!(killed.kill().and_then(|()| killed.wait()).is_ok());
    // Whichever command of the lab comes next, on whichever host: one of another test may be about
    // to restore them; else it is the one that reads the steering here.
    wait::until_eq("the steering", || hosts.steering(), before);
}
