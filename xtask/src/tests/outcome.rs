//! What came of test binaries, read from what libtest prints.
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

/// Lines of a failure that are repeated at the end.
const FAILURE_LINES: usize = 12;
const SLOWEST: usize = 10;
/// What libtest ends with when a test failed.
const FAILED_CODE: i32 = 101;

/// What came of one run of a test binary.
#[derive(Debug, Default)]
pub struct Outcome {
    pub label: String,
    pub seconds: f64,
    log: PathBuf,
    passed: usize,
    /// Tests that left themselves to another kernel; libtest says that they passed.
    left: usize,
    /// Names and seconds of tests that passed.
    times: Vec<(String, f64)>,
    failed: Vec<String>,
    /// Tests that failed beside others and passed alone.
    unsteady: Vec<String>,
    /// How many, by the first word of the reason.
    ignored: BTreeMap<String, usize>,
    /// Tests that libtest has called slow, and whose result has not come.
    unfinished: BTreeSet<String>,
    /// Why it is not known what came of all tests.
    broken: Option<String>,
}

impl Outcome {
    /// Reads the log of a run. Tests named in `left` are not among those that passed.
    pub fn read(
        label: &str,
        log: &Path,
        left: &Path,
        status: io::Result<ExitStatus>,
        seconds: f64,
    ) -> Self {
        let text = fs::read(log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let mut outcome = Self { label: label.to_owned(), seconds, ..Self::default() };
        log.clone_into(&mut outcome.log);
        outcome.take(&text.unwrap_or_default());
        outcome.take_out(&fs::read_to_string(left).unwrap_or_default());
        outcome.broken = match status {
            Err(error) => Some(error.to_string()),
            // A run that ends by itself after a failed test has this code.
            Ok(status)
                if !status.success()
                    && (outcome.failed.is_empty() || status.code() != Some(FAILED_CODE)) =>
            {
                Some(format!("it ended with {status}"))
            }
            Ok(_) => None,
        };
        outcome
    }

    /// Takes lines such as `test a::b ... ok <0.012s>`, and those such as `test result: ok. 2
    /// passed; …`: the last one, as a test that starts its binary again may leave lines of that
    /// run, and the last one of each crate whose examples are run.
    fn take(&mut self, text: &str) {
        let mut before = 0;
        for line in text.lines() {
            if let Some(result) = line.strip_prefix("test result: ") {
                let count = result.split_whitespace().nth(1).and_then(|count| count.parse().ok());
                self.passed = before + count.unwrap_or(0);
            }
            if line.starts_with("   Doc-tests ") {
                before = self.passed;
            }
            let Some(of_test) = line.strip_prefix("test ") else { continue };
            if let Some((name, _)) = of_test.split_once(" has been running for over ") {
                self.unfinished.insert(name.to_owned());
            }
            let Some((name, result)) = of_test.split_once(" ... ") else { continue };
            let name = name.trim_end_matches(" - should panic").to_owned();
            self.unfinished.remove(&name);
            let (word, rest) = result.split_once(' ').unwrap_or((result, ""));
            match word.trim_end_matches(',') {
                "ok" => {
                    let seconds = rest.trim_start_matches('<').trim_end_matches("s>");
                    self.times.push((name, seconds.parse().unwrap_or(0.0)));
                }
                "FAILED" => self.failed.push(name),
                "ignored" => {
                    let tier = rest.split(':').next().unwrap_or_default().to_owned();
                    *self.ignored.entry(tier).or_default() += 1;
                }
                _ => {}
            }
        }
    }

    /// Takes out tests that are named in the lines of a file, each before a tab.
    fn take_out(&mut self, left: &str) {
        let names: BTreeSet<&str> =
            left.lines().filter_map(|line| line.split('\t').next()).collect();
        let before = self.times.len();
        self.times.retain(|(name, _)| !names.contains(name.as_str()));
        self.left = before - self.times.len();
        self.passed = self.passed.saturating_sub(self.left);
    }

    /// Whether no test failed and the binary ran to its end.
    fn is_good(&self) -> bool {
        self.failed.is_empty() && self.broken.is_none()
    }

    /// The tests that failed.
    pub fn failed(&self) -> &[String] {
        &self.failed
    }

    /// Whether it is the run of one test, which passed.
    pub fn is_one_passed(&self) -> bool {
        self.is_good() && self.passed == 1
    }

    /// Takes a failed test for one that passes alone.
    pub fn set_unsteady(&mut self, test: &str) {
        self.failed.retain(|failed| failed != test);
        self.unsteady.push(test.to_owned());
    }

    /// A line on it.
    pub fn line(&self) -> String {
        let word = if self.is_good() { "ok    " } else { "FAILED" };
        let left = match self.left {
            0 => String::new(),
            count => format!(", {count} cannot run on this kernel"),
        };
        format!("{word} {:7.1} s  {}: {} passed{left}", self.seconds, self.label, self.passed)
    }

    /// What a failed test printed when it panicked.
    fn excerpt(&self, test: &str) -> String {
        let text = fs::read(&self.log).map(|b| String::from_utf8_lossy(&b).into_owned());
        let text = text.unwrap_or_default();
        let heading = format!("---- {test} stdout ----");
        let lines = text.lines().skip_while(|line| *line != heading).skip(1);
        let lines: Vec<&str> = lines.take_while(|line| !line.starts_with("---- ")).collect();
        let panic = lines.iter().position(|line| line.contains(" panicked at ")).unwrap_or(0);
        let lines = lines[panic..].iter().take(FAILURE_LINES);
        lines.map(|line| format!("    {}\n", line.chars().take(200).collect::<String>())).collect()
    }
}

/// Says what came of all: what failed, what cannot run on this kernel, and where the time went.
///
/// # Errors
/// A test failed.
pub fn report(
    outcomes: &[Outcome],
    left: &str,
    logs: &Path,
    (build_seconds, run_seconds): (u64, u64),
) -> io::Result<()> {
    let left: BTreeSet<&str> = left.lines().collect();
    print_slowest(outcomes);
    print_ignored(outcomes);
    print_left(&left);
    let bad: Vec<&Outcome> = outcomes.iter().filter(|outcome| !outcome.is_good()).collect();
    print_unsteady(outcomes);
    print_failures(&bad, logs);
    let passed: usize = outcomes.iter().map(|outcome| outcome.passed).sum();
    let failed: usize = outcomes.iter().map(|outcome| outcome.failed.len()).sum();
    let unsteady: usize = outcomes.iter().map(|outcome| outcome.unsteady.len()).sum();
    println!(
        "{passed} passed, {failed} failed, {unsteady} unsteady, {} cannot run on this kernel; \
         {} binaries; compiled in {build_seconds} s, ran {run_seconds} s",
        left.len(),
        outcomes.len()
    );
    match bad.len() {
        0 => Ok(()),
        count => Err(io::Error::other(format!("{count} test binaries failed"))),
    }
}

fn print_slowest(outcomes: &[Outcome]) {
    let all = |outcome: &Outcome| {
        let label = outcome.label.clone();
        outcome.times.clone().into_iter().map(move |(name, s)| (s, format!("{label} {name}")))
    };
    let mut tests: Vec<(f64, String)> = outcomes.iter().flat_map(all).collect();
    tests.sort_by(|one, other| other.0.total_cmp(&one.0));
    println!("\nThe slowest tests:");
    for (seconds, name) in tests.iter().take(SLOWEST) {
        println!("  {seconds:6.1} s  {name}");
    }
}

/// How many tests were not a part of this run, by the first word of the reason.
fn print_ignored(outcomes: &[Outcome]) {
    let mut all = BTreeMap::new();
    for (tier, count) in outcomes.iter().flat_map(|outcome| &outcome.ignored) {
        *all.entry(tier).or_insert(0) += count;
    }
    let words: Vec<String> = all.iter().map(|(tier, count)| format!("{count} {tier}")).collect();
    if !words.is_empty() {
        println!("\nNot a part of this run: {}.", words.join(", "));
    }
}

fn print_left(left: &BTreeSet<&str>) {
    if left.is_empty() {
        return;
    }
    println!("\nThis kernel cannot run these {}:", left.len());
    for line in left {
        let (name, missing) = line.split_once('\t').unwrap_or((line, ""));
        println!("  {name}: {missing}");
    }
}

/// Tests that depend on what else the machine does. Each is a fault of the test, or of the program.
fn print_unsteady(outcomes: &[Outcome]) {
    let count: usize = outcomes.iter().map(|outcome| outcome.unsteady.len()).sum();
    if count > 0 {
        println!("\nUNSTEADY: {count} failed beside other tests and passed alone. Mend them:");
    }
    for outcome in outcomes {
        for test in &outcome.unsteady {
            print!("  {} {test}\n{}", outcome.label, outcome.excerpt(test));
        }
    }
}

fn print_failures(bad: &[&Outcome], logs: &Path) {
    for outcome in bad {
        println!("\n{} failed ({}):", outcome.label, outcome.log.display());
        if let Some(why) = &outcome.broken {
            let tests: Vec<&str> = outcome.unfinished.iter().map(String::as_str).collect();
            println!("  {why}; unfinished: {}", tests.join(" "));
        }
        for test in &outcome.failed {
            print!("  {test}\n{}", outcome.excerpt(test));
        }
    }
    println!("\nAll that the tests print is in {}.", logs.display());
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    fn tempfile() -> PathBuf {
        std::env::temp_dir().join(format!("dunlin-xtask-outcome-{}", std::process::id()))
    }

    #[test]
    fn results_of_libtest_are_read() {
        let mut outcome = Outcome::default();
        outcome.take(
            "running 4 tests\ntest a::b ... ok <1.250s>\ntest c - should panic ... ok <0.001s>\n\
             test d ... FAILED <0.1s>\ntest e ... ignored, slow: 10 s\n\
             test f has been running for over 60 seconds\n\
             test a::b has been running for over 60 seconds\ntest a::b ... ok <61.000s>\n\
             test result: FAILED. 2 passed; 1 failed\n",
        );
        assert_eq!(outcome.unfinished.iter().collect::<Vec<_>>(), ["f"]);
        assert_eq!(outcome.passed, 2);
        let times = [("a::b".into(), 1.25), ("c".into(), 0.001), ("a::b".into(), 61.0)];
        assert_eq!(outcome.times, times);
        assert_eq!(outcome.failed, ["d"]);
        assert_eq!(outcome.ignored, BTreeMap::from([("slow".to_owned(), 1)]));
        assert!(!outcome.is_good());
        outcome.take_out("c\tno such thing in this kernel\nz\tno other thing\n");
        assert_eq!((outcome.passed, outcome.left), (1, 1));
        assert_eq!(outcome.line().matches("1 cannot run on this kernel").count(), 1);
        outcome.set_unsteady("d");
        assert!(outcome.is_good() && outcome.is_one_passed());
        assert_eq!(outcome.unsteady, ["d"]);
    }

    /// A run that was ended from outside is not good because its failed test passes alone.
    #[test]
    fn run_that_was_killed_stays_broken() {
        let log = tempfile();
        fs::write(&log, "test d ... FAILED <0.1s>\ntest e has been running for over 60 s\n")
            .expect("a log");
        let of = |status| {
            let status = Ok(ExitStatus::from_raw(status));
            let mut outcome = Outcome::read("some", &log, Path::new("/absent"), status, 1.0);
            outcome.set_unsteady("d");
            outcome.is_good()
        };
        assert!(of(101 << 8));
        assert!(!of(124 << 8), "a limit of time");
        assert!(!of(9), "a signal");
        fs::remove_file(&log).expect("a log");
    }
}
