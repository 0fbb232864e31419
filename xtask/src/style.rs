//! What rustfmt and clippy do not look at: lengths of lines and files, and the door plates.
use crate::layers::sources;
use std::fs;
use std::path::Path;

const COLUMNS_MAX: usize = 100;
const LINES_MAX: usize = 500;

/// What is wrong, a line each.
pub fn violations(root: &Path) -> Vec<String> {
    let mut wrong = Vec::new();
    for directory in ["crates", "tests", "xtask"] {
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
    for room in fs::read_dir(root.join("crates")).into_iter().flatten().flatten() {
        if room.path().join("Cargo.toml").exists() && !room.path().join("README.md").exists() {
            wrong.push(format!("{}: no README.md", room.path().display()));
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    #[test]
    fn lines_files_and_door_plates() {
        assert_eq!(super::violations(&crate::root()), Vec::<String>::new());
    }
}
