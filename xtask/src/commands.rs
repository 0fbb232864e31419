//! Commands in Markdown: the `make` target, the package, and its test, bench or example exist.
use crate::crates::{self, Crate};
use crate::repository;
use std::fs;
use std::path::Path;

/// What is wrong, a line each.
pub fn violations(root: &Path) -> Vec<String> {
    let makefile = fs::read_to_string(root.join("Makefile")).unwrap_or_default();
    let crates = crates::load();
    let mut wrong = Vec::new();
    for (page, text) in repository::pages(root) {
        for (line, command) in commands(&text) {
            let what = match command.split_once(' ') {
                Some(("make", rest)) => check_make(&makefile, rest),
                _ => check_cargo(root, &crates, command),
            };
            wrong.extend(what.map(|what| format!("{page}:{line}: {what}")));
        }
    }
    if makefile.is_empty() {
        wrong.push("there is no Makefile".into());
    }
    wrong
}

/// What begins with `make` or has `cargo` in it, in backquotes or in lines of fenced code.
fn commands(text: &str) -> Vec<(usize, &str)> {
    let (mut found, mut is_code) = (Vec::new(), false);
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if is_code {
            found.push((index + 1, line.trim_start()));
        } else {
            found.extend(line.split('`').skip(1).step_by(2).map(|quoted| (index + 1, quoted)));
        }
    }
    found.retain(|(_, text)| text.starts_with("make ") || text.contains("cargo "));
    found
}

fn check_make(makefile: &str, rest: &str) -> Option<String> {
    let target = rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '-').next()?;
    // `make campaign-…` stands for all of them.
    if target.is_empty() || target.ends_with('-') {
        return None;
    }
    (!repository::has_target(makefile, target)).then(|| format!("there is no target {target}"))
}

fn check_cargo(root: &Path, crates: &[Crate], command: &str) -> Option<String> {
    let words: Vec<&str> = command.split_whitespace().collect();
    let values = |names: &'static [&'static str]| {
        let pairs = words.windows(2).filter(move |pair| names.contains(&pair[0]));
        pairs.map(|pair| pair[1]).filter(|value| !value.chars().all(char::is_uppercase))
    };
    let package = values(&["-p", "--package"]).next()?;
    let directory = match package {
        "xtask" => root.join(package),
        _ => match crates::directory(crates, package) {
            Some(directory) => directory.to_owned(),
            None => return Some(format!("there is no package {package}")),
        },
    };
    let kinds = [("--test", "tests"), ("--bench", "benches"), ("--example", "examples")];
    for (option, folder) in kinds {
        let names = words.windows(2).filter(|pair| pair[0] == option).map(|pair| pair[1]);
        for name in names {
            let files = [format!("{folder}/{name}.rs"), format!("{folder}/{name}/main.rs")];
            if !files.iter().any(|file| directory.join(file).exists()) {
                return Some(format!("{package} has no {option} {name}"));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_of_a_page_exists() {
        assert_eq!(violations(&crate::root()), Vec::<String>::new());
    }

    #[test]
    fn commands_are_read() {
        let text =
            "`make test`, `make`, `x`\n```\nmake lint  # c\nA=1 cargo test -p api\n```\nmake no";
        let found: Vec<&str> = commands(text).into_iter().map(|(_, command)| command).collect();
        assert_eq!(found, ["make test", "make lint  # c", "A=1 cargo test -p api"]);
        assert_eq!(check_make("test: ## all\n", "test X=1"), None);
        assert_eq!(check_make("test:\n", "campaign-…"), None);
        assert!(check_make("test:\n", "tests").is_some());
        let check = |command| check_cargo(&crate::root(), &crates::load(), command);
        assert_eq!(check("cargo test -p sync --test loom"), None);
        assert_eq!(check("cargo test -p X --test all NAME::"), None);
        assert!(check("cargo test -p sync --test no_such_test").is_some());
        assert!(check("cargo test -p no-such-crate").is_some());
    }
}
