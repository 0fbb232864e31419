//! The control groups of the kernel.
use crate::Failure;
use crate::limits::GROUPS_MAX;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

pub(crate) const CPUS: &str = "cpuset.cpus";
pub(crate) const EFFECTIVE: &str = "cpuset.cpus.effective";
pub(crate) const EXCLUSIVE: &str = "cpuset.cpus.exclusive";
pub(crate) const PARTITION: &str = "cpuset.cpus.partition";
pub(crate) const CONTROL: &str = "cgroup.subtree_control";
pub(crate) const QUOTA: &str = "cpu.max";

/// A tree of control groups, by paths below its root; the root is the empty path.
pub trait Groups {
    /// The groups directly below one, sorted.
    ///
    /// # Errors
    /// The group is gone, or cannot be read.
    fn children(&self, group: &str) -> io::Result<Vec<String>>;

    /// A file of a group, without the white space around it.
    ///
    /// # Errors
    /// The group or the file is not there, or cannot be read.
    fn read(&self, group: &str, file: &str) -> io::Result<String>;

    /// Writes a file of a group.
    ///
    /// # Errors
    /// The kernel refuses the text, or the group is gone.
    fn write(&mut self, group: &str, file: &str, text: &str) -> io::Result<()>;

    /// Sets the CPUs of an interrupt, in the kernel's list format.
    ///
    /// # Errors
    /// The interrupt is gone, or the kernel does not move it.
    fn set_interrupt(&mut self, number: u32, cpus: &str) -> io::Result<()>;
}

/// Joins a group and the name of one below it.
pub(crate) fn join(group: &str, name: &str) -> String {
    if group.is_empty() { name.to_owned() } else { format!("{group}/{name}") }
}

/// The groups that a group is in, the root first.
pub(crate) fn ancestors(group: &str) -> Vec<&str> {
    let ends = group.match_indices('/').map(|(end, _)| &group[..end]);
    std::iter::once("").filter(|_| !group.is_empty()).chain(ends).collect()
}

/// The kernel's hierarchy.
pub struct LiveGroups(PathBuf);

impl LiveGroups {
    /// The hierarchy mounted at `root`, usually `/sys/fs/cgroup`.
    ///
    /// # Errors
    /// It is not cgroup v2, or has no cpuset controller.
    pub fn open(root: &Path) -> Result<Self, Failure> {
        let controllers = match fs::read_to_string(root.join("cgroup.controllers")) {
            Ok(controllers) => controllers,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(Failure(format!(
                    "{} is not cgroup v2 (cgroup.controllers is not there): boot with \
                     systemd.unified_cgroup_hierarchy=1, or name its mount by --cgroup",
                    root.display()
                )));
            }
            Err(error) => return Err(Failure::of("read", root.display(), &error)),
        };
        if !controllers.split_whitespace().any(|one| one == "cpuset") {
            return Err(Failure(format!(
                "{} has no cpuset controller: it is used by a cgroup v1 mount (see \
                 /proc/mounts), or the kernel lacks it",
                root.display()
            )));
        }
        Ok(Self(root.to_owned()))
    }

    fn path(&self, group: &str, file: &str) -> PathBuf {
        self.0.join(group).join(file)
    }
}

impl Groups for LiveGroups {
    fn children(&self, group: &str) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(self.0.join(group))? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                names.extend(entry.file_name().into_string().ok());
            }
            if names.len() > GROUPS_MAX {
                return Err(io::Error::other(format!("more than {GROUPS_MAX} groups")));
            }
        }
        names.sort();
        Ok(names)
    }

    fn read(&self, group: &str, file: &str) -> io::Result<String> {
        Ok(fs::read_to_string(self.path(group, file))?.trim().to_owned())
    }

    fn write(&mut self, group: &str, file: &str, text: &str) -> io::Result<()> {
        // Nothing is created: in a group that is gone there is no such file. An empty list needs
        // the line's end, because the kernel ignores a write of nothing.
        let mut options = fs::OpenOptions::new();
        let mut file = options.write(true).open(self.path(group, file))?;
        io::Write::write_all(&mut file, format!("{text}\n").as_bytes())
    }

    fn set_interrupt(&mut self, number: u32, cpus: &str) -> io::Result<()> {
        let path = format!("/proc/irq/{number}/smp_affinity_list");
        io::Write::write_all(&mut fs::OpenOptions::new().write(true).open(path)?, cpus.as_bytes())
    }
}
