//! Ends a cluster's processes and removes its files, also when the test is killed.
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Waits for the end of its input, which comes when the test has ended in whatever way. It is the
/// leader of the group, so the group's number is not given to others while it lives.
const SCRIPT: &str = "trap '' INT TERM; read -r _; rm -rf \"$1\"; kill -KILL 0";

/// The group of a cluster's processes; they end when it is dropped.
pub(crate) struct Guard {
    child: Child,
}

impl Guard {
    pub fn start(folder: &Path) -> std::io::Result<Self> {
        let mut command = Command::new("sh");
        command.args(["-c", SCRIPT, "guard"]).arg(folder).process_group(0);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?;
        Ok(Self { child })
    }

    /// Has a command start in the group.
    pub fn adopt<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        command.process_group(self.child.id() as i32)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
