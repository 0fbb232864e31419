//! Caching of answers and failures.
use super::{AnswerCallback, UpstreamClient};
use crate::ResolverPlan;
use crate::limits::UNFINISHED_TTL;
use crate::peer_shards::{AnswerLifetime, PeerShards, ShardMessage};
use crate::shard_messages::ShardNews;
use crate::store::CacheStore;
use answer::{ForwardedRecords, relay};
use cache::CacheKey;
use forward::{Forwarder, LateAnswer, QueryId};
use packet::prefetch;
use wire::{HEADER_LEN, Name, Suffixes, skip_name};

impl UpstreamClient {
    /// Caches an answer, and answers the waiters.
    pub(super) fn learn(&mut self, query_id: QueryId, message: &[u8], answer: AnswerCallback<'_>) {
        self.send();
        let now = self.seconds();
        let Self {
            state, queries, plan, groups, suffixes, message_buf, store, peer_shards, ..
        } = self;
        let forwarder = Forwarder { state, queries };
        let Some(query) = forwarder.get(query_id) else { return };
        let group = groups.iter().position(|group| *group == query.group()).unwrap_or_default();
        let key = query.key();
        prefetch(cache::memory(store.lines(), &key));
        let Some((taken, ttl)) = take(&key, message, (plan, group), suffixes, message_buf) else {
            return self.fail(query_id, answer);
        };
        if ttl == 0 {
            displace(store, peer_shards, &key, now);
        } else if !query.is_cut_off() && !plan.marks.has(key.name) {
            store.keep(&key, now, &ForwardedRecords { ttl, ..taken }, message_buf);
        }
        self.answer_waiters(
            ShardNews::Answer { query_id, len: taken.len, ttl, made: now },
            query_id,
            answer,
        );
    }

    /// Caches an answer that arrived after its query had failed.
    pub(super) fn learn_late(&mut self, belated: &LateAnswer, message: &[u8]) {
        let now = self.seconds();
        let Self { plan, groups, suffixes, message_buf, store, peer_shards, .. } = self;
        let LateAnswer { hash, kind, upstream } = *belated;
        // A server belongs to one group, and a mark is sent to that server only.
        let has = |first: u16, len: u16| (first..first + len).contains(&upstream);
        let group = groups.iter().position(|group| has(group.first, group.len));
        let Ok(end) = skip_name(message, HEADER_LEN) else { return };
        let mut name = [0; Name::LEN_MAX];
        let Some(name) = name.get_mut(..end - HEADER_LEN) else { return };
        name.copy_from_slice(&message[HEADER_LEN..end]);
        name.make_ascii_lowercase();
        let key = CacheKey { hash, kind, name };
        if plan.marks.has(key.name) {
            return;
        }
        let taken =
            group.and_then(|group| take(&key, message, (plan, group), suffixes, message_buf));
        match taken {
            Some((_, 0)) => displace(store, peer_shards, &key, now),
            Some((taken, ttl)) => {
                store.keep(&key, now, &ForwardedRecords { ttl, ..taken }, message_buf);
            }
            None => {}
        }
    }

    /// Caches a failure, and answers the waiters.
    pub(super) fn fail(&mut self, query_id: QueryId, answer: AnswerCallback<'_>) {
        self.fail_for(query_id, None, answer);
    }

    /// The same for a failure that the owner shard reports with its lifetime.
    pub(super) fn fail_for(
        &mut self,
        query_id: QueryId,
        life: Option<AnswerLifetime>,
        answer: AnswerCallback<'_>,
    ) {
        let now = self.seconds();
        let Self { state, queries, store, plan, groups, .. } = self;
        let forwarder = Forwarder { state, queries };
        let Some(query) = forwarder.get(query_id) else { return };
        let key = query.key();
        let group = groups.iter().position(|group| *group == query.group()).unwrap_or_default();
        // Failures of a query that was cut off are not cached.
        if plan.marks.has(key.name) {
            let server = query.group().first;
            self.with(|forwarder, now, _| forwarder.upstream(server).forgive_refusal(now));
        } else if !query.is_cut_off() {
            store.fail(&key, now, life, plan.groups[group].caches);
        }
        self.answer_waiters(ShardNews::Failure(query_id), query_id, answer);
    }
}

/// Removes the answer that an uncacheable one displaces, here and at the other shards.
fn displace(
    store: &mut CacheStore,
    peer_shards: &mut Option<PeerShards>,
    key: &CacheKey<'_>,
    made: u32,
) {
    if store.displace(key, made)
        && let Some(peer_shards) = peer_shards
    {
        peer_shards.send_all(&ShardMessage::Displaced(made, *key));
    }
}

/// Converts the response of a group's server for the cache; returns also its lifetime in seconds.
/// `None`: it does not answer the query.
fn take(
    key: &CacheKey<'_>,
    message: &[u8],
    (plan, group): (&ResolverPlan, usize),
    suffixes: &mut Suffixes,
    message_buf: &mut [u8],
) -> Option<(ForwardedRecords, u32)> {
    let servers = &plan.groups[group];
    let suffix = servers.suffix.as_name();
    let lifetimes = servers.lifetimes(&plan.lifetimes);
    let taken = relay(key, suffix, message, &lifetimes, suffixes, message_buf).ok()?;
    let ttl = if servers.caches { taken.ttl } else { 0 };
    // The alias must stay cached while the names that it leads to are resolved.
    let strays = |name: Name<'_>| !plan.is_of(group, name);
    let leads_on = ttl < UNFINISHED_TTL
        && (taken.is_unfinished
            || answer::leads_to_name(&message_buf[..taken.len], key.name.len(), strays));
    Some((taken, if leads_on { UNFINISHED_TTL } else { ttl }))
}
