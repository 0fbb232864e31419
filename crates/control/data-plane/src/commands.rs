//! Commands to workers and stream threads. Each thread has its own ring; a command is done when all
//! threads have reported.
use crate::forward_table::{ForwardChange, ForwardTable};
use crate::limits::{COMMAND_PAUSE, COMMAND_TIME_MAX};
use crate::threads::ThreadCommander;
use server_status::command::{
    CachedAnswer, Command, CommandOutcome, FlushScope, ThreadCacheEntry, ThreadFlushed,
};
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};
use upstream::{CommandPending, CommandReport};
use wire::{NameBuf, Rcode, Rtype};

/// The command senders of all threads; they run one command at a time.
pub struct Commands(Mutex<Vec<ThreadCommander>>);

/// A thread, and its report.
type Reported = (String, CommandReport);

impl Commands {
    /// Commands for these threads.
    pub fn new(commanders: Vec<ThreadCommander>) -> Self {
        Self(Mutex::new(commanders))
    }

    /// Runs a command on every thread.
    ///
    /// # Errors
    /// Why it is not done, and what to do.
    pub async fn command(
        &self,
        command: &Command,
        forwards: &ForwardTable,
    ) -> Result<CommandOutcome, String> {
        if forwards.servers().next().is_none() {
            // Without upstreams there is no cache, and so nothing in it.
            return match command {
                Command::Flush(_) => Ok(CommandOutcome::Flushed(Vec::new())),
                Command::Show { .. } => Ok(CommandOutcome::Shown(Vec::new())),
                Command::Drain { .. } => Err("[forward] has no rule with servers".into()),
            };
        }
        match command {
            Command::Flush(scope) => {
                let scope = match scope {
                    FlushScope::Name(text) => upstream::NameScope::Name(name(text)?),
                    FlushScope::Subtree(text) => upstream::NameScope::Subtree(name(text)?),
                    FlushScope::All => upstream::NameScope::All,
                };
                let reported = self.send(&[upstream::ResolverCommand::Flush(scope)]).await?;
                Ok(CommandOutcome::Flushed(reported.into_iter().map(flushed).collect()))
            }
            Command::Show { name: text, rtype } => {
                let rtype = rtype.as_deref().map(read_type).transpose()?;
                let reported =
                    self.send(&[upstream::ResolverCommand::Show(name(text)?, rtype)]).await?;
                Ok(CommandOutcome::Shown(reported.into_iter().map(shown).collect()))
            }
            Command::Drain { server, drained } => {
                let found = forwards.find_server(server)?;
                let drain =
                    |(number, _): &(u16, _)| upstream::ResolverCommand::Drain(*number, *drained);
                let commands: Vec<_> = found.iter().map(drain).collect();
                self.send(&commands).await?;
                let act = if *drained { "drained" } else { "restored" };
                tracing::info!(server, "{act}");
                Ok(CommandOutcome::Drained(found.into_iter().map(|(_, suffix)| suffix).collect()))
            }
        }
    }

    /// Waits until all threads use changed forward rules, and flushes the names that have other
    /// rules now.
    ///
    /// # Errors
    /// Why it is not done, and what to do.
    pub async fn finish_forward_change(&self, change: &ForwardChange) -> Result<(), String> {
        let Some(serial) = change.serial else { return Ok(()) };
        let flush = |suffix: &NameBuf| {
            upstream::ResolverCommand::Flush(upstream::NameScope::Subtree(suffix.clone()))
        };
        let mut commands = vec![upstream::ResolverCommand::Follow(serial)];
        commands.extend(change.flush.iter().map(flush));
        self.send(&commands).await.map(drop)
    }

    /// Sends each command to all threads and waits until it is done. Returns the reports of the
    /// last one.
    async fn send(&self, commands: &[upstream::ResolverCommand]) -> Result<Vec<Reported>, String> {
        let mut commanders = self.0.lock().await;
        let mut reported = Vec::new();
        for command in commands {
            reported = send_to_all(&mut commanders, command).await?;
        }
        Ok(reported)
    }
}

async fn send_to_all(
    commanders: &mut [ThreadCommander],
    command: &upstream::ResolverCommand,
) -> Result<Vec<Reported>, String> {
    // All threads get it, even if one is stuck: a flush has the same sequence number for each.
    let mut is_stuck = None;
    for (thread, commander) in commanders.iter_mut() {
        if commander.send(command) == Err(CommandPending) {
            is_stuck = is_stuck.or(Some(stuck(thread)));
        }
    }
    if let Some(error) = is_stuck {
        return Err(error);
    }
    let until = Instant::now() + COMMAND_TIME_MAX;
    let mut reported = Vec::new();
    for (thread, commander) in commanders {
        // Checked before the report, which may arrive before the thread ends.
        let mut is_alone = commander.is_alone();
        let report = loop {
            if let Some(report) = commander.report() {
                break report;
            }
            if is_alone {
                return Err("the server is about to end".into());
            }
            if Instant::now() >= until {
                return Err(stuck(thread));
            }
            sleep(COMMAND_PAUSE).await;
            is_alone = commander.is_alone();
        };
        reported.push((thread.clone(), report));
    }
    Ok(reported)
}

fn stuck(thread: &str) -> String {
    let seconds = COMMAND_TIME_MAX.as_secs();
    format!(
        "{thread} did not finish within {seconds} s, other threads may have: it is overloaded or \
        stuck (`dunlin top` shows which); try again under less load"
    )
}

fn name(text: &str) -> Result<NameBuf, String> {
    let mut name = zonefile::read_name(text).map_err(|fault| format!("{text:?} {fault}"))?;
    name.make_lowercase();
    Ok(name)
}

fn read_type(text: &str) -> Result<Rtype, String> {
    text.parse().map_err(|()| {
        format!("{text:?} is not a type; write a name such as AAAA, or a number such as TYPE65280")
    })
}

fn flushed((thread, report): Reported) -> ThreadFlushed {
    ThreadFlushed { thread, answers: report.count, under_way: report.queries }
}

fn shown((thread, report): Reported) -> ThreadCacheEntry {
    let answers = report.cached.iter().map(|entry| CachedAnswer {
        rtype: entry.rtype.to_string(),
        dnssec_ok: entry.dnssec_ok,
        checking_disabled: entry.checking_disabled,
        rcode: rcode(entry.rcode),
        records: entry.answers,
        is_unfinished: entry.is_unfinished,
        age: entry.age_seconds,
        ttl: entry.ttl_seconds,
        uses: entry.uses,
        bytes: entry.bytes,
    });
    ThreadCacheEntry { thread, count: report.count, answers: answers.collect() }
}

fn rcode(number: u8) -> String {
    let known = Rcode::ALL.iter().find(|rcode| **rcode as u8 == number);
    known.map_or_else(|| format!("RCODE{number}"), |rcode| rcode.name().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use answer::TtlLimits;
    use std::time::Duration;
    use upstream::{ResolverPlan, ServerMarks, UpstreamClient};

    fn upstream_client() -> UpstreamClient {
        let lifetimes = TtlLimits { ttl_min: 0, ttl_max: 60, negative_ttl_max: 60 };
        let (groups, cache_len, stale_max, failure_ttl) = (Vec::new(), 1 << 16, 0, 5);
        let marks = ServerMarks::new(0);
        let plan = ResolverPlan {
            serial: 0,
            groups,
            cache_len,
            lifetimes,
            stale_max,
            failure_ttl,
            trust: None,
            marks,
        };
        UpstreamClient::new(plan).expect("a client")
    }

    /// Whether a thread runs its command.
    fn does(client: &mut UpstreamClient, (_, commander): &mut ThreadCommander) -> bool {
        (0..1_000).any(|_| {
            client.poll_deferred(Duration::ZERO, &mut |_, _, _| {}).expect("an epoll");
            commander.report().is_some()
        })
    }

    #[tokio::test]
    async fn stuck_thread_is_named_and_the_others_get_the_command() {
        let flush = upstream::ResolverCommand::Flush(upstream::NameScope::All);
        let mut clients = [upstream_client(), upstream_client()];
        let [stuck, other] = clients.each_mut().map(|client| client.command().expect("a ring"));
        let mut commanders = [("stuck".to_owned(), stuck), ("other".to_owned(), other)];
        while commanders[0].1.send(&flush).is_ok() {
            commanders[1].1.send(&flush).expect("it listens");
            assert!(does(&mut clients[1], &mut commanders[1]));
        }
        let error = send_to_all(&mut commanders, &flush).await.expect_err("one is stuck");
        assert!(error.starts_with("stuck did not"), "{error}");
        assert!(does(&mut clients[1], &mut commanders[1]), "it did not get the command");
    }
}
