//! What a test does where something lacks.
use std::fs::File;
use std::io::Write;

/// Says loudly what lacks; fails where nothing may be skipped (`CI` or `DUNLIN_REQUIRE_ALL` is
/// set).
pub fn skip(missing: &str) {
    let strict = ["CI", "DUNLIN_REQUIRE_ALL"].into_iter().any(|v| std::env::var_os(v).is_some());
    assert!(!strict, "cannot run: {missing}");
    eprintln!("\n*** SKIPPED: {missing} ***\n");
}

/// Leaves a test to a kernel that has what this one lacks: its name goes to the others in the file
/// that `DUNLIN_LEFT` names, with a tab and what lacks; `bench/kernels` runs them. Without one it
/// is skipped. Such a test is marked `#[ignore = "kernel: what it needs"]`, so that a plain
/// `cargo test` does not call it ok.
///
/// # Panics
/// The file cannot be written.
pub fn leave(missing: &str) {
    let Some(left) = std::env::var_os("DUNLIN_LEFT") else { return skip(missing) };
    let thread = std::thread::current();
    let name = thread.name().expect("a test's thread is called as the test is");
    let line = format!("{name}\t{missing}\n");
    let mut left = File::options().create(true).append(true).open(left).expect("a file");
    left.write_all(line.as_bytes()).expect("room for a line");
    eprintln!("\n*** left to another kernel: {missing} ***\n");
}
