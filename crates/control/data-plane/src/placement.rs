//! The number of workers, their CPUs, and which worker receives a datagram.
use config::limits::WORKERS_MAX;
use config::{Config, PortKind, Steering, Workers};
use cpu::CpuList;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

/// The CPU of each worker; `None` is a worker that the kernel places.
pub type WorkerCpus = Vec<Option<usize>>;

/// An address and one of its UDP sockets, which stands for all sockets of that address.
pub type AddressSocket<'s> = (SocketAddr, BorrowedFd<'s>);

/// Chooses at most so many CPUs from the list, one of each core, near an interface. Returns them
/// and the reason. The planner is passed in because this layer does not know the topology.
pub type CorePlanner = fn(&CpuList, usize, Option<&str>) -> Result<(CpuList, String), String>;

/// Where the workers run now.
pub struct Placement {
    plan_cores: CorePlanner,
    allowed: CpuList,
    cpus: WorkerCpus,
}

impl Placement {
    /// The CPUs that workers start on. If one was taken since they were placed, the first
    /// [`follow`](Self::follow) places them again.
    pub fn new(cpus: WorkerCpus, plan_cores: CorePlanner) -> Self {
        let allowed = cpu::allowed().unwrap_or_default();
        let is_current = cpus.iter().flatten().all(|&cpu| allowed.contains(cpu));
        let allowed = if is_current { allowed } else { CpuList::default() };
        Self { plan_cores, allowed, cpus }
    }

    /// The CPU of each worker.
    pub fn cpus(&self) -> &[Option<usize>] {
        &self.cpus
    }

    /// If the CPUs that this process may use have changed, places the workers again and moves those
    /// that are pinned. Their sockets and their number stay, so no query is lost. Returns whether
    /// they have changed.
    pub fn follow(&mut self, config: &Config) -> bool {
        // This thread is never pinned, so it has what the process has.
        let Ok(allowed) = cpu::allowed() else { return false };
        if allowed == self.allowed {
            return false;
        }
        let before = std::mem::replace(&mut self.allowed, allowed.clone()).to_string();
        self.cpus = place_again(config, &allowed, self.cpus.len(), self.plan_cores);
        for (index, cpu) in self.cpus.iter().enumerate() {
            let name = format!("worker-{index}");
            let moved = cpu.map_or(Ok(()), |cpu| cpu::pin_thread(&name, cpu));
            if let Err(error) = moved {
                tracing::warn!(worker = name, %error, "not moved; it runs where the kernel allows");
            }
        }
        let (allowed, cpus) = (allowed.to_string(), list(&self.cpus));
        tracing::info!(before, allowed, cpus, "workers follow the allowed CPUs");
        true
    }
}

/// The CPUs of workers in words.
fn list(worker_cpus: &[Option<usize>]) -> String {
    let cpus: CpuList = worker_cpus.iter().flatten().copied().collect();
    if cpus.is_empty() { "unbound".into() } else { cpus.to_string() }
}

/// Chooses the workers' CPUs among those this process may use, and logs the result and the reason.
/// A server that does not answer has no worker.
///
/// # Errors
/// A listed CPU is not allowed, or the kernel does not report the allowed CPUs.
pub fn place(config: &Config, plan_cores: CorePlanner) -> io::Result<WorkerCpus> {
    let server = &config.server;
    if !server.roles.dns {
        return Ok(Vec::new());
    }
    let allowed = cpu::allowed()?;
    let granted = workers_of_quota(cpu::quota()).min(WORKERS_MAX);
    let (worker_cpus, reason) = match &server.workers {
        Workers::Cpus(cpus) => (place_on(cpus, &allowed)?, "listed by [server] workers".into()),
        Workers::Count(count) => {
            (place_round(&allowed, *count, server.pin), "as many as [server] workers says".into())
        }
        Workers::Auto => {
            let count = allowed.len().min(granted);
            let limit = match cpu::quota() {
                Some(quota) if count < allowed.len() => format!(", quota {quota:.2}"),
                _ => String::new(),
            };
            let reason = format!("one for each allowed CPU ({allowed}{limit})");
            (place_round(&allowed, count, server.pin), reason)
        }
        Workers::Cores => {
            let near = interface(config);
            let planned = plan_cores(&allowed, granted, near.as_deref());
            let (cpus, reason) = planned.map_err(|error| {
                io::Error::other(format!("[server] workers = \"cores\": {error}"))
            })?;
            (cpus.iter().map(Some).collect(), reason)
        }
    };
    let cpus = list(&worker_cpus);
    tracing::info!(workers = worker_cpus.len(), cpus, reason, "workers placed");
    Ok(worker_cpus)
}

/// Checks that this process may use the CPUs that the config lists.
///
/// # Errors
/// A listed CPU is not allowed.
pub fn check(config: &Config) -> io::Result<()> {
    match &config.server.workers {
        Workers::Cpus(cpus) if config.server.roles.dns => {
            place_on(cpus, &cpu::allowed()?).map(drop)
        }
        _ => Ok(()),
    }
}

/// Places so many workers, which already run, on other allowed CPUs. Where those that the config
/// lists are gone, or no core can be planned, the kernel's choice of all allowed ones holds.
fn place_again(
    config: &Config,
    allowed: &CpuList,
    count: usize,
    plan_cores: CorePlanner,
) -> WorkerCpus {
    let cpus = match &config.server.workers {
        Workers::Cpus(cpus) => cpus.iter().filter(|cpu| allowed.as_slice().contains(cpu)).collect(),
        Workers::Count(_) | Workers::Auto => return place_round(allowed, count, config.server.pin),
        Workers::Cores => {
            let planned = plan_cores(allowed, count, interface(config).as_deref());
            planned.map(|(cpus, _)| cpus).unwrap_or_default()
        }
    };
    match cpus.is_empty() {
        true => vec![None; count],
        false => place_round(&cpus, count, true),
    }
}

/// The number of workers that a CPU quota can run: its whole CPUs, at least one. With more workers,
/// the kernel would stop all of them when the period's time is used up.
fn workers_of_quota(quota: Option<f64>) -> usize {
    quota.map_or(usize::MAX, |cpus| (cpus.floor() as usize).max(1))
}

fn place_round(allowed: &CpuList, count: usize, pin: bool) -> WorkerCpus {
    allowed.iter().cycle().take(count).map(|cpu| pin.then_some(cpu)).collect()
}

/// The interface that packets arrive on: that of `[xdp]`, else that of the default route.
fn interface(config: &Config) -> Option<String> {
    if config.server.port == PortKind::Xdp {
        return Some(config.xdp.interface.clone());
    }
    default_route(&fs::read_to_string("/proc/net/route").ok()?)
}

/// The interface of the default route in the text of `/proc/net/route`, if there is one.
fn default_route(routes: &str) -> Option<String> {
    routes.lines().skip(1).find_map(|line| {
        let mut columns = line.split_whitespace();
        let (interface, destination) = (columns.next()?, columns.next()?);
        (destination == "00000000").then(|| interface.to_owned())
    })
}

fn place_on(cpus: &CpuList, allowed: &CpuList) -> io::Result<WorkerCpus> {
    if let Some(cpu) = cpus.as_slice().iter().find(|cpu| !allowed.as_slice().contains(cpu)) {
        let message = format!(
            "[server] workers lists CPU {cpu}, which this process may not use; it may use {allowed}"
        );
        return Err(io::Error::other(message));
    }
    Ok(cpus.as_slice().iter().map(|cpu| Some(*cpu)).collect())
}

/// Makes the kernel deliver each datagram to the worker of the receiving CPU, if the setting asks
/// for it. Returns whether the kernel does.
///
/// `auto` steers only if every CPU has a bound worker and packets reach every CPU. Otherwise few
/// workers would get the queries of several CPUs.
pub fn steer(
    steering: Steering,
    worker_cpus: &[Option<usize>],
    sockets: &[AddressSocket<'_>],
) -> bool {
    if try_steer(steering, worker_cpus, sockets) {
        return true;
    }
    for (address, socket) in sockets {
        // The old process may have steered them to its own workers, so new sockets would receive
        // nothing.
        if let Err(error) = port_socket::unsteer(*socket) {
            tracing::warn!(%address, %error, "cannot stop steering by CPU");
        }
    }
    false
}

/// Like [`steer`], after a new process failed: its sockets may still exist, and must not receive
/// any more.
pub fn restore_steering(
    steering: Steering,
    worker_cpus: &[Option<usize>],
    sockets: &[AddressSocket<'_>],
) {
    if try_steer(steering, worker_cpus, sockets) {
        return;
    }
    for (address, socket) in sockets {
        if let Err(error) = port_socket::confine(*socket, worker_cpus.len()) {
            tracing::debug!(%address, %error, "not confined: no other socket exists");
        }
    }
}

fn try_steer(
    steering: Steering,
    worker_cpus: &[Option<usize>],
    sockets: &[AddressSocket<'_>],
) -> bool {
    let cpus: Vec<usize> = match worker_cpus.iter().copied().collect::<Option<Vec<_>>>() {
        Some(cpus) => cpus,
        // Not pinned: worker n stands for CPU n.
        None => cpu::allowed().unwrap_or_default().as_slice().to_vec(),
    };
    let allowed = cpu::allowed().unwrap_or_default();
    let every_cpu = allowed.as_slice().iter().all(|cpu| worker_cpus.contains(&Some(*cpu)));
    let wanted = match steering {
        Steering::Auto => {
            worker_cpus.len() > 1 && every_cpu && cpu::receives_everywhere(worker_cpus.len())
        }
        Steering::Cpu => true,
        Steering::Hash => false,
    };
    let cpus = &cpus[..cpus.len().min(worker_cpus.len())];
    let is_steered = |(address, socket): &AddressSocket<'_>| {
        let done = port_socket::steer(*socket, cpus);
        if let Err(error) = &done {
            tracing::warn!(%address, %error, "not steered by CPU; the kernel's hash decides");
        }
        done.is_ok()
    };
    wanted && sockets.iter().all(is_steered)
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::Config;
    use std::path::Path;

    fn worker_cpus(text: &str) -> io::Result<WorkerCpus> {
        let last = |cpus: &CpuList, most, _: Option<&str>| match cpus.iter().next_back() {
            Some(cpu) if most > 0 => Ok((CpuList::from_iter([cpu]), "a test".into())),
            _ => Err("no CPU".into()),
        };
        place(&Config::parse(Path::new("f"), text).expect("a config"), last)
    }

    #[test]
    fn workers_run_on_the_configured_cpus() {
        let allowed = cpu::allowed().expect("CPUs");
        let first = allowed.as_slice()[0];
        assert_eq!(worker_cpus("server.workers = 3").expect("CPUs"), [None; 3]);
        let pinned = worker_cpus("server.workers = 1\nserver.pin = true").expect("CPUs");
        assert_eq!(pinned, [Some(first)]);
        let listed = worker_cpus(&format!("server.workers = \"{first}\"")).expect("CPUs");
        assert_eq!(listed, [Some(first)]);
        let cores = worker_cpus("server.workers = \"cores\"").expect("CPUs");
        assert_eq!(cores, [allowed.iter().next_back()]);
        assert!((1..=allowed.as_slice().len()).contains(&worker_cpus("").expect("CPUs").len()));
    }

    #[test]
    fn workers_are_placed_again_when_a_cpu_was_taken_before_they_started() {
        let config = Config::parse(Path::new("f"), "server.workers = 1").expect("a config");
        let plan: CorePlanner = |_, _, _| Err("no plan".into());
        let mut stale = Placement::new(vec![Some(cpu::limits::CPUS_MAX - 1)], plan);
        assert!(stale.follow(&config));
        assert_eq!(stale.cpus(), [None]);
        assert!(!stale.follow(&config), "once");
    }

    #[test]
    fn quota_allows_whole_cpus_and_at_least_one_worker() {
        let quotas = [Some(0.2), Some(1.9), Some(2.0), Some(7.5), None];
        assert_eq!(quotas.map(workers_of_quota), [1, 1, 2, 7, usize::MAX]);
    }

    #[test]
    fn interface_of_the_default_route_is_found() {
        let head = "Iface\tDestination\tGateway\n";
        let routes = format!("{head}eth1\t0002000A\t0\neth0\t00000000\t0102000A\n");
        assert_eq!(default_route(&routes).as_deref(), Some("eth0"));
        assert_eq!(default_route(head), None);
    }

    #[test]
    fn cpu_that_is_not_allowed_is_an_error() {
        let beyond = cpu::limits::CPUS_MAX - 1;
        let error =
            worker_cpus(&format!("server.workers = \"{beyond}\"")).expect_err("not allowed");
        assert!(error.to_string().contains(&format!("CPU {beyond}")), "{error}");
    }
}
