//! Runs the tests of the workspace: test binaries side by side, the longest first.
//!
//! libtest runs one binary after another, and most of our tests wait for a server, not for a CPU.
//! A test that this kernel cannot run is named and counted, and is not one of those that passed.
mod binaries;
pub mod marks;
mod outcome;
mod schedule;

use crate::repository::target_folder;
use binaries::Binary;
use marks::{Mark, Tier};
use outcome::Outcome;
use schedule::Job;
use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::Path;
use std::time::Instant;

/// Which tests are run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Every test that needs no Go build and no minutes; those that need another kernel are tried.
    Quick,
    /// The tests marked `cluster` and `slow`.
    Cluster,
}

/// Builds and runs the tests, or those of a package's folder; says what failed, what cannot run
/// here, and how long it took.
///
/// # Errors
/// The build fails, a test fails, or a file cannot be written.
pub fn run(root: &Path, scope: Scope, folder: Option<&str>) -> io::Result<()> {
    let logs = target_folder(root).join("tests");
    let logs = folder.map_or(logs.clone(), |folder| logs.join(folder.replace('/', "-")));
    let times = logs.join("times");
    fs::create_dir_all(&logs)?;
    let began = Instant::now();
    let binaries = binaries::build(root)?;
    let build_seconds = began.elapsed().as_secs();
    let marks = marks::load(root);
    // `make test-kernels` reads that of the quick tests.
    let left = logs.join(if scope == Scope::Quick { "left" } else { "left-cluster" });
    let _ = fs::remove_file(&left);
    let mut jobs = Vec::new();
    for binary in binaries.iter().filter(|binary| is_in(&root.join(folder.unwrap_or("")), binary)) {
        jobs.extend(Job::of(binary, &marks, scope)?);
    }
    if scope == Scope::Quick && folder.is_none() {
        jobs.push(Job::doc_tests(root));
    }
    if jobs.is_empty() {
        return Err(io::Error::other(format!(
            "no test lies in {}",
            folder.unwrap_or("any folder")
        )));
    }
    let began = Instant::now();
    let mut outcomes = schedule::run(&mut jobs, &logs, &left, &read_times(&times));
    schedule::run_failed_again(&jobs, &mut outcomes, &logs, &left);
    write_times(&times, &outcomes)?;
    let left = fs::read_to_string(&left).unwrap_or_default();
    outcome::report(&outcomes, &left, &logs, (build_seconds, began.elapsed().as_secs()))
}

fn is_in(folder: &Path, binary: &Binary) -> bool {
    binary.folder.starts_with(folder)
}

/// Seconds that each job took in an earlier run.
fn read_times(path: &Path) -> HashMap<String, f64> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let read = |line: &str| {
        let (seconds, label) = line.split_once(' ')?;
        Some((label.to_owned(), seconds.parse().ok()?))
    };
    text.lines().filter_map(read).collect()
}

fn write_times(path: &Path, outcomes: &[Outcome]) -> io::Result<()> {
    let mut times = read_times(path);
    times.extend(outcomes.iter().map(|outcome| (outcome.label.clone(), outcome.seconds)));
    let lines = times.iter().map(|(label, seconds)| format!("{seconds:.1} {label}\n"));
    fs::write(path, lines.collect::<String>())
}

/// Whether a run of this scope includes tests of this tier, though libtest ignores them.
fn includes(scope: Scope, tier: Tier) -> bool {
    match scope {
        Scope::Quick => tier == Tier::Kernel,
        Scope::Cluster => matches!(tier, Tier::Cluster | Tier::Slow),
    }
}

/// The marked tests of a package that a run includes.
fn included<'a>(marks: &'a [Mark], folder: &Path, scope: Scope) -> Vec<&'a str> {
    let of_package = marks.iter().filter(|mark| mark.folder == folder);
    of_package.filter(|m| includes(scope, m.tier)).map(|mark| mark.test.as_str()).collect()
}
