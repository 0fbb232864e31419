//! An interface served past the kernel's network stack, beside the sockets: those get what passes,
//! and everything where this cannot be had.
use crate::config::{Config, PortKind, Queues, Xdp};
use control::status::{XdpQueueStatus, XdpStatus};
use port::Udp;
use port_xdp::{Counts, Interface, Passed, Program, Queue, Rules, Socket, Watch, XdpError};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

/// A queue's port.
pub type QueuePort = Udp<Queue<Socket>>;

/// What serves the interface, as far as it is not in the workers' hands.
#[derive(Debug, Default)]
pub struct Bypass {
    interface: String,
    attached: Option<Attached>,
    /// Why it is not, or no longer.
    failed: Option<String>,
}

#[derive(Debug)]
struct Attached {
    program: Program,
    queues: Vec<Watched>,
}

/// One queue, seen from elsewhere.
#[derive(Debug)]
struct Watched {
    number: u32,
    is_zero_copy: bool,
    watch: Watch,
    counts: Arc<Counts>,
}

impl Bypass {
    /// Attaches to the configured interface and opens its queues, if one is. Where that cannot be,
    /// sockets serve alone, and this is logged and told by the status.
    pub fn open(config: &Config, listen: Vec<SocketAddr>) -> (Self, Vec<QueuePort>) {
        if config.server.port != PortKind::Xdp {
            return (Self::default(), Vec::new());
        }
        let interface = config.xdp.interface.clone();
        match Attached::open(&config.xdp, listen) {
            Ok((attached, ports)) => {
                (Self { interface, attached: Some(attached), failed: None }, ports)
            }
            Err(error) => {
                tracing::warn!("[xdp] {interface} is served by sockets alone: {error}");
                let failed = Some(error.to_string());
                (Self { interface, attached: None, failed }, Vec::new())
            }
        }
    }

    /// How many files it has open, at most.
    pub fn files(&self) -> usize {
        self.attached.as_ref().map_or(0, |attached| 16 + 2 * attached.queues.len())
    }

    /// Lets questions in, now that workers are about to take them.
    pub fn begin(&mut self) {
        let Some(attached) = &mut self.attached else { return };
        let Attached { program, queues } = attached;
        let (interface, mode) = (&self.interface, program.mode().name());
        let serve = |queue: &Watched| program.serve(queue.number, &queue.watch);
        if let Err(error) = queues.iter().try_for_each(serve) {
            tracing::warn!("[xdp] {interface} is served by sockets alone: {error}");
            (self.attached, self.failed) = (None, Some(error.to_string()));
            return;
        }
        let zero_copy = queues.iter().all(|queue| queue.is_zero_copy);
        let queues = queues.len();
        tracing::info!(interface, mode, queues, zero_copy, "served past the kernel");
    }

    /// Leaves all that comes from now on to the sockets. What the queues hold is still answered.
    pub fn end(&mut self) {
        self.attached = None;
    }

    /// What there is to tell; nothing: no interface is configured.
    pub fn status(&self) -> Option<XdpStatus> {
        if self.interface.is_empty() {
            return None;
        }
        let (interface, failed) = (self.interface.clone(), self.failed.clone());
        let Some(Attached { program, queues }) = &self.attached else {
            return Some(XdpStatus { interface, failed, ..XdpStatus::default() });
        };
        Some(XdpStatus {
            interface,
            failed,
            mode: program.mode().name().to_owned(),
            zero_copy: queues.iter().all(|queue| queue.is_zero_copy),
            // A kernel that told once tells always.
            passed: passed(program.passed().unwrap_or_default()),
            queues: queues.iter().map(Watched::status).collect(),
        })
    }
}

impl Attached {
    fn open(xdp: &Xdp, listen: Vec<SocketAddr>) -> Result<(Self, Vec<QueuePort>), XdpError> {
        let interface = Interface::find(&xdp.interface).map_err(XdpError::Interface)?;
        let numbers = match &xdp.queues {
            Queues::All => (0..interface.queues).collect(),
            Queues::Listed(queues) => queues.clone(),
        };
        let program = Program::attach(&interface, &Rules { listen, route_check: xdp.route_check })?;
        let (mut queues, mut ports) = (Vec::new(), Vec::new());
        for number in numbers {
            let (queue, watched) = open_queue(&interface, number).map_err(XdpError::Interface)?;
            ports.push(Udp::new(queue));
            queues.push(watched);
        }
        Ok((Self { program, queues }, ports))
    }
}

fn open_queue(interface: &Interface, number: u32) -> std::io::Result<(Queue<Socket>, Watched)> {
    let mut queue = port_xdp::open(interface.index, number, interface.chunk(), interface.mtu)?;
    let (is_zero_copy, watch) = (queue.device().is_zero_copy(), queue.device().watch()?);
    let counts = Arc::clone(queue.counts());
    Ok((queue, Watched { number, is_zero_copy, watch, counts }))
}

impl Watched {
    fn status(&self) -> XdpQueueStatus {
        let losses = self.watch.losses().unwrap_or_default();
        let lost = [
            ("dropped", losses.dropped),
            ("ring_full", losses.ring_full),
            ("fill_empty", losses.fill_empty),
            ("invalid", losses.invalid),
            ("stray", self.counts.strays()),
        ];
        XdpQueueStatus { queue: self.number, lost: named(lost) }
    }
}

fn passed(passed: Passed) -> BTreeMap<String, u64> {
    let Passed { taken, unchecked, route, neighbour, long, socket } = passed;
    named([
        ("taken", taken),
        ("unchecked", unchecked),
        ("route", route),
        ("neighbour", neighbour),
        ("long", long),
        ("socket", socket),
    ])
}

fn named<const N: usize>(counts: [(&str, u64); N]) -> BTreeMap<String, u64> {
    counts.into_iter().map(|(name, count)| (name.to_owned(), count)).collect()
}
