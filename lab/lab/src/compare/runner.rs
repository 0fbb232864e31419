//! The real bench: all servers on the server's host, the generator on the clients'.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lab_host::hosts::{self, Hosts, Side};
use lab_load::arrivals::{Arrivals, Rate, Spacing};
use lab_load::names::{Order, QuestionSet, QuestionSpec};
use lab_load::query::QueryFormat;
use lab_load::{LoadMode, Options, QueryCounts, QuerySource, Report};

use super::{ServerResult, Trial, TrialRunner, begin, rounds, trials};
use crate::Result;
use crate::ceiling::EchoBaseline;
use crate::limits::SOURCES;
use crate::observer::measure;
use crate::servers::{Server, ServerKind, ServerSetup, Version, Zone};

/// The first server's port; each further one has the next.
const PORT: u16 = 5_300;
/// One in so many answers is held to the zone.
pub(super) const CHECK_ONE_IN: u64 = 64;
/// How long an answer is waited for, ns.
const TIMEOUT_NS: u64 = 500_000_000;

/// What is compared.
#[derive(Debug)]
pub struct CompareOptions {
    /// The servers; the others are seen beside the first.
    pub kinds: Vec<&'static ServerKind>,
    /// Programs that are elsewhere than in `PATH`, by names of servers.
    pub binaries: BTreeMap<String, PathBuf>,
    /// The zone that the servers serve.
    pub zone: Zone,
    /// Names and types to ask for, as dnsperf reads them.
    pub names: PathBuf,
    /// How many rounds.
    pub rounds: usize,
    /// Length of a trial, ns.
    pub length_ns: u64,
    /// Questions a second that no server is thought to answer.
    pub highest: f64,
    /// Where configs and logs go.
    pub folder: PathBuf,
}

/// What came of it.
#[derive(Debug)]
pub struct CompareResult {
    /// The servers in their order.
    pub servers: Vec<ServerResult>,
    /// The first one, once more.
    pub again: ServerResult,
}

/// Reports progress: the server that is next, and how much of all is done.
pub type Progress<'a> = &'a mut dyn FnMut(&str, usize, usize);

/// All servers, started, and the generator's options.
struct Runner<'a> {
    servers: Vec<Server>,
    /// An echo for each way in which one of them receives and sends.
    echoes: Vec<EchoBaseline>,
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
    let told =
        |kind: &&'static ServerKind| Ok(format!("# {}\n{}", kind.name, kind.config(&setup)?));
    Ok(options.kinds.iter().map(told).collect::<Result<Vec<_>>>()?.join("\n"))
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
    let mut setup = setup(options, hosts.options())?;
    let ask_from = hosts.options().namespace(Side::Client);
    let mut results: Vec<ServerResult> = Vec::new();
    let mut servers = Vec::new();
    // The first one stands at both ends of the order.
    for (place, kind) in options.kinds.iter().chain(options.kinds.first()).enumerate() {
        unless_stopped(stop)?;
        let binary = match options.binaries.get(kind.name) {
            Some(path) => path.clone(),
            None => kind.find()?,
        };
        (setup.address, setup.folder) = (address(place), options.folder.join(place.to_string()));
        let started = kind.start(&binary, &setup, Some(&ask_from))?;
        results.push(server_result(kind, kind.version(&binary)?, &started));
        servers.push(started);
    }
    let load = load(options, hosts.options())?;
    let mut echoes: Vec<EchoBaseline> = Vec::new();
    for kind in &options.kinds {
        if !echoes.iter().any(|echo| echo.model() == kind.model.name()) {
            let (ip, netns) = (setup.address.ip(), setup.netns.as_deref());
            echoes.push(EchoBaseline::start(kind.model, ip, &setup.cpus, netns)?);
        }
    }
    // The first packets of hosts that have just come up are slow; and an echo that does not answer
    // is better known now than after a round.
    for echo in &echoes {
        echo.rate(&load, stop)?;
        unless_stopped(stop)?;
    }
    let mut runner = Runner { servers, echoes, load, stop, progress };
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
    let form = QueryFormat { edns: true, ..QueryFormat::default() };
    let set = Arc::new(QuestionSet::read(&options.names, form)?);
    let what = QuestionSpec { set, order: Order::Given, unique: 0.0, nxdomain: 0.0, under: None };
    let cpus = hosts.cpus(Side::Client)?;
    let options = Options {
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
        ..Options::new((Ipv4Addr::LOCALHOST, PORT).into(), QuerySource::Questions(what.into()))
    };
    options.check()?;
    Ok(options)
}

fn open(rate: f64) -> LoadMode {
    let rate = Rate::Constant(rate);
    LoadMode::Open(Arrivals { rate, spacing: Spacing::Even, burst: 1 })
}

impl TrialRunner for Runner<'_> {
    fn trial(&mut self, server: usize, rate: f64) -> Result<Trial> {
        self.load.server = address(server);
        self.load.when = open(rate);
        // Another beginning each time: which names meet which packets is chance as well.
        self.load.seed += 1;
        let run = measure(&self.load, &[], self.stop, &mut |_| {})?;
        unless_stopped(self.stop)?;
        let (cpu_us, resident) = (run.cpu_us(), run.resident);
        let report = &run.report;
        let name = self.servers.get(server).map_or("", |server| server.name);
        check(name, &report.counts)?;
        let seconds = self.load.length_ns as f64 / 1e9;
        Ok(Trial {
            rate,
            in_time: report.counts.answered as f64 / report.counts.planned.max(1) as f64,
            answered: report.counts.answered as f64 / seconds,
            p50_ns: known(report, 0.5),
            p99_ns: known(report, 0.99),
            cpu_us,
            resident,
            measurements: run.measurements,
            verdict: run.verdict,
        })
    }

    fn echo(&mut self, server: usize) -> Result<(String, f64)> {
        let options = self.servers.get(server).map(|server| server.model.name());
        let echo = self.echoes.iter().find(|echo| Some(echo.model()) == options);
        let echo = echo.ok_or("there is no such server")?;
        Ok((echo.model().into(), echo.rate(&self.load, self.stop)?))
    }

    fn progress(&mut self, server: usize, done: usize, of: usize) {
        let name = self.servers.get(server).map_or("", |server| server.name);
        (self.progress)(name, done, of);
    }
}

/// Refuses answers that are none: the content of those looked at, RCODEs other than NOERROR and
/// NXDOMAIN (RFC 1035 §4.1.1), and what was cut. Who wins by them has won nothing.
fn check(name: &str, counts: &QueryCounts) -> Result<()> {
    let QueryCounts { wrong, checked, truncated, .. } = *counts;
    let said = |(rcode, count): (&str, u64)| format!("{count} {rcode}");
    let rcodes = counts.rcodes().filter(|(rcode, _)| !matches!(*rcode, "NOERROR" | "NXDOMAIN"));
    let mut found: Vec<String> = rcodes.map(said).collect();
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
