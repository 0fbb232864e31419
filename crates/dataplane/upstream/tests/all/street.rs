//! Threads that leave names to each other, all run by one.
use crate::scene::{Got, Scene, now};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use upstream::{
    CommandReport, CommandSender, NameScope, ResolverCommand, ShardCounts, StatusView, peer_shards,
};
use wire::{Name, NameBuf};

pub const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes of each thread's cache: it is gone over in one turn.
pub const MEMORY: usize = 1 << 17;

/// Threads that are peers of each other, all run by this one. Their time stands still, so none is
/// late on a busy machine.
pub struct Street {
    pub scenes: Vec<Scene>,
    pub command_senders: Vec<CommandSender>,
}

impl Street {
    /// All of them are homes.
    pub fn new(count: usize, servers: &[SocketAddr]) -> Self {
        Self::with_homes(count, count, servers)
    }

    pub fn with_homes(count: usize, owner_shards: usize, servers: &[SocketAddr]) -> Self {
        let mut scenes: Vec<_> = (0..count).map(|_| Scene::with_memory(servers, MEMORY)).collect();
        let stands_at = Some(now());
        scenes.iter_mut().for_each(|scene| scene.stands_at = stands_at);
        for (scene, own) in
            scenes.iter_mut().zip(peer_shards(owner_shards, count - owner_shards).unwrap())
        {
            scene.upstream_client.join_peers(own).unwrap();
        }
        let command_senders =
            scenes.iter_mut().map(|scene| scene.upstream_client.command().unwrap()).collect();
        Self { scenes, command_senders }
    }

    /// All take their turns until so many clients of each have an answer.
    pub fn wait(&mut self, got: &mut [Vec<Got>], counts: &[usize]) {
        let until = Instant::now() + PATIENCE;
        while got.iter().zip(counts).any(|(got, count)| got.len() < *count) {
            assert!(Instant::now() < until, "{got:?}");
            for (scene, got) in self.scenes.iter_mut().zip(&mut *got) {
                scene.turn(got, Duration::from_micros(200));
            }
        }
    }

    /// Asks one thread for each of these names, and has all do their part.
    pub fn query(&mut self, number: usize, names: &[impl AsRef<str>]) -> Vec<Got> {
        let mut got: Vec<_> = self.scenes.iter().map(|_| Vec::new()).collect();
        let mut counts = vec![0; got.len()];
        counts[number] = names.len();
        self.scenes[number].send(names, &mut got[number]);
        self.wait(&mut got, &counts);
        got.swap_remove(number)
    }

    /// Runs one thread until it has done the command; the others do nothing.
    pub fn reported(&mut self, number: usize, command: &ResolverCommand) -> CommandReport {
        self.command_senders[number].send(command).unwrap();
        loop {
            self.scenes[number].turn(&mut Vec::new(), Duration::from_millis(1));
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
            self.scenes.iter().map(|scene| scene.upstream_client.view()).collect();
        StatusView::own(&views).owner_shards
    }

    /// A name whose owner shard is not the first thread, and that is in no cache.
    pub fn foreign(&mut self) -> String {
        let all = self.scenes.len();
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

    /// Has all do what there is to do.
    pub fn settle(&mut self) {
        for _ in 0..10 {
            for scene in &mut self.scenes {
                scene.turn(&mut Vec::new(), Duration::from_millis(1));
            }
        }
    }

    /// Their time continues.
    pub fn go_on(&mut self) {
        self.scenes.iter_mut().for_each(|scene| scene.stands_at = None);
    }

    /// It is so much later now.
    pub fn pass(&mut self, time: Duration) {
        self.scenes.iter_mut().for_each(|scene| scene.later += time);
    }

    /// What one thread knows of a name: since how many seconds, and for how many it is good.
    pub fn cached(&mut self, number: usize, text: &str) -> Option<(u32, u32)> {
        let name = NameBuf::from_text(text.as_bytes(), Name::ROOT).unwrap();
        let report = self.reported(number, &ResolverCommand::Show(name, None));
        report.cached.first().map(|cached| (cached.age_seconds, cached.ttl_seconds))
    }
}
