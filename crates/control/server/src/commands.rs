//! What the threads that answer are told over the admin socket: each by a ring of its own, and
//! done when all have said so.
use crate::forwarding;
use crate::limits::{COMMAND_PAUSE, COMMAND_TIME_MAX};
use crate::threads::Told;
use admin::{CachedAnswer, Command, CommandOutcome, FlushScope, ThreadCacheEntry, ThreadFlushed};
use config::Forward;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};
use upstream::{CommandPending, CommandReport};
use wire::{NameBuf, Rcode, Rtype};

/// Who tells them, one command after the other.
pub struct Commands(Mutex<Vec<Told>>);

/// A thread, and what it has done.
type Reported = (String, CommandReport);

impl Commands {
    /// To these threads.
    pub fn new(told: Vec<Told>) -> Self {
        Self(Mutex::new(told))
    }

    /// Does what is asked for.
    ///
    /// # Errors
    /// Why that is not done, and what to do.
    pub async fn command(
        &self,
        command: &Command,
        forwards: &[Forward],
    ) -> Result<CommandOutcome, String> {
        if forwards.iter().all(|forward| forward.servers.is_empty()) {
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
                let reported = self.tell(&[upstream::ResolverCommand::Flush(scope)]).await?;
                Ok(CommandOutcome::Flushed(reported.into_iter().map(flushed).collect()))
            }
            Command::Show { name: text, rtype } => {
                let rtype = rtype.as_deref().map(read_type).transpose()?;
                let reported =
                    self.tell(&[upstream::ResolverCommand::Show(name(text)?, rtype)]).await?;
                Ok(CommandOutcome::Shown(reported.into_iter().map(shown).collect()))
            }
            Command::Drain { server, drained } => {
                let found = forwarding::find_server(forwards, server)?;
                let drain =
                    |(number, _): &(u16, _)| upstream::ResolverCommand::Drain(*number, *drained);
                let commands: Vec<_> = found.iter().map(drain).collect();
                self.tell(&commands).await?;
                let act = if *drained { "drained" } else { "restored" };
                tracing::info!(server, "{act}");
                Ok(CommandOutcome::Drained(found.into_iter().map(|(_, suffix)| suffix).collect()))
            }
        }
    }

    /// Tells all threads this, one after the other, and waits until each has done it. What they
    /// have done last.
    async fn tell(&self, commands: &[upstream::ResolverCommand]) -> Result<Vec<Reported>, String> {
        let mut told = self.0.lock().await;
        let mut reported = Vec::new();
        for command in commands {
            reported = tell_all(&mut told, command).await?;
        }
        Ok(reported)
    }
}

async fn tell_all(
    told: &mut [Told],
    command: &upstream::ResolverCommand,
) -> Result<Vec<Reported>, String> {
    // All are told, whoever is stuck: a flush has the same number for each.
    let mut is_stuck = None;
    for (thread, commander) in told.iter_mut() {
        if commander.send(command) == Err(CommandPending) {
            is_stuck = is_stuck.or(Some(stuck(thread)));
        }
    }
    if let Some(error) = is_stuck {
        return Err(error);
    }
    let until = Instant::now() + COMMAND_TIME_MAX;
    let mut reported = Vec::new();
    for (thread, commander) in told {
        // Whether it has ended is to be known before it is known that it said nothing more.
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
        "{thread} did not do it within {seconds} s, others may have: it has too much to answer, or \
         is stuck (`dunlin top` tells); ask again when it has less to do"
    )
}

fn name(text: &str) -> Result<NameBuf, String> {
    let mut name = zonefile::read_name(text).map_err(|fault| format!("{text:?} {fault}"))?;
    name.make_lowercase();
    Ok(name)
}

fn read_type(text: &str) -> Result<Rtype, String> {
    text.parse().map_err(|()| {
        format!("{text:?} is not a type; it is written such as AAAA, or TYPE65280 by its number")
    })
}

fn flushed((thread, report): Reported) -> ThreadFlushed {
    ThreadFlushed { thread, answers: report.count, under_way: report.queries }
}

fn shown((thread, report): Reported) -> ThreadCacheEntry {
    let answers = report.cached.iter().map(|kept| CachedAnswer {
        rtype: kept.rtype.to_string(),
        dnssec_ok: kept.dnssec_ok,
        checking_disabled: kept.checking_disabled,
        rcode: rcode(kept.rcode),
        records: kept.answers,
        is_unfinished: kept.is_unfinished,
        age: kept.age_seconds,
        ttl: kept.ttl_seconds,
        uses: kept.uses,
        octets: kept.bytes,
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

    fn asker() -> UpstreamClient {
        let lifetimes = TtlLimits { ttl_min: 0, ttl_max: 60, negative_ttl_max: 60 };
        let (groups, cache_len, stale_max, failure_ttl) = (Vec::new(), 1 << 16, 0, 5);
        let marks = ServerMarks::new(0);
        let plan = ResolverPlan {
            groups,
            cache_len,
            lifetimes,
            stale_max,
            failure_ttl,
            trust: None,
            marks,
        };
        UpstreamClient::new(plan).expect("an asker")
    }

    /// Whether one does what it was told.
    fn does(asker: &mut UpstreamClient, (_, commander): &mut Told) -> bool {
        (0..1_000).any(|_| {
            asker.poll_deferred(Duration::ZERO, &mut |_, _, _| {}).expect("an epoll");
            commander.report().is_some()
        })
    }

    #[tokio::test]
    async fn who_is_stuck_is_named_and_the_others_are_told() {
        let flush = upstream::ResolverCommand::Flush(upstream::NameScope::All);
        let mut askers = [asker(), asker()];
        let [stuck, other] = askers.each_mut().map(|asker| asker.command().expect("a ring"));
        let mut told = [("stuck".to_owned(), stuck), ("other".to_owned(), other)];
        while told[0].1.send(&flush).is_ok() {
            told[1].1.send(&flush).expect("it listens");
            assert!(does(&mut askers[1], &mut told[1]));
        }
        let error = tell_all(&mut told, &flush).await.expect_err("one is stuck");
        assert!(error.starts_with("stuck did not"), "{error}");
        assert!(does(&mut askers[1], &mut told[1]), "it was not told");
    }
}
