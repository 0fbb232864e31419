//! How many workers there are, where they run, and which of them a datagram goes to.
use crate::config::{Server, Steering, Workers};
use crate::limits::WORKERS_MAX;
use cpu::CpuList;
use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

/// Where each worker runs: one entry a worker; nothing: wherever the kernel puts it.
pub type Places = Vec<Option<usize>>;

/// Any of the UDP sockets of an address: what is done to one is done to all.
pub type OneOf<'s> = (SocketAddr, BorrowedFd<'s>);

/// Places the workers on the CPUs this process may use.
///
/// # Errors
/// A listed CPU is not among them, or the kernel does not tell which they are.
pub fn place(server: &Server) -> io::Result<Places> {
    let allowed = cpu::allowed()?;
    let count = match &server.workers {
        Workers::Cpus(cpus) => return place_on(cpus, &allowed),
        Workers::Count(count) => *count,
        // A control group may grant less time than there are CPUs: more workers than that would
        // wait for each other.
        Workers::Auto => {
            let granted = cpu::quota().map_or(usize::MAX, |cpus| (cpus.ceil() as usize).max(1));
            allowed.as_slice().len().min(granted).min(WORKERS_MAX)
        }
    };
    let cpus = allowed.as_slice().iter().copied().cycle().take(count);
    Ok(cpus.map(|cpu| server.pin.then_some(cpu)).collect())
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
    use crate::config::Config;
    use std::path::Path;

    fn places(text: &str) -> io::Result<Places> {
        place(&Config::parse(Path::new("f"), text).expect("a config").server)
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
        assert!((1..=allowed.as_slice().len()).contains(&places("").expect("places").len()));
    }

    #[test]
    fn a_cpu_that_is_not_ours_is_an_error() {
        let beyond = cpu::limits::CPUS_MAX - 1;
        let error = places(&format!("server.workers = \"{beyond}\"")).expect_err("not ours");
        assert!(error.to_string().contains(&format!("CPU {beyond}")), "{error}");
    }
}
