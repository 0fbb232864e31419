//! Tells the program by what it was built: `dunlin-lab manifest` shows it.

use std::env;
use std::process::Command;

/// The output of a command without its line end; empty if it fails.
fn output(program: &str, words: &[&str]) -> String {
    let output = Command::new(program).args(words).output().ok().filter(|o| o.status.success());
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    text.unwrap_or_default()
}

fn main() {
    let rustc = env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    println!("cargo::rustc-env=DUNLIN_RUSTC={}", output(&rustc, &["--version"]));
    println!("cargo::rustc-env=DUNLIN_PROFILE={}", env::var("PROFILE").unwrap_or_default());
    // Flags are set apart by the unit separator.
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    let target_cpu = flags.split('\u{1f}').find_map(|flag| flag.split_once("target-cpu="));
    let target_cpu = target_cpu.map_or("generic", |(_, name)| name);
    println!("cargo::rustc-env=DUNLIN_TARGET_CPU={target_cpu}");
    println!("cargo::rerun-if-changed=build.rs");
}
