//! Reading a machine again and again.
use crate::devices;
use crate::read::{read_roots, with_process};
use crate::sysfs::{ReadError, Roots, names, optional};
use crate::types::Topology;

/// Reads this machine again and again. Only what can change without a trace is read each time: the
/// CPUs that interrupts may go to. The rest is read again when a CPU goes offline or comes, and
/// when a device or an interrupt comes or goes.
pub struct Reader {
    roots: Roots,
    is_live: bool,
    last: Option<(Vec<String>, Topology)>,
}

impl Default for Reader {
    fn default() -> Self {
        Self { roots: Roots::live(), is_live: true, last: None }
    }
}

impl Reader {
    #[cfg(test)]
    pub(crate) fn saved(roots: Roots) -> Self {
        Self { roots, is_live: false, last: None }
    }

    /// The machine as it is now.
    ///
    /// # Errors
    /// As [`crate::read()`].
    pub fn read(&mut self) -> Result<Topology, ReadError> {
        let marks = marks(&self.roots);
        let mut topology = match self.last.take() {
            Some((last, mut topology)) if last == marks => {
                devices::read_affinities(&self.roots, &mut topology);
                topology
            }
            _ => read_roots(&self.roots)?,
        };
        if self.is_live {
            topology = with_process(topology)?;
        }
        self.last = Some((marks, topology.clone()));
        Ok(topology)
    }
}

/// What differs when anything but an affinity does.
fn marks(roots: &Roots) -> Vec<String> {
    let cpus = roots.sys.join("devices/system/cpu");
    let lists = ["online", "present", "isolated", "nohz_full"];
    let lists = lists.map(|list| optional(&cpus.join(list)).unwrap_or_default());
    let folders = ["devices/system/node", "class/net", "class/block", "bus/pci/devices"];
    let folders = folders.map(|folder| names(&roots.sys.join(folder)).join(" "));
    let interrupts = names(&roots.proc.join("irq")).join(" ");
    lists.into_iter().chain(folders).chain([interrupts]).collect()
}
