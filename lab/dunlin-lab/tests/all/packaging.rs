//! The package dunlin-lab, the manual and the completions.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use test_support::skip;

/// Files of the package.
const HELD: &[&str] = &[
    "./usr/bin/dunlin-lab",
    "./usr/share/bash-completion/completions/dunlin-lab",
    "./usr/share/doc/dunlin-lab/copyright",
    "./usr/share/man/man1/dunlin-lab-load.1.gz",
    "./usr/share/man/man1/dunlin-lab.1.gz",
];

fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {error}");
    output
}

#[test]
#[ignore = "slow: it builds a package"]
fn the_package_has_program_manual_and_completions_and_no_warning() {
    for tool in ["cargo-deb", "dpkg-deb", "lintian"] {
        let found = Command::new("sh").args(["-c", &format!("command -v {tool}")]).output();
        if !found.expect("a shell").status.success() {
            return skip::skip(tool);
        }
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    fs::create_dir_all(folder).expect("a folder");
    let package = folder.join("dunlin-lab.deb");
    let build = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/deb/build");
    run(Command::new(build).arg(env!("CARGO_BIN_EXE_dunlin-lab")).arg(&package));
    run(Command::new("lintian").args(["--allow-root", "--fail-on", "error,warning"]).arg(&package));
    let listed = run(Command::new("dpkg-deb").arg("--contents").arg(&package)).stdout;
    let listed = String::from_utf8_lossy(&listed);
    for file in HELD {
        assert!(listed.lines().any(|line| line.ends_with(file)), "{file} in {listed}");
    }
}
