//! A node: the machine's control groups, containerd, and the manager.
use cpu::CpuList;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use test_support::containerd::Containerd;
use test_support::skip::leave;
use test_support::wait;

/// A script that runs for a moment some ten times a second, and starts no other process from
/// then on. Each wake-up asks the scheduler for an idle CPU; a loop that never sleeps stays where
/// it is, and takes the time of the runtime where CPUs are emulated.
pub const BUSY: &str = "/bin/busybox mkfifo /tmp/f; exec 3<>/tmp/f; \
    while :; do i=0; while [ $i -lt 100 ]; do i=$((i+1)); done; read -t 0.1 x <&3; done";

/// A script of a container with CPUs of its own: idle CPUs attract the busy ones of others, and
/// cost less where CPUs are emulated.
pub const IDLE: &str = "sleep 1000000";

/// The group of all processes that are not containers.
pub const SYSTEM: &str = "system";

const TOP: &str = "/sys/fs/cgroup";

pub struct Node {
    pub containerd: Containerd,
    folder: PathBuf,
    manager: Arc<Mutex<Option<Child>>>,
}

/// A pod with one container that always runs.
pub struct Pod {
    id: String,
    pub group: String,
    pub cpus: u64,
    /// When it began to be alone on its CPUs; monotonic seconds.
    pub alone_since: Option<f64>,
    pub alone_until: f64,
    /// The CPUs that it is alone on, and its process.
    pub own: CpuList,
    pub processes: Vec<u32>,
}

/// Seconds of the clock that the kernel's trace has, too.
pub fn now() -> f64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

impl Pod {
    /// From now on it must be alone, if it has CPUs of its own and none are noted yet.
    pub fn open(&mut self, node: &Node) {
        if self.cpus > 0 && self.alone_since.is_none() {
            self.own = node.effective(&self.group);
            let processes = node.read(&self.group, "cgroup.procs");
            self.processes = processes.lines().filter_map(|line| line.parse().ok()).collect();
            self.alone_since = Some(now());
            self.alone_until = f64::INFINITY;
        }
    }

    /// It may end from now on.
    pub fn close(&mut self) {
        self.alone_until = now();
    }
}

impl Node {
    /// `None`: this machine is not the test's own, or lacks something.
    pub fn new(test: &str) -> Option<Self> {
        let controllers = fs::read_to_string(Path::new(TOP).join("cgroup.controllers"));
        let has_sets = controllers.unwrap_or_default().split_whitespace().any(|c| c == "cpuset");
        let is_own = !Path::new("/run/systemd/system").exists();
        if !has_sets || !is_own || cpu::allowed().expect("CPUs").len() < 2 {
            leave("a virtual machine of its own, with two CPUs and cgroup v2 at /sys/fs/cgroup");
            return None;
        }
        fs::write(Path::new(TOP).join("cgroup.subtree_control"), "+cpuset +cpu").expect("root");
        let containerd = Containerd::start(&format!("cpus-{test}"))?;
        let folder = std::env::temp_dir().join(format!("cpus-{test}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let node = Self { containerd, folder, manager: Arc::default() };
        // As systemd does: no process stays in the root group.
        fs::create_dir_all(Path::new(TOP).join(SYSTEM)).expect("a group");
        for process in fs::read_dir("/proc").expect("/proc").flatten() {
            let name = process.file_name().to_string_lossy().into_owned();
            if name.bytes().all(|byte| byte.is_ascii_digit()) {
                // The kernel refuses its own threads.
                drop(fs::write(Path::new(TOP).join(SYSTEM).join("cgroup.procs"), name));
            }
        }
        Some(node)
    }

    pub fn read(&self, group: &str, file: &str) -> String {
        let text = fs::read_to_string(Path::new(TOP).join(group).join(file));
        text.map(|text| text.trim().to_owned()).unwrap_or_default()
    }

    pub fn exists(&self, group: &str) -> bool {
        Path::new(TOP).join(group).exists()
    }

    pub fn effective(&self, group: &str) -> CpuList {
        CpuList::from_kernel(&self.read(group, "cpuset.cpus.effective")).expect("a list")
    }

    pub fn online(&self) -> CpuList {
        let online = fs::read_to_string("/sys/devices/system/cpu/online").expect("a list");
        CpuList::from_kernel(&online).expect("a list")
    }

    pub fn has_partitions(&self) -> bool {
        Path::new(TOP).join(SYSTEM).join("cpuset.cpus.exclusive").exists()
    }

    /// The sets of all groups that are not containers of this test, and who may go where.
    pub fn files(&self) -> BTreeMap<String, String> {
        let mut files = BTreeMap::new();
        for group in [SYSTEM, "kubepods"] {
            for file in ["cpuset.cpus", "cpuset.cpus.exclusive", "cpu.max"] {
                files.insert(format!("{group}/{file}"), self.read(group, file));
            }
        }
        files
    }

    /// All groups of the machine below one.
    fn groups(&self, above: &str) -> Vec<String> {
        let entries = fs::read_dir(Path::new(TOP).join(above)).into_iter().flatten().flatten();
        let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        let mut all = Vec::new();
        for folder in folders {
            let name = folder.file_name().to_string_lossy().into_owned();
            let path = if above.is_empty() { name } else { format!("{above}/{name}") };
            all.extend(self.groups(&path));
            all.push(path);
        }
        all
    }

    /// Whether a group has so many CPUs, and no group with processes beside it one of them; for 0
    /// CPUs whether it has any.
    pub fn is_alone(&self, group: &str, cpus: u64) -> bool {
        let own = self.effective(group);
        if cpus == 0 {
            return !own.is_empty();
        }
        let others = self.groups("");
        let others = others.iter().filter(|other| *other != group && self.has_processes(other));
        let has_none = |other: &String| self.effective(other).intersection(&own).is_empty();
        // Only a partition keeps those off that come while no manager runs.
        let is_partition = || self.read(group, "cpuset.cpus.partition") == "root";
        own.len() as u64 == cpus
            && others.into_iter().all(has_none)
            && (!self.has_partitions() || is_partition())
    }

    fn has_processes(&self, group: &str) -> bool {
        !self.read(group, "cgroup.procs").is_empty()
    }

    pub fn assert_alone(&self, group: &str, own: &CpuList) {
        assert_eq!(self.effective(group), *own, "{group}");
        assert!(self.is_alone(group, own.len() as u64), "{group} is not alone: {}", self.log());
    }

    fn command(&self, act: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dunlin"));
        command.args(["cpus", act]).arg("--state").arg(self.folder.join("state"));
        command
    }

    pub fn manage(&mut self) {
        let mut command = self.command("manage");
        command.arg("--nri").arg(self.containerd.nri()).args(["--interval", "200ms"]);
        command.arg("--rules").arg(self.folder.join("rules"));
        let log = fs::File::options().create(true).append(true).open(self.folder.join("log"));
        let log = log.expect("a file");
        let both = log.try_clone().expect("a file");
        let child = command.stdout(log).stderr(both).stdin(Stdio::null()).spawn();
        *self.manager.lock().expect("a manager") = Some(child.expect("dunlin runs"));
    }

    pub fn kill(&mut self) {
        kill(&self.manager);
    }

    /// Kills the manager after a while, whatever it does then.
    pub fn kill_after(&self, after: Duration) -> JoinHandle<()> {
        let manager = Arc::clone(&self.manager);
        std::thread::spawn(move || {
            std::thread::sleep(after);
            kill(&manager);
        })
    }

    pub fn uninstall(&self) {
        let output = self.command("uninstall").output().expect("dunlin runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    /// How often the managers have written something.
    pub fn logged(&self, what: &str) -> usize {
        self.log().matches(what).count()
    }

    pub fn pod(&mut self, name: &str, cgroup: &str, annotations: &[&str]) -> String {
        self.containerd.pod(name, cgroup, annotations)
    }

    /// Starts a pod with a container that always runs: Guaranteed with CPUs of its own, or
    /// Burstable.
    pub fn start(&mut self, number: u64, cpus: u64) -> Pod {
        let class = if cpus == 0 { "burstable/" } else { "" };
        let parent = format!("/kubepods/{class}pod{number}");
        let id = self.pod(&format!("p{number}"), &parent, &[]);
        let milli = if cpus == 0 { 100 } else { cpus as u32 * 1_000 };
        let script = if cpus == 0 { BUSY } else { IDLE };
        let container = self.containerd.run(&id, "c", milli, cpus > 0, script);
        let group = format!("{}/{container}", &parent[1..]);
        let (own, processes) = (CpuList::default(), Vec::new());
        Pod { id, group, cpus, alone_since: None, alone_until: 0.0, own, processes }
    }

    pub fn end(&mut self, pod: &Pod) {
        self.containerd.must(&["stop-pod", &pod.id]);
        self.containerd.must(&["remove-pod", &pod.id]);
        // As a kubelet does; groups that stay make each later look at all of them longer.
        let (above, _) = pod.group.rsplit_once('/').expect("a pod's group");
        fs::remove_dir(Path::new(TOP).join(above)).expect("an empty group");
    }

    pub fn wait_for_end(&mut self, container: &str) {
        let state = || self.containerd.must(&["state", container]);
        wait::until_value("the container ends", state, |state| state.contains("EXITED"));
    }

    /// The CPUs of each group, a line each.
    fn sets(&self) -> String {
        let files = ["cpuset.cpus", "cpuset.cpus.effective", "cpuset.cpus.partition"];
        let set =
            |group: String| format!("{group}: {:?}\n", files.map(|file| self.read(&group, file)));
        self.groups("").into_iter().map(set).collect()
    }

    /// Waits until it is so.
    pub fn wait(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        wait::until_ok(what, || {
            is_so(self).then_some(()).ok_or_else(|| format!("{}\n{}", self.sets(), self.log()))
        });
    }
}

fn kill(manager: &Mutex<Option<Child>>) {
    if let Some(mut child) = manager.lock().expect("a manager").take() {
        drop(child.kill());
        drop(child.wait());
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        kill(&self.manager);
        drop(self.command("uninstall").output());
        drop(fs::remove_dir_all(&self.folder));
    }
}
