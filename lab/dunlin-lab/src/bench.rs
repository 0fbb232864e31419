//! What sweeps and reproductions share: the two hosts, an echo on one, the generator on the other.
use crate::compare::{Folder, LOCK, Up, alone};
use cpu::CpuList;
use lab_echo::Model;
use lab_host::STATE;
use lab_host::hosts::{self, Hosts, Layout, Options as HostOptions, Side};
use lab_load::names::{Order, QuestionSet, QuestionSpec};
use lab_load::{LoadMode, Options, QuerySource, Sources};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::str::FromStr;
use std::sync::Arc;

/// The echo's port.
pub const PORT: u16 = 5_300;
/// The name of the two hosts.
const NAME: &str = "compare";

/// The program of Dunlin that is beside this one, if one is.
pub fn beside() -> Option<PathBuf> {
    let beside = std::env::current_exe().ok()?.with_file_name("dunlin");
    beside.exists().then_some(beside)
}

/// Two hosts cannot be made without root.
///
/// # Errors
/// There is no root.
pub fn need_root() -> Result<(), String> {
    match rustix::process::geteuid().is_root() {
        true => Ok(()),
        false => Err("two hosts need root: use sudo".into()),
    }
}

/// The lock of the machine, a private folder, and two hosts; all of it ends with this.
pub struct Bench {
    // Dropped in this order: the hosts go first, the lock last.
    up: Option<Up>,
    made: Option<HostOptions>,
    pub folder: Folder,
    server: Option<CpuList>,
    client: Option<CpuList>,
    _alone: File,
}

impl Bench {
    /// Locks the machine; the hosts come with [`Self::hosts`].
    ///
    /// # Errors
    /// Something else measures here, or there is no root.
    pub fn new(server: Option<CpuList>, client: Option<CpuList>) -> Result<Self, String> {
        need_root()?;
        let alone = alone(Path::new(LOCK))?;
        let folder = Folder::fresh(Path::new(STATE))?;
        Ok(Self { up: None, made: None, folder, server, client, _alone: alone })
    }

    /// Options of the hosts with this layout and number of queues.
    ///
    /// # Errors
    /// Two CPUs are needed and not there.
    pub fn options(&self, layout: Layout, queues: u32) -> Result<HostOptions, String> {
        let options = HostOptions::new(NAME, self.server.as_ref(), self.client.as_ref())?;
        Ok(HostOptions { layout, queues, ..options })
    }

    /// The hosts with this layout and number of queues; others of theirs are removed first.
    ///
    /// # Errors
    /// A command failed.
    pub fn hosts(&mut self, layout: Layout, queues: u32) -> Result<&Hosts, String> {
        let options = self.options(layout, queues)?;
        if self.made.as_ref() != Some(&options) {
            self.up = None;
            self.up = Some(Up::new(&options)?);
            self.made = Some(options);
        }
        let up = self.up.as_ref().ok_or("the hosts are not up")?;
        up.0.pin()?;
        Ok(&up.0)
    }
}

/// An echo of a sweep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EchoSpec {
    pub model: Model,
    pub processes: usize,
    pub threads: usize,
    pub batch: Option<usize>,
    /// CPUs that threads are pinned to, in turn.
    pub cpus: Option<CpuList>,
    /// One socket for all.
    pub shared: bool,
    /// MiB of a socket's buffers, instead of the echo's own.
    pub buffer_mib: Option<usize>,
}

impl EchoSpec {
    /// One process and one thread of this model, not pinned.
    pub fn of(model: Model) -> Self {
        Self {
            model,
            processes: 1,
            threads: 1,
            batch: None,
            cpus: None,
            shared: false,
            buffer_mib: None,
        }
    }
}

/// An echo process on the server's host; it ends when this is dropped, or its parent ends.
pub struct EchoProcess(Child);

impl EchoProcess {
    /// Starts it and waits until it answers.
    ///
    /// # Errors
    /// It cannot be started: why.
    pub fn start(hosts: &Hosts, echo: &EchoSpec) -> Result<Self, String> {
        let own = std::env::current_exe().map_err(|error| format!("this program: {error}"))?;
        let listen = address().to_string();
        let mut words: Vec<String> = ["setpriv", "--pdeathsig", "TERM"].map(Into::into).into();
        words.push(own.display().to_string());
        words.extend(["echo", "-o", "json", "--interval", "1h", "--listen"].map(Into::into));
        words.extend([listen, "--model".into(), echo.model.name().into()]);
        words.extend(["--processes".into(), echo.processes.to_string()]);
        words.extend(["--threads".into(), echo.threads.to_string()]);
        if let Some(batch) = echo.batch {
            words.extend(["--batch".into(), batch.to_string()]);
        }
        if let Some(cpus) = &echo.cpus {
            words.extend(["--cpus".into(), cpus.to_string()]);
        }
        if echo.shared {
            words.push("--shared".into());
        }
        if let Some(mib) = echo.buffer_mib {
            let size = format!("{mib}MiB");
            words.extend(["--receive-buffer".into(), size.clone(), "--send-buffer".into(), size]);
        }
        let mut command = hosts.command(Side::Server, &words)?;
        let piped = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut echo = Self(piped.spawn().map_err(|error| format!("no echo: {error}"))?);
        // Its first line says that it answers.
        let mut line = String::new();
        let read = echo.0.stdout.as_mut().map(|out| BufReader::new(out).read_line(&mut line));
        if matches!(read, Some(Ok(1..))) {
            return Ok(echo);
        }
        let mut why = String::new();
        let _ = echo.0.stderr.as_mut().map(|errors| errors.read_to_string(&mut why));
        Err(why.trim().trim_start_matches("dunlin-lab: ").to_owned())
    }
}

impl Drop for EchoProcess {
    fn drop(&mut self) {
        // Its other processes end with it.
        let _ = kill_process(Pid::from_child(&self.0), Signal::TERM);
        let _ = self.0.wait();
    }
}

/// Where the echo answers.
pub fn address() -> SocketAddr {
    (hosts::SERVER, PORT).into()
}

/// How packets are spread: the number of flows, and whether they differ by address or by port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spread {
    pub flows: usize,
    pub by_address: bool,
}

impl FromStr for Spread {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (flows, by_address) = match text.strip_prefix("addresses:") {
            Some(flows) => (flows, true),
            None => (text, false),
        };
        let flows = flows.parse().ok().filter(|flows| (1..=10_000).contains(flows));
        let told = || "expected 1 to 10000, such as 8 or addresses:1000".to_owned();
        Ok(Self { flows: flows.ok_or_else(told)?, by_address })
    }
}

impl std::fmt::Display for Spread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}", if self.by_address { "addresses:" } else { "" }, self.flows)
    }
}

/// A closed loop from the client's host to the echo.
///
/// # Errors
/// The number of flows or of queries does not fit the generator.
pub fn closed_loop(
    hosts: &Hosts,
    asks: QuerySource,
    spread: Spread,
    outstanding: usize,
    length_ns: u64,
) -> Result<Options, String> {
    let cpus = hosts.options().cpus(Side::Client)?;
    let sources: Option<Sources> = match spread.by_address {
        true => Some(format!("{}/{}", hosts::CLIENTS.0, hosts::CLIENTS.1).parse()?),
        false => None,
    };
    let threads = cpus.as_slice().len().min(spread.flows).min(outstanding);
    let options = Options {
        when: LoadMode::Closed { outstanding, rate_max: None },
        length_ns,
        interval_ns: length_ns,
        timeout_ns: 500_000_000,
        errors_are_wrong: true,
        threads,
        cpus: cpus.as_slice().to_vec(),
        channels: spread.flows,
        sources,
        netns: Some(hosts.options().namespace(Side::Client)),
        ..Options::new(address(), asks)
    };
    options.check()?;
    Ok(options)
}

/// The queries of a set, in their order.
pub fn questions(set: QuestionSet) -> QuerySource {
    let (set, order) = (Arc::new(set), Order::Given);
    let what = QuestionSpec { set, order, unique: 0.0, nxdomain: 0.0, under: None };
    QuerySource::Questions(what.into())
}
