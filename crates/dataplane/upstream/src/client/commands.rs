//! Runs the commands of a thread, in parts of one turn.
use super::restart::restoring;
use super::{UpstreamClient, WAKER};
use crate::command_sender::{CommandReceiver, CommandSender, RunningCommand, wake};
use crate::commands::{self, NameScope, ResolverCommand};
use crate::limits::{SHOWN_MAX, WALK_LINES};
use cache::WalkedEntry;
use forward::PendingQuery;
use rustix::event::epoll::{self, EventData, EventFlags};
use std::io;
use sync::EventWriter;
use wire::Name;

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
        let Some(receiver) = self.receiver.take() else { return };
        restoring(self, receiver, Self::apply_next, |client, receiver| {
            client.receiver = Some(receiver);
        });
    }

    fn apply_next(&mut self, receiver: &mut CommandReceiver) {
        let Some(mut job) = receiver.next() else { return };
        let is_done = self.continue_with(&mut job, &mut receiver.reports);
        if is_done {
            // The status must show the result before the report does.
            self.publish_status();
            commands::write_done(job.serial, job.count, job.queries, &mut receiver.reports);
        } else {
            receiver.jobs.push_front(job);
        }
        wake(receiver.waker());
    }

    /// One turn's share; returns whether the command is done.
    fn continue_with(&mut self, job: &mut RunningCommand, reports: &mut EventWriter) -> bool {
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
            ResolverCommand::Follow(serial) => {
                let ahead = (self.plan.serial as u16).wrapping_sub(*serial);
                return ahead < u16::MAX / 2;
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
                        commands::write_cached(*serial, met, reports);
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
