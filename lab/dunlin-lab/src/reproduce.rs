//! `dunlin-lab reproduce`: the steps of a published benchmark, on this machine.
mod bind;
mod isc;
mod kdns;

use crate::bench::{Bench, beside};
use crate::bundles::{header, list_changes, write};
use crate::compare::Bar;
use crate::fabric::Plan;
use crate::load::seconds;
use crate::signals::stop_when_interrupted;
use crate::sweep::missing_counters;
use clap::Args;
use cpu::CpuList;
use lab::ceiling::EchoBaseline;
use lab::record::{RunRecord, record};
use lab::servers::ServerKind;
use lab_echo::Model;
use lab_host::STATE;
use lab_host::hosts::{self, Hosts, Layout, Side};
use lab_host::machine::Machine;
use lab_host::manifest::Cpu;
use lab_host::tune::{Options as TuneOptions, Part, Session, plan};
use lab_load::{LoadMode, Options};
use lab_report::bundle::{Body, Bundle, write_file};
use lab_report::markdown as markdown_of;
use lab_report::study::{Group, Range, Step, Study, StudyName};
use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub const EXAMPLES: &str = "Examples:\n  \
    dunlin-lab reproduce isc-2015 --quick\n  \
    dunlin-lab reproduce bind-2008 --bundle bind.json --markdown bind.md\n  \
    dunlin-lab reproduce kdns --quick --binary dunlin=target/release/dunlin";

#[derive(Args, Debug)]
pub struct Reproduce {
    /// The study: isc-2015, bind-2008, kdns or heretic-2019.
    #[arg(value_name = "STUDY", value_parser = study)]
    study: StudyName,
    /// Make fewer and shorter runs: up to 20 minutes in all.
    #[arg(long)]
    quick: bool,
    /// Length of a run, instead of the study's.
    #[arg(short = 'l', long, value_name = "TIME", value_parser = seconds)]
    length: Option<u64>,
    /// Runs of each setting, instead of the study's.
    #[arg(long)]
    runs: Option<usize>,
    /// CPUs of the servers. Default: the first CPU.
    #[arg(long, value_name = "CPUS")]
    server_cpus: Option<CpuList>,
    /// CPUs of the generator. Default: the second CPU.
    #[arg(long, value_name = "CPUS")]
    client_cpus: Option<CpuList>,
    /// Path of a program that is not in PATH.
    #[arg(long, value_name = "SERVER=PATH", value_parser = crate::compare::binary)]
    binary: Vec<(String, PathBuf)>,
    /// Bundle to write; its report gets the same name with .html. Default: STUDY.json.
    #[arg(long, value_name = "FILE")]
    bundle: Option<PathBuf>,
    /// Write the tables as a Markdown page.
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Comment for the report, such as what else ran on the machine.
    #[arg(long, value_name = "TEXT")]
    remark: Vec<String>,
}

fn study(text: &str) -> Result<StudyName, String> {
    let names = StudyName::ALL.map(StudyName::name).join(", ");
    let found = StudyName::ALL.into_iter().find(|name| name.name() == text);
    found.ok_or_else(|| format!("expected one of {names}"))
}

/// A reproduction that runs: its bench, and what was measured so far.
pub struct Reproduction<'a> {
    pub bench: Bench,
    pub cpu: &'a Cpu,
    pub quick: bool,
    /// The length of a run, ns.
    pub length_ns: u64,
    /// Runs of each setting.
    pub repeats: usize,
    pub steps: Vec<Step>,
    pub runs: Vec<RunRecord>,
    pub remarks: Vec<String>,
    /// What closed loops are measured beside.
    echo: Option<EchoBaseline>,
    binaries: BTreeMap<String, PathBuf>,
    stop: &'a AtomicBool,
    bar: Bar,
    /// About how many runs there will be.
    expected: usize,
}

impl Reproduction<'_> {
    /// Begins a step.
    pub fn step(&mut self, key: &str, title: &str, original: &str) {
        self.steps.push(Step::skipped(key, title, original, ""));
    }

    /// A step that is not run, and why.
    pub fn skip(&mut self, key: &str, title: &str, original: &str, why: &str) {
        self.steps.push(Step::skipped(key, title, original, why));
    }

    /// Runs a load once, as part of the group `label` of the step that was begun last.
    ///
    /// # Errors
    /// The load cannot be run, or the study was stopped.
    pub fn run(&mut self, label: &str, number: f64, load: &Options) -> Result<Range, String> {
        self.run_as(label, number, false, load)
    }

    /// As [`Self::run`]; with `peak`, the best interval counts.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn run_as(
        &mut self,
        label: &str,
        number: f64,
        peak: bool,
        load: &Options,
    ) -> Result<Range, String> {
        self.check_stop()?;
        let key = self.steps.last().map_or("", |step| &step.key);
        let name = format!("{key}: {label}");
        self.bar.show(&name, self.runs.len(), self.expected.max(self.runs.len() + 1));
        let load = Options { seed: load.seed + self.runs.len() as u64, ..load.clone() };
        let mut settings = BTreeMap::from([("step".to_owned(), key.to_owned())]);
        if let LoadMode::Closed { outstanding, .. } = load.when {
            let plural = if load.channels == 1 { "" } else { "s" };
            let by = if load.path == lab_load::Path::Xdp { " by AF_XDP" } else { "" };
            let client =
                format!("{} socket{plural} and {outstanding} outstanding{by}", load.channels);
            settings.insert("client".into(), client);
        }
        // Only a closed loop asks who decides; its echo goes the way of the server's packets.
        let echo = self.echo.as_ref().filter(|_| !load.is_open());
        let mut run = record(&name, settings, &load, &[], echo, self.stop)?;
        self.check_stop()?;
        if peak {
            // The rates of intervals say where the peak is; their histograms fill a megabyte.
            run.intervals.iter_mut().for_each(|interval| interval.response.0.clear());
        }
        self.add(label, number, peak, run)
    }

    /// Adds a run that was made elsewhere; the range of its group so far.
    ///
    /// # Errors
    /// No step was begun.
    pub fn add(
        &mut self,
        label: &str,
        number: f64,
        peak: bool,
        run: RunRecord,
    ) -> Result<Range, String> {
        let index = self.runs.len();
        self.runs.push(run);
        let step = self.steps.last_mut().ok_or("no step was begun")?;
        let at = step.groups.iter().position(|group| group.label == label);
        let at = at.unwrap_or_else(|| {
            let (label, runs, distances) = (label.to_owned(), Vec::new(), Vec::new());
            step.groups.push(Group { label, number, runs, peak, range: None, distances });
            step.groups.len() - 1
        });
        step.groups[at].runs.push(index);
        let rates = step.groups[at].rates(&self.runs)?;
        Range::of(&rates).ok_or_else(|| "a group has no run".into())
    }

    fn check_stop(&self) -> Result<(), String> {
        match self.stop.load(Ordering::Relaxed) {
            true => Err("stopped; nothing was written".into()),
            false => Ok(()),
        }
    }

    /// The hosts, whose packets are received by the server's CPUs in interrupts, as those of a
    /// network card are.
    ///
    /// # Errors
    /// A command failed.
    pub fn hosts(&mut self) -> Result<Hosts, String> {
        self.bench.hosts(Layout::Steered, 1).cloned()
    }

    /// Has an echo in the servers' place be asked before and after each closed loop: it tells
    /// whether the server or the generator decides.
    ///
    /// # Errors
    /// The echo cannot be started.
    pub fn measure_echo(&mut self) -> Result<(), String> {
        let space = self.hosts()?.options().namespace(Side::Server);
        let (at, cpus) = (hosts::SERVER.into(), self.server_cpus()?);
        self.echo = Some(EchoBaseline::start(Model::Recvmmsg, at, &cpus, Some(&space))?);
        Ok(())
    }

    /// CPUs that servers may use.
    ///
    /// # Errors
    /// Two CPUs are needed and not there.
    pub fn server_cpus(&self) -> Result<CpuList, String> {
        self.bench.options(Layout::Steered, 1)?.cpus(Side::Server)
    }

    /// The program of a server.
    ///
    /// # Errors
    /// It is not here: how to have it.
    pub fn binary(&self, kind: &ServerKind) -> Result<PathBuf, String> {
        kind.binary(&self.binaries)
    }
}

impl Reproduce {
    /// The study's own length of a run, s, and number of runs.
    const fn full_sizes(&self) -> (u64, usize) {
        match self.study {
            StudyName::Isc2015 => (30, 10),
            StudyName::Bind2008 => (60, 3),
            StudyName::Kdns => (10, 10),
            StudyName::Heretic2019 => (1, 3),
        }
    }

    /// The length of a run, ns, and the number of runs.
    fn sizes(&self) -> (u64, usize) {
        let quick = match self.study {
            StudyName::Isc2015 | StudyName::Kdns => (2, 3),
            StudyName::Bind2008 => (6, 2),
            StudyName::Heretic2019 => (1, 1),
        };
        let (seconds, repeats) = if self.quick { quick } else { self.full_sizes() };
        let length_ns = self.length.unwrap_or(seconds * 1_000_000_000);
        (length_ns, self.runs.unwrap_or(repeats))
    }

    /// The study without servers: the table of `dunlin-lab fabric` beside the article's.
    fn heretic(&self) -> Result<ExitCode, Box<dyn Error>> {
        let name = StudyName::Heretic2019.name();
        let bundle = self.bundle.clone().unwrap_or_else(|| format!("{name}.json").into());
        let (length_ns, runs) = self.sizes();
        let mut plan = Plan::new("Reproduction of heretic-2019", bundle);
        plan.is_reproduction = true;
        plan.runs = runs;
        plan.markdown.clone_from(&self.markdown);
        plan.remarks.clone_from(&self.remark);
        // The length is that of a run, which has five measurements.
        plan.length = Duration::from_nanos(length_ns / 5);
        if self.quick {
            plan.replicas.pop();
            let what = "--quick makes one run of each way, not three, and leaves 61 replicas out";
            plan.remarks.push(what.into());
        }
        crate::fabric::measure(&plan)
    }

    fn binaries(&self) -> BTreeMap<String, PathBuf> {
        let mut binaries: BTreeMap<String, PathBuf> = self.binary.iter().cloned().collect();
        if let Some(beside) = beside() {
            binaries.entry("dunlin".into()).or_insert(beside);
        }
        binaries
    }
}

/// Larger socket buffers, until this is dropped, however the program ends.
fn larger_buffers() -> Result<Session, String> {
    let machine = Machine::this();
    let skip = Part::ALL.into_iter().filter(|part| *part != Part::Buffers).collect();
    let options = TuneOptions { device: None, threads: false, busy_poll_us: None, skip };
    let mut session = Session::begin(&machine, Path::new(STATE))?;
    session.apply(&plan(&machine, &options)?, &mut |_| {})?;
    Ok(session)
}

/// Runs a study.
///
/// # Errors
/// The failed action, and a remedy.
pub fn run(command: &Reproduce) -> Result<ExitCode, Box<dyn Error>> {
    crate::bench::need_root()?;
    if command.study == StudyName::Heretic2019 {
        return command.heretic();
    }
    let (length_ns, repeats) = command.sizes();
    let title = format!("Reproduction of {}", command.study.name());
    let mut header = header(&title, Vec::new(), 1)?;
    header.remarks.extend(missing_counters());
    header.remarks.extend(command.remark.iter().cloned());
    let stop = AtomicBool::new(false);
    let stop = Arc::new(stop);
    stop_when_interrupted(stop.clone())?;
    let bench = Bench::new(command.server_cpus.clone(), command.client_cpus.clone())?;
    let cpu = header.manifest.cpu.clone();
    let mut study = Reproduction {
        bench,
        cpu: &cpu,
        quick: command.quick,
        length_ns,
        repeats,
        steps: Vec::new(),
        runs: Vec::new(),
        remarks: Vec::new(),
        echo: None,
        binaries: command.binaries(),
        stop: &stop,
        bar: Bar::new(),
        expected: 60 * repeats / 3,
    };
    let cpus = study.server_cpus()?;
    let client_cpus = study.bench.options(Layout::Steered, 1)?.cpus(Side::Client)?;
    let session = larger_buffers()?;
    let done = match command.study {
        StudyName::Isc2015 => isc::run(&mut study),
        StudyName::Bind2008 => bind::run(&mut study),
        StudyName::Kdns => kdns::run(&mut study),
        StudyName::Heretic2019 => Err("it measures no servers".into()),
    };
    study.bar.end();
    let Reproduction { bench, steps, runs, remarks, .. } = study;
    drop(bench);
    session.end(&mut |_| {})?;
    done?;
    header.remarks.push(format!(
        "Scaled to this machine: servers have CPU {cpus}, which also receives their packets; the \
         generator has CPU {client_cpus} of the same machine; a run takes {:.1} s, each setting \
         {repeats} runs",
        length_ns as f64 / 1e9
    ));
    if command.quick {
        let (seconds, repeats) = command.full_sizes();
        header.remarks.push(format!(
            "--quick shortens the study: in full, a run takes {seconds} s, each setting {repeats} \
             runs"
        ));
    }
    header.remarks.extend(remarks);
    list_changes(&mut header)?;
    let count = cpus.as_slice().len();
    let study = Study::new(command.study, command.quick, count, steps, &runs)?;
    for finding in &study.findings {
        println!("{}: {}\n  {}", finding.outcome.words(), finding.claim, finding.because);
    }
    let path = command.bundle.clone();
    let path = path.unwrap_or_else(|| format!("{}.json", command.study.name()).into());
    write(&path, header, runs, Body::Study(study))?;
    if let Some(markdown) = &command.markdown {
        write_file(markdown, &markdown_of(&Bundle::read(&path)?))?;
    }
    Ok(ExitCode::SUCCESS)
}
