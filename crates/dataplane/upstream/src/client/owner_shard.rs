//! Owner shards: queries for names of other shards are delegated to them, and queries of other
//! shards answered.
use super::restart::restoring;
use super::{AnswerCallback, UpstreamClient};
use crate::limits::{OWNER_LATE, OWNER_SLOW, PEERS_MAX, RENEWAL_MAX};
use crate::peer_shards::{AnswerLifetime, PeerShards, ShardMessage, ShardRequest};
use crate::shard_messages::ShardNews;
use crate::status::OwnQueryReason;
use crate::store::is_answer;
use crate::waiters::{PeerQuery, PendingWaiter};
use answer::{ForwardedRecords, is_failure, summary};
use cache::{CacheHit, CacheKey};
use forward::{ForwardEvent, Forwarder, PendingQuery, QueryId, QueryOutcome};
use rustix::event::epoll::{self, EventData, EventFlags};
use std::io;
use sync::EventReader;
use wire::HEADER_LEN;

/// The event number of the rings from other shards.
pub(super) const PEER_SHARDS: u64 = super::WAKER - 1;

impl UpstreamClient {
    /// Connects it with the other shards.
    ///
    /// # Errors
    /// No memory is left.
    pub fn join_peers(&mut self, peer_shards: PeerShards) -> io::Result<()> {
        // Edge-triggered: each write is reported once, and no read of the counter is needed.
        let flags = EventFlags::IN | EventFlags::ET;
        epoll::add(&self.epoll, &peer_shards.waker, EventData::new_u64(PEER_SHARDS), flags)?;
        self.peer_shards = Some(peer_shards);
        Ok(())
    }

    /// Sends a query, or delegates it to the owner shard of the name; `number` is its waiter.
    pub(super) fn query_owner(
        &mut self,
        key: &CacheKey<'_>,
        group: u16,
        number: Option<u16>,
        is_renewal: bool,
    ) -> QueryOutcome {
        let Some(servers) = self.groups.get(usize::from(group)).copied() else {
            return QueryOutcome::NoUpstream;
        };
        let owner_shard = self.owner_shard(key, group);
        let is_asked = self.with(|forwarder, _, _| forwarder.is_asked(key, servers));
        let (Some(owner_shard), false) = (owner_shard, is_asked) else {
            return self
                .with(|forwarder, now, random| forwarder.query(key, servers, number, now, random));
        };
        let until = (self.now + OWNER_LATE).as_micros() as u64;
        let left =
            self.with(|forwarder, now, _| forwarder.delegate(key, servers, number, until, now));
        let (Some(query_id), Some(peer_shards)) = (left, &mut self.peer_shards) else {
            return QueryOutcome::Full;
        };
        let wanted = ShardRequest { query_id, group, flush: peer_shards.begun, is_renewal };
        if !peer_shards.send(owner_shard, &ShardMessage::Want(wanted, *key)) {
            let event = self.query_alone(query_id, OwnQueryReason::Full);
            if event != ForwardEvent::Nothing {
                self.failed.push(event);
            }
        }
        QueryOutcome::Pending
    }

    /// The owner shard of a name, if it is another one.
    fn owner_shard(&self, key: &CacheKey<'_>, group: u16) -> Option<usize> {
        let peer_shards = self.peer_shards.as_ref()?;
        let owner_shard = peer_shards.owner_shard(key.hash);
        // Answers that are not cached are of no use to other shards.
        let is_kept = self.plan.groups.get(usize::from(group))?.caches;
        (owner_shard != peer_shards.own && is_kept).then_some(owner_shard)
    }

    fn query_alone(&mut self, query_id: QueryId, why: OwnQueryReason) -> ForwardEvent {
        self.status.count_own_query(why);
        self.with(|forwarder, now, random| forwarder.send_now(query_id, now, random))
    }

    /// Waits longer for an owner shard that has read the query, and otherwise sends the query
    /// itself.
    pub(super) fn check_owner(&mut self, query_id: QueryId, answer: AnswerCallback<'_>) {
        let forwarder = Forwarder { state: &mut self.state, queries: &mut self.queries };
        let (Some(query), Some(peer_shards)) = (forwarder.get(query_id), &mut self.peer_shards)
        else {
            return;
        };
        let owner_shard = peer_shards.owner_shard(query.key().hash);
        if peer_shards.has_begun(owner_shard, query_id) {
            let until = (self.now + OWNER_SLOW).as_micros() as u64;
            return self.with(|forwarder, _, _| forwarder.wait(query_id, until));
        }
        let event = self.query_alone(query_id, OwnQueryReason::Late);
        self.settle(event, answer);
    }

    /// Receives the messages of other shards.
    pub(super) fn receive_from_peers(&mut self, answer: AnswerCallback<'_>) {
        let Some(peer_shards) = &mut self.peer_shards else { return };
        let receivers = peer_shards.take_receivers();
        let read = |client: &mut Self, receivers: &mut Vec<Option<EventReader>>| {
            for (from, receiver) in receivers.iter_mut().enumerate() {
                let Some(receiver) = receiver else { continue };
                receiver.drain(|bytes| match ShardMessage::read(bytes) {
                    Some(message) => client.hear(from, message, answer),
                    None => debug_assert!(false, "a neighbour wrote {bytes:?}"),
                });
            }
        };
        restoring(self, receivers, read, |client, receivers| {
            if let Some(peer_shards) = &mut client.peer_shards {
                peer_shards.restore_receivers(receivers);
            }
        });
    }

    fn hear(&mut self, from: usize, message: ShardMessage<'_>, answer: AnswerCallback<'_>) {
        let query_id = match message {
            ShardMessage::Want(wanted, key) => return self.serve(from, &wanted, &key),
            ShardMessage::Displaced(made, key) => {
                self.store.displace(&key, made);
                return;
            }
            ShardMessage::Answer(query_id, ..) | ShardMessage::Stale(query_id, ..) => query_id,
            ShardMessage::Failure(query_id, _) | ShardMessage::Refusal(query_id) => query_id,
        };
        // Otherwise it was sent by this thread meanwhile, or has ended.
        let is_delegated = self.with(|forwarder, _, _| {
            forwarder.get(query_id).is_some_and(PendingQuery::is_delegated)
        });
        if is_delegated && !matches!(message, ShardMessage::Refusal(_)) {
            self.status.count_owner();
        }
        match message {
            ShardMessage::Answer(_, life, value) => {
                if let Some(len) = self.cache_from_owner(query_id, life, value) {
                    let AnswerLifetime { made, ttl } = life;
                    self.answer_waiters(
                        ShardNews::Answer { query_id, len, ttl, made },
                        query_id,
                        answer,
                    );
                }
            }
            ShardMessage::Stale(_, life, value) => {
                self.cache_stale(query_id, life, value);
                if is_delegated {
                    self.fail(query_id, answer);
                }
            }
            ShardMessage::Failure(_, life) if is_delegated => self.fail_for(query_id, life, answer),
            ShardMessage::Refusal(_) if is_delegated => {
                let event = self.query_alone(query_id, OwnQueryReason::Refused);
                self.settle(event, answer);
            }
            _ => {}
        }
    }

    /// Answers another shard from the cache, or sends the query for it.
    fn serve(&mut self, from: usize, wanted: &ShardRequest, key: &CacheKey<'_>) {
        let ShardRequest { query_id, group, flush, is_renewal } = *wanted;
        let now = self.seconds();
        let Self { peer_shards: Some(peer_shards), store, groups, state, queries, plan, .. } = self
        else {
            return;
        };
        let refusal = ShardMessage::Refusal(query_id);
        // The cache may still have entries that the other shard has flushed, and that one may know
        // servers already that this one does not.
        let known = groups.get(usize::from(group)).copied();
        let Some(servers) = known.filter(|_| flush <= peer_shards.done) else {
            peer_shards.send(from, &refusal);
            return;
        };
        let forwarder = Forwarder { state, queries };
        let is_asked = forwarder.is_asked(key, servers);
        if let Some(found) = store.lend().into_found(key, now) {
            let is_failure = is_failure(found.message, key.name.len());
            let is_good = found.is_fresh() && !(is_renewal && answer::is_old(&found));
            // A query failed recently.
            let failed_recently =
                if is_failure { found.is_fresh() } else { !found.may_renew && !is_asked };
            let known = match (is_failure, is_good) {
                (false, true) => {
                    Some(ShardMessage::Answer(query_id, life(&found, now), value(&found, key)))
                }
                _ if failed_recently => {
                    Some(failure_message(query_id, key, Some(&found), now, plan.stale_max))
                }
                _ => None,
            };
            if let Some(known) = known {
                if !peer_shards.send(from, &known) {
                    peer_shards.send(from, &refusal);
                }
                return;
            }
        }
        if !self.query_for_peer(from, query_id, key, group) {
            self.send_to_peer(from, &refusal);
        } else if is_renewal {
            self.store.lend().hold(key, now + RENEWAL_MAX);
        }
    }

    /// Sends a query for another shard; false if that is not possible.
    fn query_for_peer(
        &mut self,
        from: usize,
        query_id: QueryId,
        key: &CacheKey<'_>,
        group: u16,
    ) -> bool {
        if self.waiters.peers() >= PEERS_MAX {
            return false;
        }
        let servers = self.groups[usize::from(group)];
        let peer = PendingWaiter::Peer(PeerQuery { from, query_id });
        let Some(slot) = self.waiters.put(peer) else { return false };
        let number = slot.number;
        let asked = self.with(|forwarder, now, random| {
            forwarder.query(key, servers, Some(number), now, random)
        });
        if asked != QueryOutcome::Pending {
            self.waiters.free(number);
            return false;
        }
        self.send();
        true
    }

    fn send_to_peer(&mut self, to: usize, message: &ShardMessage<'_>) -> bool {
        self.peer_shards.as_mut().is_some_and(|peer_shards| peer_shards.send(to, message))
    }

    /// Sends the result to a waiting shard. `own` is the query here, which ends.
    pub(super) fn answer_peer(&mut self, peer: &PeerQuery, news: ShardNews, own: QueryId) {
        let PeerQuery { from, query_id } = *peer;
        let now = self.seconds();
        let Self {
            peer_shards: Some(peer_shards), store, state, queries, message_buf, plan, ..
        } = self
        else {
            return;
        };
        let forwarder = Forwarder { state, queries };
        let Some(query) = forwarder.get(own) else { return };
        let key = query.key();
        let found;
        let message = match news {
            ShardNews::Answer { len, ttl, made, .. } => {
                let value = &message_buf[HEADER_LEN + key.name.len()..len];
                ShardMessage::Answer(query_id, AnswerLifetime { made, ttl }, value)
            }
            _ => {
                found = store.lend().into_found(&key, now);
                failure_message(query_id, &key, found.as_ref(), now, plan.stale_max)
            }
        };
        if !peer_shards.send(from, &message) {
            peer_shards.send(from, &ShardMessage::Refusal(query_id));
        }
    }

    /// Caches the answer of an owner shard for its remaining lifetime; returns the length of the
    /// message. `None`: the query has ended.
    fn cache_from_owner(
        &mut self,
        query_id: QueryId,
        life: AnswerLifetime,
        value: &[u8],
    ) -> Option<usize> {
        let Self { state, queries, message_buf, store, .. } = self;
        let forwarder = Forwarder { state, queries };
        let query = forwarder.get(query_id)?;
        let key = query.key();
        let value_at = HEADER_LEN + key.name.len();
        let len = value_at + value.len();
        message_buf[..HEADER_LEN].fill(0);
        message_buf[HEADER_LEN..value_at].copy_from_slice(key.name);
        message_buf[value_at..len].copy_from_slice(value);
        let AnswerLifetime { made, ttl } = life;
        if ttl == 0 {
            store.displace(&key, made);
        } else if !query.is_cut_off()
            && let Some(summary) = summary(&message_buf[..len], key.name.len())
        {
            let (is_name_error, is_unfinished) = (summary.is_name_error(), summary.is_unfinished);
            let taken = ForwardedRecords { len, value_at, ttl, is_name_error, is_unfinished };
            store.keep(&key, made, &taken, message_buf);
        }
        Some(len)
    }

    /// Caches a stale answer of an owner shard, unless this shard has one that is not older.
    fn cache_stale(&mut self, query_id: QueryId, life: AnswerLifetime, value: &[u8]) {
        let now = self.seconds();
        let Self { state, queries, store, .. } = self;
        let forwarder = Forwarder { state, queries };
        let mut is_newer = |key| !store.has_answer_since(&key, life.made, now);
        if forwarder.get(query_id).is_some_and(|query| is_newer(query.key())) {
            self.cache_from_owner(query_id, life, value);
        }
    }
}

impl Drop for UpstreamClient {
    /// Tells the other shards that their queries will not be answered.
    fn drop(&mut self) {
        let Self { peer_shards: Some(peer_shards), waiters, .. } = self else { return };
        for PeerQuery { from, query_id } in waiters.all_peers() {
            peer_shards.send(from, &ShardMessage::Refusal(query_id));
        }
        peer_shards.wake();
    }
}

fn life(found: &CacheHit<'_>, now: u32) -> AnswerLifetime {
    AnswerLifetime { made: now - found.age, ttl: found.ttl }
}

/// The cache value of an answer.
fn value<'f>(found: &CacheHit<'f>, key: &CacheKey<'_>) -> &'f [u8] {
    &found.message[HEADER_LEN + key.name.len()..]
}

/// The message about a failure: a stale entry (RFC 8767), or the lifetime of a cached failure (RFC
/// 9520).
fn failure_message<'f>(
    query_id: QueryId,
    key: &CacheKey<'_>,
    found: Option<&CacheHit<'f>>,
    now: u32,
    stale_max: u32,
) -> ShardMessage<'f> {
    let Some(found) = found else { return ShardMessage::Failure(query_id, None) };
    let life = life(found, now);
    let is_failure = is_failure(found.message, key.name.len());
    match (is_failure, found.is_fresh()) {
        (true, true) => ShardMessage::Failure(query_id, Some(life)),
        (false, false) if is_answer(found, key) && found.age - found.ttl < stale_max => {
            ShardMessage::Stale(query_id, life, value(found, key))
        }
        _ => ShardMessage::Failure(query_id, None),
    }
}
