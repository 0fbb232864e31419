//! Follows the CPUs that this process may use: others change its cpuset while it runs.
use crate::server::{Server, lock};
use crate::workers::{self, CorePlanner, WorkerCpus};
use cpu::CpuList;

/// Where the workers run now.
pub struct Placement {
    plan_cores: CorePlanner,
    allowed: CpuList,
    pub cpus: WorkerCpus,
}

impl Placement {
    /// The CPUs that workers start on.
    pub fn new(cpus: WorkerCpus, plan_cores: CorePlanner) -> Self {
        Self { plan_cores, allowed: cpu::allowed().unwrap_or_default(), cpus }
    }
}

impl Server {
    /// If the allowed CPUs have changed, places the workers anew and moves those that are pinned.
    /// Their sockets and their number stay, so no query is lost.
    pub fn follow_cpus(&self) {
        if lock(&self.threads).is_none() {
            return;
        }
        // This thread is never pinned, so it has what the process has.
        let Ok(allowed) = cpu::allowed() else { return };
        let mut placement = lock(&self.placement);
        if allowed == placement.allowed {
            return;
        }
        let before = std::mem::replace(&mut placement.allowed, allowed.clone());
        let count = placement.cpus.len();
        let plan_cores = placement.plan_cores;
        let cpus = workers::place_again(lock(&self.live).started(), &allowed, count, plan_cores);
        for (index, cpu) in cpus.iter().enumerate() {
            let name = format!("worker-{index}");
            let moved = cpu.map_or(Ok(()), |cpu| cpu::pin_thread(&name, cpu));
            if let Err(error) = moved {
                tracing::warn!(worker = name, %error, "not moved; it runs where the kernel allows");
            }
        }
        let list: CpuList = cpus.iter().flatten().copied().collect();
        let cpus_text = if list.is_empty() { "unbound".into() } else { list.to_string() };
        placement.cpus = cpus;
        drop(placement);
        let steered = self.steer_again();
        let (before, allowed) = (before.to_string(), allowed.to_string());
        tracing::info!(
            before,
            allowed,
            cpus = cpus_text,
            steered,
            "workers follow the allowed CPUs"
        );
    }
}
