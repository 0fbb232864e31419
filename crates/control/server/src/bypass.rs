//! An interface served past the kernel's network stack, beside the sockets: those get what passes,
//! and everything where this cannot be had.
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
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use zone_manager::status::{XdpQueueStatus, XdpStatus};

/// A queue's port.
pub type QueuePort = Udp<XdpQueue<XdpSocket>>;

/// What serves the interface, as far as it is not in the workers' hands.
#[derive(Debug, Default)]
pub struct Bypass {
    /// What it was opened by; nothing: no interface is configured.
    wanted: Option<Xdp>,
    /// What niceness has to be told beside the workers, opened while it may be.
    session: Option<Session>,
    attached: Option<Attached>,
    /// Why it is not, or no longer.
    failed: Option<String>,
}

#[derive(Debug)]
struct Attached {
    interface: Interface,
    program: FilterProgram,
    queues: Vec<Watched>,
}

/// One queue, seen from elsewhere.
#[derive(Debug)]
struct Watched {
    number: u32,
    is_zero_copy: bool,
    watch: SocketWatch,
    counts: Arc<QueueCounts>,
}

impl Bypass {
    /// Attaches to the configured interface and opens its queues, if one is. Where that cannot be,
    /// sockets serve alone, and this is logged and told by the status.
    pub fn open(config: &Config, listen: Vec<SocketAddr>) -> (Self, Vec<QueuePort>) {
        if config.server.port != PortKind::Xdp {
            return (Self::default(), Vec::new());
        }
        let (wanted, session) = (Some(config.xdp.clone()), prepare_nice(config.xdp.nice));
        let mut bypass = Self { wanted, session, ..Self::default() };
        match Attached::open(&config.xdp, listen) {
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
        tracing::warn!("[xdp] {} is served by sockets alone: {error}", self.interface());
        self.end();
        self.failed = Some(error.to_string());
    }

    /// Serves what a config says from now on, unless it does so already: an interface that is not
    /// served, or was taken away and came again, is tried anew, and addresses that this host has
    /// got since are answered at.
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
                tracing::warn!("[xdp] {interface} has the addresses that it had: {error}");
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

    /// How many files it has open, at most.
    pub fn files(&self) -> usize {
        self.attached.as_ref().map_or(0, |attached| 16 + 2 * attached.queues.len())
    }

    /// Lends the queues to the workers, then lets questions in.
    pub fn begin(&mut self, threads: &Threads, ports: Vec<QueuePort>) {
        if self.attached.is_some()
            && let Err(error) = threads.serve_queues(ports)
        {
            self.fail(&error);
        }
        let Some(Attached { program, queues, .. }) = &mut self.attached else { return };
        let serve = |queue: &Watched| program.serve(queue.number, &queue.watch);
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
            "served past the kernel"
        );
        let nice = self.wanted.as_ref().map_or(0, |xdp| xdp.nice);
        if let Err(error) = self.set_nice(threads, nice) {
            tracing::warn!(
                "[xdp] nice = {nice}: {error}; when more comes than is answered, the kernel \
                 receives before workers answer: grant it by CAP_SYS_NICE, `ulimit -e` or \
                 LimitNICE={nice} in the systemd unit, or set it to 0"
            );
        }
    }

    /// Has workers go before the kernel's threads, or no longer.
    fn set_nice(&self, threads: &Threads, nice: i32) -> io::Result<()> {
        threads.set_nice(nice)?;
        self.session.as_ref().map_or(Ok(()), |session| session.set_nice(nice))
    }

    /// Leaves all that comes from now on to the sockets. What the queues hold is still answered.
    pub fn end(&mut self) {
        let Some(Attached { interface, program, .. }) = self.attached.take() else { return };
        let name = interface.name;
        tracing::info!(interface = name, "left to the sockets");
        if let Err(error) = program.leave() {
            tracing::info!("[xdp] {name}: {error}");
        }
    }

    /// What there is to tell; nothing: no interface is configured.
    pub fn status(&self) -> Option<XdpStatus> {
        let interface = self.wanted.as_ref()?.interface.clone();
        let failed = self.failed.clone();
        let Some(Attached { program, queues, .. }) = &self.attached else {
            return Some(XdpStatus { interface, failed, ..XdpStatus::default() });
        };
        Some(XdpStatus {
            interface,
            failed,
            mode: program.mode().name().to_owned(),
            joined: program.is_joined(),
            zero_copy: queues.iter().all(|queue| queue.is_zero_copy),
            // A kernel that told once tells always.
            passed: passed(program.passed().unwrap_or_default()),
            queues: queues.iter().map(Watched::status).collect(),
        })
    }
}

/// Lets this process give its threads such a niceness later, where it may say so now; what has to
/// be told beside them.
fn prepare_nice(nice: i32) -> Option<Session> {
    if nice == 0 {
        return None;
    }
    let limit = getrlimit(Resource::Nice);
    // From 1, for a niceness of 19, to 40 (getrlimit(2)).
    let wanted = (20 - nice) as u64;
    if limit.current.is_some_and(|current| current < wanted) {
        let maximum = limit.maximum.map(|maximum| maximum.max(wanted));
        // Who may not is told when it is wanted.
        let _ = setrlimit(Resource::Nice, Rlimit { current: Some(wanted), maximum });
    }
    Session::own().unwrap_or_else(|error| {
        tracing::info!("[xdp] nice = {nice}: {error}");
        None
    })
}

impl Attached {
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
            let (queue, watched) = open_queue(&interface, number).map_err(XdpError::Interface)?;
            ports.push(Udp::new(queue));
            queues.push(watched);
        }
        Ok((Self { interface, program, queues }, ports))
    }

    /// Whether the interface is still what it was, and the program there.
    fn is_there(&self) -> bool {
        Interface::find(&self.interface.name).is_ok_and(|now| now == self.interface)
            && self.program.is_there()
    }
}

fn open_queue(
    interface: &Interface,
    number: u32,
) -> std::io::Result<(XdpQueue<XdpSocket>, Watched)> {
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
