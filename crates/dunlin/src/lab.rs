//! `dunlin lab`: runs the benchmark lab, a program of its own.
use crate::cli::Lab;
use std::error::Error;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// The lab's program.
const PROGRAM: &str = "dunlin-lab";

/// Replaces this process by `dunlin-lab`: from the same folder, else from PATH.
///
/// # Errors
/// It is not installed, or cannot be run.
pub fn run(command: &Lab) -> Result<ExitCode, Box<dyn Error>> {
    let beside = std::env::current_exe().ok().map(|own| own.with_file_name(PROGRAM));
    let program =
        beside.filter(|program| program.exists()).unwrap_or_else(|| PathBuf::from(PROGRAM));
    let error = Command::new(&program).args(&command.arguments).exec();
    Err(match error.kind() {
        ErrorKind::NotFound => format!(
            "{PROGRAM} is neither beside this program nor in PATH: install the package {PROGRAM}, \
             or build it by `cargo build --release --package {PROGRAM}`"
        )
        .into(),
        _ => format!("cannot run {}: {error}", program.display()).into(),
    })
}
