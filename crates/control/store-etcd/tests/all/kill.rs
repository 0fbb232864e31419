//! A process that writes large batches is killed, or stopped and continued, at any moment.
use crate::node::{self, Node, eventually};
use records::{Precondition, Refused};
use rustix::process::{Pid, Signal, kill_process};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use test_support::etcd::Etcd;
use test_support::operator::Operator;

/// The endpoints of the killed process.
const ENDPOINTS: &str = "DUNLIN_FLEET_ENDPOINTS";

fn spawn(etcd: &Etcd) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kill::killed_writer_leaves_whole_batches_and_nothing_staged"])
        .env(ENDPOINTS, etcd.endpoints().join(" "))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn write_until_killed(endpoints: &str) -> ! {
    let node = Node::start_on(endpoints.split(' ').map(str::to_owned).collect());
    let ours = std::process::id() % 200;
    for n in 0.. {
        // A conflict with another writer, or a stopped process whose time is over.
        let _ = node.put_all(&format!("10.0.{ours}.{}", n % 250));
    }
    unreachable!("it is killed")
}

/// Kills a process, and removes what it left.
fn end(writer: &mut Child) {
    writer.kill().unwrap();
    writer.wait().unwrap();
    // It may have been killed before it had a folder.
    let _ = std::fs::remove_dir_all(node::folder(writer.id(), 0));
}

/// `make campaign-fleet-kill` repeats it 200 times.
#[test]
fn killed_writer_leaves_whole_batches_and_nothing_staged() {
    if let Ok(endpoints) = std::env::var(ENDPOINTS) {
        write_until_killed(&endpoints);
    }
    let Some(etcd) = Etcd::start_or_skip(1) else { return };
    let rounds = std::env::var("DUNLIN_KILLS").map_or(6, |rounds| rounds.parse().unwrap());
    let node = Node::start(&etcd);
    node.create("example.org.").unwrap();
    let mut stopped: Option<Child> = None;
    for round in 0..rounds {
        let mut writer = spawn(&etcd);
        let moment = Duration::from_millis(fastrand::u64(300..1_500));
        if round == 0 {
            eventually(|| !node.addresses("example.org.").is_empty());
        }
        let began = Instant::now();
        while began.elapsed() < moment {
            let found = node.addresses("example.org.");
            assert!(found.len() <= 1, "round {round}: a batch is half done: {found:?}");
        }
        let signal = |child: &Child, signal| {
            kill_process(Pid::from_raw(child.id() as i32).unwrap(), signal).unwrap();
        };
        // One that was stopped continues while another writes, and is then killed.
        if let Some(mut other) = stopped.take() {
            signal(&other, Signal::CONT);
            thread::sleep(Duration::from_millis(fastrand::u64(..300)));
            end(&mut other);
        }
        if round % 2 == 0 {
            end(&mut writer);
        } else {
            signal(&writer, Signal::STOP);
            stopped = Some(writer);
        }
    }
    if let Some(mut other) = stopped {
        end(&mut other);
    }
    eventually(|| node.addresses("example.org.").len() <= 1);
    // A write finishes what was left in the middle.
    let written = node.put("last.example.org.", "192.0.2.1", Precondition::Anything);
    assert!(!matches!(written, Err(Refused::UnknownOutcome { .. })), "{written:?}");
    let etcd_client = Operator::of(&etcd);
    eventually(|| etcd_client.count("/dunlin/staged/") + etcd_client.count("/dunlin/moving") == 0);
    let again = Node::start(&etcd);
    eventually(|| again.revision() == node.revision());
    assert_eq!(again.export(), node.export());
}
