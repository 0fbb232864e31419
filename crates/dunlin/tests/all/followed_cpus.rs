//! A server whose cpuset is changed from outside while it answers. Needs root.
use crate::served::{HEAD, Served, binary, zone};
use lab_load::arrivals::{Arrivals, Rate, Spacing};
use lab_load::names::{Order, QuestionSet, QuestionSpec};
use lab_load::query::QueryFormat;
use lab_load::{LoadMode, Options, QuerySource};
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::scope;
use test_support::skip;
use test_support::wait;
use wire::Rtype;

/// A control group with CPUs of its own.
struct CpusetGroup {
    root: &'static str,
    folder: PathBuf,
}

impl CpusetGroup {
    /// Why there is none, if the kernel or the rights lack.
    fn new(cpus: &str) -> Result<Self, String> {
        let is_unified = Path::new("/sys/fs/cgroup/cgroup.controllers").exists();
        let root = if is_unified { "/sys/fs/cgroup" } else { "/sys/fs/cgroup/cpuset" };
        let told = |error| format!("a control group with CPUs in {root}: {error}");
        if is_unified {
            fs::write("/sys/fs/cgroup/cgroup.subtree_control", "+cpuset").map_err(told)?;
        }
        let folder = Path::new(root).join(format!("dunlin-follow-{}", std::process::id()));
        fs::create_dir(&folder).map_err(told)?;
        let group = Self { root, folder };
        fs::write(group.folder.join("cpuset.mems"), "0").map_err(told)?;
        fs::write(group.folder.join("cpuset.cpus"), cpus).map_err(told)?;
        Ok(group)
    }

    fn set(&self, cpus: &str) {
        fs::write(self.folder.join("cpuset.cpus"), cpus).expect("other CPUs");
    }
}

impl Drop for CpusetGroup {
    fn drop(&mut self) {
        let processes = fs::read_to_string(self.folder.join("cgroup.procs")).unwrap_or_default();
        for process in processes.lines() {
            let _ = fs::write(Path::new(self.root).join("cgroup.procs"), process);
        }
        let _ = fs::remove_dir(&self.folder);
    }
}

/// Where each worker may run, by its number.
fn workers(served: &Served) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{}/task", served.child.id())).expect("it runs");
    let read = |path: PathBuf| fs::read_to_string(path).unwrap_or_default();
    let mut found: Vec<(String, String)> = tasks
        .map(|task| task.expect("a thread").path())
        .map(|task| (read(task.join("comm")), read(task.join("status"))))
        .filter(|(name, _)| name.starts_with("worker-"))
        .map(|(name, status)| {
            let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
            (name, line.unwrap_or_default().trim().to_owned())
        })
        .collect();
    found.sort();
    found.into_iter().map(|(_, cpus)| cpus).collect()
}

fn expect(served: &Served, cpus: [&str; 2]) {
    wait::until_eq("the CPUs of the workers", || workers(served), cpus);
}

/// Steady loads for as long as the changes take: sent and answered queries. Each load waits for its
/// last answers; one that is stopped would count them as lost.
fn load(address: SocketAddr, stop: &AtomicBool) -> (u64, u64) {
    let form = QueryFormat { recursion: true, ..QueryFormat::default() };
    let set = QuestionSet::from_pattern("ns.follow.test", 1, Rtype::A, form).expect("a name");
    let what = QuestionSpec {
        set: Arc::new(set),
        order: Order::Uniform,
        unique: 0.0,
        nxdomain: 0.0,
        under: None,
    };
    let rate = Rate::Constant(500.0);
    let options = Options {
        when: LoadMode::Open(Arrivals { rate, spacing: Spacing::Even, burst: 1 }),
        length_ns: 500_000_000,
        channels: 16,
        timeout_ns: 30_000_000_000,
        ..Options::new(address, QuerySource::Questions(Box::new(what)))
    };
    let (mut sent, mut answered) = (0, 0);
    while !stop.load(Ordering::Relaxed) {
        let never = AtomicBool::new(false);
        let counts = lab_load::run(&options, &never, &mut |_| {}).expect("a load").counts;
        (sent, answered) = (sent + counts.sent, answered + counts.answered);
    }
    (sent, answered)
}

/// Ends the load, also when the test fails.
struct StopOnDrop<'s>(&'s AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Workers lose a CPU and get it back, under load: each move is followed and no query is lost.
#[test]
fn changed_cpuset_is_followed_without_losing_a_query() {
    let cpus: Vec<String> =
        cpu::allowed().expect("CPUs").iter().map(|cpu| cpu.to_string()).collect();
    let [first, second, ..] = cpus.as_slice() else { return skip::skip("two CPUs") };
    let both = format!("{first},{second}");
    let group = match CpusetGroup::new(&both) {
        Ok(group) => group,
        Err(why) => return skip::skip(&why),
    };
    let mut command = Command::new("sh");
    let enter = format!("echo $$ >{}/cgroup.procs && exec \"$0\" \"$@\"", group.folder.display());
    command.arg("-c").arg(enter).arg(binary().get_program());
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("followed-cpus");
    let config = format!("pin = true\n[admin]\nsocket = \"\"\n{}", zone("follow.test"));
    let mut served =
        Served::start_by(&mut command, &folder, &config, &[("follow.test.zone", HEAD)]);
    expect(&served, [first, second]);

    let (stop, address) = (AtomicBool::new(false), served.address);
    let (sent, answered) = scope(|scope| {
        let loaded = scope.spawn(|| load(address, &stop));
        let stops = StopOnDrop(&stop);
        for (allowed, places) in [
            (second, [second, second]),
            (&both, [first, second]),
            (first, [first, first]),
            (&both, [first, second]),
        ] {
            group.set(allowed);
            served.expect_line("workers follow the allowed CPUs", "allowed");
            expect(&served, places.map(String::as_str));
        }
        drop(stops);
        loaded.join().expect("a load")
    });
    assert!(sent > 100, "{sent} queries");
    assert_eq!(answered, sent, "no query is lost");
    served.end();
    drop(served);
    drop(group);
}
