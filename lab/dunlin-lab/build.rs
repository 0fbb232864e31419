//! Tells the program what it was built of, and by what: `dunlin-lab manifest` shows it.

use std::env;
use std::process::Command;

/// The output of a command without its line end; empty if it fails.
fn output(program: &str, words: &[&str]) -> String {
    let output = Command::new(program).args(words).output().ok().filter(|o| o.status.success());
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    text.unwrap_or_default()
}

fn main() {
    let commit = output("git", &["rev-parse", "--short=12", "HEAD"]);
    let is_changed =
        !output("git", &["--no-optional-locks", "status", "--porcelain", "--untracked-files=no"])
            .is_empty();
    let mark = if is_changed { "+" } else { "" };
    println!("cargo::rustc-env=DUNLIN_COMMIT={commit}{mark}");
    let rustc = env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    println!("cargo::rustc-env=DUNLIN_RUSTC={}", output(&rustc, &["--version"]));
    println!("cargo::rustc-env=DUNLIN_PROFILE={}", env::var("PROFILE").unwrap_or_default());
    // Flags are set apart by the unit separator.
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    let target_cpu = flags.split('\u{1f}').find_map(|flag| flag.split_once("target-cpu="));
    let target_cpu = target_cpu.map_or("generic", |(_, name)| name);
    println!("cargo::rustc-env=DUNLIN_TARGET_CPU={target_cpu}");
    // A change is noticed at the next build or commit.
    println!("cargo::rerun-if-changed=build.rs");
    for file in ["HEAD", "logs/HEAD"] {
        let path = output("git", &["rev-parse", "--path-format=absolute", "--git-path", file]);
        if std::path::Path::new(&path).exists() {
            println!("cargo::rerun-if-changed={path}");
        }
    }
}
