//! `dunlin-lab sweep`: answers a second at every combination of settings.
mod costs;
pub mod journal;
pub mod plan;

use crate::bench::{Bench, EchoProcess, Spread, address, closed_loop};
use crate::bundles::{header, list_changes, write};
use crate::compare::{Bar, digest};
use crate::load::{Queries, seconds};
use crate::signals::stop_when_interrupted;
use clap::Args;
use command_line::span;
use cpu::CpuList;
use journal::{Entry, Journal};
use lab::record::{RunRecord, record};
use lab::servers::{ServerKind, ServerSetup, Zone};
use lab_echo::Model;
use lab_host::hosts::{Hosts, Layout, Side};
use lab_report::bundle::Body;
use lab_report::limits::POINTS_ASK;
use lab_report::sweep::Point;
use plan::{Answering, CoreSets, Planned};
use std::error::Error;
use std::fmt::Write as _;
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub const EXAMPLES: &str = "Examples:\n  \
    dunlin-lab sweep --pattern 'name-{i}.example' --processes 1,2,4 --bundle sweep.json\n  \
    dunlin-lab sweep -d queries --model epoll,recvmmsg --batch 1,16,64 --bundle batch.json\n  \
    dunlin-lab sweep -d queries --cores each,pairs --server-cpus 0-7 --client-cpus 8-15 \
    --bundle cores.json\n  \
    dunlin-lab sweep -d queries --server knot --zone example.org=zone --threads 1,2,3,4 \
    --bundle knot.json";

/// Seconds of a sweep that begins without confirmation.
const ASK_S: f64 = 3_600.0;
/// Seconds that a run needs in addition to its length: to start the server, to read counters.
const OVERHEAD_S: f64 = 0.4;

#[derive(Args, Debug)]
pub struct Sweep {
    #[command(flatten)]
    queries: Queries,
    /// Processes of the echo.
    #[arg(long, value_name = "NUMBER", value_delimiter = ',', default_values_t = [1])]
    processes: Vec<usize>,
    /// Threads of each process; with --server, its workers.
    #[arg(long, value_name = "NUMBER", value_delimiter = ',', default_values_t = [1])]
    threads: Vec<usize>,
    /// I/O models of the echo, as for `dunlin-lab echo --model`.
    #[arg(long, value_name = "MODEL", value_delimiter = ',', default_value = "recvmmsg")]
    #[arg(value_parser = model)]
    model: Vec<Model>,
    /// Datagrams per system call; models with a fixed batch ignore it.
    #[arg(long, value_name = "NUMBER", value_delimiter = ',')]
    batch: Vec<usize>,
    /// Pin to core sets: each, pairs, triples, fours, or CPUs such as 0+2. Sets that are equal by
    /// topology are measured once.
    #[arg(long, value_name = "SET", value_delimiter = ',')]
    cores: Vec<CoreSets>,
    /// Number of flows: source ports of one address, such as 8, or addresses:1000.
    #[arg(long = "flows", value_name = "FLOWS", value_delimiter = ',', default_value = "64")]
    spread: Vec<Spread>,
    /// Which CPUs receive packets: whole, steered or shared, as for `dunlin-lab hosts up --layout`.
    #[arg(long, value_name = "LAYOUT", value_delimiter = ',', default_value = "steered")]
    layout: Vec<Layout>,
    /// Queues of each device.
    #[arg(long, value_name = "NUMBER", value_delimiter = ',', default_values_t = [1])]
    queues: Vec<u32>,
    /// Measure these servers instead of an echo, with each number of --threads. Needs --zone.
    #[arg(long, value_name = "SERVER", value_delimiter = ',', requires = "zone")]
    #[arg(value_parser = ServerKind::named)]
    server: Vec<&'static ServerKind>,
    /// Zone of the servers.
    #[arg(long, value_name = "ZONE=FILE")]
    zone: Option<String>,
    /// Program of a server that is not in PATH.
    #[arg(long, value_name = "SERVER=PATH", value_parser = crate::compare::binary)]
    binary: Vec<(String, PathBuf)>,
    /// Outstanding queries.
    #[arg(short = 'q', long, default_value_t = 512)]
    outstanding: usize,
    /// Runs of each point; with six or more, the median has an interval.
    #[arg(long, default_value_t = 6)]
    runs: usize,
    /// The length of a run.
    #[arg(short = 'l', long, value_name = "TIME", default_value = "1s", value_parser = seconds)]
    length: u64,
    /// Measure the cost of an answer in one more run of each point: CPU time for receiving, sending
    /// and the rest, system calls, context switches, and where the machine counts them,
    /// instructions and cache misses. Needs `perf`.
    #[arg(long)]
    costs: bool,
    /// CPUs of the server's host.
    #[arg(long, value_name = "CPUS")]
    server_cpus: Option<CpuList>,
    /// CPUs of the generator.
    #[arg(long, value_name = "CPUS")]
    client_cpus: Option<CpuList>,
    /// Bundle to write; its report gets the same name with .html. After an interrupt, the same
    /// command resumes.
    #[arg(long, value_name = "FILE")]
    bundle: PathBuf,
    /// Start a sweep of many hours without confirmation.
    #[arg(long)]
    yes: bool,
}

fn model(text: &str) -> Result<Model, String> {
    let names = || Model::ALL.map(Model::name).join(", ");
    Model::of_name(text).ok_or_else(|| format!("expected one of {}", names()))
}

/// Asks before a sweep that takes long.
fn confirm(points: usize, runs: usize, length_ns: u64, yes: bool) -> Result<(), String> {
    let seconds = (points * runs) as f64 * (length_ns as f64 / 1e9 + OVERHEAD_S);
    if yes || (seconds <= ASK_S && points <= POINTS_ASK) {
        return Ok(());
    }
    let told = format!("{points} points with {runs} runs each take about {}", span(seconds));
    if !io::stdin().is_terminal() {
        return Err(format!("{told}: --yes begins them, fewer values or runs shorten them"));
    }
    print!("{told}. Begin? [y/N] ");
    let mut answer = String::new();
    let asked = io::stdout().flush().and_then(|()| io::stdin().lock().read_line(&mut answer));
    asked.map_err(|error| error.to_string())?;
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err("nothing was measured".into()),
    }
}

/// The machine's means to count that are missing, as remarks for the report.
pub fn missing_counters() -> Vec<String> {
    let mut remarks = Vec::new();
    if !Path::new("/sys/bus/event_source/devices/cpu").exists() {
        remarks.push(
            "This machine has no hardware counters: instructions, cache misses and memory \
             bandwidth are unknown, so a cache or memory limit cannot be proved or excluded"
                .into(),
        );
    }
    remarks
}

/// The server or echo of a point, running; it ends when this is dropped.
enum Running {
    Echo(#[expect(dead_code, reason = "it ends when dropped")] EchoProcess),
    Server(#[expect(dead_code, reason = "it ends when dropped")] lab::servers::Server),
}

impl Sweep {
    fn start(
        &self,
        bench_folder: &Path,
        hosts: &Hosts,
        point: &Planned,
    ) -> Result<Running, String> {
        match &point.answering {
            Answering::Echo(echo) => EchoProcess::start(hosts, echo).map(Running::Echo),
            Answering::Server(kind, threads) => {
                let zone = self.zone.as_deref().and_then(|zone| zone.split_once('='));
                let (name, file) = zone.ok_or("--zone is as in example.org=FILE")?;
                let setup = ServerSetup {
                    address: address(),
                    cpus: hosts.options().cpus(Side::Server)?,
                    threads: Some(*threads),
                    zone: Zone::open(name, Path::new(file))?,
                    folder: bench_folder.join("server"),
                    netns: Some(hosts.options().namespace(Side::Server)),
                    interface: None,
                };
                let own = self.binary.iter().find(|(name, _)| name == kind.name);
                let binary = own.map_or_else(|| kind.find(), |(_, path)| Ok(path.clone()))?;
                let from = hosts.options().namespace(Side::Client);
                kind.start(&binary, &setup, Some(&from)).map(Running::Server)
            }
        }
    }

    /// Measures a point once; why it cannot be, if what answers does not start.
    fn measure(
        &self,
        bench: &mut Bench,
        point: &Planned,
        number: usize,
        stop: &AtomicBool,
    ) -> Result<Result<RunRecord, String>, String> {
        let folder = bench.folder.0.clone();
        let hosts = bench.hosts(point.layout, point.queues)?;
        let _running = match self.start(&folder, hosts, point) {
            Ok(running) => running,
            Err(why) => return Ok(Err(why)),
        };
        let asks = self.queries.asks()?;
        let mut load = closed_loop(hosts, asks, point.spread, self.outstanding, self.length)?;
        load.seed = self.queries.seed.wrapping_add(number as u64);
        let label = label(point);
        record(&label, point.settings.clone(), &load, &[], None, stop).map(Ok)
    }

    /// Measures what the journal lacks: all points once, then all again.
    fn rounds(
        &self,
        points: &[Planned],
        journal: &mut Journal,
        entries: &mut Vec<Entry>,
        stop: &AtomicBool,
    ) -> Result<(), String> {
        let mut bench = Bench::new(self.server_cpus.clone(), self.client_cpus.clone())?;
        let mut bar = Bar::new();
        let all = points.len() * self.runs;
        let before = entries.len();
        for (round, (number, point)) in
            (0..self.runs).flat_map(|round| points.iter().enumerate().map(move |p| (round, p)))
        {
            let own = || entries.iter().filter(|entry| entry.point == number);
            let is_done = own().filter(|entry| entry.run.is_some()).count() > round;
            if is_done || own().any(|entry| entry.skipped.is_some()) {
                continue;
            }
            bar.show_since(&label(point), before, round * points.len() + number, all);
            let measured = self.measure(&mut bench, point, round, stop);
            if stop.load(Ordering::Relaxed) {
                bar.end();
                return Err(format!(
                    "stopped after {} of {all} runs: the same command resumes",
                    entries.len()
                ));
            }
            let (run, skipped) = match measured.inspect_err(|_| bar.end())? {
                Ok(run) => (Some(run), None),
                Err(why) => (None, Some(why)),
            };
            let entry = Entry { run, skipped, ..Entry::of(number) };
            journal.add(&entry)?;
            entries.push(entry);
        }
        bar.end();
        match self.costs {
            true => self.all_costs(&mut bench, points, journal, entries, stop),
            false => Ok(()),
        }
    }

    /// Measures the costs that the journal lacks.
    fn all_costs(
        &self,
        bench: &mut Bench,
        points: &[Planned],
        journal: &mut Journal,
        entries: &mut Vec<Entry>,
        stop: &AtomicBool,
    ) -> Result<(), String> {
        let mut bar = Bar::new();
        for (number, point) in points.iter().enumerate() {
            let own = || entries.iter().filter(|entry| entry.point == number);
            if own().any(|entry| entry.skipped.is_some() || entry.costs.is_some()) {
                continue;
            }
            let label = label(point);
            bar.show(&format!("costs of {label}"), number, points.len());
            let costs = self.costs(bench, point, &label, stop);
            if stop.load(Ordering::Relaxed) {
                bar.end();
                return Err(
                    "stopped before all costs were measured: the same command resumes".into()
                );
            }
            let costs = Some(costs.map(Box::new));
            let entry = Entry { costs, ..Entry::of(number) };
            journal.add(&entry)?;
            entries.push(entry);
        }
        bar.end();
        Ok(())
    }
}

fn label(point: &Planned) -> String {
    let mut text = String::new();
    for (name, value) in &point.settings {
        let _ = write!(text, "{}{name} {value}", if text.is_empty() { "" } else { ", " });
    }
    text
}

/// Points and runs of a bundle, of the entries of a journal.
fn collect(points: Vec<Planned>, entries: Vec<Entry>) -> (Vec<Point>, Vec<RunRecord>) {
    let mut runs = Vec::new();
    let mut found: Vec<Point> = points
        .into_iter()
        .map(|point| Point {
            settings: point.settings,
            class: point.class,
            runs: Vec::new(),
            rate: None,
            costs: None,
            skipped: None,
        })
        .collect();
    for entry in entries {
        let Some(point) = found.get_mut(entry.point) else { continue };
        point.skipped = entry.skipped.or(point.skipped.take());
        point.costs = entry.costs.and_then(Result::ok).or(point.costs.take());
        if let Some(run) = entry.run {
            point.runs.push(runs.len());
            runs.push(run);
        }
    }
    (found, runs)
}

/// Sweeps.
///
/// # Errors
/// The failed action, and a remedy. After an interrupt the same command resumes.
pub fn run(command: &Sweep) -> Result<ExitCode, Box<dyn Error>> {
    let data = command.queries.data().map(digest).transpose()?;
    crate::bench::need_root()?;
    let mut header = header("Sweep", data.into_iter().collect(), command.queries.seed)?;
    let hosts = |layout, queues| {
        let cpus = (command.server_cpus.as_ref(), command.client_cpus.as_ref());
        let options = lab_host::hosts::Options::new("compare", cpus.0, cpus.1)?;
        Ok(lab_host::hosts::Options { layout, queues, ..options })
    };
    let points = command.plan(&header.manifest.cpu, hosts)?;
    confirm(points.len(), command.runs, command.length, command.yes)?;
    header.remarks.extend(missing_counters());
    let stop = Arc::new(AtomicBool::new(false));
    let plan = format!("{points:?} {} {} {}", command.length, command.outstanding, header.seed);
    let plan = format!("{plan} {:?} {}", header.data, command.costs);
    let (mut journal, mut entries) = Journal::open(&command.bundle, &plan, &mut header)?;
    if !entries.is_empty() {
        eprintln!("dunlin-lab: {} runs are there already; going on", entries.len());
    }
    stop_when_interrupted(stop.clone())?;
    command.rounds(&points, &mut journal, &mut entries, &stop)?;
    list_changes(&mut header)?;
    let scale = Sweep::scale(&points);
    let why = entries.iter().filter_map(|entry| entry.costs.as_ref()?.as_ref().err());
    header.remarks.extend(why.take(1).map(|why| format!("Costs are not known: {why}")));
    let (points, runs) = collect(points, entries);
    let sweep = lab_report::sweep::Sweep::new(&scale, points, &runs)?;
    if let Some((point, rate)) = sweep.best().and_then(|best| Some((best, best.rate?))) {
        let settings: Vec<String> =
            point.settings.iter().map(|(name, value)| format!("{name} {value}")).collect();
        let interval = rate.interval.map_or_else(
            || "fewer than six runs give no interval".into(),
            |i| format!("95 % interval {:.0} to {:.0}", i.low, i.high),
        );
        println!("best: {}: {:.0} answers/s, {interval}", settings.join(", "), rate.median);
    }
    write(&command.bundle, header, runs, Body::Sweep(sweep))?;
    journal.remove();
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests;
