//! Dunlins as the Pods of a target: as many as it asks for, each held to a tenth of a core.
use super::bed::Bed;
use crate::served::{Served, binary, zone};
use cluster::objects;
use serde_json::{Value, json};
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;
use test_support::ports;

/// Names in the zone that they serve.
pub const NAMES: u32 = 10_000;

/// A control group whose processes get 1 ms of CPU time in each 10 ms.
pub struct CpuGroup {
    folder: PathBuf,
    is_unified: bool,
}

impl CpuGroup {
    /// Why there is none, if the kernel or the rights lack.
    pub fn new(name: &str) -> Result<Self, String> {
        let (unified, legacy) = (Path::new("/sys/fs/cgroup"), Path::new("/sys/fs/cgroup/cpu"));
        let is_unified = unified.join("cgroup.controllers").exists();
        let root = if is_unified { unified } else { legacy };
        let folder = root.join(format!("dunlin-scale-{}-{name}", std::process::id()));
        let group = Self { folder, is_unified };
        let told = |error| format!("a control group for CPU, {}: {error}", group.folder.display());
        fs::create_dir(&group.folder).map_err(told)?;
        let limits: &[(&str, &str)] = match is_unified {
            true => &[("cpu.max", "1000 10000")],
            false => &[("cpu.cfs_period_us", "10000"), ("cpu.cfs_quota_us", "1000")],
        };
        for (file, text) in limits {
            fs::write(group.folder.join(file), text).map_err(told)?;
        }
        Ok(group)
    }

    /// The shell's words before a command that runs in the group.
    fn enter(&self) -> String {
        format!("echo $$ >{}/cgroup.procs && exec \"$0\" \"$@\"", self.folder.display())
    }

    /// The share of its periods in which it had no CPU time left.
    pub fn throttled(&self) -> f64 {
        let text = fs::read_to_string(self.folder.join("cpu.stat")).unwrap_or_default();
        let number = |key: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(key));
            line.and_then(|number| number.trim().parse::<f64>().ok()).unwrap_or(0.0)
        };
        number("nr_throttled ") / number("nr_periods ").max(1.0)
    }
}

impl Drop for CpuGroup {
    fn drop(&mut self) {
        let root = if self.is_unified { "/sys/fs/cgroup" } else { "/sys/fs/cgroup/cpu" };
        for pid in fs::read_to_string(self.folder.join("cgroup.procs")).unwrap_or_default().lines()
        {
            let _ = fs::write(Path::new(root).join("cgroup.procs"), pid);
        }
        let _ = fs::remove_dir(&self.folder);
    }
}

/// One server in its group.
pub struct Replica {
    pub served: Served,
    pub group: CpuGroup,
    pub ops: SocketAddr,
}

impl Replica {
    /// Why none starts, if there is no control group for it.
    pub fn start(test: &str, index: usize) -> Result<Self, String> {
        let name = format!("{test}-{index}");
        let group = CpuGroup::new(&name)?;
        let ops = ports::free_address(Ipv4Addr::LOCALHOST).into();
        let config =
            format!("[ops]\nlisten = \"{ops}\"\n[admin]\nsocket = \"\"\n{}", zone("fleet.test"));
        let mut records =
            "$TTL 60\n@ SOA ns root 1 60 60 60 1\n@ NS ns\nns A 192.0.2.1\n".to_owned();
        for n in 0..NAMES {
            records += &format!("n{n} A 10.0.{}.{}\n", n / 256, n % 256);
        }
        let mut command = Command::new("sh");
        command.arg("-c").arg(group.enter()).arg(binary().get_program());
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(&name);
        let files = [("fleet.test.zone", records.as_str())];
        let served = Served::start_by(&mut command, &folder, &config, &files);
        Ok(Self { served, group, ops })
    }

    /// CPU seconds of the process, as its metrics say.
    pub fn cpu_s(&self) -> f64 {
        let (_, text) = super::bed::page(&self.ops.to_string(), "/metrics");
        let line = text.lines().find_map(|line| line.strip_prefix("process_cpu_seconds_total "));
        line.and_then(|number| number.parse().ok()).expect("its CPU time")
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        let _ = self.served.child.kill();
        let _ = self.served.child.wait();
    }
}

/// All replicas, known to the cluster as Pods.
pub struct Fleet<'b> {
    bed: &'b Bed,
    replicas: Vec<Replica>,
    /// Where those that are ready answer, for their clients.
    ready: Arc<Mutex<Vec<SocketAddr>>>,
}

impl<'b> Fleet<'b> {
    pub fn new(bed: &'b Bed) -> Self {
        Self { bed, replicas: Vec::new(), ready: Arc::default() }
    }

    pub fn ready(&self) -> Arc<Mutex<Vec<SocketAddr>>> {
        Arc::clone(&self.ready)
    }

    pub fn replicas(&self) -> &[Replica] {
        &self.replicas
    }

    /// Starts and ends replicas until there are as many as the target asks for, as a controller and
    /// kubelets do. Returns that number.
    pub fn follow(&mut self) -> usize {
        let wanted = usize::try_from(self.bed.replicas("dns")).expect("few replicas");
        while self.replicas.len() > wanted {
            self.ready.lock().expect("no panic").pop();
            self.replicas.pop();
            let path = format!("{}/dns-{}", self.path(), self.replicas.len());
            let ended = self.bed.cluster.request(
                "DELETE",
                &format!("{path}?gracePeriodSeconds=0"),
                &Value::Null,
            );
            ended.and_then(cluster::Answer::done).expect("a Pod ends");
        }
        let first = self.replicas.len();
        let name = self.bed.name;
        let started: Vec<Replica> = thread::scope(|scope| {
            let start = |index| move || Replica::start(name, index);
            let threads: Vec<_> = (first..wanted).map(|index| scope.spawn(start(index))).collect();
            let started = threads.into_iter().map(|thread| thread.join().expect("no panic"));
            started.map(|replica| replica.expect("a replica")).collect()
        });
        for (replica, index) in started.into_iter().zip(first..) {
            self.announce(index, replica.ops);
            self.ready.lock().expect("no panic").push(replica.served.address);
            self.replicas.push(replica);
        }
        wanted
    }

    fn path(&self) -> String {
        format!("/api/v1/namespaces/{}/pods", self.bed.name)
    }

    fn announce(&self, index: usize, ops: SocketAddr) {
        let name = format!("dns-{index}");
        let mut pod = objects::pod(self.bed.name, &name, json!({"app": "dns"}));
        let container = &mut pod["spec"]["containers"][0];
        container["ports"] = json!([{"name": "metrics", "containerPort": ops.port()}]);
        container["resources"] = json!({"limits": {"cpu": "100m"}});
        self.bed.cluster.create(&pod);
        let status = objects::ready_status(&[&ops.ip().to_string()]);
        self.bed.cluster.patch(&format!("{}/{name}/status", self.path()), &status);
    }
}
