//! What the tests share: a directory of their own, settings, and what to do where a server lacks.

use std::path::PathBuf;

use crate::Result;
use crate::server::{Software, find_binary};

/// A directory which is removed in the end, unless `DUNLIN_KEEP` is set.
#[derive(Debug)]
pub struct TestFolder {
    /// Where it is.
    pub path: PathBuf,
}

impl TestFolder {
    /// A fresh directory for `test`.
    pub fn new(test: &str) -> Result<Self> {
        let name = format!("dunlin-{test}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(Self { path })
    }
}

impl Drop for TestFolder {
    fn drop(&mut self) {
        if std::env::var_os("DUNLIN_KEEP").is_none() {
            // What cannot be removed is left to the system's own housekeeping.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

/// The number in the environment's `variable`, or `default`.
pub fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().map_or(default, |text| {
        text.parse().unwrap_or_else(|_| panic!("{variable} is a number, not {text:?}"))
    })
}

/// True when each of `wanted` is here. Where not, this says loudly what to install, and panics if
/// nothing may be skipped (`CI` or `DUNLIN_REQUIRE_ALL` is set).
pub fn all_present(wanted: &[Software]) -> bool {
    let others = wanted.iter().filter(|software| **software != Software::Dunlin);
    let missing: Vec<_> = others.filter_map(|software| software.binary().err()).collect();
    if missing.is_empty() {
        return true;
    }
    skip(&missing.join("; "))
}

/// The binary of another program, from a package. Nothing where it is missing, as
/// [`all_present`] says it.
pub fn present(file: &str, package: &str) -> Option<PathBuf> {
    find_binary(file, package).inspect_err(|missing| _ = skip(missing)).ok()
}

/// True when we are root, which `what` needs. Else as [`all_present`].
pub fn root(what: &str) -> bool {
    rustix::process::geteuid().is_root() || skip(&format!("{what} need root"))
}

fn skip(missing: &str) -> bool {
    let strict = ["CI", "DUNLIN_REQUIRE_ALL"].into_iter().any(|v| std::env::var_os(v).is_some());
    assert!(!strict, "cannot run: {missing}");
    eprintln!("\n*** SKIPPED: {missing} ***\n");
    false
}
