//! Runs test binaries side by side.
use super::binaries::Binary;
use super::marks::Mark;
use super::outcome::Outcome;
use super::{Scope, included};
use crate::repository::{cargo, has_program};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

/// What one job may take where no person can interrupt it, in minutes: a test that never ends must
/// not hide what the others say.
const LIMIT_MINUTES: u32 = 20;

/// Failed tests that are run once more, each alone. More than that have another reason than load.
const AGAIN_MAX: usize = 5;

/// Tests that a job runs side by side on each CPU: most of them wait for a server.
const TESTS_A_CPU: usize = 2;

/// One run of a test binary.
pub struct Job {
    label: String,
    program: PathBuf,
    arguments: Vec<String>,
    folder: PathBuf,
    is_integration: bool,
    is_cargo: bool,
}

impl Job {
    /// The runs of a binary: its usual tests, and those of its marked tests that belong to a scope.
    pub fn of(binary: &Binary, marks: &[Mark], scope: Scope) -> io::Result<Vec<Self>> {
        let mut jobs = Vec::new();
        if scope == Scope::Quick {
            jobs.push(Self::new(binary, String::new(), Vec::new()));
        }
        let included = included(marks, &binary.folder, scope);
        if included.is_empty() {
            return Ok(jobs);
        }
        let named = list_ignored(binary)?;
        let function = |name: &str| name.rsplit("::").next().map(str::to_owned);
        let belongs = |name: &String| included.iter().any(|t| function(name).as_deref() == Some(t));
        let names: Vec<String> = named.into_iter().filter(belongs).collect();
        if !names.is_empty() {
            let mut arguments = vec!["--ignored".to_owned(), "--exact".to_owned()];
            arguments.extend(names);
            let suffix = match scope {
                Scope::Quick => " (kernel)",
                Scope::Cluster => " (cluster, slow)",
            };
            jobs.push(Self::new(binary, suffix.to_owned(), arguments));
        }
        Ok(jobs)
    }

    /// The examples in documentation.
    pub fn doc_tests(root: &Path) -> Self {
        let arguments = ["test", "--workspace", "--doc", "--no-fail-fast"];
        Self {
            label: "examples in documentation".to_owned(),
            program: cargo().get_program().into(),
            arguments: arguments.map(str::to_owned).to_vec(),
            folder: root.to_owned(),
            is_integration: false,
            is_cargo: true,
        }
    }

    /// The run of one of its tests.
    fn only(&self, test: &str) -> Self {
        Self {
            label: format!("{} again {test}", self.label),
            program: self.program.clone(),
            arguments: ["--include-ignored", "--exact", test].map(str::to_owned).to_vec(),
            folder: self.folder.clone(),
            is_integration: self.is_integration,
            is_cargo: self.is_cargo,
        }
    }

    fn new(binary: &Binary, suffix: String, arguments: Vec<String>) -> Self {
        Self {
            label: format!("{}{suffix}", binary.label),
            program: binary.executable.clone(),
            arguments,
            folder: binary.folder.clone(),
            is_integration: binary.is_integration,
            is_cargo: false,
        }
    }

    /// How long a job may take that never ran, in seconds: a large program starts servers.
    fn guess(&self) -> f64 {
        let len = std::fs::metadata(&self.program).map_or(0, |file| file.len());
        if self.is_integration { len as f64 / 1e6 } else { 1.0 }
    }

    /// Runs it, with all that it prints in a file.
    fn run(&self, log: &Path, left: &Path) -> io::Result<ExitStatus> {
        let output = File::create(log)?;
        let mut command = self.command();
        command.current_dir(&self.folder).args(&self.arguments);
        if !self.is_cargo {
            let threads = cpus() * TESTS_A_CPU;
            command.args(["-Zunstable-options", "--report-time"]);
            command.arg(format!("--test-threads={threads}"));
            // libtest of a stable Rust prints how long each test took only so.
            command.env("RUSTC_BOOTSTRAP", "1");
            command.env("CARGO_MANIFEST_DIR", &self.folder).env("DUNLIN_LEFT", left);
        }
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        command.status()
    }

    /// The program, with the rights and the limit that it needs.
    fn command(&self) -> Command {
        let mut words: Vec<&str> = Vec::new();
        let limit = format!("{LIMIT_MINUTES}m");
        if !io::stdin().is_terminal() {
            words.extend(["timeout", "--verbose", &limit]);
        }
        if !self.is_cargo && !is_root() && has_program("sudo") {
            words.extend(["sudo", "--preserve-env"]);
        }
        let Some((first, rest)) = words.split_first() else { return Command::new(&self.program) };
        let mut command = Command::new(first);
        command.args(rest).arg(&self.program);
        command
    }
}

/// The names of the ignored tests of a binary.
fn list_ignored(binary: &Binary) -> io::Result<Vec<String>> {
    let mut command = Command::new(&binary.executable);
    command.args(["--list", "--ignored", "--format=terse"]).current_dir(&binary.folder);
    let listed = String::from_utf8_lossy(&command.output()?.stdout).into_owned();
    Ok(listed.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
}

/// Runs jobs, as many side by side as there are CPUs, and prints a line on each.
pub fn run(
    jobs: &mut [Job],
    logs: &Path,
    left: &Path,
    times: &HashMap<String, f64>,
) -> Vec<Outcome> {
    // The longest first.
    let expected = |job: &Job| times.get(&job.label).copied().unwrap_or_else(|| job.guess());
    jobs.sort_by(|one, other| expected(other).total_cmp(&expected(one)));
    let jobs = &*jobs;
    let (next, outcomes) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..cpus() {
            scope.spawn(|| {
                while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let outcome = one(job, logs, left);
                    let _ = writeln!(io::stdout(), "{}", outcome.line());
                    outcomes.lock().expect("no panic").push(outcome);
                }
            });
        }
    });
    outcomes.into_inner().expect("no panic")
}

/// Runs failed tests once more, each alone, if they are few. One that passes then depends on what
/// else the machine does: that is reported by name, and is no reason to refuse all.
pub fn run_failed_again(jobs: &[Job], outcomes: &mut [Outcome], logs: &Path, left: &Path) {
    let count: usize = outcomes.iter().map(|outcome| outcome.failed().len()).sum();
    if count > AGAIN_MAX {
        return;
    }
    for outcome in outcomes {
        let job = jobs.iter().find(|job| job.label == outcome.label && !job.is_cargo);
        let Some(job) = job else { continue };
        for test in outcome.failed().to_vec() {
            let again = one(&job.only(&test), logs, left);
            let _ = writeln!(io::stdout(), "{}", again.line());
            if again.is_one_passed() {
                outcome.set_unsteady(&test);
            }
        }
    }
}

fn one(job: &Job, logs: &Path, left: &Path) -> Outcome {
    let file: String =
        job.label.chars().map(|c| if c.is_alphanumeric() { c } else { '-' }).collect();
    let log = logs.join(format!("{file}.log"));
    let began = Instant::now();
    let status = job.run(&log, left);
    Outcome::read(&job.label, &log, left, status, began.elapsed().as_secs_f64())
}

fn cpus() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Whether this process is root's.
fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}
