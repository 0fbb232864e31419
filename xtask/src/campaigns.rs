//! Long targets of the `Makefile`, and the table of `docs/campaigns.md` that says what each
//! answers.
//!
//! A long target is `bench-NAME` or `campaign-NAME`. Its parts are the targets that begin with it
//! and a hyphen. Both have all of them; each target that a file names exists; and each file in
//! `bench` is run by something.
use crate::repository;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

const PAGE: &str = "docs/campaigns.md";
/// As many targets as one table can hold, and a reader.
const TARGETS_MAX: usize = 22;

/// What is wrong, a line each.
pub fn violations(root: &Path) -> Vec<String> {
    let read = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_default();
    let makefile = read("Makefile");
    let mut wrong = differences(&of_makefile(&makefile), &of_table(&read(PAGE)));
    let tracked = repository::tracked(root, &[]);
    let targets: BTreeSet<&str> = makefile.lines().filter_map(target).collect();
    let mut texts = String::new();
    for path in tracked.iter().filter(|path| is_ours(path)) {
        let text = read(path);
        let unknown = named(&text).into_iter().filter(|name| !targets.contains(name));
        wrong.extend(unknown.map(|name| format!("{path}: there is no `make {name}`")));
        texts.push_str(&text);
    }
    for path in tracked.iter().filter(|path| path.starts_with("bench/")) {
        if !texts.contains(path.as_str()) {
            wrong.push(format!("{path}: nothing runs it"));
        }
    }
    wrong
}

/// Files that name targets: pages, code, scripts. Results name what wrote them.
fn is_ours(path: &str) -> bool {
    let is_result = path.starts_with("docs/benchmarks/") || path.starts_with("docs/reports/");
    let endings = [".md", ".rs", ".toml", ".sh"];
    let is_text = endings.iter().any(|ending| path.ends_with(ending))
        || path == "Makefile"
        || ["scripts/", ".ci/", "testing/fuzz/campaign"]
            .iter()
            .any(|folder| path.starts_with(folder));
    // This crate's tests name targets that are none.
    is_text && !is_result && !path.starts_with("xtask/")
}

/// The long target that a line of the `Makefile` defines.
fn target(line: &str) -> Option<&str> {
    let (name, _) = line.split_once(':')?;
    is_long(name).then_some(name)
}

fn is_long(name: &str) -> bool {
    let is_word = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-');
    is_word && (name.starts_with("bench-") || name.starts_with("campaign-"))
}

/// Long targets that a text names behind `make`.
fn named(text: &str) -> Vec<&str> {
    let words = text.match_indices("make ").map(|(at, make)| {
        let behind = &text[at + make.len()..];
        let end = behind.find(|c: char| !c.is_ascii_lowercase() && c != '-');
        &behind[..end.unwrap_or(behind.len())]
    });
    // `make campaign-…` is a group of them.
    words.filter(|word| is_long(word) && !word.ends_with('-')).collect()
}

/// Long targets with their parts.
type Parts<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

fn of_makefile(text: &str) -> Parts<'_> {
    let mut all = Parts::new();
    for name in text.lines().filter_map(target) {
        let (kind, rest) = name.split_once('-').expect("a long target has a hyphen");
        let own = rest.split_once('-').map_or(name, |(own, _)| &name[..=kind.len() + own.len()]);
        let parts = all.entry(own).or_default();
        if let Some(part) = name.strip_prefix(own).and_then(|part| part.strip_prefix('-')) {
            parts.insert(part);
        }
    }
    all
}

/// Rows `| target | parts | minutes | what it answers |`.
fn of_table(page: &str) -> Parts<'_> {
    let row = |line: &'_ str| line.starts_with("| `bench-") || line.starts_with("| `campaign-");
    let mut all = Parts::new();
    for line in page.lines().filter(|line| row(line)) {
        let mut cells = line.split('|').skip(1).map(quoted);
        let target = cells.next().unwrap_or_default();
        let parts = cells.next().unwrap_or_default();
        all.extend(target.first().map(|name| (*name, parts.into_iter().collect())));
    }
    all
}

fn quoted(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

fn differences(makefile: &Parts<'_>, table: &Parts<'_>) -> Vec<String> {
    let mut wrong = Vec::new();
    let targets: BTreeSet<&&str> = makefile.keys().chain(table.keys()).collect();
    for target in targets {
        match (makefile.get(*target), table.get(*target)) {
            (Some(made), Some(told)) if made == told => {}
            (Some(made), Some(told)) => {
                wrong.push(format!("{target}: parts {made:?} in the Makefile, {told:?} in {PAGE}"))
            }
            (Some(_), None) => wrong.push(format!("{target}: {PAGE} has no row of it")),
            (None, _) => wrong.push(format!("{target}: a row of {PAGE}, and no target")),
        }
    }
    if makefile.is_empty() || makefile.len() > TARGETS_MAX {
        wrong.push(format!("{} long targets: 1 to {TARGETS_MAX}", makefile.len()));
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_long_target_has_its_row_and_every_script_its_user() {
        assert_eq!(violations(&crate::root()), Vec::<String>::new());
    }

    #[test]
    fn differences_between_makefile_and_table_are_found() {
        let makefile = "bench-a: bench-a-one\n\nbench-a-one: tools\n\t@x\n\ncampaign-b:\n\t@y\n";
        let row = "| `bench-a` | `one` | 3 | What? |\n";
        let of = |page: &str| differences(&of_makefile(makefile), &of_table(page));
        assert_eq!(of(&format!("{row}| `campaign-b` | | ~3 | What? |\n")), Vec::<String>::new());
        let missing = of(row);
        assert_eq!(missing, ["campaign-b: docs/campaigns.md has no row of it"]);
        let wrong =
            of("| `bench-a` | `one`, `two` | 3 | |\n| `campaign-b` | | | |\n| `bench-c` | | | |\n");
        assert_eq!(wrong.len(), 2, "{wrong:?}");
        assert!(
            wrong[0].contains("\"two\"") && wrong[1].starts_with("bench-c: a row"),
            "{wrong:?}"
        );
    }

    #[test]
    fn named_targets_are_found() {
        let text = "`make bench-a-one`, `make campaign-b SECONDS=3`, make test, `make campaign-…`";
        assert_eq!(named(text), ["bench-a-one", "campaign-b"]);
    }
}
