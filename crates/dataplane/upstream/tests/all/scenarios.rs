//! Scenarios in simulated time: what a server sends, how time passes, what clients query, and the
//! expected answers, as text in `scenarios/`; each file is named after the rule that it tests.
//!
//! ```text
//! > NOERROR A 60                  what the server sends from now on; `nothing`, `gone`;
//! > 1.0 s NOERROR A 60            the same, but it takes a second
//! ? www.example.org. A            a query, whose answer follows: code, first record and TTL,
//! NOERROR A 60 asked 1            error, queries that the server received, how long it took
//! + 61                            this many seconds pass
//! ! failure_ttl 1                 how long a failure is remembered at first, before all else
//! ```

use crate::simulation::Simulation;
use std::fmt::Write as _;
use std::path::Path;

/// The default of `[cache] failure_ttl`.
const FAILURE_TTL: u32 = 5;

#[test]
fn every_scenario_holds() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let mut files: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let (mut query_count, mut wrong) = (0, String::new());
    for file in &files {
        let text = std::fs::read_to_string(file).unwrap();
        let name = file.file_name().unwrap().to_string_lossy();
        query_count += run_file(&name, &text, &mut wrong);
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(query_count >= 50, "only {query_count} queries");
}

/// Runs a file, which begins anew at each line with `#`. Returns the number of queries.
fn run_file(file: &str, text: &str, wrong: &mut String) -> usize {
    let mut simulation = Simulation::new(FAILURE_TTL);
    let (mut query_count, mut lines) = (0, text.lines().enumerate());
    while let Some((number, line)) = lines.next() {
        match line.split_once(' ') {
            Some(("#", _)) => simulation = Simulation::new(FAILURE_TTL),
            Some(("!", setting)) => {
                let seconds = setting.strip_prefix("failure_ttl ").expect("the one setting");
                simulation = Simulation::new(seconds.parse().unwrap());
            }
            Some((">", text)) => simulation.set_behavior(text),
            Some(("+", seconds)) => simulation.pass(seconds.parse().unwrap()),
            Some(("?", query)) => {
                query_count += 1;
                let (_, expected) = lines.next().expect("an answer follows");
                let got = simulation.query(query);
                if got != expected {
                    let number = number + 1;
                    writeln!(wrong, "\n{file}:{number} {query}\n- {expected}\n+ {got}").unwrap();
                }
            }
            None if line.is_empty() => {}
            _ => panic!("{file}:{}: {line:?} is not a line of a scenario", number + 1),
        }
    }
    query_count
}
