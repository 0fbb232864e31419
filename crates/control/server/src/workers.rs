//! How many workers there are, where they run, and which of them a datagram goes to.
use config::limits::WORKERS_MAX;
use config::{Config, PortKind, Steering, Workers};
use cpu::CpuList;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

/// Where each worker runs: one entry a worker; nothing: wherever the kernel puts it.
pub type Places = Vec<Option<usize>>;

/// Any of the UDP sockets of an address: what is done to one is done to all.
pub type OneOf<'s> = (SocketAddr, BorrowedFd<'s>);

/// Chooses CPUs for workers, one of each core: of the CPUs in the list at most so many, near an
/// interface. Returns them and the reason. What knows the machine is not of this layer.
pub type CorePlanner = fn(&CpuList, usize, Option<&str>) -> Result<(CpuList, String), String>;

/// Places the workers on the CPUs this process may use, and logs where and why.
///
/// # Errors
/// A listed CPU is not among them, or the kernel does not tell which they are.
pub fn place(config: &Config, plan_cores: CorePlanner) -> io::Result<Places> {
    let server = &config.server;
    let allowed = cpu::allowed()?;
    let granted = granted(cpu::quota()).min(WORKERS_MAX);
    let (places, reason) = match &server.workers {
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
    let cpus: CpuList = places.iter().flatten().copied().collect();
    let cpus = if cpus.is_empty() { "unbound".into() } else { cpus.to_string() };
    tracing::info!(workers = places.len(), cpus, reason, "workers placed");
    Ok(places)
}

/// Workers that a quota has time for: whole CPUs of it, at least one. More would be stopped
/// together once the time of a period is used up.
fn granted(quota: Option<f64>) -> usize {
    quota.map_or(usize::MAX, |cpus| (cpus.floor() as usize).max(1))
}

fn place_round(allowed: &CpuList, count: usize, pin: bool) -> Places {
    allowed.iter().cycle().take(count).map(|cpu| pin.then_some(cpu)).collect()
}

/// The interface that packets come from: that of `[xdp]`, else that of the default route.
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

fn place_on(cpus: &CpuList, allowed: &CpuList) -> io::Result<Places> {
    if let Some(cpu) = cpus.as_slice().iter().find(|cpu| !allowed.as_slice().contains(cpu)) {
        let message = format!(
            "[server] workers lists CPU {cpu}, which this process may not use; it may use {allowed}"
        );
        return Err(io::Error::other(message));
    }
    Ok(cpus.as_slice().iter().map(|cpu| Some(*cpu)).collect())
}

/// Has the kernel hand datagrams to the worker of the receiving CPU, where that is wanted. Tells
/// whether it does.
///
/// Automatic means: only where every CPU has a worker that stays on it, and packets reach every
/// CPU. Anything else would leave the questions that arrive at some CPUs to few of the workers.
pub fn steer(steering: Steering, places: &[Option<usize>], sockets: &[OneOf<'_>]) -> bool {
    if steer_if_wanted(steering, places, sockets) {
        return true;
    }
    for (address, socket) in sockets {
        // A predecessor may have had them steered for its own workers, and new ones receive
        // nothing until now.
        if let Err(error) = port_socket::unsteer(*socket) {
            tracing::warn!(%address, %error, "still steered, as it was before");
        }
    }
    false
}

/// The same, after a successor that failed: its sockets may still be there, and receive nothing
/// from now on.
pub fn steer_again(steering: Steering, places: &[Option<usize>], sockets: &[OneOf<'_>]) {
    if steer_if_wanted(steering, places, sockets) {
        return;
    }
    for (address, socket) in sockets {
        if let Err(error) = port_socket::confine(*socket, places.len()) {
            tracing::debug!(%address, %error, "not confined: no other is there");
        }
    }
}

fn steer_if_wanted(steering: Steering, places: &[Option<usize>], sockets: &[OneOf<'_>]) -> bool {
    let cpus: Vec<usize> = match places.iter().copied().collect::<Option<Vec<_>>>() {
        Some(cpus) => cpus,
        // Not pinned: the n-th worker stands for the n-th CPU.
        None => cpu::allowed().unwrap_or_default().as_slice().to_vec(),
    };
    let allowed = cpu::allowed().unwrap_or_default();
    let every_cpu = allowed.as_slice().iter().all(|cpu| places.contains(&Some(*cpu)));
    let wanted = match steering {
        Steering::Auto => places.len() > 1 && every_cpu && cpu::receives_everywhere(places.len()),
        Steering::Cpu => true,
        Steering::Hash => false,
    };
    let cpus = &cpus[..cpus.len().min(places.len())];
    let is_steered = |(address, socket): &OneOf<'_>| {
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

    fn places(text: &str) -> io::Result<Places> {
        let last = |cpus: &CpuList, most, _: Option<&str>| match cpus.iter().next_back() {
            Some(cpu) if most > 0 => Ok((CpuList::from_iter([cpu]), "a test".into())),
            _ => Err("no CPU".into()),
        };
        place(&Config::parse(Path::new("f"), text).expect("a config"), last)
    }

    #[test]
    fn workers_are_where_the_config_says() {
        let allowed = cpu::allowed().expect("CPUs");
        let first = allowed.as_slice()[0];
        assert_eq!(places("server.workers = 3").expect("places"), [None; 3]);
        let pinned = places("server.workers = 1\nserver.pin = true").expect("places");
        assert_eq!(pinned, [Some(first)]);
        let listed = places(&format!("server.workers = \"{first}\"")).expect("places");
        assert_eq!(listed, [Some(first)]);
        let cores = places("server.workers = \"cores\"").expect("places");
        assert_eq!(cores, [allowed.iter().next_back()]);
        assert!((1..=allowed.as_slice().len()).contains(&places("").expect("places").len()));
    }

    #[test]
    fn a_quota_has_time_for_whole_cpus_and_at_least_one_worker() {
        let quotas = [Some(0.2), Some(1.9), Some(2.0), Some(7.5), None];
        assert_eq!(quotas.map(granted), [1, 1, 2, 7, usize::MAX]);
    }

    #[test]
    fn the_default_route_names_the_interface() {
        let head = "Iface\tDestination\tGateway\n";
        let routes = format!("{head}eth1\t0002000A\t0\neth0\t00000000\t0102000A\n");
        assert_eq!(default_route(&routes).as_deref(), Some("eth0"));
        assert_eq!(default_route(head), None);
    }

    #[test]
    fn a_cpu_that_is_not_ours_is_an_error() {
        let beyond = cpu::limits::CPUS_MAX - 1;
        let error = places(&format!("server.workers = \"{beyond}\"")).expect_err("not ours");
        assert!(error.to_string().contains(&format!("CPU {beyond}")), "{error}");
    }
}
