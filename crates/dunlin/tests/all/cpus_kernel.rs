//! `dunlin cpus manage` with the kernel: real control groups (cgroup v2) with real processes.
//! Needs root, and a cgroup v2 with the cpuset controller.
use cpu::CpuList;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use test_support::skip::leave;
use test_support::wait;

/// A control group for one test with its processes, removed when dropped.
struct Tree {
    root: PathBuf,
    folder: PathBuf,
    processes: Vec<Child>,
}

impl Tree {
    /// Groups `own`, `beside` and `a.slice/deep`, each with a busy process; `None`: not available.
    fn new(test: &str) -> Option<Self> {
        let top = Path::new("/sys/fs/cgroup");
        let controllers = fs::read_to_string(top.join("cgroup.controllers")).unwrap_or_default();
        let cpus = cpu::allowed().expect("CPUs").len();
        if !controllers.split_whitespace().any(|one| one == "cpuset") || cpus < 2 {
            leave("root, two CPUs and a cgroup v2 with the cpuset controller at /sys/fs/cgroup");
            return None;
        }
        fs::write(top.join("cgroup.subtree_control"), "+cpuset").expect("root");
        let root = top.join(format!("dunlin-{test}-{}", std::process::id()));
        let folder = std::env::temp_dir().join(format!("cpus-{test}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let mut tree = Self { root, folder, processes: Vec::new() };
        for group in ["own", "beside", "a.slice/deep"] {
            tree.busy(group);
        }
        Some(tree)
    }

    /// Starts a busy process in a group.
    fn busy(&mut self, group: &str) -> u32 {
        fs::create_dir_all(self.root.join(group)).expect("a group");
        let child = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().expect("sh");
        let id = child.id();
        self.processes.push(child);
        self.write(group, "cgroup.procs", &id.to_string());
        id
    }

    fn write(&self, group: &str, file: &str, text: &str) {
        fs::write(self.root.join(group).join(file), format!("{text}\n")).expect(file);
    }

    fn read(&self, group: &str, file: &str) -> String {
        let text = fs::read_to_string(self.root.join(group).join(file));
        text.map(|text| text.trim().to_owned()).unwrap_or_default()
    }

    fn effective(&self, group: &str) -> CpuList {
        CpuList::from_kernel(&self.read(group, "cpuset.cpus.effective")).expect("a list")
    }

    fn rules(&self, cpus: usize) {
        let rules = format!("[[group]]\npath = \"own\"\ncpus = {cpus}\n");
        // Replaced atomically, as an editor does it.
        fs::write(self.folder.join("new"), rules).expect("rules");
        fs::rename(self.folder.join("new"), self.folder.join("rules")).expect("rules");
    }

    fn command(&self, act: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dunlin"));
        command.args(["cpus", act]).arg("--cgroup").arg(&self.root);
        command.arg("--state").arg(self.folder.join("state"));
        if act == "manage" {
            command.arg("--rules").arg(self.folder.join("rules")).args(["--interval", "50ms"]);
            command.arg("--metrics").arg(self.folder.join("metrics"));
            command.args(["--kubelet-state", "/nonexistent"]);
        }
        command
    }

    /// One pass.
    fn once(&self) -> Output {
        self.command("manage").arg("--once").output().expect("dunlin runs")
    }

    fn manage(&self) -> Manager {
        let child = self.command("manage").stdout(Stdio::null()).spawn().expect("dunlin runs");
        Manager(child)
    }

    /// Whether `own` has this many CPUs, and no process of another group may run on them.
    fn is_exclusive(&self, cpus: usize) -> bool {
        let own = self.effective("own");
        let apart = ["beside", "a.slice", "a.slice/deep"]
            .iter()
            .all(|group| self.effective(group).intersection(&own).is_empty());
        let allowed = |child: &Child| {
            let status = fs::read_to_string(format!("/proc/{}/status", child.id()));
            let status = status.expect("a process");
            let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
            CpuList::from_kernel(line.expect("a line")).expect("a list")
        };
        let [first, others @ ..] = self.processes.as_slice() else { return false };
        own.len() == cpus
            && apart
            && allowed(first) == own
            && others.iter().all(|one| allowed(one).intersection(&own).is_empty())
    }

    /// Waits for a condition; how long it took.
    fn wait(&self, what: &str, is_so: impl Fn(&Self) -> bool) -> Duration {
        let begin = Instant::now();
        wait::until_true(what, || is_so(self));
        begin.elapsed()
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        for process in &mut self.processes {
            drop(process.kill());
            drop(process.wait());
        }
        for group in ["own", "beside", "late", "a.slice/deep", "a.slice", ""] {
            // The kernel removes a killed process a little later.
            let folder = self.root.join(group);
            let removed = || if folder.exists() { fs::remove_dir(&folder) } else { Ok(()) };
            drop(wait::try_until_ok("an empty group", removed));
        }
        drop(fs::remove_dir_all(&self.folder));
    }
}

/// A running manager, killed when dropped.
struct Manager(Child);

impl Drop for Manager {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn error(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
#[ignore = "kernel: it needs a cgroup v2 with the cpuset controller, and two CPUs"]
fn group_has_its_cpus_alone_and_uninstall_restores_all() {
    let Some(tree) = Tree::new("alone") else { return };
    let files = |tree: &Tree| {
        let groups = ["own", "beside", "a.slice", "a.slice/deep"];
        groups.map(|group| (tree.read(group, "cpuset.cpus"), tree.read(group, "cgroup.procs")))
    };
    let (before, control) = (files(&tree), tree.read("", "cgroup.subtree_control"));
    tree.rules(1);
    let output = tree.once();
    assert!(output.status.success(), "{}", error(&output));
    assert!(tree.is_exclusive(1), "own {}", tree.effective("own"));
    // The CPUs where the processes really run, while each runs for 200 ms (in ticks of 10 ms).
    let own = tree.effective("own");
    let has_run = |index: usize, process: &Child| {
        let stat = fs::read_to_string(format!("/proc/{}/stat", process.id())).expect("a process");
        let behind_name = stat.rsplit(')').next().expect("a name");
        let fields: Vec<&str> = behind_name.split_whitespace().collect();
        let field = |at: usize| fields[at].parse::<usize>().expect("a number");
        assert_eq!(own.contains(field(36)), index == 0, "process {index}");
        field(11)
    };
    let ticks = || -> Vec<usize> {
        tree.processes.iter().enumerate().map(|(index, one)| has_run(index, one)).collect()
    };
    let first = ticks();
    wait::until_value("each has run", ticks, |now| {
        now.iter().zip(&first).all(|(now, first)| now - first >= 20)
    });
    let undone = tree.command("uninstall").output().expect("dunlin runs");
    assert!(undone.status.success(), "{}", error(&undone));
    assert_eq!(files(&tree), before);
    assert_eq!(tree.read("", "cgroup.subtree_control"), control);
    assert!(!tree.folder.join("state").exists());
}

#[test]
#[ignore = "kernel: it needs a cgroup v2 with the cpuset controller, and two CPUs"]
fn manual_changes_and_new_groups_are_repaired() {
    let Some(mut tree) = Tree::new("drift") else { return };
    tree.rules(1);
    let manager = tree.manage();
    tree.wait("exclusive", |tree| tree.is_exclusive(1));
    let all = tree.effective("").to_string();
    for round in 0..10 {
        for group in ["beside", "own", "a.slice"] {
            tree.write(group, "cpuset.cpus", &all);
        }
        let after = tree.wait("drift", |tree| tree.is_exclusive(1));
        println!("round {round}: mended after {after:?}");
    }
    tree.busy("late");
    tree.wait("a new group", |tree| tree.is_exclusive(1));
    // The rules change: all groups share again.
    fs::write(tree.folder.join("rules"), "policy = \"none\"\n").expect("rules");
    tree.wait("policy none", |tree| tree.read("own", "cpuset.cpus").is_empty());
    let metrics = fs::read_to_string(tree.folder.join("metrics")).expect("metrics");
    assert!(metrics.contains("dunlin_cpus_healthy 1"), "{metrics}");
    drop(manager);
}

#[test]
#[ignore = "kernel: it needs a cgroup v2 with the cpuset controller, and two CPUs"]
fn killed_manager_leaves_the_set_and_the_next_one_continues() {
    let Some(mut tree) = Tree::new("killed") else { return };
    tree.rules(1);
    let begin = tree.manage();
    tree.wait("exclusive", |tree| tree.is_exclusive(1));
    drop(begin);
    let own = tree.effective("own");
    for round in 0..20_u64 {
        let manager = tree.manage();
        std::thread::sleep(Duration::from_millis(round * 7));
        drop(manager);
        assert!(tree.is_exclusive(1), "round {round}: {}", tree.effective("own"));
        assert_eq!(tree.effective("own"), own, "round {round}");
        if round % 5 == 0 {
            // Changes by another program while the manager is not running.
            tree.write("beside", "cpuset.cpus", &tree.effective("").to_string());
            let manager = tree.manage();
            tree.wait("damage", |tree| tree.is_exclusive(1));
            drop(manager);
        }
    }
    // A group that is created meanwhile shares the CPUs until the manager runs again.
    tree.busy("late");
    let manager = tree.manage();
    tree.wait("a late group", |tree| tree.is_exclusive(1));
    drop(manager);
}

#[test]
#[ignore = "kernel: it needs a cgroup v2 with the cpuset controller, and two CPUs"]
fn rule_for_more_cpus_than_exist_changes_nothing() {
    let Some(tree) = Tree::new("more") else { return };
    let all = tree.effective("").len();
    tree.rules(all + 1);
    let output = tree.once();
    assert_eq!(output.status.code(), Some(1), "{}", error(&output));
    assert!(error(&output).contains("request at most"), "{}", error(&output));
    tree.rules(all);
    let last = tree.once();
    assert!(error(&last).contains("must stay for all others"), "{}", error(&last));
    // The controller may still be off in the subtree.
    let own = tree.effective("own").len();
    assert!(own == 0 || own == all, "{own} of {all}");
}
