//! Commands for a thread, and their reports.
//!
//! A ring leads to the thread and another one back. The thread's epoll watches an eventfd. So
//! commands cost a thread nothing while there are none, and no thread waits.
use crate::commands::{self, CommandReport, ResolverCommand};
use crate::limits::{COMMANDS_BYTES, REPORTS_BYTES};
use rustix::event::{EventfdFlags, eventfd};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use sync::{EventReader, EventWriter, events};

/// Sends commands to one thread. Reports are about the last command.
pub struct CommandSender {
    commands: EventWriter,
    reports: EventReader,
    waker: Arc<OwnedFd>,
    serial: u64,
    /// The report so far.
    report: CommandReport,
}

/// The thread has not finished earlier commands, and the ring is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandPending;

impl CommandSender {
    /// Sends a command; the report of an earlier one is dropped. All [peer
    /// shards](crate::peer_shards()) must get the same commands in the same order: they compare the
    /// numbers of flushes.
    ///
    /// # Errors
    /// The ring is full.
    pub fn send(&mut self, command: &ResolverCommand) -> Result<(), CommandPending> {
        // Makes room for reports.
        self.reports.drain(|_| {});
        self.serial += 1;
        self.report = CommandReport::default();
        if !command.write(self.serial, &mut self.commands) {
            return Err(CommandPending);
        }
        wake(&self.waker);
        Ok(())
    }

    /// The report of the last command once it is done; only once.
    pub fn report(&mut self) -> Option<CommandReport> {
        let Self { reports, serial, report, .. } = self;
        let mut is_done = false;
        reports.drain(|bytes| is_done |= commands::read_report(bytes, *serial, report));
        is_done.then(|| std::mem::take(report))
    }

    /// Whether the thread has ended.
    pub fn is_alone(&self) -> bool {
        self.reports.is_closed()
    }
}

/// The commands that a thread has received.
pub(crate) struct CommandReceiver {
    commands: EventReader,
    pub(crate) reports: EventWriter,
    waker: Arc<OwnedFd>,
    pub(crate) jobs: VecDeque<RunningCommand>,
}

/// A command in progress.
pub(crate) struct RunningCommand {
    pub(crate) serial: u64,
    pub(crate) command: ResolverCommand,
    /// Buckets of the index visited so far; `None`: not started.
    pub(crate) lines: Option<usize>,
    pub(crate) count: u64,
    pub(crate) queries: u64,
}

pub(crate) fn wake(waker: impl AsFd) {
    // Only a full counter refuses a write, and then it is readable already.
    let _ = rustix::io::write(waker, &1u64.to_ne_bytes());
}

impl CommandReceiver {
    /// A connected pair.
    pub(crate) fn new() -> io::Result<(Self, CommandSender)> {
        let waker = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let (commands, received) = events(COMMANDS_BYTES);
        let (reports, reported) = events(REPORTS_BYTES);
        let receiver =
            Self { commands: received, reports, waker: waker.clone(), jobs: VecDeque::new() };
        let report = CommandReport::default();
        Ok((receiver, CommandSender { commands, reports: reported, waker, serial: 0, report }))
    }

    /// The next command. Later ones stay in the ring until it is done, so that they are bounded by
    /// its size.
    pub(crate) fn next(&mut self) -> Option<RunningCommand> {
        let Self { commands, waker, jobs, .. } = self;
        // It wakes itself as long as there is work.
        let _ = rustix::io::read(waker, &mut [0; 8]);
        if jobs.is_empty() {
            commands.drain(|bytes| {
                let job = |(serial, command)| RunningCommand {
                    serial,
                    command,
                    lines: None,
                    count: 0,
                    queries: 0,
                };
                jobs.extend(ResolverCommand::read(bytes).map(job));
            });
        }
        jobs.pop_front()
    }

    /// The file descriptor to watch.
    pub(crate) fn waker(&self) -> impl AsFd + '_ {
        &*self.waker
    }
}
