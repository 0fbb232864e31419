//! Threads that share names among them, all run by one.
use crate::client_thread::{ClientThread, Reply, now};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use upstream::{
    CommandReport, CommandSender, NameScope, ResolverCommand, ShardCounts, StatusView, peer_shards,
};
use wire::{Name, NameBuf};

pub const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes of each thread's cache: it is gone over in one turn.
pub const MEMORY: usize = 1 << 17;

/// Threads that are peers of each other, all run by this one. Their time is frozen, so none is late
/// on a busy machine.
pub struct PeerThreads {
    pub threads: Vec<ClientThread>,
    pub command_senders: Vec<CommandSender>,
}

impl PeerThreads {
    /// All of them are owner shards.
    pub fn new(count: usize, servers: &[SocketAddr]) -> Self {
        Self::with_owner_shards(count, count, servers)
    }

    pub fn with_owner_shards(count: usize, owner_shards: usize, servers: &[SocketAddr]) -> Self {
        let mut threads: Vec<_> =
            (0..count).map(|_| ClientThread::with_memory(servers, MEMORY)).collect();
        let frozen_at = Some(now());
        threads.iter_mut().for_each(|thread| thread.frozen_at = frozen_at);
        for (thread, own) in
            threads.iter_mut().zip(peer_shards(owner_shards, count - owner_shards).unwrap())
        {
            thread.upstream_client.join_peers(own).unwrap();
        }
        let command_senders =
            threads.iter_mut().map(|thread| thread.upstream_client.command().unwrap()).collect();
        Self { threads, command_senders }
    }

    /// Runs all in turn until so many clients of each have an answer.
    pub fn wait(&mut self, got: &mut [Vec<Reply>], counts: &[usize]) {
        let until = Instant::now() + PATIENCE;
        while got.iter().zip(counts).any(|(got, count)| got.len() < *count) {
            assert!(Instant::now() < until, "{got:?}");
            for (thread, got) in self.threads.iter_mut().zip(&mut *got) {
                thread.turn(got, Duration::from_micros(200));
            }
        }
    }

    /// Has one thread query each of these names, and runs all until it has the answers.
    pub fn query(&mut self, number: usize, names: &[impl AsRef<str>]) -> Vec<Reply> {
        let mut got: Vec<_> = self.threads.iter().map(|_| Vec::new()).collect();
        let mut counts = vec![0; got.len()];
        counts[number] = names.len();
        self.threads[number].send(names, &mut got[number]);
        self.wait(&mut got, &counts);
        got.swap_remove(number)
    }

    /// Runs one thread until it has done the command; the others do nothing.
    pub fn reported(&mut self, number: usize, command: &ResolverCommand) -> CommandReport {
        self.command_senders[number].send(command).unwrap();
        loop {
            self.threads[number].turn(&mut Vec::new(), Duration::from_millis(1));
            if let Some(report) = self.command_senders[number].report() {
                return report;
            }
        }
    }

    pub fn flush(&mut self, number: usize) {
        self.reported(number, &ResolverCommand::Flush(NameScope::All));
    }

    pub fn owner_shards(&self) -> ShardCounts {
        let views: Vec<StatusView> =
            self.threads.iter().map(|thread| thread.upstream_client.view()).collect();
        StatusView::own(&views).owner_shards
    }

    /// A name whose owner shard is not the first thread, and that is in no cache.
    pub fn foreign(&mut self) -> String {
        let all = self.threads.len();
        for name in (0..).map(|n| format!("n{n}.example.")) {
            let before = self.owner_shards();
            self.query(0, &[&name]);
            let is_foreign = self.owner_shards() != before;
            (0..all).for_each(|number| self.flush(number));
            if is_foreign {
                return name;
            }
        }
        unreachable!()
    }

    /// Runs all until nothing is left to do.
    pub fn settle(&mut self) {
        for _ in 0..10 {
            for thread in &mut self.threads {
                thread.turn(&mut Vec::new(), Duration::from_millis(1));
            }
        }
    }

    /// Their time runs again.
    pub fn resume_time(&mut self) {
        self.threads.iter_mut().for_each(|thread| thread.frozen_at = None);
    }

    /// Advances their time.
    pub fn pass(&mut self, time: Duration) {
        self.threads.iter_mut().for_each(|thread| thread.later += time);
    }

    /// The age of a name in the cache of one thread, and its TTL, in seconds.
    pub fn cached(&mut self, number: usize, text: &str) -> Option<(u32, u32)> {
        let name = NameBuf::from_text(text.as_bytes(), Name::ROOT).unwrap();
        let report = self.reported(number, &ResolverCommand::Show(name, None));
        report.cached.first().map(|cached| (cached.age_seconds, cached.ttl_seconds))
    }
}
