//! The marks of tests that a plain `cargo test` does not run: `#[ignore = "TIER: why"]`.
use crate::crates;
use crate::layers::sources;
use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

/// When a marked test is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    /// `make test-cluster`: it needs what Go builds.
    Cluster,
    /// `make test-cluster`: it is long.
    Slow,
    /// `make test` where the kernel has what it needs, else in a virtual machine.
    Kernel,
    /// A target of its own, which the reason names.
    Campaign,
    /// Another test starts it as a process of its own.
    Part,
}

const TIERS: [(&str, Tier); 5] = [
    ("cluster", Tier::Cluster),
    ("slow", Tier::Slow),
    ("kernel", Tier::Kernel),
    ("campaign", Tier::Campaign),
    ("part", Tier::Part),
];

/// A marked test.
#[derive(Debug)]
pub struct Mark {
    /// The folder of its package.
    pub folder: PathBuf,
    /// The name of its function.
    pub test: String,
    pub tier: Tier,
}

/// Every marked test; what cannot be read is left out, and is a violation.
pub fn load(root: &Path) -> Vec<Mark> {
    scan(root).0
}

/// What is wrong, a line each.
pub fn violations(root: &Path) -> Vec<String> {
    let (marks, mut wrong) = scan(root);
    let mut names = HashSet::new();
    for Mark { folder, test, .. } in &marks {
        if !names.insert((folder, test)) {
            wrong.push(format!("{}: two marked tests are called {test}", folder.display()));
        }
    }
    wrong
}

/// The tier and the test, or what is wrong.
type Found = Result<(Tier, String), String>;

fn scan(root: &Path) -> (Vec<Mark>, Vec<String>) {
    let (mut marks, mut wrong) = (Vec::new(), Vec::new());
    let folders = crates::load().into_iter().map(|found| found.directory);
    for folder in folders.chain([root.join("xtask")]) {
        for file in sources(&folder) {
            let text = fs::read_to_string(&file).unwrap_or_default();
            for (line, found) in marks_of(&text) {
                match found {
                    Ok((tier, test)) => marks.push(Mark { folder: folder.clone(), test, tier }),
                    Err(problem) => wrong.push(format!("{}:{line}: {problem}", file.display())),
                }
            }
        }
    }
    (marks, wrong)
}

/// The marks of a file, with their lines.
fn marks_of(text: &str) -> Vec<(usize, Found)> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let is_mark = |line: &str| line.starts_with("#[ignore");
    let marked = lines.iter().enumerate().filter(|(_, line)| is_mark(line));
    marked.map(|(at, line)| (at + 1, mark(line, &lines[at + 1..]))).collect()
}

fn mark(line: &str, following: &[&str]) -> Found {
    let reason = line.strip_prefix("#[ignore = \"").ok_or("a mark without a reason")?;
    let found = TIERS
        .iter()
        .find(|(word, _)| reason.strip_prefix(word).is_some_and(|rest| rest.starts_with(": ")));
    let Some((_, tier)) = found else {
        let words: Vec<&str> = TIERS.iter().map(|(word, _)| *word).collect();
        return Err(format!("expected a reason such as `slow: why`, by {}", words.join(", ")));
    };
    let function = following.iter().find_map(|line| line.split_once("fn ")?.1.split_once('('));
    let (test, _) = function.ok_or("a mark without a function")?;
    Ok((*tier, test.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ignored_test_says_when_it_is_run() {
        assert_eq!(violations(&crate::root()), Vec::<String>::new());
    }

    #[test]
    fn marks_are_read() {
        let text =
            "#[test]\n    #[ignore = \"slow: 10 s\"]\n    fn first() {}\n#[ignore]\nfn x() {}\n";
        let found = marks_of(text);
        assert_eq!(found[0], (2, Ok((Tier::Slow, "first".to_owned()))));
        assert_eq!(found[1], (4, Err("a mark without a reason".to_owned())));
        assert!(mark("#[ignore = \"slower: x\"]", &["fn a() {"]).is_err());
        assert!(mark("#[ignore = \"part: x\"]", &[]).is_err());
    }
}
