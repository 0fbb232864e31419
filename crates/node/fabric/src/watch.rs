//! `dunlin fabric watch` and `top`.
use crate::cli::{Output, ProgramOrder, Watch};
use crate::limits::FOLLOW_INTERVAL_MAX;
use crate::pods::{Access, PodRules};
use crate::program::Watcher;
use crate::report::{Report, shares};
use crate::traffic::{Counters, pairs};
use crate::{Container, containers, metrics};
use bpf::Order;
use cpu_topology::Reader;
use rustix::thread::CapabilitySet;
use std::error::Error;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

/// Where cgroup v2 is mounted, usually.
const GROUPS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];

/// Clears the screen, and goes to its first line.
const CLEAR: &str = "\x1b[2J\x1b[H";

/// What `--follow` keeps: programs are loaded and attached, network namespaces entered, and the
/// processes in them read.
fn follow_capabilities() -> CapabilitySet {
    CapabilitySet::BPF
        | CapabilitySet::NET_ADMIN
        | CapabilitySet::SYS_ADMIN
        | CapabilitySet::SYS_PTRACE
}

/// Watches until the count is reached, the output is gone, or a signal ends it.
///
/// # Errors
/// The kernel refuses, or the result cannot be written.
pub fn run(command: &Watch, is_top: bool) -> Result<ExitCode, Box<dyn Error>> {
    let mut session = Session::new(command)?;
    let keep = if command.follow { follow_capabilities() } else { CapabilitySet::empty() };
    process::keep_only(keep, false)?;
    // Its thread has no more capabilities than this one has now.
    if command.pods {
        let access = Access { kubeconfig: command.kubeconfig.clone(), node: command.node() };
        session.rules = Some(PodRules::start(access)?);
    }
    let is_screen = is_top && io::stdout().is_terminal() && command.output == Output::Text;
    let mut left = command.count;
    let mut before = session.read()?;
    let mut begin = Instant::now();
    while left != Some(0) {
        session.wait(begin + command.interval)?;
        let (now, end) = (session.read()?, Instant::now());
        let report = session.report(now.since(&before), end - begin)?;
        if let Some(path) = &command.metrics {
            metrics::write(path, &session.pairs(&now)?, &now)?;
        }
        (before, begin) = (now, end);
        left = left.map(|left| left - 1);
        match write(&report, command.output, is_screen) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => break,
            written => written?,
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn write(report: &Report, output: Output, is_screen: bool) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match output {
        Output::Json => {
            serde_json::to_writer(&mut out, report)?;
            writeln!(out)?;
        }
        Output::Text => {
            if is_screen {
                write!(out, "{CLEAR}")?;
            }
            report.write(&mut out)?;
            if !is_screen {
                writeln!(out)?;
            }
        }
    }
    out.flush()
}

/// The programs, and who is watched.
struct Session<'c> {
    command: &'c Watch,
    watcher: Watcher,
    containers: Vec<Container>,
    machine: Reader,
    /// Which Pods may be switched; none without them.
    rules: Option<PodRules>,
}

impl<'c> Session<'c> {
    fn new(command: &'c Watch) -> Result<Self, Box<dyn Error>> {
        let order = match command.order {
            ProgramOrder::First => Order::First,
            ProgramOrder::Last => Order::Last,
        };
        let group = group(command.cgroup.as_deref());
        if group.is_none() {
            eprintln!("cgroup v2 is not mounted at {}: no round trips", GROUPS.join(" or "));
        }
        let watcher = Watcher::new(group.as_deref(), order).and_then(|mut watcher| {
            if command.switch {
                watcher.switch()?;
            }
            Ok(watcher)
        });
        let watcher = watcher.map_err(|error| error.to_string())?;
        let machine = Reader::default();
        let mut session = Self { command, watcher, containers: Vec::new(), machine, rules: None };
        session.follow()?;
        if session.containers.is_empty() && !command.follow {
            return Err(
                "there are no containers: none has a virtual wire (veth) into this network \
                        namespace (`ip -d link` lists them); --follow waits for some"
                    .into(),
            );
        }
        Ok(session)
    }

    fn follow(&mut self) -> Result<(), Box<dyn Error>> {
        let mut found =
            containers::find().map_err(|error| format!("cannot list interfaces: {error}"))?;
        if let Some(rules) = &self.rules {
            rules.mark(&mut found);
        }
        if found == self.containers {
            return Ok(());
        }
        let refused = self.watcher.follow(&found).map_err(|error| error.to_string())?;
        // One that ended meanwhile is found no more the next time.
        if self.watcher.watched() == 0
            && let Some(error) = refused.first()
        {
            return Err(error.to_string().into());
        }
        self.containers = found;
        Ok(())
    }

    /// Waits until then; meanwhile it looks for containers that come or change.
    fn wait(&mut self, until: Instant) -> Result<(), Box<dyn Error>> {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            thread::sleep(if self.command.follow { left.min(FOLLOW_INTERVAL_MAX) } else { left });
            if self.command.follow {
                self.follow()?;
            }
        }
    }

    fn read(&self) -> Result<Counters, Box<dyn Error>> {
        self.watcher.read().map_err(|error| format!("cannot read the counters: {error}").into())
    }

    fn pairs(&mut self, counters: &Counters) -> Result<Vec<crate::Pair>, Box<dyn Error>> {
        Ok(pairs(&self.machine.read()?, &self.containers, counters))
    }

    fn report(&mut self, counters: Counters, time: Duration) -> Result<Report, Box<dyn Error>> {
        let pairs = self.pairs(&counters)?;
        Ok(Report {
            seconds: time.as_secs_f64(),
            interfaces: self.watcher.watched(),
            not_counted: counters.not_counted,
            distances: shares(&pairs),
            pairs,
            switch: counters.switch,
        })
    }
}

fn group(named: Option<&Path>) -> Option<PathBuf> {
    let is_v2 = |path: &&Path| path.join("cgroup.controllers").exists();
    match named {
        Some(path) => Some(path.to_owned()),
        None => GROUPS.map(Path::new).iter().copied().find(is_v2).map(Path::to_owned),
    }
}
