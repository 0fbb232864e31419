//! Settings of a real device are restored after the process that made them is gone. Needs root.

use test_support::skip;

use lab_host::machine::Machine;
use lab_host::tune::{Options, Part, Session, Step, plan, recover};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

const VICTIM: &str = "LAB_HOST_TEST_VICTIM";

/// A veth device of two queues and its folder, gone in the end.
struct Device {
    name: String,
    state: PathBuf,
}

impl Device {
    fn new() -> Self {
        let name = format!("t{}", std::process::id());
        let peer = format!("{name}-p");
        let queues = ["numrxqueues", "2", "numtxqueues", "2"];
        ip(&[&["link", "add", &name], &queues[..], &["type", "veth", "peer", "name", &peer]]
            .concat());
        for end in [&name, &peer] {
            ip(&["link", "set", end, "up"]);
        }
        assert!(
            Command::new("ethtool").args(["-K", &name, "gro", "on"]).status().unwrap().success()
        );
        let state = std::env::temp_dir().join(format!("tune-{name}"));
        Self { name, state }
    }

    fn content(&self) -> Vec<String> {
        let folder = format!("/sys/class/net/{}", self.name);
        let files =
            ["threaded", "queues/rx-0/rps_cpus", "queues/tx-0/xps_cpus", "queues/tx-1/xps_cpus"];
        files.map(|file| fs::read_to_string(format!("{folder}/{file}")).unwrap()).into()
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        ip(&["link", "delete", &self.name]);
        let _ = fs::remove_dir_all(&self.state);
    }
}

fn ip(words: &[&str]) {
    assert!(Command::new("ip").args(words).status().unwrap().success(), "ip {words:?}");
}

/// Only of the device: others measure on this machine, too.
fn options(device: &str) -> Options {
    Options {
        device: Some((device.to_owned(), "0-1".parse().unwrap())),
        threads: true,
        busy_poll_us: None,
        skip: vec![Part::Buffers, Part::Budget, Part::Governor],
    }
}

fn possible() -> bool {
    if rustix::process::geteuid().is_root() {
        return true;
    }
    skip::skip("settings need root");
    false
}

/// Tunes, and kills itself when all is changed.
#[test]
fn victim() {
    let Ok(told) = std::env::var(VICTIM) else { return };
    let (device, state) = told.split_once(' ').unwrap();
    let machine = Machine::this();
    let changes = plan(&machine, &options(device)).unwrap();
    let mut session = Session::begin(&machine, state.as_ref()).unwrap();
    let mut changed = 0;
    let mut count = |step| changed += usize::from(step == Step::Changed);
    session.apply(&changes, &mut count).unwrap();
    // Both polling threads are pinned one by one.
    assert_eq!(changed, changes.len() + 1);
    assert_eq!(
        fs::read_to_string(format!("/sys/class/net/{device}/threaded")).unwrap().trim(),
        "1"
    );
    rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL)
        .unwrap();
}

#[test]
fn device_settings_are_restored_after_a_kill() {
    if !possible() {
        return;
    }
    let device = Device::new();
    let before = device.content();
    let mut victim = Command::new(std::env::current_exe().unwrap());
    let told = format!("{} {}", device.name, device.state.display());
    let output = victim.args(["--exact", "tune::victim"]).env(VICTIM, told).output().unwrap();
    let signal = std::os::unix::process::ExitStatusExt::signal(&output.status);
    assert_eq!(signal, Some(9), "{}", String::from_utf8_lossy(&output.stdout));
    assert_ne!(device.content(), before);
    let restored = recover(&Machine::this(), &device.state).unwrap().expect("there was a journal");
    assert!(restored.changed.iter().any(|file| file.ends_with("threaded")), "{restored:?}");
    assert_eq!(device.content(), before);
    assert_eq!(recover(&Machine::this(), &device.state), Ok(None));
}
