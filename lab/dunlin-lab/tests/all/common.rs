//! Shared by tests that measure on the two-host bench.

use std::process::{Command, Output, Stdio};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use test_support::wait;

/// Settings of the whole machine: a reproduction changes some while it runs, and results hold them.
static SETTINGS: RwLock<()> = RwLock::new(());

/// While it is held, no other test changes settings of the machine.
pub fn hold_settings() -> RwLockReadGuard<'static, ()> {
    SETTINGS.read().unwrap_or_else(PoisonError::into_inner)
}

/// While it is held, no other test compares settings of the machine.
pub fn change_settings() -> RwLockWriteGuard<'static, ()> {
    SETTINGS.write().unwrap_or_else(PoisonError::into_inner)
}

pub fn missing() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("a sweep needs root".into());
    }
    let cpus = std::thread::available_parallelism().map_or(1, |n| n.get());
    (cpus < 2).then(|| "a sweep needs two CPUs".into())
}

pub fn lab(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dunlin-lab"));
    command.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

pub fn said(output: &Output) -> String {
    let told = [output.stdout.as_slice(), output.stderr.as_slice()];
    told.map(String::from_utf8_lossy).concat()
}

pub fn to_its_end(mut command: Command) -> Output {
    let is_free = |output: &Output| !said(output).contains("another measurement runs here");
    wait::until_value("nothing else measures here", || command.output().unwrap(), is_free)
}
