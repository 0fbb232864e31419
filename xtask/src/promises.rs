//! A promise has a number and a test: `SPECIFICATION.md` names tests, and they exist.
//!
//! A promise is a table row, `| number | promise | proof |`. The proof begins with `pending`, or
//! holds words in backquotes such as `wire::parse_rejects_loops`: a crate (or `xtask`), two colons,
//! and the name of a test function somewhere in that crate; or the path of a file; or a `make`
//! target. What is pending may name a test that shows that it is absent.
//! A page may hold such a table, too: that of the Kubernetes DNS specification does.
use crate::crates::{self, Crate};
use crate::layers::sources;
use crate::repository;
use std::collections::HashSet;
use std::fs;
use std::path::Path;

/// What is wrong, a line each.
pub fn violations(root: &Path) -> Vec<String> {
    let mut wrong = violations_of(root, "SPECIFICATION.md");
    wrong.extend(repeated(root));
    wrong
}

fn violations_of(root: &Path, page: &str) -> Vec<String> {
    let text = fs::read_to_string(root.join(page)).unwrap_or_default();
    let makefile = fs::read_to_string(root.join("Makefile")).unwrap_or_default();
    let crates = crates::load();
    let mut wrong = Vec::new();
    let mut numbers = HashSet::new();
    for (number, proof) in text.lines().filter_map(promise) {
        if !numbers.insert(number) {
            wrong.push(format!("{number}: this number is taken twice"));
        }
        let proofs: Vec<&str> = proof.split('`').skip(1).step_by(2).collect();
        if proofs.is_empty() && !proof.starts_with("pending") {
            wrong.push(format!("{number}: neither a test nor `pending`"));
        }
        for named in proofs {
            if !exists(root, &crates, &makefile, named) {
                wrong.push(format!("{number}: there is no {named}"));
            }
        }
    }
    if numbers.is_empty() {
        wrong.push(format!("{page} holds no promise"));
    }
    wrong
}

/// Invariants in READMEs of crates that `SPECIFICATION.md` promises by the same tests: each stands
/// in one place only.
fn repeated(root: &Path) -> Vec<String> {
    let page = fs::read_to_string(root.join("SPECIFICATION.md")).unwrap_or_default();
    let proofs: Vec<&str> = page.lines().filter_map(promise).map(|(_, proof)| proof).collect();
    let promised: HashSet<&str> = proofs.iter().flat_map(|proof| tests_of(proof)).collect();
    let mut wrong = Vec::new();
    for one in crates::load() {
        let readme = one.directory.join("README.md");
        let text = fs::read_to_string(&readme).unwrap_or_default().replace("\n  ", " ");
        let section = text.split("\n## ").find(|part| part.starts_with("Invariants"));
        for row in section.unwrap_or_default().lines().filter(|line| is_invariant(line)) {
            let mut tests = tests_of(row).peekable();
            if tests.peek().is_some() && tests.all(|test| promised.contains(test)) {
                wrong.push(format!("{}: promised already: {row}", readme.display()));
            }
        }
    }
    wrong
}

/// Whether a line is an invariant whose proofs are all tests.
fn is_invariant(line: &str) -> bool {
    let mut words = line.split('`').skip(1).step_by(2);
    let is_item = line.starts_with("* ") || line.starts_with('|');
    is_item && words.all(|word| !word.contains(['/', '.']))
}

/// The names of tests in backquotes, without their crates.
fn tests_of(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split('`').skip(1).step_by(2);
    let last = words.filter_map(|word| word.rsplit("::").next());
    last.filter(|word| word.contains('_') && word.chars().all(|c| c == '_' || c.is_alphanumeric()))
}

/// Number and proof of a table row that begins with a number such as `2.14`.
pub fn promise(line: &str) -> Option<(&str, &str)> {
    let mut cells = line.strip_prefix('|')?.strip_suffix('|')?.split('|').map(str::trim);
    let number = cells.next()?;
    let is_number = number.starts_with(|c: char| c.is_ascii_digit()) && number.contains('.');
    is_number.then_some((number, cells.next_back()?))
}

fn exists(root: &Path, crates: &[Crate], makefile: &str, named: &str) -> bool {
    if let Some(target) = named.strip_prefix("make ") {
        return repository::has_target(makefile, target);
    }
    let Some((name, test)) = named.split_once("::") else {
        return root.join(named).exists();
    };
    let directory = match name {
        "xtask" => root.join(name),
        name => match crates::directory(crates, name) {
            Some(directory) => directory.to_owned(),
            None => return false,
        },
    };
    let test = test.rsplit("::").next().expect("split gives one at least");
    let function = format!("fn {test}(");
    sources(&directory)
        .iter()
        .any(|file| fs::read_to_string(file).is_ok_and(|text| text.contains(&function)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_promise_has_its_test() {
        assert_eq!(violations(&crate::root()), Vec::<String>::new());
    }

    /// The sections of the Kubernetes DNS specification 1.1.0, and how many requirements each has.
    const KUBERNETES: [(&str, usize); 14] = [
        ("1", 1),
        ("2.0", 1),
        ("2.1", 6),
        ("2.2", 1),
        ("2.3.0", 1),
        ("2.3.1", 2),
        ("2.3.2", 3),
        ("2.3.3", 2),
        ("2.4.0", 1),
        ("2.4.1", 8),
        ("2.4.2", 4),
        ("2.4.3", 2),
        ("2.5", 3),
        ("3", 1),
    ];

    #[test]
    fn every_sentence_of_the_kubernetes_specification_has_its_test() {
        let (root, page) = (crate::root(), "docs/kubernetes-specification.md");
        assert_eq!(violations_of(&root, page), Vec::<String>::new());
        let text = fs::read_to_string(root.join(page)).expect("the page");
        let rows: Vec<(&str, &str)> = text.lines().filter_map(promise).collect();
        let expected: Vec<String> = KUBERNETES
            .iter()
            .flat_map(|(section, count)| (1..=*count).map(move |at| format!("{section}.{at}")))
            .collect();
        assert_eq!(rows.iter().map(|(number, _)| *number).collect::<Vec<_>>(), expected);
        let pending = rows.iter().filter(|(_, proof)| !proof.contains("::"));
        assert_eq!(pending.collect::<Vec<_>>(), [] as [&(&str, &str); 0]);
    }

    #[test]
    fn rows_are_read() {
        assert_eq!(promise("| 1.2 | what | `a::b` |"), Some(("1.2", "`a::b`")));
        assert_eq!(promise("| number | promise | proof |"), None);
        assert!(exists(&crate::root(), &[], "", "xtask::rows_are_read"));
        assert!(!exists(&crate::root(), &[], "", concat!("xtask::rows_", "are_burnt")));
    }
}
