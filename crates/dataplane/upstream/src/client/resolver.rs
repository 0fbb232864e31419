//! The client as the resolver of a burst: lookups in the cache, deferred queries, renewals.
use super::UpstreamClient;
use super::restart::changing;
use crate::limits::{CHAIN_TIME_MAX, QUERIES_MAX, RENEWAL_MAX, ROUNDS_MAX, STALE_AFTER};
use crate::shard_messages::{PendingMessages, ShardNews};
use crate::store::is_answer;
use crate::waiters::{PendingWaiter, WaitingClient};
use answer::{CacheLookup, Resolver};
use cache::{CacheHit, CacheKey};
use forward::QueryOutcome;
use packet::{Packet, prefetch};
use wire::inject_panic;

impl Resolver for UpstreamClient {
    fn prefetch(&self, key: &CacheKey<'_>) {
        prefetch(cache::memory(self.store.lines(), key));
    }

    #[inline]
    fn find(&mut self, key: &CacheKey<'_>) -> Option<CacheHit<'_>> {
        changing(move || self.find_entry(key))
    }

    fn count(&mut self, lookup: CacheLookup) {
        changing(|| self.status.count(lookup));
    }

    fn request(&mut self, key: &CacheKey<'_>, group: u16, packet: &Packet<'_>) -> bool {
        changing(|| self.defer(key, group, packet))
    }

    fn renew(&mut self, key: &CacheKey<'_>, group: u16) {
        changing(|| self.query_renewal(key, group));
    }

    fn confirm(&mut self, key: &CacheKey<'_>, map: u32) {
        changing(|| self.store.lend().confirm(key, map));
    }
}

impl UpstreamClient {
    /// See [`Resolver::find`].
    #[inline(always)]
    fn find_entry(&mut self, key: &CacheKey<'_>) -> Option<CacheHit<'_>> {
        inject_panic("find", || key.name);
        let news = self.news_for(key);
        if let Some(Some((len, life))) = news {
            let message = &self.message_buf[..len];
            // Valid for the waiting client, however short its TTL is.
            let age = self.seconds().saturating_sub(life.made);
            let ttl = life.ttl.max(age + 1);
            return Some(CacheHit { message, age, ttl, uses: 0, may_renew: false, map: 0 });
        }
        let (now, stale_max) = (self.seconds(), self.plan.stale_max);
        self.store.lend().into_found(key, now).filter(|found| {
            if found.is_fresh() && news.is_none() {
                return true;
            }
            // A client that waited for a failed query gets the failure itself, not "cached error".
            is_answer(found, key) && (found.is_fresh() || found.age - found.ttl < stale_max)
        })
    }

    /// See [`Resolver::request`].
    fn defer(&mut self, key: &CacheKey<'_>, group: u16, packet: &Packet<'_>) -> bool {
        let PendingMessages { news, since, rounds } = self.pending_messages;
        let is_over = since.is_some_and(|since| self.now.saturating_sub(since) >= CHAIN_TIME_MAX);
        if matches!(news, ShardNews::Stale)
            || self.news_for(key).is_some()
            || rounds > ROUNDS_MAX
            || is_over
        {
            return false;
        }
        if self.comes_back(key, group, packet.context.client.ip()) {
            return false;
        }
        let now = self.seconds();
        let mut cache = self.store.lend();
        let known = cache.find(key, now);
        let known = known.filter(|found| is_answer(found, key));
        let stale = known.map(|found| found.may_renew);
        // A query failed recently.
        if stale == Some(false) {
            return false;
        }
        let client = WaitingClient::new(packet, since.unwrap_or(self.now), rounds);
        let room = QUERIES_MAX - self.with(|forwarder, _, _| forwarder.len());
        if client.as_ref().is_some_and(|client| !self.waiters.has_share(client, room)) {
            self.status.count_crowded();
            return false;
        }
        let waiter = client.map(PendingWaiter::Client);
        let Some(slot) = waiter.and_then(|waiter| self.waiters.put(waiter)) else { return false };
        let number = slot.number;
        let asked = self.query_owner(key, group, Some(number), false);
        if asked != QueryOutcome::Pending {
            self.waiters.free(number);
            return false;
        }
        if stale.is_some() {
            self.stale.push_back((self.now + STALE_AFTER, slot));
        }
        self.send();
        true
    }

    /// See [`Resolver::renew`].
    fn query_renewal(&mut self, key: &CacheKey<'_>, group: u16) {
        let now = self.seconds();
        self.store.lend().hold(key, now + RENEWAL_MAX);
        self.query_owner(key, group, None, true);
        self.send();
    }
}
