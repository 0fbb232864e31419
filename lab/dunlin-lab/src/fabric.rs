//! `dunlin-lab fabric`: two ends of this machine, by how far apart their CPUs are.
use crate::bundles::{header, list_changes, write};
use crate::compare::{Bar, LOCK, alone};
use crate::load::seconds;
use crate::signals::stop_when_interrupted;
use clap::Args;
use lab::record::SparseHistogram;
use lab_fabric::spaces::Spaces;
use lab_fabric::{Measured, Pair, Setting, Way, agreement, class};
use lab_report::bundle::{Body, Bundle, write_file};
use lab_report::fabric::{
    AgreementRun, FabricAgreement, FabricCell, FabricClass, FabricRun, FabricStudy, FabricTable,
    Rate,
};
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub const EXAMPLES: &str = "Examples:\n  \
    sudo dunlin-lab fabric\n  \
    sudo dunlin-lab fabric -l 1s --runs 5 --bundle fabric.json --markdown fabric.md\n  \
    dunlin-lab fabric --replicas 4\n\n\
    Without root there is no bridge and no switch. It takes at most 9 minutes by default; two CPUs \
    take about 2.";

/// The study's sizes: the length of each measurement, runs, and numbers of replicas.
const LENGTH: Duration = Duration::from_millis(400);
const RUNS: usize = 3;
const REPLICAS: [usize; 3] = [4, 16, 61];

/// Ways by which replicas reach each other.
const AGREEMENT_WAYS: [Way; 3] = [Way::Threads, Way::Unix, Way::Loopback];

#[derive(Args, Debug)]
pub struct Fabric {
    /// Length of each measurement; a run of a way has five.
    #[arg(short = 'l', long, value_name = "TIME", value_parser = seconds)]
    length: Option<u64>,
    /// Runs of each way.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=100))]
    runs: Option<u32>,
    /// Numbers of replicas that agree; 0: none. 241 need 57,840 open files.
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',')]
    replicas: Option<Vec<usize>>,
    /// Bundle to write; its report gets the same name with .html.
    #[arg(long, value_name = "FILE", default_value = "fabric.json")]
    bundle: PathBuf,
    /// Write the tables as a Markdown page.
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Comment for the report, such as what else ran on the machine.
    #[arg(long, value_name = "TEXT")]
    remark: Vec<String>,
    /// What the process of a server does: JSON.
    #[arg(long, hide = true)]
    peer: Option<String>,
}

/// What is measured.
pub struct Plan {
    pub title: &'static str,
    pub is_reproduction: bool,
    pub length: Duration,
    pub runs: usize,
    pub replicas: Vec<usize>,
    pub bundle: PathBuf,
    pub markdown: Option<PathBuf>,
    pub remarks: Vec<String>,
}

impl Plan {
    /// One of the default sizes.
    pub fn new(title: &'static str, bundle: PathBuf) -> Self {
        Self {
            title,
            is_reproduction: false,
            length: LENGTH,
            runs: RUNS,
            replicas: REPLICAS.to_vec(),
            bundle,
            markdown: None,
            remarks: Vec::new(),
        }
    }
}

/// Runs the command.
///
/// # Errors
/// The failed action, and a remedy.
pub fn run(command: &Fabric) -> Result<ExitCode, Box<dyn Error>> {
    if let Some(order) = &command.peer {
        lab_fabric::serve(order)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut plan = Plan::new("Two ends of one machine", command.bundle.clone());
    plan.length = command.length.map_or(plan.length, Duration::from_nanos);
    plan.runs = command.runs.map_or(plan.runs, |runs| runs as usize);
    plan.replicas = command.replicas.clone().unwrap_or(plan.replicas);
    plan.markdown.clone_from(&command.markdown);
    plan.remarks.clone_from(&command.remark);
    measure(&plan)
}

/// Measures, prints the tables and writes the bundle.
///
/// # Errors
/// The failed action, and a remedy.
pub fn measure(plan: &Plan) -> Result<ExitCode, Box<dyn Error>> {
    if let Some(few) = plan.replicas.iter().find(|number| (1..4).contains(*number)) {
        return Err(format!("{few} replicas survive no fault: 4 are the fewest").into());
    }
    let stop = Arc::new(AtomicBool::new(false));
    stop_when_interrupted(stop.clone())?;
    let _alone = alone(Path::new(LOCK))?;
    let mut header = header(plan.title, Vec::new(), 1)?;
    let before = load();
    let mut run = Run { plan, stop: &stop, bar: Bar::new(), done: 0, expected: 0 };
    let measured = run.all();
    run.bar.end();
    let study = FabricStudy::new(measured?)?;
    list_changes(&mut header)?;
    header.remarks.extend(plan.remarks.iter().cloned());
    header.remarks.push(format!(
        "{} runs of each way in turn, {:?} for each of five measurements; replicas ran once for \
         each row",
        plan.runs, plan.length
    ));
    header.remarks.push(format!("Load of the machine before and after: {before}; {}", load()));
    study.tables().iter().for_each(print);
    study.skipped.iter().for_each(|why| println!("Not run: {why}"));
    write(&plan.bundle, header, Vec::new(), Body::Fabric(study))?;
    if let Some(page) = &plan.markdown {
        write_file(page, &lab_report::markdown(&Bundle::read(&plan.bundle)?))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The mean number of processes that wanted a CPU, of one, five and fifteen minutes.
fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().take(3).collect::<Vec<_>>().join(" ")
}

fn print(table: &FabricTable) {
    println!("{}: {}", table.title, table.about);
    let head: Vec<String> = table.head.iter().map(ToString::to_string).collect();
    let lines: Vec<&Vec<String>> = std::iter::once(&head).chain(&table.rows).collect();
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max();
    let widths: Vec<usize> = (0..head.len()).map(|at| width(at).unwrap_or(0)).collect();
    for line in lines {
        let cells = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        println!("  {}", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
    println!();
}

/// Measurements that run.
struct Run<'a> {
    plan: &'a Plan,
    stop: &'a AtomicBool,
    bar: Bar,
    done: usize,
    expected: usize,
}

impl Run<'_> {
    fn all(&mut self) -> Result<FabricStudy, String> {
        let mut skipped = Vec::new();
        let spaces = if rustix::process::geteuid().is_root() {
            Some(Spaces::new()?)
        } else {
            skipped.push("the bridge and the switch: only root can make network namespaces".into());
            None
        };
        let topology = cpu_topology::read().map_err(|error| error.to_string())?;
        let allowed = cpu::allowed().map_err(|error| error.to_string())?;
        let pairs = class::pairs(&topology, &allowed);
        let mut classes = Vec::new();
        for Pair { class, cpus } in &pairs {
            let line_ns = cpus.map(|cpus| class::line_ns(&topology, cpus)).transpose()?.flatten();
            classes.push(FabricClass { name: class.name().into(), cpus: *cpus, line_ns });
        }
        let present: Vec<(&str, [usize; 2])> =
            pairs.iter().filter_map(|pair| Some((pair.class.name(), pair.cpus?))).collect();
        let ways = Way::ALL.into_iter().filter(|way| spaces.is_some() || !way.has_spaces());
        let ways: Vec<Way> = ways.collect();
        let numbers = self.plan.replicas.iter().filter(|number| **number > 0).count();
        self.expected =
            present.len() * (ways.len() * self.plan.runs + numbers * AGREEMENT_WAYS.len());
        let mut cells = Vec::new();
        for _ in 0..self.plan.runs {
            for (class, cpus) in &present {
                for way in &ways {
                    let run = self.cell(class, *cpus, *way, spaces.as_ref())?;
                    add(&mut cells, class, *way, run);
                }
            }
        }
        drop(spaces);
        let agreements = self.agreements(&present)?;
        let cpus = allowed.len();
        let is_reproduction = self.plan.is_reproduction;
        let (original, findings) = (serde_json::Value::Null, Vec::new());
        Ok(FabricStudy {
            is_reproduction,
            cpus,
            classes,
            cells,
            agreements,
            skipped,
            original,
            findings,
        })
    }

    fn show(&mut self, what: &str) -> Result<(), String> {
        self.bar.show(what, self.done, self.expected.max(self.done + 1));
        self.done += 1;
        match self.stop.load(Ordering::Relaxed) {
            true => Err("stopped; nothing was written".into()),
            false => Ok(()),
        }
    }

    fn cell(
        &mut self,
        class: &str,
        cpus: [usize; 2],
        way: Way,
        spaces: Option<&Spaces>,
    ) -> Result<FabricRun, String> {
        self.show(&format!("{class}, {}", way.name()))?;
        let own = std::env::current_exe().map_err(|error| error.to_string())?;
        let command = || {
            let mut command = Command::new(&own);
            command.args(["fabric", "--peer"]);
            command
        };
        let switched = match (way, spaces) {
            (Way::Switch, Some(spaces)) => Some(spaces.switch()?),
            _ => None,
        };
        let third = cpu::allowed().map_err(|error| error.to_string())?;
        let third = third.iter().find(|third| !cpus.contains(third));
        let length = self.plan.length;
        let setting = Setting { way, cpus, third, length, spaces, command: &command };
        let measured = setting.measure()?;
        if let Some(switched) = switched
            && switched.packets()? == 0
        {
            return Err("the switch moved no packet: `dunlin fabric top --switch --follow` shows \
                        what it counts"
                .into());
        }
        Ok(run_of(&measured))
    }

    fn agreements(
        &mut self,
        present: &[(&str, [usize; 2])],
    ) -> Result<Vec<FabricAgreement>, String> {
        let mut all = Vec::new();
        let plan = self.plan;
        for (class, cpus) in present {
            for replicas in plan.replicas.iter().copied().filter(|number| *number > 0) {
                for way in AGREEMENT_WAYS {
                    let name = if way == Way::Threads { "channels" } else { way.name() };
                    self.show(&format!("{class}, {replicas} replicas, {name}"))?;
                    let told = |why| format!("{replicas} replicas, {name}: {why}");
                    let done = agreement::agree(way, replicas, *cpus, plan.length).map_err(told)?;
                    let run = AgreementRun {
                        decided: rate(done.decided),
                        times: SparseHistogram::from(&done.times),
                        messages: done.messages,
                        view_change_ns: done.view_change.as_nanos() as u64,
                    };
                    all.push(FabricAgreement {
                        class: (*class).into(),
                        way: name.into(),
                        isolation: Way::Threads.isolation().into(),
                        replicas,
                        runs: vec![run],
                    });
                }
            }
        }
        Ok(all)
    }
}

fn add(cells: &mut Vec<FabricCell>, class: &str, way: Way, run: FabricRun) {
    let is_same = |cell: &FabricCell| cell.class == class && cell.way == way.name();
    match cells.iter_mut().find(|cell| is_same(cell)) {
        Some(cell) => cell.runs.push(run),
        None => cells.push(FabricCell {
            class: class.into(),
            way: way.name().into(),
            isolation: way.isolation().into(),
            checksums: way.has_checksums(),
            runs: vec![run],
        }),
    }
}

const fn rate(work: lab_fabric::Work) -> Rate {
    Rate { units: work.units, seconds: work.seconds }
}

fn run_of(measured: &Measured) -> FabricRun {
    FabricRun {
        round_trips: SparseHistogram::from(&measured.round_trips),
        pages: SparseHistogram::from(&measured.pages),
        page_rate: rate(measured.page_rate),
        packets: rate(measured.packets),
        bytes: rate(measured.bytes),
        memory_left: measured.memory_left,
    }
}
