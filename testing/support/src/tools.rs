//! Programs in Go that `scripts/require` builds.
use std::path::PathBuf;

/// The binary of a program: the one that a variable names, or that in `go/bin` of cargo's target
/// folder, which is above the running test.
///
/// # Errors
/// It is missing; how to build it.
pub fn go(program: &str, variable: &str) -> Result<PathBuf, String> {
    let named = std::env::var_os(variable).map(PathBuf::from);
    let running = std::env::current_exe().unwrap_or_default();
    let above = running.ancestors().map(|folder| folder.join("go/bin").join(program));
    let found = named.into_iter().chain(above).find(|path| path.is_file());
    found.ok_or_else(|| format!("no {program} here: `scripts/require test-cluster` builds it"))
}
