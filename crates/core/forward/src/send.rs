//! Delegated queries: another shard owns the name.
use crate::event::{ForwardEvent, QueryId, QueryOutcome};
use crate::forwarder::{Forwarder, RandomSource};
use crate::pending::{PendingQuery, UpstreamGroup};
use cache::CacheKey;

impl PendingQuery {
    /// Whether it is delegated: no server was queried here.
    pub fn is_delegated(&self) -> bool {
        self.left_until.is_some()
    }

    /// Whether it is or was delegated: the owner shard may still answer.
    pub fn was_delegated(&self) -> bool {
        self.was_delegated
    }
}

impl Forwarder<'_> {
    /// Whether a query with this key is under way that takes waiters.
    pub fn is_asked(&self, key: &CacheKey<'_>, group: UpstreamGroup) -> bool {
        self.find(key, group).is_some()
    }

    /// Starts a delegated query without a transmission. [`ForwardEvent::Late`] comes at `until`.
    /// `waiter` is as for [`query`](Self::query). `None`: too many queries are under way, or the
    /// group has no servers.
    pub fn delegate(
        &mut self,
        key: &CacheKey<'_>,
        group: UpstreamGroup,
        waiter: Option<u16>,
        until: u64,
        now: u64,
    ) -> Option<QueryId> {
        if group.len == 0 {
            return None;
        }
        let number = self.begin(key, group, now)?;
        let query_id = self.query_id(number);
        let joined = self.join(number, waiter);
        debug_assert_eq!(joined, QueryOutcome::Pending, "it is the first");
        self.queries[usize::from(number)].was_delegated = true;
        self.wait(query_id, until);
        Some(query_id)
    }

    /// Waits longer for the owner shard of a query.
    pub fn wait(&mut self, query_id: QueryId, until: u64) {
        if self.get(query_id).is_some() {
            self.queries[usize::from(query_id.number)].left_until = Some(until);
            self.state.wheel.set(query_id.number, until);
        }
    }

    /// Sends a delegated query to a server. The owner shard may still answer.
    pub fn send_now(
        &mut self,
        query_id: QueryId,
        now: u64,
        random: RandomSource<'_>,
    ) -> ForwardEvent {
        match self.get(query_id) {
            Some(query) if query.is_delegated() => {
                self.queries[usize::from(query_id.number)].left_until = None;
                self.add_hedge_credit();
                self.go_on(query_id.number, now, random)
            }
            _ => ForwardEvent::Nothing,
        }
    }
}
