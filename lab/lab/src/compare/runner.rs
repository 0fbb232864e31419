//! Runs trials on two hosts: all servers on the server's, the generator on the clients'.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lab_echo::Model;
use lab_host::hosts::{self, Hosts, Side};
use lab_load::arrivals::{Arrivals, Rate, Spacing};
use lab_load::names::{Order, QuestionSpec};
use lab_load::{LoadMode, Options, Path, QueryCounts, QuerySource, Report};

use super::authority::Authority;
use super::{ServerResult, Trial, TrialRunner, begin, rounds, trials};
use crate::Result;
use crate::ceiling::EchoBaseline;
use crate::limits::SOURCES;
use crate::observer::measure;
use crate::servers::{Server, ServerKind, ServerSetup, Version, Zone};

/// The first server's port; each further one has the next.
const PORT: u16 = 5_300;
/// One in this many answers is compared with the zone.
pub(super) const CHECK_ONE_IN: u64 = 64;
/// Before anything is measured, a forwarder is asked for all names this many times, with so many
/// queries under way, for this long at most, ns.
const WARM_PASSES: u64 = 2;
const WARM_OUTSTANDING: usize = 16;
const WARM_NS: u64 = 60_000_000_000;
/// Timeout of a query, ns.
const TIMEOUT_NS: u64 = 500_000_000;

/// What is compared.
#[derive(Debug)]
pub struct CompareOptions {
    /// The servers; the others are seen beside the first.
    pub kinds: Vec<&'static ServerKind>,
    /// Programs that are not in `PATH`, by names of servers.
    pub binaries: BTreeMap<String, PathBuf>,
    /// The zone that the servers serve.
    pub zone: Zone,
    /// The queries.
    pub asks: QuerySource,
    /// How the generator sends and receives.
    pub path: Path,
    /// Whether the servers forward to a Knot on the client's side that has the zone.
    pub forward: bool,
    /// How many rounds.
    pub rounds: usize,
    /// Length of a trial, ns.
    pub length_ns: u64,
    /// A rate that no server is expected to answer, queries per second.
    pub highest: f64,
    /// Folder for configs and logs.
    pub folder: PathBuf,
}

/// Results of a run.
#[derive(Debug)]
pub struct CompareResult {
    /// The servers in their order.
    pub servers: Vec<ServerResult>,
    /// The first one, once more.
    pub again: ServerResult,
}

/// Reports progress: the server that is next, and how much of all is done.
pub type Progress<'a> = &'a mut dyn FnMut(&str, usize, usize);

/// A server at its address.
struct Entrant {
    kind: &'static ServerKind,
    binary: PathBuf,
    setup: ServerSetup,
    config: String,
    /// While it runs.
    server: Option<Server>,
}

impl Entrant {
    fn start(&mut self, ask_from: &str) -> Result<&Server> {
        let Self { kind, binary, setup, config, server } = self;
        let started = kind.start_with(config, binary, setup, Some(ask_from))?;
        Ok(server.insert(started))
    }
}

/// All servers, and the generator's options.
struct Runner<'a> {
    hosts: &'a Hosts,
    entrants: Vec<Entrant>,
    /// Whether no two of them, and no echo with one of them, can run at the same time.
    alone: bool,
    /// An echo for each way in which one of them receives and sends, unless they run alone.
    echoes: Vec<EchoBaseline>,
    /// The server whose queries are counted.
    authority: Option<Authority>,
    load: Options,
    stop: &'a AtomicBool,
    progress: Progress<'a>,
}

/// The servers' configs, each behind its name.
///
/// # Errors
/// The zone cannot be read.
pub fn configs(options: &CompareOptions, hosts: &hosts::Options) -> Result<String> {
    let setup = setup(options, hosts)?;
    let told = |kind: &&'static ServerKind| {
        Ok(format!("# {}\n{}", kind.name, config(options, kind, &setup)?))
    };
    Ok(options.kinds.iter().map(told).collect::<Result<Vec<_>>>()?.join("\n"))
}

fn config(options: &CompareOptions, kind: &ServerKind, setup: &ServerSetup) -> Result<String> {
    match options.forward {
        true => kind.forwarding(setup, Authority::address()),
        false => kind.config(setup),
    }
}

/// The first server's place.
fn setup(options: &CompareOptions, hosts: &hosts::Options) -> Result<ServerSetup> {
    Ok(ServerSetup {
        address: address(0),
        cpus: hosts.cpus(Side::Server)?,
        threads: None,
        zone: options.zone.clone(),
        folder: options.folder.join("0"),
        netns: Some(hosts.namespace(Side::Server)),
        interface: Some(hosts.device(Side::Server)),
    })
}

/// Compares servers on two hosts that are up.
///
/// # Errors
/// A server is not here or does not serve, the generator cannot run, or it was stopped.
pub fn compare(
    options: &CompareOptions,
    hosts: &Hosts,
    stop: &AtomicBool,
    progress: Progress<'_>,
) -> Result<CompareResult> {
    let authority = options.forward.then(|| Authority::start(options, hosts.options()));
    let mut runner = Runner {
        hosts,
        entrants: Vec::new(),
        alone: options.kinds.iter().any(|kind| kind.has_program),
        echoes: Vec::new(),
        authority: authority.transpose()?,
        load: load(options, hosts.options())?,
        stop,
        progress,
    };
    let mut results = runner.start(options)?;
    runner.try_echoes(options)?;
    runner.warm()?;
    let all = trials(results.len(), options.rounds);
    let beginning = begin(&mut runner, results.len(), options.highest, all)?;
    let found = rounds(&mut runner, &beginning, options.rounds)?;
    for ((result, rounds), beginning) in results.iter_mut().zip(found).zip(beginning) {
        (result.rounds, result.beginning) = (rounds, beginning);
    }
    let again = results.pop().ok_or("no server to compare")?;
    Ok(CompareResult { servers: results, again })
}

fn unless_stopped(stop: &AtomicBool) -> Result<()> {
    match stop.load(Ordering::Relaxed) {
        true => Err("stopped; nothing was compared".into()),
        false => Ok(()),
    }
}

fn address(place: usize) -> SocketAddr {
    (hosts::SERVER, PORT + place as u16).into()
}

fn server_result(kind: &ServerKind, version: Version, server: &Server) -> ServerResult {
    ServerResult {
        name: kind.name.into(),
        version,
        command: server.command.clone(),
        remark: kind.remark.into(),
        beginning: 0.0,
        rounds: Vec::new(),
    }
}

fn load(options: &CompareOptions, hosts: &hosts::Options) -> Result<Options> {
    let cpus = hosts.cpus(Side::Client)?;
    let options = Options {
        path: options.path,
        length_ns: options.length_ns,
        timeout_ns: TIMEOUT_NS,
        threads: cpus.as_slice().len(),
        cpus: cpus.as_slice().to_vec(),
        channels: SOURCES,
        netns: Some(hosts.namespace(Side::Client)),
        oracle: Some(Arc::new(options.zone.oracle()?)),
        check_one_in: CHECK_ONE_IN,
        errors_are_wrong: true,
        when: open(options.highest),
        ..Options::new((Ipv4Addr::LOCALHOST, PORT).into(), options.asks.clone())
    };
    options.check()?;
    Ok(options)
}

fn open(rate: f64) -> LoadMode {
    let rate = Rate::Constant(rate);
    LoadMode::Open(Arrivals { rate, spacing: Spacing::Even, burst: 1 })
}

impl Runner<'_> {
    /// Starts all servers, one after the other if they run alone, to find those that do not answer.
    fn start(&mut self, options: &CompareOptions) -> Result<Vec<ServerResult>> {
        let first = setup(options, self.hosts.options())?;
        let mut results = Vec::new();
        // The first one is at both ends of the order.
        for (place, kind) in options.kinds.iter().chain(options.kinds.first()).enumerate() {
            unless_stopped(self.stop)?;
            let binary = kind.binary(&options.binaries)?;
            let folder = options.folder.join(place.to_string());
            let setup = ServerSetup { address: address(place), folder, ..first.clone() };
            let config = config(options, kind, &setup)?;
            let version = kind.version(&binary)?;
            self.entrants.push(Entrant { kind, binary, setup, config, server: None });
            self.have_alone(None)?;
            let ask_from = self.hosts.options().namespace(Side::Client);
            let started = self.entrants[place].start(&ask_from)?;
            results.push(server_result(kind, version, started));
        }
        Ok(results)
    }

    /// Stops all servers except this one, if they run alone.
    fn have_alone(&mut self, wanted: Option<usize>) -> Result<()> {
        if !self.alone {
            return Ok(());
        }
        for (place, entrant) in self.entrants.iter_mut().enumerate() {
            if Some(place) != wanted && entrant.server.take().is_some() && entrant.kind.has_program
            {
                // Knot leaves its XDP program attached.
                self.hosts.detach_program(Side::Server)?;
            }
        }
        let ask_from = self.hosts.options().namespace(Side::Client);
        match wanted.and_then(|place| self.entrants.get_mut(place)) {
            Some(entrant) if entrant.server.is_none() => entrant.start(&ask_from).map(drop),
            _ => Ok(()),
        }
    }

    /// Runs a trial of every echo. The first packets of new hosts are slow, and an echo that does
    /// not answer fails before the first round.
    fn try_echoes(&mut self, options: &CompareOptions) -> Result<()> {
        for kind in &options.kinds {
            unless_stopped(self.stop)?;
            if self.echoes.iter().any(|echo| echo.model() == kind.model.name()) {
                continue;
            }
            self.have_alone(None)?;
            let echo = self.start_echo(kind.model)?;
            echo.rate(&self.load, self.stop)?;
            if !self.alone {
                self.echoes.push(echo);
            }
        }
        Ok(())
    }

    fn start_echo(&self, model: Model) -> Result<EchoBaseline> {
        let entrant = self.entrants.first().ok_or("no server to compare")?;
        let ServerSetup { address, cpus, netns, .. } = &entrant.setup;
        EchoBaseline::start(model, address.ip(), cpus, netns.as_deref())
    }

    /// Queries each forwarder slowly for every name of the set, so that it is cached.
    fn warm(&mut self) -> Result<()> {
        let QuerySource::Questions(what) = &self.load.asks else { return Ok(()) };
        if self.authority.is_none() {
            return Ok(());
        }
        let queries_max = Some(what.set.len() as u64 * WARM_PASSES);
        let every =
            QuestionSpec { order: Order::Given, unique: 0.0, nxdomain: 0.0, ..*what.clone() };
        let load = Options {
            when: LoadMode::Closed { outstanding: WARM_OUTSTANDING, rate_max: None },
            asks: QuerySource::Questions(every.into()),
            length_ns: WARM_NS,
            queries_max,
            ..self.load.clone()
        };
        for place in 0..self.entrants.len() {
            lab_load::run(
                &Options { server: address(place), ..load.clone() },
                self.stop,
                &mut |_| {},
            )?;
            unless_stopped(self.stop)?;
        }
        Ok(())
    }

    fn name(&self, server: usize) -> &'static str {
        self.entrants.get(server).map_or("", |entrant| entrant.kind.name)
    }
}

impl TrialRunner for Runner<'_> {
    fn trial(&mut self, server: usize, rate: f64) -> Result<Trial> {
        self.have_alone(Some(server))?;
        self.load.server = address(server);
        self.load.when = open(rate);
        // Each trial has another seed, so that the order of names is random, too.
        self.load.seed += 1;
        self.authority.as_ref().map_or(Ok(0), Authority::take)?;
        let run = measure(&self.load, &[], self.stop, &mut |_| {})?;
        unless_stopped(self.stop)?;
        let forwards = self.entrants.get(server).is_some_and(|entrant| entrant.kind.forwards());
        let authority = self.authority.as_ref().filter(|_| forwards);
        let upstream = authority.map(Authority::take).transpose()?;
        let (cpu_us, resident) = (run.cpu_us(), run.resident);
        let report = &run.report;
        check(self.name(server), &report.counts, self.authority.is_some())?;
        let seconds = self.load.length_ns as f64 / 1e9;
        let planned = report.counts.planned.max(1) as f64;
        Ok(Trial {
            rate,
            in_time: report.counts.answered as f64 / planned,
            answered: report.counts.answered as f64 / seconds,
            p50_ns: known(report, 0.5),
            p99_ns: known(report, 0.99),
            cpu_us,
            resident,
            upstream: upstream.map(|queries| queries as f64 / planned),
            measurements: run.measurements,
            verdict: run.verdict,
        })
    }

    fn echo(&mut self, server: usize) -> Result<(String, f64)> {
        let model = self.entrants.get(server).map(|entrant| entrant.kind.model);
        let model = model.ok_or("there is no such server")?;
        if self.alone {
            self.have_alone(None)?;
            let echo = self.start_echo(model)?;
            return Ok((echo.model().into(), echo.rate(&self.load, self.stop)?));
        }
        let echo = self.echoes.iter().find(|echo| echo.model() == model.name());
        let echo = echo.ok_or("there is no such echo")?;
        Ok((echo.model().into(), echo.rate(&self.load, self.stop)?))
    }

    fn progress(&mut self, server: usize, done: usize, of: usize) {
        let name = self.name(server);
        (self.progress)(name, done, of);
    }
}

/// Refuses wrong answers: wrong records in compared ones, RCODEs other than NOERROR and NXDOMAIN
/// (RFC 1035 §4.1.1), and truncated ones. A server must not win by them. An overloaded forwarder
/// may answer SERVFAIL: that counts as no answer.
fn check(name: &str, counts: &QueryCounts, forwards: bool) -> Result<()> {
    let QueryCounts { mut wrong, checked, truncated, .. } = *counts;
    let mut found: Vec<String> = Vec::new();
    for (rcode, count) in counts.rcodes() {
        match rcode {
            "NOERROR" | "NXDOMAIN" => {}
            "SERVFAIL" if forwards => wrong = wrong.saturating_sub(count),
            _ => found.push(format!("{count} {rcode}")),
        }
    }
    if truncated > 0 {
        found.push(format!("{truncated} cut"));
    }
    if wrong > 0 {
        found.push(format!("{wrong} of {checked} that were held to the zone not as it says"));
    }
    match found.is_empty() {
        true => Ok(()),
        false => Err(format!("{name} answers wrong: {}; nothing was compared", found.join(", "))),
    }
}

fn known(report: &Report, share: f64) -> Option<u64> {
    match report.quantile(&report.times.response, share) {
        lab_load::Quantile::Of(ns) => Some(ns),
        lab_load::Quantile::None | lab_load::Quantile::MoreThan(_) => None,
    }
}

#[cfg(test)]
mod tests;
