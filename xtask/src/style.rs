//! What rustfmt and clippy do not check: lengths of lines and files, and a README for each crate.
use crate::crates::{self, Crate};
use crate::layers::sources;
use std::fs;
use std::path::Path;

const COLUMNS_MAX: usize = 100;
const LINES_MAX: usize = 500;

/// What is wrong, a line each.
pub fn violations(root: &Path) -> Vec<String> {
    let mut wrong = Vec::new();
    for directory in ["crates", "lab", "testing", "xtask"] {
        for file in sources(&root.join(directory)) {
            let text = fs::read_to_string(&file).unwrap_or_default();
            let place = file.strip_prefix(root).unwrap_or(&file).display();
            if text.lines().count() > LINES_MAX {
                wrong.push(format!("{place}: more than {LINES_MAX} lines"));
            }
            for (line, content) in text.lines().enumerate() {
                if content.chars().count() > COLUMNS_MAX {
                    wrong.push(format!("{place}:{}: more than {COLUMNS_MAX} columns", line + 1));
                }
            }
        }
    }
    for Crate { directory, .. } in crates::load() {
        if !directory.join("README.md").exists() {
            wrong.push(format!("{}: no README.md", directory.display()));
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    #[test]
    fn lines_and_files_are_short_and_crates_have_readmes() {
        assert_eq!(super::violations(&crate::root()), Vec::<String>::new());
    }
}
