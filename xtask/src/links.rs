//! Links, paths and tests in Markdown: the file, the heading behind a `#`, and the test function
//! exist.
//!
//! A path is a word in backquotes with a `/` that ends like a file, or that begins with a folder of
//! the repository. It is relative to the page, to the page's crate, to the root, or to a folder of
//! crates, so that `answer/src/solve.rs` needs no `crates/core/`.
use crate::layers::sources;
use crate::repository;
use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Folders that a path may leave out.
const BASES: [&str; 8] = [
    "",
    "crates",
    "crates/core",
    "crates/kernel",
    "crates/dataplane",
    "crates/control",
    "lab",
    "testing",
];

/// Folders whose paths exist, also those that name a folder.
const FOLDERS: [&str; 9] = [
    "bench/",
    "crates/",
    "docs/",
    "examples/",
    "lab/",
    "packaging/",
    "scripts/",
    "testing/",
    "xtask/",
];

const ENDINGS: [&str; 12] =
    [".awk", ".c", ".h", ".json", ".md", ".o", ".rs", ".service", ".sh", ".toml", ".yaml", ".yml"];

/// What is wrong, a line each.
pub fn violations(root: &Path) -> Vec<String> {
    let pages = repository::pages(root);
    let mut wrong = Vec::new();
    for (page, text) in &pages {
        let folder = root.join(page).parent().expect("a page lies in a folder").to_owned();
        for (line, target) in links(text) {
            if !leads_somewhere(&root.join(page), &folder, target) {
                wrong.push(format!("{page}:{line}: the link {target} has no target"));
            }
        }
        for (line, path) in paths(text) {
            if !exists(root, &folder, &path) {
                wrong.push(format!("{page}:{line}: there is no {path}"));
            }
        }
    }
    check_tests(root, &pages, &mut wrong);
    wrong
}

/// The test functions that pages name, such as `wire::fuzz_corpus_passes`, exist.
fn check_tests(root: &Path, pages: &[(String, String)], wrong: &mut Vec<String>) {
    let folders = ["crates", "lab", "testing", "xtask"].into_iter();
    let code: String = folders
        .flat_map(|folder| sources(&root.join(folder)))
        .map(|file| fs::read_to_string(file).unwrap_or_default())
        .collect();
    let names = |line: &str| -> Option<String> {
        let (name, _) = line.split_once("fn ")?.1.split_once(['(', '<'])?;
        Some(name.to_owned())
    };
    // Names of contract tests stand in a macro, one on a line.
    let listed_names = code.lines().map(|line| line.trim().trim_end_matches(',').to_owned());
    let known: HashSet<String> = code.lines().filter_map(names).chain(listed_names).collect();
    for (page, text) in pages {
        for (line, name) in tests(text).filter(|(_, name)| !known.contains(*name)) {
            wrong.push(format!("{page}:{line}: there is no test {name}"));
        }
    }
}

/// The functions in backquotes behind `::` whose names are sentences.
fn tests(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let quoted = prose(text)
        .flat_map(|(number, line)| line.split('`').skip(1).step_by(2).map(move |q| (number, q)));
    quoted.filter_map(|(number, quoted)| {
        let (_, name) = quoted.rsplit_once("::")?;
        let is_name =
            name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        (is_name && name.matches('_').count() >= 3).then_some((number, name))
    })
}

/// The lines outside of fenced code, with their numbers.
pub fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        (!is_code && !is_fence).then_some((index + 1, line))
    })
}

/// The targets of inline links that lead to files.
fn links(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        for rest in line.split("](").skip(1) {
            let target = rest.split(')').next().unwrap_or_default();
            if !target.contains("://") && !target.starts_with("mailto:") {
                found.push((number, target));
            }
        }
    }
    found
}

/// The paths in backquotes, with braces expanded.
fn paths(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        for quoted in line.split('`').skip(1).step_by(2) {
            // A path may be followed by the name of a test: `tests/file.rs::test`.
            let path = quoted.split("::").next().unwrap_or_default();
            if is_path(path) {
                found.extend(expand(path).into_iter().map(|path| (number, path)));
            }
        }
    }
    found
}

fn is_path(path: &str) -> bool {
    let is_plain = path.chars().all(|c| c.is_ascii_alphanumeric() || "/._-{},".contains(c));
    // `NAME` and `NNNN` stand for something else; `src/lib.rs` belongs to every crate.
    let is_pattern = path.split(['/', '-', '.']).any(|part| matches!(part, "NAME" | "NNNN"));
    let is_file = ENDINGS.iter().any(|ending| path.trim_end_matches('}').ends_with(ending));
    let is_ours = FOLDERS.iter().any(|folder| path.starts_with(folder));
    is_plain && !is_pattern && path.contains('/') && !path.starts_with('/') && (is_file || is_ours)
}

/// `a/{b,c}.rs` is `a/b.rs` and `a/c.rs`.
fn expand(path: &str) -> Vec<String> {
    let parts = path.split_once('{').and_then(|(head, rest)| Some((head, rest.split_once('}')?)));
    match parts {
        Some((head, (inner, tail))) => {
            inner.split(',').map(|one| format!("{head}{one}{tail}")).collect()
        }
        None => vec![path.to_owned()],
    }
}

fn exists(root: &Path, folder: &Path, path: &str) -> bool {
    let ours = BASES.iter().map(|base| root.join(base));
    let near = [folder.to_owned(), folder.join("src")];
    ours.chain(near).any(|base| base.join(path).exists())
}

fn leads_somewhere(page: &Path, folder: &Path, target: &str) -> bool {
    let (file, heading) = target.split_once('#').unwrap_or((target, ""));
    let file: PathBuf = if file.is_empty() { page.to_owned() } else { folder.join(file) };
    if heading.is_empty() {
        return file.exists();
    }
    let text = fs::read_to_string(file).unwrap_or_default();
    headings(&text).contains(heading)
}

/// The anchors of a page's headings, as GitHub makes them.
fn headings(text: &str) -> HashSet<String> {
    let slug = |title: &str| {
        let kept = title.to_lowercase();
        let kept = kept.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    let titles = prose(text).filter_map(|(_, line)| line.strip_prefix('#'));
    titles.map(|title| slug(title.trim_start_matches('#').trim())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_link_and_path_of_a_page_exists() {
        assert_eq!(violations(&crate::root()), Vec::<String>::new());
    }

    #[test]
    fn links_and_paths_are_read() {
        let text = "[a](b.md#c) `x/{y,z}.rs` `/etc/x.toml`\n```\n[no](no.md)\n```\n`t/u.rs::test`";
        assert_eq!(links(text), [(1, "b.md#c")]);
        let found: Vec<_> = paths(text).into_iter().map(|(_, path)| path).collect();
        assert_eq!(found, ["x/y.rs", "x/z.rs", "t/u.rs"]);
        let text = "`wire::no_such_test_is_there` `std::fs` ``";
        assert_eq!(tests(text).collect::<Vec<_>>(), [(1, "no_such_test_is_there")]);
    }

    #[test]
    fn missing_files_and_headings_are_found() {
        let root = crate::root();
        let page = root.join("README.md");
        assert!(leads_somewhere(&page, &root, "docs/README.md#measure-it"));
        assert!(!leads_somewhere(&page, &root, "docs/README.md#sing-it"));
        assert!(!leads_somewhere(&page, &root, "docs/missing.md"));
        assert!(exists(&root, &root, "wire/src/rtype.rs"));
        assert!(!exists(&root, &root, "wire/src/missing.rs"));
    }
}
