//! Options of a load.

use crate::arrivals::{Arrivals, is_burst};
use crate::fleet::Lookups;
use crate::limits::{CHANNELS_MAX, FIRST_PORT, OUTSTANDING_MAX, RATE_MAX, THREADS_MAX};
use crate::names::QuestionSpec;
use crate::oracle::Oracle;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

/// When queries are sent.
#[derive(Clone, Debug, PartialEq)]
pub enum LoadMode {
    /// Open loop: at their times, whatever the server does.
    Open(Arrivals),
    /// Closed loop: as soon as fewer than this many are under way, and no more than so many a
    /// second. What a slow answer keeps from being sent is not measured.
    Closed {
        /// Queries under way, of all threads together.
        outstanding: usize,
        /// Queries a second at most.
        rate_max: Option<f64>,
    },
}

/// The source of queries.
#[derive(Clone, Debug)]
pub enum QuerySource {
    /// Queries, each for itself.
    Questions(Box<QuestionSpec>),
    /// Lookups through a search list.
    Lookups(Arc<Lookups>),
}

/// How queries leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// UDP by sendmmsg and recvmmsg.
    Udp {
        /// Queries of one length leave as one that the kernel cuts (UDP_SEGMENT).
        segments: bool,
    },
    /// UDP by io_uring.
    Uring {
        /// As above.
        segments: bool,
    },
    /// UDP in frames of our own, without the network stack (AF_XDP): a queue of the interface for
    /// each thread.
    Xdp,
    /// UDP in frames of our own by a device of DPDK: a queue of it for each thread.
    Dpdk,
    /// TCP (RFC 7766), several queries under way on a connection.
    Tcp {
        /// Then it is closed and another one opened.
        queries_per_connection: Option<u64>,
    },
}

impl Path {
    /// Whether queries may leave as one packet that is cut later.
    pub fn joins(self) -> bool {
        matches!(self, Self::Udp { segments: true } | Self::Uring { segments: true })
    }
}

/// Source addresses: a prefix whose addresses are used in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sources {
    first: IpAddr,
    count: u128,
}

impl Sources {
    /// The address at `index`; the first follows the last.
    pub fn get(&self, index: usize) -> IpAddr {
        let offset = index as u128 % self.count;
        match self.first {
            IpAddr::V4(first) => Ipv4Addr::from(u32::from(first) + offset as u32).into(),
            IpAddr::V6(first) => Ipv6Addr::from(u128::from(first) + offset).into(),
        }
    }

    /// How many there are.
    pub fn count(&self) -> u128 {
        self.count
    }

    /// Whether they are of IPv4.
    pub fn is_ipv4(&self) -> bool {
        self.first.is_ipv4()
    }
}

impl FromStr for Sources {
    type Err = String;

    /// `10.98.0.0/16`, or one address.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is neither an address nor a prefix, such as 10.98.0.0/16");
        let (first, len) = text.split_once('/').unwrap_or((text, ""));
        let first: IpAddr = first.parse().map_err(|_| wrong())?;
        let width = if first.is_ipv4() { 32 } else { 128 };
        let len: u32 = match text.contains('/') {
            true => len.parse().ok().filter(|len| *len <= width).ok_or_else(wrong)?,
            false => width,
        };
        let count = 1u128.checked_shl(width - len).unwrap_or(u128::MAX);
        let bits = match first {
            IpAddr::V4(first) => u32::from(first).into(),
            IpAddr::V6(first) => u128::from(first),
        };
        if count > 1 && bits & (count - 1) != 0 {
            return Err(format!("host bits are set in `{text}`"));
        }
        // An IPv4 network's first address is the network itself, its last the broadcast.
        Ok(match (first, count) {
            (IpAddr::V4(first), 4..) => {
                Self { first: Ipv4Addr::from(u32::from(first) + 1).into(), count: count - 2 }
            }
            _ => Self { first, count },
        })
    }
}

/// A device of DPDK, and what is at its other end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DpdkPeer {
    /// Its address, such as `net_memif0,role=client,socket=/run/m,socket-abstract=no`.
    pub device: String,
    /// The Ethernet address that queries are sent to.
    pub server_mac: [u8; 6],
    /// The library of DPDK's calls.
    pub library: PathBuf,
}

/// A load.
#[derive(Clone, Debug)]
pub struct Options {
    /// The server's address.
    pub server: SocketAddr,
    /// How.
    pub path: Path,
    /// When.
    pub when: LoadMode,
    /// What.
    pub asks: QuerySource,
    /// The time over which queries are sent, in nanoseconds.
    pub length_ns: u64,
    /// Queries, or lookups, at most.
    pub queries_max: Option<u64>,
    /// Threads, each with its own sockets.
    pub threads: usize,
    /// Each thread is pinned to one of these, in turns; none: where the kernel has them run.
    pub cpus: Vec<usize>,
    /// Sockets or connections of all threads together; rounded up to a multiple of them.
    pub channels: usize,
    /// The interface that queries leave by where they go without the network stack; none: by the
    /// routes there are.
    pub interface: Option<String>,
    /// The device that queries leave by with `Path::Dpdk`.
    pub dpdk: Option<DpdkPeer>,
    /// The source of queries.
    pub sources: Option<Sources>,
    /// The port the first socket asks from; each further one has the next, and a connection that
    /// takes the place of one that the server has ended any. None: the kernel chooses.
    pub source_port: Option<u16>,
    /// After this an answer is late, in nanoseconds.
    pub timeout_ns: u64,
    /// Queries under way in an open loop, of all threads together.
    pub outstanding_max: usize,
    /// A socket is replaced by one with another port, and the next source, this often by each
    /// thread; nanoseconds.
    pub churn_ns: Option<u64>,
    /// Bytes of each socket's buffers.
    pub buffer: usize,
    /// How often a snapshot is taken, in nanoseconds.
    pub interval_ns: u64,
    /// A delay for each query, in nanoseconds: a generator that is slow on purpose, for tests.
    pub spin_ns: u64,
    /// The network namespace that threads enter, by its name in /run/netns.
    pub netns: Option<String>,
    /// Expected contents of answers.
    pub oracle: Option<Arc<Oracle>>,
    /// One in this many answers is.
    pub check_one_in: u64,
    /// Whether an answer with an RCODE other than NOERROR and NXDOMAIN is wrong. An error costs a
    /// server less than an answer.
    pub errors_are_wrong: bool,
    /// Everything that is drawn by chance comes of this.
    pub seed: u64,
}

impl Options {
    /// As many as dnsperf has without any option: closed loop, 100 under way, one socket, for 10
    /// seconds.
    pub fn new(server: SocketAddr, asks: QuerySource) -> Self {
        Self {
            server,
            path: Path::Udp { segments: false },
            when: LoadMode::Closed { outstanding: 100, rate_max: None },
            asks,
            length_ns: 10_000_000_000,
            queries_max: None,
            threads: 1,
            cpus: Vec::new(),
            channels: 1,
            interface: None,
            dpdk: None,
            sources: None,
            source_port: None,
            timeout_ns: 5_000_000_000,
            outstanding_max: 1 << 18,
            churn_ns: None,
            buffer: 4 << 20,
            interval_ns: 1_000_000_000,
            spin_ns: 0,
            netns: None,
            oracle: None,
            check_one_in: 64,
            errors_are_wrong: false,
            seed: 1,
        }
    }

    /// Whether it can be run.
    ///
    /// # Errors
    /// Why not, and what to do.
    pub fn check(&self) -> Result<(), String> {
        let within = |what: &str, value: usize, most: usize| match value {
            1.. if value <= most => Ok(()),
            _ => Err(format!("{what}: 1 to {most}, not {value}")),
        };
        within("threads", self.threads, THREADS_MAX)?;
        within("sockets a thread", self.channels_each(), CHANNELS_MAX)?;
        within("queries under way a thread", self.outstanding_each(), OUTSTANDING_MAX)?;
        match &self.when {
            LoadMode::Open(arrivals) if !is_burst(arrivals.burst) => {
                return Err("a burst has at least 1 query, and at most 65536".into());
            }
            LoadMode::Closed { outstanding, .. } if *outstanding < self.threads => {
                return Err(format!(
                    "{outstanding} under way are fewer than one for each of {} threads",
                    self.threads
                ));
            }
            LoadMode::Closed { rate_max: Some(rate), .. }
                if !(*rate > 0.0 && *rate <= RATE_MAX) =>
            {
                return Err(format!("a rate is above 0 and up to {RATE_MAX:.0}"));
            }
            _ => {}
        }
        for (what, time) in [
            ("the time", self.length_ns),
            ("the timeout", self.timeout_ns),
            ("the interval", self.interval_ns),
            ("one in how many is checked", self.check_one_in),
            ("the time between sockets", self.churn_ns.unwrap_or(1)),
            ("queries a connection", self.queries_per_connection().unwrap_or(1)),
        ] {
            if time == 0 {
                return Err(format!("{what} cannot be 0"));
            }
        }
        if self.sources.is_some_and(|sources| sources.is_ipv4() != self.server.is_ipv4()) {
            return Err("the sources and the server are of two address families".into());
        }
        if self.interface.is_some() && self.path != Path::Xdp {
            return Err("an interface is for AF_XDP: the kernel \
                        chooses that of sockets"
                .into());
        }
        self.check_dpdk()?;
        self.check_source_ports()?;
        match &self.asks {
            QuerySource::Questions(what) => what.check(),
            QuerySource::Lookups(_) => Ok(()),
        }
    }

    fn check_dpdk(&self) -> Result<(), String> {
        let channels = self.channels_each() * self.threads;
        match (&self.dpdk, self.path == Path::Dpdk) {
            (None, false) => Ok(()),
            (Some(_), false) => Err("a device is for DPDK (--path dpdk)".into()),
            (None, true) => Err("DPDK needs a device (--device)".into()),
            (Some(_), true) if self.sources.is_none() => {
                Err("DPDK has no addresses: name one (--sources)".into())
            }
            (Some(_), true) if channels > usize::from(u16::MAX - FIRST_PORT) => {
                Err(format!("{channels} sockets are more than there are ports"))
            }
            (Some(_), true) => Ok(()),
        }
    }

    fn check_source_ports(&self) -> Result<(), String> {
        let Some(first) = self.source_port else { return Ok(()) };
        let sockets = self.channels_each() * self.threads;
        let last = usize::from(first) + sockets - 1;
        if first == 0 || last > usize::from(u16::MAX) {
            return Err(format!(
                "{sockets} sockets from source port {first} on: ports are 1 to {}",
                u16::MAX
            ));
        }
        if self.churn_ns.is_some() || self.queries_per_connection().is_some() {
            let told = "a socket that is replaced gets another source port: leave one of both out";
            return Err(told.into());
        }
        Ok(())
    }

    /// Sockets or connections of each thread.
    pub fn channels_each(&self) -> usize {
        self.channels.div_ceil(self.threads.max(1))
    }

    /// Queries that each thread may have under way.
    pub fn outstanding_each(&self) -> usize {
        let all = match self.when {
            LoadMode::Open(_) => self.outstanding_max,
            LoadMode::Closed { outstanding, .. } => outstanding,
        };
        all.div_ceil(self.threads.max(1))
    }

    fn queries_per_connection(&self) -> Option<u64> {
        match self.path {
            Path::Tcp { queries_per_connection } => queries_per_connection,
            Path::Udp { .. } | Path::Uring { .. } | Path::Xdp | Path::Dpdk => None,
        }
    }

    /// Whether the loop is open.
    pub fn is_open(&self) -> bool {
        matches!(self.when, LoadMode::Open(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::{Order, QuestionSet};
    use crate::query::QueryFormat;
    use wire::Rtype;

    fn options() -> Options {
        let form = QueryFormat { recursion: true, ..QueryFormat::default() };
        let set = Arc::new(QuestionSet::from_pattern("a", 1, Rtype::A, form).unwrap());
        let what =
            QuestionSpec { set, order: Order::Given, unique: 0.0, nxdomain: 0.0, under: None };
        Options::new("192.0.2.1:53".parse().unwrap(), QuerySource::Questions(Box::new(what)))
    }

    #[test]
    fn prefixes_give_addresses_in_turns() {
        let sources: Sources = "10.98.0.0/30".parse().unwrap();
        let all: Vec<String> = (0..3).map(|index| sources.get(index).to_string()).collect();
        assert_eq!(all, ["10.98.0.1", "10.98.0.2", "10.98.0.1"]);
        let alone: Sources = "fd99::2".parse().unwrap();
        assert_eq!((alone.count(), alone.get(7).to_string()), (1, "fd99::2".into()));
        assert_eq!("fd99::/64".parse::<Sources>().unwrap().get(2).to_string(), "fd99::2");
        assert_eq!("0.0.0.0/0".parse::<Sources>().unwrap().count(), (1 << 32) - 2);
        for wrong in ["10.98.0.1/16", "10.98.0.0/33", "x", "10.0.0.0/", "10.0.0.0/-1", ""] {
            assert!(wrong.parse::<Sources>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn invalid_options_are_refused() {
        assert_eq!(options().check(), Ok(()));
        let closed = |outstanding, rate_max| LoadMode::Closed { outstanding, rate_max };
        for wrong in [
            Options { threads: 0, ..options() },
            Options { channels: CHANNELS_MAX + 1, ..options() },
            Options { timeout_ns: 0, ..options() },
            Options { check_one_in: 0, ..options() },
            Options { when: closed(1, None), threads: 2, ..options() },
            Options { when: closed(1, Some(0.0)), ..options() },
            Options { when: closed(OUTSTANDING_MAX + 1, None), ..options() },
            Options { path: Path::Dpdk, ..options() },
            Options { sources: Some("::1".parse().unwrap()), ..options() },
            Options { source_port: Some(0), ..options() },
            Options { source_port: Some(65_535), channels: 2, ..options() },
            Options { source_port: Some(5_300), churn_ns: Some(1), ..options() },
        ] {
            assert!(wrong.check().is_err(), "{wrong:?}");
        }
    }
}
