//! Sending and receiving marks, which detect forwarding loops.
use super::UpstreamClient;
use crate::loops::ServerMarks;
use cache::{CacheKey, QueryKind};
use forward::{QueryOutcome, UpstreamGroup};
use std::net::IpAddr;
use wire::{Class, Rtype};

impl UpstreamClient {
    /// Sends the marks that are due, except to drained servers.
    pub(super) fn send_marks(&mut self) {
        for nth in 0..self.groups.len() {
            if self.plan.groups[nth].is_retired {
                continue;
            }
            let UpstreamGroup { first, len, .. } = self.groups[nth];
            for server in first..first + len {
                let (is_well, is_drained) = self.with(|forwarder, _, _| {
                    let upstream = forwarder.upstream(server);
                    (upstream.is_well(), upstream.is_drained)
                });
                if !is_drained && self.plan.marks.take_due(server, is_well, self.now) {
                    self.send_mark(nth, server);
                }
            }
        }
    }

    /// Sends a mark to one server of a group.
    fn send_mark(&mut self, nth: usize, server: u16) {
        let suffix = self.plan.groups[nth].suffix.as_name();
        let Some(name) = self.plan.marks.name(server, suffix, self.now) else { return };
        let kind = QueryKind::new(Rtype::TXT.0, Class::IN.0, false, false);
        // No other query is for that name, so any hash will do.
        let key = CacheKey { hash: server.into(), kind, name: name.as_name().as_bytes() };
        let only = UpstreamGroup { first: server, len: 1, mixes_case: false };
        let asked =
            self.with(|forwarder, now, random| forwarder.query(&key, only, None, now, random));
        if asked != QueryOutcome::Pending {
            // The server is backing off, or there is no room.
            self.plan.marks.put_off(server, self.now);
        }
        self.send();
    }

    /// Whether a query is a mark that returned, or comes from a server that returned one:
    /// forwarding it would loop.
    pub(super) fn comes_back(&self, key: &CacheKey<'_>, group: u16, client: IpAddr) -> bool {
        let (marks, now) = (&self.plan.marks, self.now);
        if key.kind.rtype() == Rtype::TXT.0 && ServerMarks::are_like(key.name) {
            // Marks of other processes are forwarded, so that these detect the loop too.
            return marks.take_back(key.name, client, now);
        }
        let group = self.groups.get(usize::from(group));
        group.is_some_and(|UpstreamGroup { first, len, .. }| {
            (*first..first + len).all(|server| marks.goes_round(server, client, now))
        })
    }
}
