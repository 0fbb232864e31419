//! Other people's commands, and files of the kernel's, with errors that say what to do.

use crate::Result;
use crate::limits::FILE_BYTES_MAX;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;
use std::process::Command;

/// Debian's package of a command.
fn package(tool: &str) -> &'static str {
    match tool {
        "ethtool" => "ethtool",
        "chrt" => "util-linux",
        "perf" => "linux-perf",
        _ => "iproute2",
    }
}

/// A command, looked for where administrators' tools are, too: a user's `PATH` may lack that.
pub fn command(tool: &str) -> Command {
    let name = ["/usr/sbin", "/sbin"].iter().map(|folder| Path::new(folder).join(tool));
    let found = name.into_iter().find(|path| path.exists());
    found.map_or_else(|| Command::new(tool), Command::new)
}

/// Why `tool` could not be started.
pub fn not_started(tool: &str, error: &std::io::Error) -> String {
    match error.kind() {
        ErrorKind::NotFound => {
            format!("{tool} is not installed (Debian: apt install {})", package(tool))
        }
        _ => format!("cannot run {tool}: {error}"),
    }
}

/// Runs `tool` with `words` and gives what it wrote.
pub fn output(tool: &str, words: &[&str]) -> Result<String> {
    let output = command(tool).args(words).output().map_err(|e| not_started(tool, &e))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let hint = match said.contains("not permitted") || said.contains("Permission denied") {
        true => " (this needs root)",
        false => "",
    };
    Err(format!("{tool} {}: {}{hint}", words.join(" "), said.trim()))
}

/// Runs `tool` with words that have blanks between them.
pub fn run(tool: &str, words: &str) -> Result<()> {
    output(tool, &words.split_whitespace().collect::<Vec<_>>()).map(drop)
}

/// Writes a file as a network namespace has it, with its `/sys`.
pub fn write_within(namespace: &str, file: &str, value: &str) -> Result<()> {
    let script = "printf %s \"$1\" >\"$2\"";
    let words = ["netns", "exec", namespace, "sh", "-c", script, "sh", value, file];
    output("ip", &words).map(drop).map_err(|error| {
        let why = error.rsplit("sh: ").next().unwrap_or_default();
        format!("cannot write {value} into {file} of the network namespace {namespace}: {why}")
    })
}

/// A file of the kernel's as text. Nothing where it cannot be read: kernels differ in what they
/// show, and to whom.
pub fn text(path: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(FILE_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_command_is_named_with_its_package() {
        let missing = std::io::Error::from(ErrorKind::NotFound);
        let said = not_started("ethtool", &missing);
        assert_eq!(said, "ethtool is not installed (Debian: apt install ethtool)");
        assert!(not_started("tc", &missing).ends_with("apt install iproute2)"));
    }

    #[test]
    fn a_failed_command_reports_its_command_line() {
        let said = run("ip", "link show no-such-device").unwrap_err();
        assert!(said.starts_with("ip link show no-such-device: "), "{said}");
    }
}
