//! Partitions of the kernel: the CPUs of one are taken away from all other groups, also from those
//! that come while no manager runs, and from the processes in the root group.
//!
//! Since Linux 6.7 a partition's parent need not be a partition (`cpuset.cpus.exclusive`). On older
//! kernels only the sets keep other groups off, and the next pass keeps a new group off.
use crate::Failure;
use crate::groups::{EXCLUSIVE, Groups, PARTITION, ancestors};
use crate::manager::{Manager, Wanted};
use cpu::CpuList;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Passes in which a refused partition is tried again. The kernel refuses for a moment while a
/// runtime fills a group.
const TRIES: u32 = 20;

/// After these passes, the interval of tries, in passes.
const RETRY: Duration = Duration::from_secs(10);

const ROOT: &str = "root";
const MEMBER: &str = "member";

/// Partitions that the kernel refused.
pub(crate) struct Refused {
    cpus: CpuList,
    tries: u32,
    last: Instant,
}

impl Refused {
    fn is_left_for_now(&self) -> bool {
        self.tries >= TRIES && self.last.elapsed() < RETRY
    }
}

impl<G: Groups> Manager<G> {
    fn has_partitions(&self, group: &str) -> bool {
        self.groups.read(group, EXCLUSIVE).is_ok()
    }

    fn is_partition(&self, group: &str) -> bool {
        self.groups.read(group, PARTITION).is_ok_and(|text| text.starts_with(ROOT))
    }

    /// Records the previous settings before partitions are created.
    pub(crate) fn remember_partitions(&mut self, assigned: &Wanted) {
        let mut files: Vec<(String, &str)> = Vec::new();
        for path in assigned.keys().filter(|path| self.has_partitions(path)) {
            files.extend([(path.clone(), PARTITION), (path.clone(), EXCLUSIVE)]);
            let above = ancestors(path).into_iter().filter(|above| self.has_partitions(above));
            files.extend(above.map(|above| (above.to_owned(), EXCLUSIVE)));
        }
        for (path, file) in files {
            // An existing partition was made by an earlier run whose state was lost.
            let text = if file == PARTITION { MEMBER } else { "" };
            let found = self.state.found.entry(path).or_default();
            found.entry(file.to_owned()).or_insert_with(|| text.to_owned());
        }
    }

    /// Ends the partition of a group, if it is one, so that its set can change.
    pub(crate) fn leave_partition(&mut self, group: &str) -> Result<(), Failure> {
        if self.is_partition(group) {
            self.write(group, PARTITION, MEMBER)?;
            self.write(group, EXCLUSIVE, "")?;
        }
        Ok(())
    }

    /// Ends the partitions of groups that no longer have exclusive CPUs.
    pub(crate) fn leave_partitions(&mut self, assigned: &Wanted) -> Result<(), Failure> {
        let left: Vec<String> = (self.state.found.iter())
            .filter(|(path, files)| files.contains_key(PARTITION) && !assigned.contains_key(*path))
            .map(|(path, _)| path.clone())
            .collect();
        for path in left {
            self.leave_partition(&path)?;
            if let Some(files) = self.state.found.get_mut(&path) {
                files.remove(PARTITION);
                files.remove(EXCLUSIVE);
            }
        }
        Ok(())
    }

    /// Makes each group with CPUs of its own a partition, where the kernel can.
    pub(crate) fn make_partitions(&mut self, assigned: &Wanted) -> Result<(), Failure> {
        self.unpartitioned.retain(|path, refused| assigned.get(path) == Some(&refused.cpus));
        let there: Vec<(&String, &CpuList)> = assigned
            .iter()
            .filter(|(path, _)| {
                !self.unpartitioned.get(*path).is_some_and(Refused::is_left_for_now)
            })
            .filter(|(path, _)| self.has_partitions(path))
            .collect();
        // The parent groups grant the CPUs first, beginning at the root.
        let mut grants: BTreeMap<&str, CpuList> = BTreeMap::new();
        for (path, files) in &self.state.found {
            if files.contains_key(EXCLUSIVE) && !files.contains_key(PARTITION) {
                grants.insert(path, CpuList::default());
            }
        }
        let grants: BTreeMap<String, CpuList> = {
            for (path, cpus) in &there {
                for above in ancestors(path) {
                    if let Some(grant) = grants.get_mut(above) {
                        *grant = grant.union(cpus);
                    }
                }
            }
            grants.into_iter().map(|(path, cpus)| (path.to_owned(), cpus)).collect()
        };
        for (path, cpus) in &grants {
            self.grant(path, cpus)?;
        }
        self.summary.partitions = 0;
        for (path, cpus) in there {
            if self.make_partition(path, cpus) {
                self.summary.partitions += 1;
                self.unpartitioned.remove(path);
            } else {
                self.leave_partition(path)?;
                let tries = self.unpartitioned.get(path).map_or(0, |refused| refused.tries) + 1;
                let refused = Refused { cpus: cpus.clone(), tries, last: Instant::now() };
                self.unpartitioned.insert(path.clone(), refused);
            }
        }
        Ok(())
    }

    fn grant(&mut self, path: &str, cpus: &CpuList) -> Result<(), Failure> {
        match self.groups.read(path, EXCLUSIVE).map(|text| CpuList::from_kernel(&text)) {
            Ok(Ok(found)) if found == *cpus => Ok(()),
            Ok(_) => self.write(path, EXCLUSIVE, &cpus.to_string()),
            Err(_) => Ok(()),
        }
    }

    /// Whether the group is a partition of these CPUs now.
    fn make_partition(&mut self, path: &str, cpus: &CpuList) -> bool {
        let is_so = |manager: &Self| {
            let read = |file| manager.groups.read(path, file).unwrap_or_default();
            read(PARTITION) == ROOT
                && CpuList::from_kernel(&read(EXCLUSIVE)).ok().as_ref() == Some(cpus)
        };
        if is_so(self) {
            return true;
        }
        // The kernel reports a refusal only when the file is read again.
        drop(self.groups.write(path, PARTITION, MEMBER));
        drop(self.groups.write(path, EXCLUSIVE, &cpus.to_string()));
        drop(self.groups.write(path, PARTITION, ROOT));
        is_so(self)
    }
}
