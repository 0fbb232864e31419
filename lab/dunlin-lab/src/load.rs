//! `dunlin-lab load`: flags in, a load, what became of it out.
mod live;
mod output;
mod path;
mod show;
mod target;

pub use path::{Calls, DPDK_LIBRARY};
pub use target::{Queries, Target};

use crate::signals::stop_when_interrupted;
use clap::{Args, ValueEnum, value_parser};
use lab::ceiling::EchoBaseline;
use lab::observer::measure;
use lab_echo::Model;
use lab_load::arrivals::{Arrivals, Rate, Spacing, read_number, read_time_ns};
use lab_load::fleet::{Lookups, Resolver};
use lab_load::names::{Order, QuestionSet, QuestionSpec};
use lab_load::query::{EdnsOption, QueryFormat};
use lab_load::{DpdkPeer, LoadMode, Options, Oracle, Path, QuerySource, Sources};
use std::error::Error;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use wire::{Name, NameBuf, Rtype};

pub const EXAMPLES: &str = "Examples:\n  \
    dunlin-lab load -s 10.99.0.1 -d queries --rate 50k -l 30\n  \
    dunlin-lab load -s 10.99.0.1 -d queries --rate ramp:1k-200k --poisson -c 64\n  \
    dunlin-lab load -s 10.99.0.1 -d queries -q 100 -l 10       as dnsperf: a closed loop\n  \
    dunlin-lab load -s 10.99.0.1 --pattern 'svc-{i}.example' --names 10000 --order zipf:1\n  \
    dunlin-lab load -s 10.96.0.10 -d names --fleet --rate 2k --burst 8 --churn 100ms";

#[derive(Args, Debug)]
pub struct Load {
    /// The server's address.
    #[arg(short, long, value_name = "ADDRESS")]
    server: Option<IpAddr>,
    /// The server's port.
    #[arg(short, long, default_value_t = 53)]
    port: u16,
    /// The loopback address of the server, if -s does not name another one.
    #[arg(short = 'f', long, value_enum, default_value_t = Family::Inet)]
    family: Family,
    /// Transport of queries.
    #[arg(short = 'm', long = "mode", value_enum, default_value_t = Mode::Udp)]
    mode: Mode,
    #[command(flatten, next_help_heading = "When")]
    when: WhenFlags,
    #[command(flatten, next_help_heading = "What")]
    what: WhatFlags,
    #[command(flatten, next_help_heading = "How")]
    how: HowFlags,
    #[command(flatten, next_help_heading = "Judging answers")]
    judged: JudgedFlags,
    /// The interval of output lines, and of the live view.
    #[arg(short = 'S', long, value_name = "TIME", default_value = "1s", value_parser = seconds)]
    interval: u64,
    /// Output format. JSON: lines in the schema dns-metrics of DNS-OARC, one for each interval and
    /// one for the whole run. CSV: one line for each interval.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
    /// Write the histograms of all intervals, for the tools of HdrHistogram.
    #[arg(long, value_name = "FILE")]
    hlog: Option<PathBuf>,
    /// Seed of all random numbers.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(Args, Debug)]
struct WhenFlags {
    /// Open loop, queries a second: 50k, ramp:1k-50k, steps:10k,20k,40k, square:1k,50k,2s (low,
    /// high, period), times:FILE (a time in seconds on each line, or a tcpdump capture, whose DNS
    /// queries over UDP give the times).
    #[arg(long, conflicts_with_all = ["outstanding", "rate_max"])]
    rate: Option<Rate>,
    /// Open loop: Poisson arrivals, as of independent clients, instead of even ones.
    #[arg(long, requires = "rate")]
    poisson: bool,
    /// Open loop: number of queries that are due at the same time. The rate stays the same.
    #[arg(long, requires = "rate", default_value_t = 1)]
    burst: u32,
    /// Closed loop: outstanding queries of all threads together.
    #[arg(short = 'q', long, default_value_t = 100)]
    outstanding: usize,
    /// Closed loop: queries a second at most.
    #[arg(short = 'Q', long, value_name = "RATE", value_parser = read_number)]
    rate_max: Option<f64>,
    /// Length of the load. Default: once through -d if its order is kept, else 10 seconds.
    #[arg(short = 'l', long, value_name = "TIME", value_parser = seconds)]
    length: Option<u64>,
    /// Number of passes through the names.
    #[arg(short = 'n', long, value_name = "TIMES")]
    runs: Option<u64>,
    /// Maximum number of queries; with --fleet, of lookups.
    #[arg(long, conflicts_with = "runs")]
    count: Option<u64>,
    /// Timeout. Timeout: a later answer does not count.
    #[arg(short = 't', long, value_name = "TIME", default_value = "5s", value_parser = seconds)]
    timeout: u64,
}

#[derive(Args, Clone, Debug)]
#[command(group = clap::ArgGroup::new("names_from").required(true).args(["data", "pattern"]))]
pub struct WhatFlags {
    /// Data file: a name and a type on each line, as for dnsperf; ; or # begins a comment. Or a
    /// tcpdump capture, whose DNS queries over UDP are sent again.
    #[arg(short = 'd', long, value_name = "FILE")]
    pub data: Option<PathBuf>,
    /// Pattern of names: {i} is a number, {i%100} its remainder.
    #[arg(long)]
    pattern: Option<String>,
    /// Number of names of the pattern: i begins at 0.
    #[arg(long, value_name = "NUMBER", requires = "pattern", default_value_t = 10_000)]
    names: usize,
    /// Query type for names of the pattern.
    #[arg(long = "type", value_name = "TYPE", requires = "pattern", default_value = "A",
          value_parser = rtype)]
    rtype: Rtype,
    /// Order of names: given, uniform, or zipf:EXPONENT, where the first name is the most frequent.
    #[arg(long, default_value = "given", value_parser = order)]
    order: Order,
    /// Share of queries, 0 to 1, whose name was queried before (cache hits). All others get an
    /// additional first label.
    #[arg(long, value_name = "SHARE", conflicts_with = "unique")]
    hit_rate: Option<f64>,
    /// Share of queries for names that no query has used before.
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    unique: f64,
    /// Share of queries for names nx-…, which do not exist.
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    nxdomain: f64,
    /// Domain of unique and nonexistent names. Default: the name that they replace.
    #[arg(long, value_name = "NAME", value_parser = name)]
    under: Option<NameBuf>,
    /// Look names up as containers do: through a search list, A and AAAA together.
    #[arg(long, conflicts_with_all = ["hit_rate", "unique", "nxdomain", "under", "order"])]
    fleet: bool,
    /// Domains of the search list.
    #[arg(long, requires = "fleet", value_delimiter = ',', value_parser = name,
          default_value = "default.svc.cluster.local,svc.cluster.local,cluster.local")]
    search: Vec<NameBuf>,
    /// Names with at least this many dots are first tried without the search list.
    #[arg(long, requires = "fleet", default_value_t = 5)]
    ndots: usize,
    /// Send EDNS.
    #[arg(short = 'e', long)]
    edns: bool,
    /// Set DO; implies -e.
    #[arg(short = 'D', long)]
    dnssec: bool,
    /// Send an EDNS option; implies -e.
    #[arg(short = 'E', long, value_name = "CODE:HEX")]
    option: Option<EdnsOption>,
    /// Clear RD.
    #[arg(long)]
    no_recursion: bool,
}

#[derive(Args, Clone, Debug)]
struct HowFlags {
    /// Threads. Each thread has its own sockets.
    #[arg(short = 'T', long, default_value_t = 1)]
    threads: usize,
    /// Clients, each with an address of --sources. Default: 16 with --rate, else one.
    #[arg(short = 'c', long)]
    clients: Option<usize>,
    /// Sockets of each client, and so its source ports.
    #[arg(long, default_value_t = 1)]
    ports: usize,
    /// Addresses of the clients, in turns: a prefix, or one address.
    #[arg(short = 'a', long, value_name = "PREFIX")]
    sources: Option<Sources>,
    /// Source port of the first socket. Each further socket has the next port.
    #[arg(short = 'x', long, value_name = "PORT", value_parser = value_parser!(u16).range(1..))]
    #[arg(conflicts_with_all = ["churn", "queries_per_connection"])]
    source_port: Option<u16>,
    /// Interval at which each thread replaces a socket, as pods come and go.
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    churn: Option<u64>,
    /// CPUs of the threads, in turns: 1 or 2-5,8.
    #[arg(long, value_name = "LIST")]
    cpus: Option<cpu::CpuList>,
    /// Open loop: maximum of outstanding queries of all threads together; 50 bytes each.
    #[arg(long, value_name = "NUMBER", default_value_t = 1 << 18)]
    places: usize,
    /// Buffer size of each socket, KiB.
    #[arg(short = 'b', long, value_name = "KIB", default_value_t = 4_096)]
    buffer: usize,
    /// I/O path of UDP queries and answers.
    #[arg(long, value_enum, default_value_t = Calls::Sockets)]
    #[arg(conflicts_with = "queries_per_connection")]
    path: Calls,
    /// With --path af_xdp: the outgoing interface, instead of that of the route.
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,
    /// With --path dpdk: the device, as DPDK writes it, such as
    /// net_memif0,role=client,socket=/run/m,socket-abstract=no,rsize=14.
    #[arg(long, value_name = "DEVICE", requires = "server_mac")]
    device: Option<String>,
    /// With --path dpdk: the Ethernet address of the server.
    #[arg(long, value_name = "ADDRESS", value_parser = path::mac, requires = "device")]
    server_mac: Option<[u8; 6]>,
    /// The library of DPDK's calls.
    #[arg(long, value_name = "FILE", default_value = DPDK_LIBRARY)]
    library: PathBuf,
    /// Send queries of one length that are due together as one packet (UDP_SEGMENT), for higher
    /// rates. The device splits it. Between two hosts on one machine the server's host splits it,
    /// at the cost of its CPU time.
    #[arg(long)]
    segments: bool,
    /// TCP: queries of a connection before it is replaced. Default: connections stay open.
    #[arg(long, value_name = "NUMBER")]
    queries_per_connection: Option<u64>,
    /// Network namespace of the threads (ip netns).
    #[arg(long, value_name = "NAME")]
    netns: Option<String>,
    /// Spend this many nanoseconds more on each query, to simulate a slow generator.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    spin_ns: u64,
}

#[derive(Args, Debug)]
struct JudgedFlags {
    /// Compare answers with a zone file: example.org=FILE.
    #[arg(long, value_name = "ZONE=FILE")]
    check: Option<String>,
    /// Compare only one in this many answers.
    #[arg(long, value_name = "NUMBER", default_value_t = 64, requires = "check")]
    check_one_in: u64,
    /// Processes of the server on this machine, whose CPU time the verdict uses. Default: processes
    /// with sockets at its address.
    #[arg(long, value_name = "PID", value_delimiter = ',')]
    server_pids: Vec<u32>,
    /// Measure an echo before and after the load, as the ceiling for the verdict. Value: a model,
    /// such as recvmmsg, to run the echo in place of the server, on its CPUs. Or the address of a
    /// `dunlin-lab echo` on the machine of a remote server.
    #[arg(long, value_name = "MODEL|ADDRESS:PORT", value_parser = read_reference)]
    against_echo: Option<Reference>,
}

/// An echo to compare the server with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reference {
    Started(Model),
    At(SocketAddr),
}

fn read_reference(text: &str) -> Result<Reference, String> {
    let model = Model::of_name(text).map(Reference::Started);
    let named = || Model::ALL.map(Model::name).join(", ");
    model
        .or_else(|| text.parse().ok().map(Reference::At))
        .ok_or_else(|| format!("expected an address with its port, or a model: {}", named()))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Family {
    Inet,
    Inet6,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    Text,
    Json,
    Csv,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Mode {
    Udp,
    Tcp,
}

/// Seconds without a unit, as dnsperf takes them, or a time with one.
pub(crate) fn seconds(text: &str) -> Result<u64, String> {
    let plain = text.parse::<f64>().ok().filter(|seconds| (0.0..1e9).contains(seconds));
    let time = plain.map(|seconds| (seconds * 1e9) as u64).or_else(|| read_time_ns(text));
    time.filter(|time| *time > 0)
        .ok_or_else(|| "expected seconds above 0 or a time, such as 10, 0.5, 500ms or 1m".into())
}

fn name(text: &str) -> Result<NameBuf, String> {
    NameBuf::from_text(text.as_bytes(), Name::ROOT).map_err(|why| why.to_string())
}

fn rtype(text: &str) -> Result<Rtype, String> {
    text.parse().map_err(|()| "expected a type, such as AAAA or TYPE65".into())
}

fn order(text: &str) -> Result<Order, String> {
    match text.split_once(':') {
        None if text == "given" => Ok(Order::Given),
        None if text == "uniform" => Ok(Order::Uniform),
        Some(("zipf", exponent)) => {
            exponent.parse().map(Order::Zipf).map_err(|_| format!("`{exponent}` is not a number"))
        }
        _ => Err("expected given, uniform, or zipf:EXPONENT such as zipf:1".into()),
    }
}

impl WhatFlags {
    fn form(&self) -> QueryFormat {
        let Self { edns, dnssec, option, no_recursion, .. } = *self;
        QueryFormat { recursion: !no_recursion, edns, dnssec, option }
    }

    /// The queries, and the number of names.
    pub fn asks(&self) -> Result<(QuerySource, usize), String> {
        let (flags, form) = (self, self.form());
        if flags.fleet {
            let resolver = Resolver { search: flags.search.clone(), ndots: flags.ndots };
            let lookups = match (&flags.data, &flags.pattern) {
                (Some(file), _) => Lookups::read(file, &resolver, form),
                (_, pattern) => {
                    let pattern = pattern.as_deref().unwrap_or_default();
                    Lookups::from_pattern(pattern, flags.names, &resolver, form)
                }
            }?;
            let count = lookups.len();
            return Ok((QuerySource::Lookups(Arc::new(lookups)), count));
        }
        let set = match (&flags.data, &flags.pattern) {
            (Some(file), _) => QuestionSet::read(file, form),
            (_, pattern) => {
                let pattern = pattern.as_deref().unwrap_or_default();
                QuestionSet::from_pattern(pattern, flags.names, flags.rtype, form)
            }
        }?;
        let (count, set) = (set.len(), Arc::new(set));
        let unique = flags.hit_rate.map_or(flags.unique, |hits| 1.0 - hits);
        let (order, nxdomain, under) = (flags.order, flags.nxdomain, flags.under.clone());
        Ok((
            QuerySource::Questions(Box::new(QuestionSpec { set, order, unique, nxdomain, under })),
            count,
        ))
    }
}

impl Load {
    fn server(&self) -> SocketAddr {
        let loopback = match self.family {
            Family::Inet => Ipv4Addr::LOCALHOST.into(),
            Family::Inet6 => Ipv6Addr::LOCALHOST.into(),
        };
        SocketAddr::new(self.server.unwrap_or(loopback), self.port)
    }

    fn when(&self) -> LoadMode {
        let WhenFlags { poisson, burst, outstanding, rate_max, .. } = self.when;
        match &self.when.rate {
            Some(rate) => {
                let spacing = if poisson { Spacing::Poisson } else { Spacing::Even };
                LoadMode::Open(Arrivals { rate: rate.clone(), spacing, burst })
            }
            None => LoadMode::Closed { outstanding, rate_max },
        }
    }

    fn oracle(&self) -> Result<Option<Arc<Oracle>>, String> {
        let Some(check) = &self.judged.check else { return Ok(None) };
        let (zone, file) = check.split_once('=').ok_or("--check is as in example.org=FILE")?;
        let zone = name(zone).map_err(|why| format!("--check: `{zone}` is not a name: {why}"))?;
        Oracle::read(std::path::Path::new(file), zone.as_name())
            .map(|oracle| Some(Arc::new(oracle)))
    }

    fn options(&self) -> Result<Options, String> {
        let (asks, names) = self.what.asks()?;
        let (when, how) = (&self.when, &self.how);
        let once = self.what.data.is_some() && self.what.order == Order::Given;
        let runs = match (when.runs, when.length, when.count) {
            (None, None, None) if once && !self.what.fleet => Some(1),
            (runs, ..) => runs,
        };
        let day = 86_400_000_000_000;
        let ends = runs.is_some() || when.count.is_some();
        let clients = how.clients.unwrap_or(if when.rate.is_some() { 16 } else { 1 });
        let options = Options {
            path: self.path()?,
            when: self.when(),
            length_ns: when.length.unwrap_or(if ends { day } else { 10_000_000_000 }),
            queries_max: when.count.or(runs.map(|runs| runs.saturating_mul(names as u64))),
            threads: how.threads,
            cpus: how.cpus.as_ref().map_or(Vec::new(), |cpus| cpus.as_slice().to_vec()),
            channels: clients.saturating_mul(how.ports),
            interface: how.interface.clone(),
            dpdk: how.device.clone().zip(how.server_mac).map(|(device, server_mac)| DpdkPeer {
                device,
                server_mac,
                library: how.library.clone(),
            }),
            sources: how.sources,
            source_port: how.source_port,
            timeout_ns: when.timeout,
            outstanding_max: how.places,
            churn_ns: how.churn,
            buffer: how.buffer.saturating_mul(1_024),
            interval_ns: self.interval,
            spin_ns: how.spin_ns,
            netns: how.netns.clone(),
            oracle: self.oracle()?,
            check_one_in: self.judged.check_one_in,
            seed: self.seed,
            ..Options::new(self.server(), asks)
        };
        options.check()?;
        Ok(options)
    }

    fn path(&self) -> Result<Path, String> {
        let segments = self.how.segments;
        let queries_per_connection = self.how.queries_per_connection;
        match (self.mode, self.how.path) {
            (Mode::Udp, Calls::Sockets) => Ok(Path::Udp { segments }),
            (Mode::Udp, Calls::IoUring) => Ok(Path::Uring { segments }),
            (Mode::Udp, Calls::AfXdp | Calls::Dpdk) if segments => {
                Err("--segments has the kernel \
                 cut packets, and --path af_xdp and dpdk bypass it"
                    .into())
            }
            (Mode::Udp, Calls::AfXdp) => Ok(Path::Xdp),
            (Mode::Udp, Calls::Dpdk) => Ok(Path::Dpdk),
            (Mode::Tcp, Calls::Sockets) => Ok(Path::Tcp { queries_per_connection }),
            (Mode::Tcp, Calls::IoUring | Calls::AfXdp | Calls::Dpdk) => {
                Err("--path io_uring, af_xdp and dpdk are for UDP: leave out -m tcp".into())
            }
        }
    }
}

/// Runs a load.
///
/// # Errors
/// The failed action, and a remedy.
pub fn run(command: &Load) -> Result<ExitCode, Box<dyn Error>> {
    let options = command.options()?;
    let stop = Arc::new(AtomicBool::new(false));
    stop_when_interrupted(stop.clone())?;
    let mut writer = output::Writer::new(command.output, command.hlog.as_deref(), &options)?;
    let mut live = live::Live::new(&options, command.output == Output::Text);
    let pids = &command.judged.server_pids;
    let echo = command.judged.against_echo.map(|beside| match beside {
        Reference::Started(model) => EchoBaseline::in_place(model, &options, pids),
        Reference::At(address) => Ok(EchoBaseline::elsewhere(address)),
    });
    let echo = echo.transpose()?;
    let mut run = || {
        measure(&options, pids, &stop, &mut |seen| {
            live.show(seen);
            // The reader of the output has gone: stop the load.
            stop.fetch_or(!writer.interval(seen), Ordering::Relaxed);
        })
    };
    let run = match &echo {
        Some(echo) => echo.around(&options, &stop, run),
        None => run(),
    };
    live.end();
    writer.end(&options, &run?)?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests;
