//! Scenarios in simulated time: what a server says, how time passes, what clients ask, and what
//! must come of it, as text in `scenarios/`, each file named after the law it holds.
//!
//! ```text
//! > NOERROR A 60                  what the server says from now on; `nothing`, `gone`;
//! > 1.0 s NOERROR A 60            the same, but it takes a second
//! ? www.example.org. A            a question, whose answer follows: code, first record and TTL,
//! NOERROR A 60 asked 1            error, how often the server was asked, how long it took
//! + 61                            this many seconds pass
//! ! failure_ttl 1                 how long a failure is remembered at first, before all else
//! ```

use crate::play::ConnectionStage;
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
    let (mut asked, mut wrong) = (0, String::new());
    for file in &files {
        let text = std::fs::read_to_string(file).unwrap();
        let name = file.file_name().unwrap().to_string_lossy();
        asked += play_file(&name, &text, &mut wrong);
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(asked >= 50, "only {asked} questions were asked");
}

/// Plays a file, a scene for each line with `#`; how many questions were asked.
fn play_file(file: &str, text: &str, wrong: &mut String) -> usize {
    let mut stage = ConnectionStage::new(FAILURE_TTL);
    let (mut asked, mut lines) = (0, text.lines().enumerate());
    while let Some((number, line)) = lines.next() {
        match line.split_once(' ') {
            Some(("#", _)) => stage = ConnectionStage::new(FAILURE_TTL),
            Some(("!", setting)) => {
                let seconds = setting.strip_prefix("failure_ttl ").expect("the one setting");
                stage = ConnectionStage::new(seconds.parse().unwrap());
            }
            Some((">", said)) => stage.say(said),
            Some(("+", seconds)) => stage.pass(seconds.parse().unwrap()),
            Some(("?", question)) => {
                asked += 1;
                let (_, expected) = lines.next().expect("an answer follows");
                let got = stage.query(question);
                if got != expected {
                    let number = number + 1;
                    writeln!(wrong, "\n{file}:{number} {question}\n- {expected}\n+ {got}").unwrap();
                }
            }
            None if line.is_empty() => {}
            _ => panic!("{file}:{}: {line:?} says nothing", number + 1),
        }
    }
    asked
}
