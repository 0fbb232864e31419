//! The files of the repository, and what is run on them.
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The paths of the files that git tracks, relative to the root: those that a pattern such as
/// `*.md` matches, or all.
///
/// # Panics
/// Git lists none, so that nothing would be checked.
pub fn tracked(root: &Path, patterns: &[&str]) -> Vec<String> {
    let listed = Command::new("git").arg("ls-files").args(patterns).current_dir(root).output();
    let listed = listed.map(|output| output.stdout).unwrap_or_default();
    let paths: Vec<String> = String::from_utf8_lossy(&listed).lines().map(str::to_owned).collect();
    assert!(!paths.is_empty(), "git lists no file {patterns:?} in {}", root.display());
    paths
}

/// The pages: their paths and texts.
///
/// # Panics
/// As of [`tracked`].
pub fn pages(root: &Path) -> Vec<(String, String)> {
    let read = |path: String| {
        let text = fs::read_to_string(root.join(&path)).unwrap_or_default();
        (path, text)
    };
    tracked(root, &["*.md"]).into_iter().map(read).collect()
}

/// Whether a `Makefile` has a target.
pub fn has_target(makefile: &str, target: &str) -> bool {
    makefile.lines().any(|line| line.strip_prefix(target).is_some_and(|end| end.starts_with(':')))
}

/// Cargo: the one that runs this program, if one does.
pub fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Where cargo puts what it builds.
pub fn target_folder(root: &Path) -> PathBuf {
    root.join(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
}

/// Whether `PATH` has a program.
pub fn has_program(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}
