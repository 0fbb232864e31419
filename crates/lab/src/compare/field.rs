//! The real bench: all servers on the server's host, the generator on the clients'.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lab_host::hosts::{self, Hosts, Side};
use lab_load::arrivals::{Arrivals, Rate, Spacing};
use lab_load::names::{Order, Set, What};
use lab_load::query::Form;
use lab_load::{Asks, Options, Report, Tally, When};

use super::{Bench, Entrant, Trial, begin, rounds, trials};
use crate::Result;
use crate::ceiling::Bare;
use crate::limits::SOURCES;
use crate::servers::{Kind, Server, Site, Version, Zone};
use crate::witness::measure;

/// The first server's port; each further one has the next.
const PORT: u16 = 5_300;
/// One in so many answers is held to the zone.
pub(super) const CHECK_ONE_IN: u64 = 64;
/// How long an answer is waited for, ns.
const TIMEOUT_NS: u64 = 500_000_000;

/// What is compared.
#[derive(Debug)]
pub struct Wanted {
    /// The servers; the others are seen beside the first.
    pub kinds: Vec<&'static Kind>,
    /// Programs that are elsewhere than in `PATH`, by names of servers.
    pub binaries: BTreeMap<String, PathBuf>,
    /// What they serve.
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
pub struct Compared {
    /// The servers in their order.
    pub entrants: Vec<Entrant>,
    /// The first one, once more.
    pub again: Entrant,
}

/// Is told what comes next: whose turn it is, and how much of all is done.
pub type Progress<'a> = &'a mut dyn FnMut(&str, usize, usize);

/// All servers, started, and the generator's options.
struct Field<'a> {
    servers: Vec<Server>,
    /// An echo for each way in which one of them receives and sends.
    echoes: Vec<Bare>,
    load: Options,
    stop: &'a AtomicBool,
    progress: Progress<'a>,
}

/// The servers' configs, each behind its name.
///
/// # Errors
/// The zone cannot be read.
pub fn configs(wanted: &Wanted, hosts: &hosts::Options) -> Result<String> {
    let site = site(wanted, hosts)?;
    let told = |kind: &&'static Kind| Ok(format!("# {}\n{}", kind.name, kind.config(&site)?));
    Ok(wanted.kinds.iter().map(told).collect::<Result<Vec<_>>>()?.join("\n"))
}

/// The first server's place.
fn site(wanted: &Wanted, hosts: &hosts::Options) -> Result<Site> {
    Ok(Site {
        address: address(0),
        cpus: hosts.cpus(Side::Server)?,
        zone: wanted.zone.clone(),
        folder: wanted.folder.join("0"),
        netns: Some(hosts.namespace(Side::Server)),
    })
}

/// Compares servers on two hosts that are up.
///
/// # Errors
/// A server is not here or does not serve, the generator cannot run, or it was stopped.
pub fn compare(
    wanted: &Wanted,
    hosts: &Hosts,
    stop: &AtomicBool,
    progress: Progress<'_>,
) -> Result<Compared> {
    let mut site = site(wanted, hosts.options())?;
    let ask_from = hosts.options().namespace(Side::Client);
    let mut entrants: Vec<Entrant> = Vec::new();
    let mut servers = Vec::new();
    // The first one stands at both ends of the order.
    for (place, kind) in wanted.kinds.iter().chain(wanted.kinds.first()).enumerate() {
        unless_stopped(stop)?;
        let binary = match wanted.binaries.get(kind.name) {
            Some(path) => path.clone(),
            None => kind.find()?,
        };
        (site.address, site.folder) = (address(place), wanted.folder.join(place.to_string()));
        let started = kind.start(&binary, &site, Some(&ask_from))?;
        entrants.push(entrant(kind, kind.version(&binary)?, &started));
        servers.push(started);
    }
    let load = load(wanted, hosts.options())?;
    let mut echoes: Vec<Bare> = Vec::new();
    for kind in &wanted.kinds {
        if !echoes.iter().any(|echo| echo.model() == kind.model.name()) {
            let (ip, netns) = (site.address.ip(), site.netns.as_deref());
            echoes.push(Bare::start(kind.model, ip, &site.cpus, netns)?);
        }
    }
    // The first packets of hosts that have just come up are slow; and an echo that does not answer
    // is better known now than after a round.
    for echo in &echoes {
        echo.rate(&load, stop)?;
        unless_stopped(stop)?;
    }
    let mut field = Field { servers, echoes, load, stop, progress };
    let all = trials(entrants.len(), wanted.rounds);
    let beginning = begin(&mut field, entrants.len(), wanted.highest, all)?;
    let found = rounds(&mut field, &beginning, wanted.rounds)?;
    for ((entrant, rounds), beginning) in entrants.iter_mut().zip(found).zip(beginning) {
        (entrant.rounds, entrant.beginning) = (rounds, beginning);
    }
    let again = entrants.pop().ok_or("no server to compare")?;
    Ok(Compared { entrants, again })
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

fn entrant(kind: &Kind, version: Version, server: &Server) -> Entrant {
    Entrant {
        name: kind.name.into(),
        version,
        command: server.command.clone(),
        remark: kind.remark.into(),
        beginning: 0.0,
        rounds: Vec::new(),
    }
}

fn load(wanted: &Wanted, hosts: &hosts::Options) -> Result<Options> {
    let form = Form { edns: true, ..Form::default() };
    let set = Arc::new(Set::read(&wanted.names, form)?);
    let what = What { set, order: Order::Given, unique: 0.0, nxdomain: 0.0, under: None };
    let cpus = hosts.cpus(Side::Client)?;
    let options = Options {
        length_ns: wanted.length_ns,
        timeout_ns: TIMEOUT_NS,
        threads: cpus.as_slice().len(),
        cpus: cpus.as_slice().to_vec(),
        lanes: SOURCES,
        netns: Some(hosts.namespace(Side::Client)),
        oracle: Some(Arc::new(wanted.zone.oracle()?)),
        check_one_in: CHECK_ONE_IN,
        when: open(wanted.highest),
        ..Options::new((Ipv4Addr::LOCALHOST, PORT).into(), Asks::Questions(what.into()))
    };
    options.check()?;
    Ok(options)
}

fn open(rate: f64) -> When {
    let rate = Rate::Constant(rate);
    When::Open(Arrivals { rate, spacing: Spacing::Even, burst: 1 })
}

impl Bench for Field<'_> {
    fn trial(&mut self, entrant: usize, rate: f64) -> Result<Trial> {
        self.load.server = address(entrant);
        self.load.when = open(rate);
        // Another beginning each time: which names meet which packets is chance as well.
        self.load.seed += 1;
        let measured = measure(&self.load, &[], self.stop, &mut |_| {})?;
        unless_stopped(self.stop)?;
        let (cpu_us, resident) = (measured.cpu_us(), measured.resident);
        let report = &measured.report;
        let name = self.servers.get(entrant).map_or("", |server| server.name);
        check(name, &report.tally)?;
        let seconds = self.load.length_ns as f64 / 1e9;
        Ok(Trial {
            rate,
            in_time: report.tally.answered as f64 / report.tally.planned.max(1) as f64,
            answered: report.tally.answered as f64 / seconds,
            p50_ns: known(report, 0.5),
            p99_ns: known(report, 0.99),
            cpu_us,
            resident,
            evidence: measured.evidence,
            verdict: measured.verdict,
        })
    }

    fn echo(&mut self, entrant: usize) -> Result<(String, f64)> {
        let wanted = self.servers.get(entrant).map(|server| server.model.name());
        let echo = self.echoes.iter().find(|echo| Some(echo.model()) == wanted);
        let echo = echo.ok_or("there is no such entrant")?;
        Ok((echo.model().into(), echo.rate(&self.load, self.stop)?))
    }

    fn progress(&mut self, entrant: usize, done: usize, of: usize) {
        let name = self.servers.get(entrant).map_or("", |server| server.name);
        (self.progress)(name, done, of);
    }
}

/// Refuses answers that are none: the content of those looked at, RCODEs other than NOERROR and
/// NXDOMAIN (RFC 1035 §4.1.1), and what was cut. Who wins by them has won nothing.
fn check(name: &str, tally: &Tally) -> Result<()> {
    let Tally { wrong, checked, truncated, .. } = *tally;
    let said = |(rcode, count): (&str, u64)| format!("{count} {rcode}");
    let rcodes = tally.rcodes().filter(|(rcode, _)| !matches!(*rcode, "NOERROR" | "NXDOMAIN"));
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
