//! `dunlin-lab cpus`: workloads beside others, with and without CPUs of their own.
mod groups;
mod steps;
mod work;

use crate::bench::beside;
use crate::bundles::{header, list_changes, write};
use crate::compare::{Bar, LOCK, alone};
use crate::signals::stop_when_interrupted;
use clap::{Args, ValueEnum};
use groups::{Groups, Manager, uninstall};
use lab::record::RunRecord;
use lab::servers::ServerKind;
use lab_host::STATE;
use lab_report::bundle::{Body, Bundle};
use lab_report::cpus::{CpuExperiments, CpuResult, CpuRun, CpuStep};
use std::error::Error;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use work::{Kind, Work};

pub const EXAMPLES: &str = "Examples:\n  \
    dunlin-lab cpus --quick\n  \
    dunlin-lab cpus victim throttle --bundle cpus.json --markdown cpus.md\n  \
    dunlin-lab cpus program --program 'gzip -9 -k -f -c /usr/bin/qemu-system-x86_64'\n\n\
    It needs cgroup v2 with the controllers cpu and cpuset. Groups and settings are gone when it \
    ends; if it is killed, the next `dunlin-lab cpus` removes them.";

#[derive(Args, Debug)]
pub struct Cpus {
    /// Experiments. Default: all.
    #[arg(value_name = "EXPERIMENT", value_enum)]
    experiments: Vec<Experiment>,
    /// Make three short runs of each setting instead of ten.
    #[arg(long)]
    quick: bool,
    /// Runs of each setting.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    runs: Option<u32>,
    /// Seconds of a run: 0.1 to 600.
    #[arg(short = 'l', long, value_name = "SECONDS", value_parser = run_seconds)]
    length: Option<f64>,
    /// Path of `dunlin`. Default: the one in the folder of this program, or in PATH.
    #[arg(long, value_name = "FILE")]
    dunlin: Option<PathBuf>,
    /// Command that the experiment `program` times.
    #[arg(long, value_name = "COMMAND")]
    program: Option<String>,
    /// Bundle to write; its report gets the same name with .html.
    #[arg(long, value_name = "FILE", default_value = "cpus.json")]
    bundle: PathBuf,
    /// Write the tables as a Markdown page, with the plots in the same folder.
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Comment for the report, such as what else ran on the machine.
    #[arg(long, value_name = "TEXT")]
    remark: Vec<String>,
    /// The work of a process that an experiment starts.
    #[arg(long, hide = true, value_enum)]
    work: Option<Kind>,
    /// The amount of work: JSON.
    #[arg(long, hide = true, requires = "work")]
    amount: Option<String>,
}

/// An experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Experiment {
    /// A Guaranteed workload with half of the CPUs, while a Burstable one loads the rest.
    Victim,
    /// Two workloads, each Guaranteed or Burstable.
    Pairs,
    /// One program, alone, on all CPUs except one.
    Program,
    /// Bursts of more threads than CPUs, with and without a quota.
    Throttle,
}

fn run_seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.1..=600.0).contains(seconds));
    seconds.ok_or_else(|| "expected 0.1 to 600 seconds, such as 2 or 0.5".into())
}

/// What the experiments share.
pub struct Lab<'a> {
    pub groups: Groups,
    /// CPUs of the machine.
    pub cpus: usize,
    pub seconds: f64,
    pub repeats: u32,
    pub dunlin: PathBuf,
    pub folder: PathBuf,
    pub program: Option<&'a str>,
    pub runs: Vec<RunRecord>,
    own: PathBuf,
    stop: &'a AtomicBool,
    bar: Bar,
    done: usize,
    expected: usize,
}

/// A process that works in a group, until it is dropped.
pub struct Worker {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Lab<'_> {
    /// Starts a process in a group, which waits for [`Worker::begin`].
    ///
    /// # Errors
    /// It does not start.
    pub fn worker(&self, group: &Path, kind: Kind, amount: Work) -> Result<Worker, String> {
        let name = kind.to_possible_value();
        let name = name.map(|value| value.get_name().to_owned()).unwrap_or_default();
        let amount = serde_json::to_string(&amount).map_err(|error| error.to_string())?;
        let mut command = self.groups.command(group, &self.own);
        command.args(["cpus", "--work", &name, "--amount", &amount]);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.map_err(|error| format!("{}: {error}", self.own.display()))?;
        let output = child.stdout.take().ok_or("a worker has no output")?;
        Ok(Worker { child, output: BufReader::new(output) })
    }

    /// Runs one setting with and without the manager, in turn, as often as is wanted.
    ///
    /// # Errors
    /// As `run` has it, or the user wants the end.
    pub fn in_turn(
        &mut self,
        what: &str,
        managed: &[bool],
        mut run: impl FnMut(&mut Self, bool) -> Result<(), String>,
    ) -> Result<(), String> {
        for _ in 0..self.repeats {
            for is_managed in managed {
                self.bar.show(what, self.done, self.expected.max(self.done + 1));
                let done = run(self, *is_managed);
                if self.stop.load(Ordering::Relaxed) {
                    return Err("stopped; nothing was written".into());
                }
                done?;
                self.done += 1;
            }
        }
        Ok(())
    }

    /// The manager, where it is wanted.
    ///
    /// # Errors
    /// It does not give a group its CPUs.
    pub fn manager(
        &self,
        is_managed: bool,
        own: (&Path, usize),
        others: &[&Path],
    ) -> Result<Option<Manager>, String> {
        let start = || Manager::start(&self.dunlin, &self.groups, &self.folder, own, others);
        is_managed.then(start).transpose()
    }

    /// A result with the throttled periods of its group.
    pub fn measured(&self, raw: CpuResult, group: &Path) -> CpuRun {
        CpuRun { raw, throttled: self.groups.throttled(group) }
    }

    /// Ends a load early when the user wants it.
    pub fn stop(&self) -> &AtomicBool {
        self.stop
    }
}

impl Worker {
    /// Has it begin.
    ///
    /// # Errors
    /// It has ended.
    pub fn begin(&mut self) -> Result<(), String> {
        let input = self.child.stdin.as_mut().ok_or("a worker has no input")?;
        writeln!(input, "go").map_err(|error| format!("a worker: {error}"))
    }

    /// Its result.
    ///
    /// # Errors
    /// It ended without one.
    pub fn result(&mut self) -> Result<CpuResult, String> {
        let mut line = String::new();
        self.output.read_line(&mut line).map_err(|error| format!("a worker: {error}"))?;
        serde_json::from_str(&line).map_err(|error| format!("a worker ended early: {error}"))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Cpus {
    fn dunlin(&self) -> Result<PathBuf, String> {
        let found = self.dunlin.clone().or_else(beside);
        let found = found.map_or_else(|| ServerKind::named("dunlin")?.find(), Ok)?;
        std::path::absolute(&found).map_err(|error| format!("{}: {error}", found.display()))
    }

    /// The experiments that are wanted.
    fn wanted(&self) -> Result<Vec<Experiment>, String> {
        let all = match self.experiments.is_empty() {
            true => Experiment::value_variants(),
            false => &self.experiments,
        };
        if self.program.is_none() && self.experiments.contains(&Experiment::Program) {
            return Err("the experiment `program` needs --program COMMAND".into());
        }
        Ok(all.to_vec())
    }
}

/// Keeps this machine to itself; what a killed run has left is put back first.
fn begin(dunlin: &Path) -> Result<(Groups, PathBuf, File), String> {
    if !rustix::process::geteuid().is_root() {
        return Err("cannot make control groups: only root may; run it as root".into());
    }
    let place = Path::new(STATE);
    fs::create_dir_all(place).map_err(|error| format!("{STATE}: {error}"))?;
    let lock = alone(Path::new(LOCK))?;
    let groups = Groups::find(&place.join("cpus.on"))?;
    let folder = place.join("cpus");
    let state = folder.join("cpus.state");
    if state.exists() {
        uninstall(dunlin, &state, groups.root());
    }
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    groups.make_top()?;
    Ok((groups, folder, lock))
}

/// Runs experiments.
///
/// # Errors
/// The failed action, and a remedy. All settings are as before then, too.
pub fn run(command: &Cpus) -> Result<ExitCode, Box<dyn Error>> {
    if let Some(kind) = command.work {
        let amount = command.amount.as_deref().ok_or("--amount is missing")?;
        work::run(kind, serde_json::from_str(amount)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let wanted = command.wanted()?;
    let cpus = cpu::allowed()?.len();
    if cpus < 2 {
        return Err("experiments need two CPUs: one stays shared".into());
    }
    let dunlin = command.dunlin()?;
    let stop = Arc::new(AtomicBool::new(false));
    stop_when_interrupted(stop.clone())?;
    let (groups, folder, lock) = begin(&dunlin)?;
    let mut header = header("Experiments with CPUs of their own", Vec::new(), 1)?;
    header.remarks.extend(command.remark.iter().cloned());
    let repeats = command.runs.unwrap_or(if command.quick { 3 } else { 10 });
    let mut lab = Lab {
        groups,
        cpus,
        seconds: command.length.unwrap_or(if command.quick { 1.0 } else { 2.0 }),
        repeats,
        dunlin,
        folder: folder.clone(),
        program: command.program.as_deref(),
        runs: Vec::new(),
        own: std::env::current_exe()?,
        stop: &stop,
        bar: Bar::new(),
        done: 0,
        expected: steps::settings(&wanted, command.program.is_some()) * repeats as usize,
    };
    let done: Result<Vec<CpuStep>, String> =
        wanted.iter().map(|one| steps::run(*one, &mut lab)).collect();
    lab.bar.end();
    let (runs, seconds) = (std::mem::take(&mut lab.runs), lab.seconds);
    drop(lab);
    let _ = fs::remove_dir_all(&folder);
    drop(lock);
    let steps = done?;
    header.remarks.push(format!("{repeats} runs of each setting, {seconds} s each"));
    header.remarks.extend(steps::limits(cpus, &header.manifest.cpu));
    list_changes(&mut header)?;
    let all = CpuExperiments::new(command.quick, cpus, steps, &runs)?;
    for finding in &all.findings {
        println!("{}: {}\n  {}", finding.outcome.words(), finding.claim, finding.because);
    }
    write(&command.bundle, header, runs, Body::Cpus(all))?;
    if let Some(page) = &command.markdown {
        crate::report::write_page(page, &Bundle::read(&command.bundle)?)?;
    }
    Ok(ExitCode::SUCCESS)
}
