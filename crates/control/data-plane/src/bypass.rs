//! An interface that AF_XDP serves, beside the sockets. Sockets receive the packets that AF_XDP
//! passes, and all packets if AF_XDP is not possible.
use crate::session::Session;
use crate::threads::Threads;
use config::{Config, PortKind, Queues, Xdp};
use port::Udp;
use port_xdp::limits::FRAMES;
use port_xdp::{
    FilterCounts, FilterProgram, FilterRules, Interface, QueueCounts, SocketWatch, XdpError,
    XdpQueue, XdpSocket,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use server_status::{XdpQueueStatus, XdpStatus};
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

/// The port of an AF_XDP queue.
pub type QueuePort = Udp<XdpQueue<XdpSocket>>;

/// The AF_XDP interface. While attached, the workers own the ports of its queues.
#[derive(Debug, Default)]
pub struct Bypass {
    /// The settings that it was opened with; `None`: no interface is configured.
    wanted: Option<Xdp>,
    /// The scheduling session, opened while the process still has the privilege.
    session: Option<Session>,
    attached: Option<AttachedInterface>,
    /// Why the interface is not attached.
    failed: Option<String>,
}

#[derive(Debug)]
struct AttachedInterface {
    interface: Interface,
    program: FilterProgram,
    queues: Vec<QueueWatch>,
}

/// One queue, as the control plane observes it.
#[derive(Debug)]
struct QueueWatch {
    number: u32,
    is_zero_copy: bool,
    watch: SocketWatch,
    counts: Arc<QueueCounts>,
}

impl Bypass {
    /// Attaches to the configured interface, if there is one, and opens its queues. On failure
    /// sockets serve alone, and the log and the status give the reason.
    pub fn open(config: &Config, listen: Vec<SocketAddr>) -> (Self, Vec<QueuePort>) {
        if config.server.port != PortKind::Xdp {
            return (Self::default(), Vec::new());
        }
        let (wanted, session) = (Some(config.xdp.clone()), prepare_nice(config.xdp.nice));
        let mut bypass = Self { wanted, session, ..Self::default() };
        match AttachedInterface::open(&config.xdp, listen) {
            Ok((attached, ports)) => {
                bypass.attached = Some(attached);
                (bypass, ports)
            }
            Err(error) => {
                bypass.fail(&error);
                (bypass, Vec::new())
            }
        }
    }

    fn interface(&self) -> &str {
        self.wanted.as_ref().map_or("", |xdp| &xdp.interface)
    }

    fn fail(&mut self, error: &dyn std::fmt::Display) {
        tracing::warn!("[xdp] only sockets serve {}: {error}", self.interface());
        self.end();
        self.failed = Some(error.to_string());
    }

    /// Applies the config, if it differs from what is attached. An interface that is not attached,
    /// or that disappeared and came back, is tried again. New addresses of the host are added.
    pub fn change(&mut self, config: &Config, listen: Vec<SocketAddr>, threads: &Threads) {
        let wanted = (config.server.port == PortKind::Xdp).then_some(&config.xdp);
        if wanted.is_none() && self.wanted.is_none() {
            return;
        }
        if wanted == self.wanted.as_ref()
            && let Some(attached) = self.attached.as_mut().filter(|attached| attached.is_there())
        {
            if let Err(error) = attached.program.listen(&listen) {
                let interface = self.interface();
                tracing::warn!("[xdp] {interface} keeps its addresses: {error}");
            }
            return;
        }
        self.end();
        // A queue has one socket: the old ones are closed first.
        let let_go = threads.serve_queues(Vec::new()).and_then(|()| self.set_nice(threads, 0));
        if let Err(error) = let_go {
            return self.fail(&error);
        }
        let (bypass, queues) = Self::open(config, listen);
        *self = bypass;
        self.begin(threads, queues);
    }

    /// Maximum number of open files.
    pub fn files(&self) -> usize {
        self.attached.as_ref().map_or(0, |attached| 16 + 2 * attached.queues.len())
    }

    /// Hands the queues to the workers, then lets the program redirect packets to them.
    pub fn begin(&mut self, threads: &Threads, ports: Vec<QueuePort>) {
        if self.attached.is_some()
            && let Err(error) = threads.serve_queues(ports)
        {
            self.fail(&error);
        }
        let Some(AttachedInterface { program, queues, .. }) = &mut self.attached else { return };
        let serve = |queue: &QueueWatch| program.serve(queue.number, &queue.watch);
        if let Err(error) = queues.iter().try_for_each(serve) {
            return self.fail(&error);
        }
        let zero_copy = queues.iter().all(|queue| queue.is_zero_copy);
        let (queues, mode, joined) = (queues.len(), program.mode().name(), program.is_joined());
        tracing::info!(
            interface = self.interface(),
            mode,
            joined,
            queues,
            zero_copy,
            "AF_XDP attached"
        );
        let nice = self.wanted.as_ref().map_or(0, |xdp| xdp.nice);
        if let Err(error) = self.set_nice(threads, nice) {
            tracing::warn!(
                "[xdp] nice = {nice}: {error}; under overload the kernel receives packets before \
                workers answer: grant CAP_SYS_NICE, `ulimit -e` or LimitNICE={nice} in the \
                systemd unit, or set nice to 0"
            );
        }
    }

    /// Sets the priority of workers over the kernel's threads.
    fn set_nice(&self, threads: &Threads, nice: i32) -> io::Result<()> {
        threads.set_nice(nice)?;
        self.session.as_ref().map_or(Ok(()), |session| session.set_nice(nice))
    }

    /// Detaches: from now on sockets receive all packets. Workers still answer what the queues
    /// hold.
    pub fn end(&mut self) {
        let Some(AttachedInterface { interface, program, .. }) = self.attached.take() else {
            return;
        };
        let name = interface.name;
        tracing::info!(interface = name, "AF_XDP detached");
        if let Err(error) = program.leave() {
            tracing::info!("[xdp] {name}: {error}");
        }
    }

    /// The status; `None`: no interface is configured.
    pub fn status(&self) -> Option<XdpStatus> {
        let interface = self.wanted.as_ref()?.interface.clone();
        let failed = self.failed.clone();
        let Some(AttachedInterface { program, queues, .. }) = &self.attached else {
            return Some(XdpStatus { interface, failed, ..XdpStatus::default() });
        };
        Some(XdpStatus {
            interface,
            failed,
            mode: program.mode().name().to_owned(),
            joined: program.is_joined(),
            zero_copy: queues.iter().all(|queue| queue.is_zero_copy),
            // A kernel that could read the counters once always can.
            passed: passed(program.passed().unwrap_or_default()),
            queues: queues.iter().map(QueueWatch::status).collect(),
        })
    }
}

/// Raises RLIMIT_NICE while the process may, so that its threads can get this niceness later.
/// Returns the session whose niceness must be set with theirs.
fn prepare_nice(nice: i32) -> Option<Session> {
    if nice == 0 {
        return None;
    }
    let limit = getrlimit(Resource::Nice);
    // From 1, for a niceness of 19, to 40 (getrlimit(2)).
    let wanted = (20 - nice) as u64;
    if limit.current.is_some_and(|current| current < wanted) {
        let maximum = limit.maximum.map(|maximum| maximum.max(wanted));
        // A failure is reported when the niceness is set.
        let _ = setrlimit(Resource::Nice, Rlimit { current: Some(wanted), maximum });
    }
    Session::own().unwrap_or_else(|error| {
        tracing::info!("[xdp] nice = {nice}: {error}");
        None
    })
}

impl AttachedInterface {
    fn open(xdp: &Xdp, listen: Vec<SocketAddr>) -> Result<(Self, Vec<QueuePort>), XdpError> {
        let interface = Interface::find(&xdp.interface).map_err(XdpError::Interface)?;
        let numbers = match &xdp.queues {
            Queues::All => (0..interface.queues).collect(),
            Queues::Listed(queues) => queues.clone(),
        };
        let (route_check, priority) = (xdp.route_check, Some(xdp.priority));
        let program =
            FilterProgram::attach(&interface, &FilterRules { listen, route_check, priority })?;
        let (mut queues, mut ports) = (Vec::new(), Vec::new());
        for number in numbers {
            let (queue, watch_of_queue) =
                open_queue(&interface, number).map_err(XdpError::Interface)?;
            ports.push(Udp::new(queue));
            queues.push(watch_of_queue);
        }
        Ok((Self { interface, program, queues }, ports))
    }

    /// Whether the interface is the same one as before, and the program still attached.
    fn is_there(&self) -> bool {
        Interface::find(&self.interface.name).is_ok_and(|now| now == self.interface)
            && self.program.is_there()
    }
}

fn open_queue(
    interface: &Interface,
    number: u32,
) -> std::io::Result<(XdpQueue<XdpSocket>, QueueWatch)> {
    let mut queue = port_xdp::open(interface.index, number, interface.chunk(), interface.mtu)?;
    let (is_zero_copy, watch) = (queue.device().is_zero_copy(), queue.device().watch()?);
    let counts = Arc::clone(queue.counts());
    Ok((queue, QueueWatch { number, is_zero_copy, watch, counts }))
}

impl QueueWatch {
    fn status(&self) -> XdpQueueStatus {
        let losses = self.watch.losses().unwrap_or_default();
        let lost = [
            ("dropped", losses.dropped),
            ("ring_full", losses.ring_full),
            ("fill_empty", losses.fill_empty),
            ("invalid", losses.invalid),
            ("stray", self.counts.strays()),
            ("refused", self.counts.refusals()),
        ];
        let places = self.counts.places();
        let places = [
            ("free", places.free),
            ("fill", places.fill),
            ("receive", places.receive),
            ("send", places.send),
            ("complete", places.complete),
        ];
        XdpQueueStatus {
            queue: self.number,
            frames: FRAMES.into(),
            places: named(places.map(|(name, count)| (name, count.into()))),
            lost: named(lost),
        }
    }
}

fn passed(passed: FilterCounts) -> BTreeMap<String, u64> {
    let FilterCounts { taken, unchecked, route, neighbour, long, socket, foreign, probe } = passed;
    named([
        ("taken", taken),
        ("unchecked", unchecked),
        ("route", route),
        ("neighbour", neighbour),
        ("long", long),
        ("socket", socket),
        ("foreign", foreign),
        ("probe", probe),
    ])
}

fn named<const N: usize>(counts: [(&str, u64); N]) -> BTreeMap<String, u64> {
    counts.into_iter().map(|(name, count)| (name.to_owned(), count)).collect()
}
