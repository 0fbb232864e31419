//! `dunlin-lab tune`: settings of this machine while something is measured.
use clap::{Args, Subcommand};
use command_line::{Side, align, plural};
use lab_host::STATE;
use lab_host::machine::Machine;
use lab_host::tune::{Change, Options, Part, Restored, Session, plan, restore};
use rustix::process::{Pid, Signal, kill_process};
use std::error::Error;
use std::io::{self, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::thread;
use tokio::signal::unix::{SignalKind, signal};

#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Tune {
    #[command(subcommand)]
    pub act: Option<Act>,
    /// Network device to tune: its interrupts, queues and steering.
    #[arg(long, value_name = "DEVICE", requires = "cpus")]
    pub device: Option<String>,
    /// CPUs that receive its packets; the queues are assigned in turn.
    #[arg(long, value_name = "CPUS", requires = "device")]
    pub cpus: Option<cpu::CpuList>,
    /// Poll the device in kernel threads, one on each of these CPUs (threaded NAPI).
    #[arg(long, requires = "device")]
    pub threads: bool,
    /// Busy-poll waiting sockets this long: 0 to 1000 microseconds.
    #[arg(long, value_name = "TIME", value_parser = clap::value_parser!(u32).range(0..=1_000))]
    pub busy_poll: Option<u32>,
    /// Leave these settings unchanged: buffers, budget, governor, irq, rps, xps, threads,
    /// busy-poll; may be given several times.
    #[arg(long, value_name = "KIND")]
    pub skip: Vec<Part>,
    /// Show what would change, and change nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Run this command, and restore all settings when it ends. Without it, the settings stay until
    /// `dunlin-lab tune restore`.
    #[arg(last = true, value_name = "COMMAND", conflicts_with = "dry_run")]
    pub words: Vec<String>,
}

#[derive(Debug, Subcommand)]
pub enum Act {
    /// Restore the settings that were tuned. The command does nothing if none were.
    #[command(after_help = "Example:\n  dunlin-lab tune restore")]
    Restore,
}

/// Does it.
///
/// # Errors
/// The kernel refuses a setting, or another process tunes: then nothing is changed.
pub fn run(command: &Tune) -> Result<ExitCode, Box<dyn Error>> {
    let (machine, state) = (Machine::this(), Path::new(STATE));
    if let Some(Act::Restore) = command.act {
        writeln!(io::stdout(), "{}", told(&restore(&machine, state)?))?;
        return Ok(ExitCode::SUCCESS);
    }
    let options = Options {
        device: command.device.clone().zip(command.cpus.clone()),
        threads: command.threads,
        busy_poll_us: command.busy_poll,
        skip: command.skip.clone(),
    };
    let changes = plan(&machine, &options)?;
    if command.dry_run {
        write_changes(&mut io::stdout().lock(), &changes)?;
        return Ok(ExitCode::SUCCESS);
    }
    if command.words.is_empty() && changes.is_empty() {
        writeln!(io::stdout(), "nothing is to be changed")?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut session = Session::begin(&machine, state)?;
    session.apply(&changes, &mut |_| {})?;
    if command.words.is_empty() {
        session.keep()?;
        write_changes(&mut io::stdout().lock(), &changes)?;
        writeln!(io::stdout(), "until `dunlin-lab tune restore`")?;
        return Ok(ExitCode::SUCCESS);
    }
    let status = run_command(&command.words);
    session.end(&mut |_| {})?;
    Ok(exit_code(status?))
}

/// A sentence about the restored settings.
pub fn told(restored: &Restored) -> String {
    let settings = plural(restored.changed.len(), "setting");
    match (restored.changed.len(), restored.gone) {
        (0, 0) => "nothing was to be restored".into(),
        (_, 0) => format!("restored {settings}: {}", restored.changed.join(", ")),
        (_, gone) => format!("restored {settings}; {gone} more have gone with their device"),
    }
}

fn write_changes(out: &mut impl Write, changes: &[Change]) -> io::Result<()> {
    if changes.is_empty() {
        return writeln!(out, "nothing is to be changed");
    }
    let row = |change: &Change| {
        let before = if change.before.is_empty() { "any" } else { &change.before };
        [
            change.part.to_string(),
            change.name(),
            before.to_owned(),
            "→".into(),
            change.after.clone(),
        ]
    };
    let rows: Vec<_> = changes.iter().map(row).collect();
    align([Side::Left; 5], &rows).iter().try_for_each(|line| writeln!(out, "{line}"))
}

/// Runs it to its end. Signals that would end this process go to it instead, so that settings are
/// restored.
fn run_command(words: &[String]) -> Result<ExitStatus, Box<dyn Error>> {
    let [program, words @ ..] = words else { return Err("a command is missing".into()) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    // Before it is started: it inherits none of this, as handlers do not outlive exec(2).
    let (mut terminate, mut hangup, mut interrupt) = {
        let _inside = runtime.enter();
        let signals = [SignalKind::terminate(), SignalKind::hangup(), SignalKind::interrupt()];
        let [terminate, hangup, interrupt] = signals.map(signal);
        (terminate?, hangup?, interrupt?)
    };
    let started = Command::new(program).args(words).spawn();
    let mut child: Child = started.map_err(|error| format!("cannot run {program}: {error}"))?;
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let forward = move || {
        runtime.block_on(async {
            loop {
                let signal = tokio::select! {
                    _ = terminate.recv() => Signal::TERM,
                    _ = hangup.recv() => Signal::HUP,
                    // A terminal sends the signal to all its processes, and so to the command
                    // already.
                    _ = interrupt.recv() => continue,
                };
                // It may have ended just then.
                let _ = pid.map(|pid| kill_process(pid, signal));
            }
        })
    };
    thread::Builder::new().name("signals".into()).spawn(forward)?;
    Ok(child.wait()?)
}

/// The command's own; as a shell has it, where a signal ended it.
fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().or(status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from)
}
