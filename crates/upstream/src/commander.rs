//! Telling a thread something, and hearing what came of it.
//!
//! A ring leads to the thread and another one back; a bell that its epoll watches has it look. So
//! it costs a thread nothing that nobody tells it anything, and nobody waits for anybody.
use crate::asker::{Asker, BELL};
use crate::commands::{self, Command, Scope};
use crate::limits::{COMMANDS_OCTETS, REPORTS_OCTETS, SHOWN_MAX, WALK_LINES};
use cache::Met;
use door::{EventReader, EventWriter, events};
use forward::Ask;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use wire::{Name, Rtype};

/// Who tells one thread something. What it was told last is what it reports on.
pub struct Commander {
    commands: EventWriter,
    reports: EventReader,
    bell: Arc<OwnedFd>,
    serial: u64,
    /// What was reported so far.
    report: Report,
}

/// A thread has not done yet what it was told before, and can be told no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// What came of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Answers that went, or are kept.
    pub count: u64,
    /// Questions under way whose answers will not be kept.
    pub asks: u64,
    /// Answers that are kept, [`SHOWN_MAX`] at most.
    pub kept: Vec<Kept>,
}

/// An answer that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// What was asked for.
    pub rtype: Rtype,
    /// Whether DNSSEC records were wanted.
    pub dnssec_ok: bool,
    /// Whether the client checks signatures itself.
    pub checking_disabled: bool,
    /// What it says; SERVFAIL: nobody could answer.
    pub rcode: u8,
    /// Records in its answer section.
    pub answers: u16,
    /// Whether its last answer is an alias that leads to somebody else's names.
    pub is_unfinished: bool,
    /// Since when it is kept.
    pub age_seconds: u32,
    /// How long it is good for, from then on.
    pub ttl_seconds: u32,
    /// How much it takes, but for what tells it from others.
    pub octets: u64,
    /// How often it was given lately, 3 at most.
    pub uses: u8,
}

impl Commander {
    /// Tells the thread something, and forgets what it was told before. What one of several
    /// [neighbours](crate::neighbours()) is told all are, in the same order: they tell by its
    /// number who has flushed what.
    ///
    /// # Errors
    /// It has too much to do.
    pub fn tell(&mut self, command: &Command) -> Result<(), Full> {
        // So that there is room to report.
        self.reports.drain(|_| {});
        self.serial += 1;
        self.report = Report::default();
        if !command.write(self.serial, &mut self.commands) {
            return Err(Full);
        }
        ring(&self.bell);
        Ok(())
    }

    /// What came of it, once it is done; only once.
    pub fn report(&mut self) -> Option<Report> {
        let Self { reports, serial, report, .. } = self;
        let mut is_done = false;
        reports.drain(|octets| is_done |= commands::read_report(octets, *serial, report));
        is_done.then(|| std::mem::take(report))
    }

    /// Whether the thread has ended, and does nothing any more.
    pub fn is_alone(&self) -> bool {
        self.reports.is_closed()
    }
}

/// What a thread hears, and has still to do.
pub(crate) struct Ear {
    commands: EventReader,
    reports: EventWriter,
    bell: Arc<OwnedFd>,
    jobs: VecDeque<Job>,
}

/// A command that is being done.
struct Job {
    serial: u64,
    command: Command,
    /// Lines of the index that were gone over; nothing: it has not begun.
    lines: Option<usize>,
    count: u64,
    asks: u64,
}

fn ring(bell: impl AsFd) {
    // Only a counter at its very end refuses, and then it is readable already.
    let _ = rustix::io::write(bell, &1u64.to_ne_bytes());
}

impl Ear {
    /// A pair.
    pub(crate) fn new() -> io::Result<(Self, Commander)> {
        let bell = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let (commands, heard) = events(COMMANDS_OCTETS);
        let (reports, told) = events(REPORTS_OCTETS);
        let ear = Self { commands: heard, reports, bell: bell.clone(), jobs: VecDeque::new() };
        let report = Report::default();
        Ok((ear, Commander { commands, reports: told, bell, serial: 0, report }))
    }

    /// What is to be done next. What was told meanwhile is heard when all is done, so that there is
    /// never more of it than the ring holds.
    fn next(&mut self) -> Option<Job> {
        let Self { commands, bell, jobs, .. } = self;
        // It rings again as long as there is something to do.
        let _ = rustix::io::read(bell, &mut [0; 8]);
        if jobs.is_empty() {
            commands.drain(|octets| {
                let job =
                    |(serial, command)| Job { serial, command, lines: None, count: 0, asks: 0 };
                jobs.extend(Command::read(octets).map(job));
            });
        }
        jobs.pop_front()
    }

    /// What to watch.
    pub(crate) fn bell(&self) -> impl AsFd + '_ {
        &*self.bell
    }
}

impl Asker {
    /// Has it do what it is told from now on, by who is returned.
    ///
    /// # Errors
    /// The process has no file descriptor left.
    pub fn command(&mut self) -> io::Result<Commander> {
        let (ear, commander) = Ear::new()?;
        epoll::add(&self.epoll, ear.bell(), EventData::new_u64(BELL), EventFlags::IN)?;
        self.ear = Some(ear);
        Ok(commander)
    }

    /// Has it do what it is told, as far as that goes in one turn.
    pub(crate) fn obey(&mut self) {
        let Some(mut ear) = self.ear.take() else { return };
        if let Some(mut job) = ear.next() {
            let is_done = self.go_on_with(&mut job, &mut ear.reports);
            if is_done {
                // Who hears of it finds it so.
                self.tell_board();
                commands::write_done(job.serial, job.count, job.asks, &mut ear.reports);
            } else {
                ear.jobs.push_front(job);
            }
            ring(&ear.bell);
        }
        self.ear = Some(ear);
    }

    /// One turn's share; whether it was the last.
    fn go_on_with(&mut self, job: &mut Job, reports: &mut EventWriter) -> bool {
        let Job { serial, command, lines, count, asks } = job;
        match command {
            Command::Drain(server, is_drained) => {
                if usize::from(*server) < self.servers() {
                    self.with(|forwarder, _, _| {
                        forwarder.upstream(*server).is_drained = *is_drained
                    });
                }
                return true;
            }
            Command::Flush(scope) => {
                if lines.is_none() {
                    *asks = self.cut_off(scope);
                    self.neighbours.iter_mut().for_each(|all| all.begun = *serial);
                }
                *count += self.walk(lines, |met| !is_about(met, scope));
            }
            Command::Show(name, rtype) => {
                self.walk(lines, |met| {
                    // What is kept for all types answers for each.
                    let is_of_all = met.kind == met.kind.for_all_types();
                    let is_asked = met.name == name.as_name().octets()
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
        if is_done && let Command::Flush(_) = command {
            self.neighbours.iter_mut().for_each(|all| all.done = *serial);
        }
        is_done
    }

    fn cut_off(&mut self, scope: &Scope) -> u64 {
        // What a home says that has yet to forget may lead through such a name.
        let is_old = |ask: &Ask| {
            ask.was_left() || Name::parse(ask.key().name).is_ok_and(|name| scope.holds(name))
        };
        self.with(|forwarder, _, _| forwarder.cut_off(is_old)) as u64
    }

    /// Goes over some more of what is kept; how many went.
    fn walk(&mut self, lines: &mut Option<usize>, keep: impl FnMut(&Met<'_>) -> bool) -> u64 {
        let begin = lines.unwrap_or_default();
        *lines = Some(begin + WALK_LINES);
        let now = self.seconds();
        self.store.lend().retain(begin..begin + WALK_LINES, now, keep) as u64
    }
}

/// Whether an answer is one for such a name, or leads through one.
fn is_about(met: &Met<'_>, scope: &Scope) -> bool {
    Name::parse(met.name).is_ok_and(|name| scope.holds(name))
        || answer::tells_of(met.message, met.name.len(), |name| scope.holds(name))
}
