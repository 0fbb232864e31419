//! A page that says "not yet" names a row of `SPECIFICATION.md` that is `pending`, such as
//! `not yet (21.3)`.
//!
//! So a feature that comes has one place that says so: once its row has a test, each page that
//! still denies it is found. The words `yet` and `so far` are kept for that, outside of code.
use crate::links::prose;
use crate::promises::promise;
use crate::repository;
use std::collections::HashSet;
use std::fs;
use std::path::Path;

/// The page with the rows.
const ROWS: &str = "SPECIFICATION.md";

/// What is wrong, a line each.
pub fn violations(root: &Path) -> Vec<String> {
    let rows = fs::read_to_string(root.join(ROWS)).unwrap_or_default();
    let pending: HashSet<&str> = rows.lines().filter_map(pending).collect();
    let mut wrong = Vec::new();
    for (page, text) in repository::pages(root).into_iter().filter(|(page, _)| page != ROWS) {
        wrong.extend(
            violations_of(&text, &pending).into_iter().map(|what| format!("{page}:{what}")),
        );
    }
    if pending.is_empty() {
        wrong.push(format!("no pending row in {ROWS}"));
    }
    wrong
}

fn violations_of(text: &str, pending: &HashSet<&str>) -> Vec<String> {
    let mut wrong = Vec::new();
    for (number, line) in prose(text).filter(|(_, line)| denies(line)) {
        let named: Vec<&str> = numbers(line).collect();
        if named.is_empty() {
            wrong.push(format!("{number}: \"not yet\" names no row, as in \"not yet (21.3)\""));
        }
        for row in named.into_iter().filter(|row| !pending.contains(row)) {
            wrong.push(format!("{number}: {row} is not a pending row of {ROWS}: is it there now?"));
        }
    }
    wrong
}

/// The number of a row whose proof is `pending`.
fn pending(line: &str) -> Option<&str> {
    let (number, proof) = promise(line)?;
    proof.starts_with("pending").then_some(number)
}

/// Whether a line outside of backquotes says that something is to come. How far back a journal goes
/// is another matter.
fn denies(line: &str) -> bool {
    let text: String = line.split('`').step_by(2).collect();
    let mut words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let is_yet = words.any(|word| word.eq_ignore_ascii_case("yet"));
    let text = text.to_lowercase();
    is_yet || text.contains("so far") && !text.contains("back so far")
}

/// The numbers behind an opening parenthesis or bracket: `(21.3`, `[21.3]`.
fn numbers(line: &str) -> impl Iterator<Item = &str> {
    line.split(['(', '[']).skip(1).filter_map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (section, row) = rest[..end].split_once('.')?;
        let is_number = !section.is_empty() && !row.is_empty() && !row.contains('.');
        is_number.then_some(&rest[..end])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_page_denies_what_exists() {
        assert_eq!(violations(&crate::root()), Vec::<String>::new());
    }

    #[test]
    fn rows_that_are_named_are_pending() {
        let rows = ["| 21.3 | UPDATE | pending: `answer::x` |", "| 2.4 | ANY | `answer::y` |"];
        let rows: HashSet<&str> = rows.into_iter().filter_map(pending).collect();
        assert_eq!(rows, HashSet::from(["21.3"]));
        let of = |line: &str| violations_of(line, &rows).len();
        assert_eq!(of("| UPDATE | **not yet** (21.3) |"), 0);
        assert_eq!(of("others: not yet ([21.3](S.md#21), or [0027](d.md))"), 0);
        assert_eq!(of("| ANY | not yet (2.4) |"), 1);
        assert_eq!(of("| ANY | not yet |"), 1);
        assert_eq!(of("Only `all` exists so far."), 1);
        assert_eq!(of("If the journal does not go back so far, read `not yet`."), 0);
    }
}
