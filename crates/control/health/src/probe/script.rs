//! Runs the program of a check, without a shell.
use super::Failure;
use crate::check::ScriptCheck;
use crate::limits::{SCRIPT_OUTPUT_MAX, SCRIPTS_MAX};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process_group, pidfd_open, waitid,
};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::{self, Receiver};

/// The programs that run now.
#[derive(Default)]
pub struct Scripts(Mutex<Processes>);

#[derive(Default)]
struct Processes {
    /// Programs that were started, or are just now.
    running: usize,
    /// Programs that were killed, and have not ended yet.
    killed: Vec<Child>,
}

/// Room for a program, and the program once it runs. Nothing of it is left when this is dropped.
struct Running {
    child: Option<Child>,
    scripts: Arc<Scripts>,
}

impl Scripts {
    /// Runs a program as this user and group. It passes if it ends with status 0. Its process
    /// group is killed when it has ended, or when the future is dropped.
    ///
    /// # Errors
    /// Its status and the first line of its output, or why it was not started.
    pub async fn run(
        self: &Arc<Self>,
        script: &ScriptCheck,
        identity: (u32, u32),
        target: SocketAddr,
    ) -> Result<(), Failure> {
        let program = script.program.display();
        let not_run = |error: io::Error| {
            Failure::NotMade(match error.kind() {
                io::ErrorKind::PermissionDenied => format!(
                    "{program} cannot be run as user {}: {error}. A server that is not root runs \
                 scripts as its own user only",
                    script.user
                ),
                _ => format!("{program} cannot be run: {error}"),
            })
        };
        let mut running = self.admit().ok_or_else(|| {
            Failure::NotMade(format!("{SCRIPTS_MAX} scripts run already, which is the maximum"))
        })?;
        let (sender, mut receiver) = pipe::pipe().map_err(not_run)?;
        let output = sender.into_blocking_fd().map_err(not_run)?;
        let mut command = command(script, identity, target, output).map_err(not_run)?;
        // A process of much memory is slow to fork.
        let started = tokio::task::spawn_blocking(move || {
            running.child = Some(command.spawn()?);
            Ok(running)
        });
        let running = started.await.map_err(io::Error::other).flatten().map_err(not_run)?;
        let mut text = Vec::new();
        running.ended(&mut receiver, &mut text).await.map_err(not_run)?;
        let status = running.finish().map_err(not_run)?;
        match status.success() {
            true => Ok(()),
            false => Err(reason(status, &text).into()),
        }
    }

    fn processes(&self) -> MutexGuard<'_, Processes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn admit(self: &Arc<Self>) -> Option<Running> {
        let mut processes = self.processes();
        processes.killed.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
        if processes.running + processes.killed.len() >= SCRIPTS_MAX {
            return None;
        }
        processes.running += 1;
        Some(Running { child: None, scripts: Arc::clone(self) })
    }
}

impl Running {
    fn pid(&self) -> io::Result<Pid> {
        let pid = self.child.as_ref().and_then(|child| Pid::from_raw(child.id() as i32));
        pid.ok_or_else(|| io::Error::other("it does not run"))
    }

    /// Waits until the program has ended, and keeps the begin of its output. It is not reaped, so
    /// that its process group is not that of another one yet.
    async fn ended(&self, receiver: &mut Receiver, text: &mut Vec<u8>) -> io::Result<()> {
        let pidfd = pidfd_open(self.pid()?, PidfdFlags::empty())?;
        let mut ended = tokio::task::spawn_blocking(move || {
            waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)
        });
        let mut chunk = [0; SCRIPT_OUTPUT_MAX];
        let mut is_open = true;
        loop {
            tokio::select! {
                read = receiver.read(&mut chunk), if is_open => match read {
                    Ok(len @ 1..) => keep(text, &chunk[..len]),
                    _ => is_open = false,
                },
                result = &mut ended => {
                    result.map_err(io::Error::other)??;
                    if let Ok(len) = receiver.try_read(&mut chunk) {
                        keep(text, &chunk[..len]);
                    }
                    return Ok(());
                }
            }
        }
    }

    /// Kills what is left of the process group, and takes the status of the program.
    fn finish(mut self) -> io::Result<ExitStatus> {
        self.kill();
        self.child.take().ok_or_else(|| io::Error::other("it does not run"))?.wait()
    }

    fn kill(&self) {
        if let Ok(pid) = self.pid() {
            // The group is gone if all of it has ended.
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
        let mut processes = self.scripts.processes();
        processes.running -= 1;
        if let Some(mut child) = self.child.take()
            && matches!(child.try_wait(), Ok(None))
        {
            processes.killed.push(child);
        }
    }
}

fn command(
    script: &ScriptCheck,
    (uid, gid): (u32, u32),
    target: SocketAddr,
    output: OwnedFd,
) -> io::Result<Command> {
    let (address, port) = (target.ip().to_string(), target.port().to_string());
    let filled = |text: &String| text.replace("{address}", &address).replace("{port}", &port);
    let mut command = Command::new(&script.program);
    command
        .args(script.arguments.iter().map(filled))
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .current_dir("/")
        .stdin(Stdio::null())
        .stderr(output.try_clone()?)
        .stdout(output)
        .process_group(0);
    let own = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    if (uid, gid) != own {
        // Other groups are dropped, too, if the server is root.
        command.uid(uid).gid(gid);
    }
    Ok(command)
}

fn keep(text: &mut Vec<u8>, chunk: &[u8]) {
    text.extend_from_slice(&chunk[..chunk.len().min(SCRIPT_OUTPUT_MAX - text.len())]);
}

/// The status, and the first line of the output that says anything.
fn reason(status: ExitStatus, text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let status = status.to_string();
    let line: String = line.chars().filter(|char| !char.is_control()).collect();
    if line.is_empty() { status } else { format!("{status}: {line}") }
}
