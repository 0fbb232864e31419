//! Users of this machine's CPUs: control groups with CPUs of their own, and Dunlin's workers.
use crate::limits::GROUPS_MAX;
use crate::sysfs::{names, optional};
use cpu::CpuList;
use serde::Serialize;
use std::collections::VecDeque;
use std::fs;
use std::path::Path;

/// Something that runs on some CPUs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct User {
    /// Its kind.
    pub kind: UserKind,
    /// The path of the group, or the thread with its process.
    pub name: String,
    /// The CPUs that it may run on.
    #[serde(serialize_with = "crate::as_text")]
    pub cpus: CpuList,
}

/// What uses CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum UserKind {
    /// A thread of a Dunlin server that is bound to its CPU.
    Worker,
    /// A container's control group.
    Container,
    /// Another control group with CPUs of its own.
    Group,
}

/// The users of this machine's CPUs, as far as this process can see them. Groups without CPUs of
/// their own run wherever the group above may, and are left out.
pub fn users() -> Vec<User> {
    // cgroup v2, or the cpuset hierarchy of v1.
    let roots =
        ["/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/cpuset"].map(Path::new);
    let root = roots.into_iter().find(|root| {
        let controllers = optional(&root.join("cgroup.controllers")).unwrap_or_default();
        controllers.split_whitespace().any(|one| one == "cpuset")
            || root.join("cpuset.effective_cpus").exists()
    });
    let mut users = root.map(groups).unwrap_or_default();
    users.extend(workers(Path::new("/proc")));
    users
}

/// Groups below `root` that have CPUs of their own.
fn groups(root: &Path) -> Vec<User> {
    let mut users = Vec::new();
    let mut left = VecDeque::from([root.to_owned()]);
    let mut looked_at = 0;
    while let Some(dir) = left.pop_front().filter(|_| looked_at < GROUPS_MAX) {
        looked_at += 1;
        if dir != root {
            users.extend(group(root, &dir));
        }
        let entries = fs::read_dir(&dir).into_iter().flatten().flatten();
        let is_dir = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
        left.extend(entries.filter(is_dir).map(|entry| entry.path()));
    }
    users.sort_by(|a, b| a.name.cmp(&b.name));
    users
}

fn group(root: &Path, dir: &Path) -> Option<User> {
    let own = CpuList::from_kernel(&optional(&dir.join("cpuset.cpus"))?).ok()?;
    if own.is_empty() {
        return None;
    }
    let effective = ["cpuset.cpus.effective", "cpuset.effective_cpus"];
    let text = effective.iter().find_map(|name| optional(&dir.join(name)));
    let cpus = text.and_then(|text| CpuList::from_kernel(&text).ok()).unwrap_or(own);
    let name = dir.strip_prefix(root).unwrap_or(dir).display().to_string();
    // Container runtimes name a group by the container's id: 64 hexadecimal digits.
    let last = name.rsplit('/').next().unwrap_or_default();
    let longest = last.split(|c: char| !c.is_ascii_hexdigit()).map(str::len).max();
    let kind = if longest >= Some(64) { UserKind::Container } else { UserKind::Group };
    Some(User { kind, name, cpus })
}

/// Threads of Dunlin servers that are bound to one CPU.
fn workers(proc: &Path) -> Vec<User> {
    let mut users = Vec::new();
    for process in names(proc).into_iter().filter(|name| name.bytes().all(|b| b.is_ascii_digit())) {
        let own = proc.join(&process);
        if optional(&own.join("comm")).as_deref() != Some("dunlin") {
            continue;
        }
        for thread in names(&own.join("task")) {
            users.extend(worker(&own.join("task").join(thread), &process));
        }
    }
    users
}

fn worker(task: &Path, process: &str) -> Option<User> {
    let name = optional(&task.join("comm")).filter(|name| name.starts_with("worker"))?;
    let status = optional(&task.join("status"))?;
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    let cpus = CpuList::from_kernel(list).ok().filter(|cpus| cpus.len() == 1)?;
    Some(User { kind: UserKind::Worker, name: format!("dunlin {process} {name}"), cpus })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, file: &str, text: &str) {
        let path = root.join(file);
        fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        fs::write(path, text).expect("a file");
    }

    #[test]
    fn groups_with_cpus_of_their_own_and_bound_workers_are_found() {
        let root = std::env::temp_dir().join(format!("usage-{}", std::process::id()));
        let id = "0123456789abcdef".repeat(4);
        write(&root, "cg/system.slice/cpuset.cpus", "\n");
        write(&root, "cg/system.slice/db.service/cpuset.cpus", "2-3\n");
        write(&root, "cg/system.slice/db.service/cpuset.cpus.effective", "3\n");
        write(&root, &format!("cg/kubepods/cri-{id}.scope/cpuset.cpus"), "4-5\n");
        write(&root, "proc/7/comm", "dunlin\n");
        for (task, name, cpus) in
            [(7, "dunlin", "0-7"), (8, "worker-0", "6"), (9, "worker-1", "0-7")]
        {
            write(&root, &format!("proc/7/task/{task}/comm"), name);
            let status = format!("Name:\tx\nCpus_allowed_list:\t{cpus}\n");
            write(&root, &format!("proc/7/task/{task}/status"), &status);
        }
        let mut found = groups(&root.join("cg"));
        found.extend(workers(&root.join("proc")));
        fs::remove_dir_all(&root).expect("gone");
        let short: Vec<_> = found.iter().map(|user| (user.kind, user.cpus.to_string())).collect();
        let wanted =
            [(UserKind::Container, "4-5"), (UserKind::Group, "3"), (UserKind::Worker, "6")];
        assert_eq!(short, wanted.map(|(kind, cpus)| (kind, cpus.to_owned())));
    }
}
