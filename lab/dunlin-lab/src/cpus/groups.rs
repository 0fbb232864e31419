//! The control groups of an experiment, made as a kubelet makes those of its pods.
use cpu::CpuList;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The group that all others of an experiment are in.
const TOP: &str = "dunlin-lab";

/// How long the kernel may take to end processes, and the manager to act.
const PATIENCE: Duration = Duration::from_secs(30);

/// The period of quotas, microseconds.
const PERIOD_US: u64 = 100_000;

/// The quality of service of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Qos {
    /// Its limit is its request.
    Guaranteed,
    /// It has a request and no limit.
    Burstable,
}

impl Qos {
    /// Its name, as Kubernetes writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Guaranteed => "Guaranteed",
            Self::Burstable => "Burstable",
        }
    }
}

/// Groups, until they are dropped: then their processes end, and the groups are gone.
pub struct Groups {
    root: PathBuf,
    /// Names what this has switched on in the root group, also after it was killed.
    note: PathBuf,
}

impl Groups {
    /// Finds cgroup v2. The groups of an experiment that was killed are removed.
    ///
    /// # Errors
    /// There is no cgroup v2, or it lacks a controller: what to do.
    pub fn find(note: &Path) -> Result<Self, String> {
        let mounts =
            fs::read_to_string("/proc/mounts").map_err(|e| format!("/proc/mounts: {e}"))?;
        let root = find_root(&mounts, |root| read(root, "cgroup.controllers"))?;
        let groups = Self { root, note: note.to_owned() };
        groups.remove();
        Ok(groups)
    }

    /// Makes the group of experiments.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn make_top(&self) -> Result<(), String> {
        let on = read(&self.root, "cgroup.subtree_control");
        for controller in ["cpu", "cpuset"] {
            if !on.split_whitespace().any(|one| one == controller) {
                let noted = fs::read_to_string(&self.note).unwrap_or_default();
                fs::write(&self.note, format!("{noted} {controller}"))
                    .map_err(|e| format!("{}: {e}", self.note.display()))?;
                self.write(Path::new(""), "cgroup.subtree_control", &format!("+{controller}"))?;
            }
        }
        self.make(Path::new(TOP))
    }

    /// Where cgroup v2 is mounted.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Makes a group for a workload that requests `milli` thousandths of a CPU; its path below the
    /// root. Weight and quota are those of a kubelet without a CPU manager.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn add(&self, name: &str, qos: Qos, milli: u64) -> Result<PathBuf, String> {
        let parent = match qos {
            Qos::Guaranteed => PathBuf::from(TOP),
            Qos::Burstable => Path::new(TOP).join("burstable"),
        };
        if !self.root.join(&parent).exists() {
            self.make(&parent)?;
        }
        let group = parent.join(name);
        let path = self.root.join(&group);
        fs::create_dir(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        self.write(&group, "cpu.weight", &weight(milli).to_string())?;
        if qos == Qos::Guaranteed {
            let quota = format!("{} {PERIOD_US}", milli * PERIOD_US / 1_000);
            self.write(&group, "cpu.max", &quota)?;
        }
        Ok(group)
    }

    /// Ends the processes of a group, and removes it.
    ///
    /// # Errors
    /// The kernel does not end them.
    pub fn end(&self, group: &Path) -> Result<(), String> {
        self.write(group, "cgroup.kill", "1")?;
        let (begin, path) = (Instant::now(), self.root.join(group));
        while let Err(error) = fs::remove_dir(&path) {
            if begin.elapsed() > PATIENCE {
                return Err(format!("cannot remove the control group {}: {error}", path.display()));
            }
            sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// The CPUs that a group may use now.
    pub fn cpus(&self, group: &Path) -> CpuList {
        let cpus = read(&self.root.join(group), "cpuset.cpus.effective");
        CpuList::from_kernel(&cpus).unwrap_or_default()
    }

    /// How often the quota of a group has stopped it.
    pub fn throttled(&self, group: &Path) -> u64 {
        let stat = read(&self.root.join(group), "cpu.stat");
        let line = stat.lines().find_map(|line| line.strip_prefix("nr_throttled "));
        line.and_then(|number| number.parse().ok()).unwrap_or(0)
    }

    /// A command that joins a group before it becomes the program.
    pub fn command(&self, group: &Path, program: &Path) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "echo $$ >\"$0\" && exec \"$@\""]);
        command.arg(self.root.join(group).join("cgroup.procs")).arg(program);
        command
    }

    /// A program that starts another one in a group.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn starter(&self, group: &Path, program: &Path, at: &Path) -> Result<(), String> {
        use std::os::unix::fs::PermissionsExt;
        let procs = self.root.join(group).join("cgroup.procs");
        let quote =
            |path: &Path| format!("'{}'", path.display().to_string().replace('\'', "'\\''"));
        let text =
            format!("#!/bin/sh\necho $$ >{} && exec {} \"$@\"\n", quote(&procs), quote(program));
        fs::write(at, text)
            .and_then(|()| fs::set_permissions(at, fs::Permissions::from_mode(0o700)))
            .map_err(|e| format!("{}: {e}", at.display()))
    }

    fn make(&self, group: &Path) -> Result<(), String> {
        let path = self.root.join(group);
        fs::create_dir(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        self.write(group, "cgroup.subtree_control", "+cpu +cpuset")
    }

    fn write(&self, group: &Path, file: &str, text: &str) -> Result<(), String> {
        let path = self.root.join(group).join(file);
        fs::write(&path, text)
            .map_err(|error| format!("cannot write {text:?} into {}: {error}", path.display()))
    }

    /// Removes all groups of experiments, deepest first.
    fn remove(&self) {
        let top = self.root.join(TOP);
        if !top.exists() {
            return;
        }
        // What is refused now is tried again by the next experiment.
        let _ = fs::write(top.join("cgroup.kill"), "1");
        let begin = Instant::now();
        while top.exists() && begin.elapsed() < PATIENCE {
            remove_tree(&top);
            sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        self.remove();
        let noted = fs::read_to_string(&self.note).unwrap_or_default();
        for controller in noted.split_whitespace() {
            // Another program that uses it meanwhile keeps it.
            let off = format!("-{controller}");
            let _ = self.write(Path::new(""), "cgroup.subtree_control", &off);
        }
        let _ = fs::remove_file(&self.note);
    }
}

fn remove_tree(folder: &Path) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        remove_tree(&entry.path());
    }
    let _ = fs::remove_dir(folder);
}

fn read(folder: &Path, file: &str) -> String {
    fs::read_to_string(folder.join(file)).unwrap_or_default().trim().to_owned()
}

/// `cpu.weight` of thousandths of a CPU, as a kubelet computes it from shares.
fn weight(milli: u64) -> u64 {
    let shares = (milli * 1_024 / 1_000).clamp(2, 262_144);
    1 + (shares - 2) * 9_999 / 262_142
}

/// The first mount of cgroup v2 that has CPUs to give.
fn find_root(mounts: &str, controllers: impl Fn(&Path) -> String) -> Result<PathBuf, String> {
    let mount = |line: &str| {
        let mut words = line.split(' ').skip(1);
        let place = words.next()?;
        (words.next()? == "cgroup2").then(|| PathBuf::from(place))
    };
    let all: Vec<PathBuf> = mounts.lines().filter_map(mount).collect();
    let has_both = |root: &&PathBuf| {
        let controllers = controllers(root);
        ["cpu", "cpuset"].iter().all(|c| controllers.split_whitespace().any(|one| one == *c))
    };
    let places: Vec<String> = all.iter().map(|root| root.display().to_string()).collect();
    all.iter().find(has_both).cloned().ok_or_else(|| match places.is_empty() {
        true => "cgroup v2 is not mounted: mount -t cgroup2 none /sys/fs/cgroup, or boot with \
                 systemd.unified_cgroup_hierarchy=1"
            .into(),
        false => format!(
            "cgroup v2 at {} lacks the controllers cpu and cpuset: cgroup v1 has them (see \
             /proc/mounts); boot with systemd.unified_cgroup_hierarchy=1",
            places.join(", ")
        ),
    })
}

/// `dunlin cpus manage` with a rule for one group, until it is dropped: then all is as before.
pub struct Manager {
    child: Child,
    program: PathBuf,
    state: PathBuf,
    root: PathBuf,
}

impl Manager {
    /// Starts it, and waits until the group has CPUs for itself and the others have none of them.
    ///
    /// # Errors
    /// It does not start, or does not give the group its CPUs; with its words.
    pub fn start(
        program: &Path,
        groups: &Groups,
        folder: &Path,
        (group, cpus): (&Path, usize),
        others: &[&Path],
    ) -> Result<Self, String> {
        let rules = folder.join("rules.toml");
        let text = format!("[[group]]\npath = \"{}\"\ncpus = {cpus}\n", group.display());
        fs::write(&rules, text).map_err(|e| format!("{}: {e}", rules.display()))?;
        let log = folder.join("manager.log");
        let file = fs::File::create(&log).map_err(|e| format!("{}: {e}", log.display()))?;
        let errors = file.try_clone().map_err(|e| format!("{}: {e}", log.display()))?;
        let (state, root) = (folder.join("cpus.state"), groups.root().to_owned());
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "TERM"]).arg(program).args(["cpus", "manage", "--rules"]);
        command.arg(&rules).arg("--state").arg(&state).arg("--cgroup").arg(&root);
        command.args(["--interval", "200ms"]);
        let child = command.stdin(Stdio::null()).stdout(file).stderr(errors).spawn();
        let child = child.map_err(|e| format!("{}: {e}", program.display()))?;
        let mut manager = Self { child, program: program.to_owned(), state, root };
        let begin = Instant::now();
        loop {
            let own = groups.cpus(group);
            let is_alone = others.iter().all(|one| groups.cpus(one).intersection(&own).is_empty());
            if own.len() == cpus && is_alone {
                return Ok(manager);
            }
            let has_ended = manager.child.try_wait().map_err(|e| e.to_string())?.is_some();
            if has_ended || begin.elapsed() > PATIENCE {
                let said = fs::read_to_string(&log).unwrap_or_default();
                return Err(format!(
                    "the manager does not give {} {cpus} CPUs of its own: {}",
                    group.display(),
                    said.trim()
                ));
            }
            sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        uninstall(&self.program, &self.state, &self.root);
    }
}

/// Puts back what a manager has set.
pub fn uninstall(program: &Path, state: &Path, root: &Path) {
    let mut command = Command::new(program);
    command.args(["cpus", "uninstall", "--state"]).arg(state).arg("--cgroup").arg(root);
    match command.output() {
        Ok(output) if output.status.success() => {}
        Ok(output) => {
            eprintln!("dunlin-lab: {command:?}: {}", String::from_utf8_lossy(&output.stderr));
        }
        Err(error) => eprintln!("dunlin-lab: {command:?}: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_those_of_a_kubelet() {
        assert_eq!([0, 100, 1_000, 4_000].map(weight), [1, 4, 39, 157]);
    }

    #[test]
    fn a_hierarchy_without_cpus_is_refused_with_a_remedy() {
        let mounts = "cgroup2 /a cgroup2 rw 0 0\ncgroup2 /b cgroup2 rw 0 0\n";
        let in_b = |root: &Path| match root.ends_with("b") {
            true => "cpuset cpu io".to_owned(),
            false => "hugetlb".to_owned(),
        };
        assert_eq!(find_root(mounts, in_b), Ok(PathBuf::from("/b")));
        let error = find_root(mounts, |_| "cpu memory".into()).unwrap_err();
        assert!(error.contains("/a, /b lacks the controllers") && error.contains("boot with"));
        let error = find_root("proc /proc proc rw 0 0\n", |_| String::new()).unwrap_err();
        assert!(error.contains("mount -t cgroup2"), "{error}");
    }
}
