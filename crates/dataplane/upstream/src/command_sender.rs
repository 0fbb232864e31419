//! Commands for a thread, and their reports.
//!
//! A ring leads to the thread and another one back. The thread's epoll watches an eventfd. So
//! commands cost a thread nothing while there are none, and no thread waits.
use crate::client::{UpstreamClient, WAKER};
use crate::commands::{self, CommandReport, NameScope, ResolverCommand};
use crate::limits::{COMMANDS_BYTES, REPORTS_BYTES, SHOWN_MAX, WALK_LINES};
use cache::WalkedEntry;
use forward::PendingQuery;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use sync::{EventReader, EventWriter, events};
use wire::Name;

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
    reports: EventWriter,
    waker: Arc<OwnedFd>,
    jobs: VecDeque<RunningCommand>,
}

/// A command under way.
struct RunningCommand {
    serial: u64,
    command: ResolverCommand,
    /// Buckets of the index visited so far; `None`: not started.
    lines: Option<usize>,
    count: u64,
    queries: u64,
}

fn wake(waker: impl AsFd) {
    // Only a full counter refuses a write, and then it is readable already.
    let _ = rustix::io::write(waker, &1u64.to_ne_bytes());
}

impl CommandReceiver {
    /// A connected pair.
    pub(crate) fn new() -> io::Result<(Self, CommandSender)> {
        let waker = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let (commands, heard) = events(COMMANDS_BYTES);
        let (reports, reported) = events(REPORTS_BYTES);
        let receiver =
            Self { commands: heard, reports, waker: waker.clone(), jobs: VecDeque::new() };
        let report = CommandReport::default();
        Ok((receiver, CommandSender { commands, reports: reported, waker, serial: 0, report }))
    }

    /// The next command. Later ones stay in the ring until it is done, so that they are bounded by
    /// its size.
    fn next(&mut self) -> Option<RunningCommand> {
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

impl UpstreamClient {
    /// Makes the sender of commands for this thread.
    ///
    /// # Errors
    /// No file descriptor is left.
    pub fn command(&mut self) -> io::Result<CommandSender> {
        let (receiver, command_sender) = CommandReceiver::new()?;
        epoll::add(&self.epoll, receiver.waker(), EventData::new_u64(WAKER), EventFlags::IN)?;
        self.receiver = Some(receiver);
        Ok(command_sender)
    }

    /// Works on the commands for one turn.
    pub(crate) fn apply_commands(&mut self) {
        let Some(mut receiver) = self.receiver.take() else { return };
        if let Some(mut job) = receiver.next() {
            let is_done = self.go_on_with(&mut job, &mut receiver.reports);
            if is_done {
                // The status must show the result before the report does.
                self.publish_status();
                commands::write_done(job.serial, job.count, job.queries, &mut receiver.reports);
            } else {
                receiver.jobs.push_front(job);
            }
            wake(&receiver.waker);
        }
        self.receiver = Some(receiver);
    }

    /// One turn's share; returns whether the command is done.
    fn go_on_with(&mut self, job: &mut RunningCommand, reports: &mut EventWriter) -> bool {
        let RunningCommand { serial, command, lines, count, queries } = job;
        match command {
            ResolverCommand::Drain(server, is_drained) => {
                if usize::from(*server) < self.servers() {
                    self.with(|forwarder, _, _| {
                        forwarder.upstream(*server).is_drained = *is_drained
                    });
                }
                return true;
            }
            ResolverCommand::Flush(scope) => {
                if lines.is_none() {
                    *queries = self.cut_off(scope);
                    self.peer_shards.iter_mut().for_each(|all| all.begun = *serial);
                }
                *count += self.walk(lines, |met| !is_about(met, scope));
            }
            ResolverCommand::Show(name, rtype) => {
                self.walk(lines, |met| {
                    // An entry for all types answers each type.
                    let is_of_all = met.kind == met.kind.for_all_types();
                    let is_asked = met.name == name.as_name().as_bytes()
                        && rtype.is_none_or(|rtype| is_of_all || rtype.0 == met.kind.rtype());
                    if is_asked && *count < SHOWN_MAX {
                        commands::write_kept(*serial, met, reports);
                    }
                    *count += u64::from(is_asked);
                    true
                });
            }
        }
        let is_done = lines.is_some_and(|lines| lines >= self.store.lines().len());
        if is_done && let ResolverCommand::Flush(_) = command {
            self.peer_shards.iter_mut().for_each(|all| all.done = *serial);
        }
        is_done
    }

    fn cut_off(&mut self, scope: &NameScope) -> u64 {
        // An answer of an owner shard that has not flushed yet may lead through such a name.
        let is_old = |query: &PendingQuery| {
            query.was_delegated()
                || Name::parse(query.key().name).is_ok_and(|name| scope.holds(name))
        };
        self.with(|forwarder, _, _| forwarder.cut_off(is_old)) as u64
    }

    /// Visits a part of the cache; returns how many entries were removed.
    fn walk(
        &mut self,
        lines: &mut Option<usize>,
        keep: impl FnMut(&WalkedEntry<'_>) -> bool,
    ) -> u64 {
        let begin = lines.unwrap_or_default();
        *lines = Some(begin + WALK_LINES);
        let now = self.seconds();
        self.store.lend().retain(begin..begin + WALK_LINES, now, keep) as u64
    }
}

/// Whether an entry is for such a name, or its aliases lead through one.
fn is_about(met: &WalkedEntry<'_>, scope: &NameScope) -> bool {
    Name::parse(met.name).is_ok_and(|name| scope.holds(name))
        || answer::mentions_name(met.message, met.name.len(), |name| scope.holds(name))
}
