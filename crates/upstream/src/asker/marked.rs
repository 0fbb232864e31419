//! Marks on their way to servers, and back.
use super::Asker;
use crate::loops::Marks;
use cache::{Key, Kind};
use forward::{Asked, Group};
use std::net::IpAddr;
use wire::{Class, Rtype};

impl Asker {
    /// Sends the marks that are due, but to nobody who is not to be asked.
    pub(super) fn send_marks(&mut self) {
        for nth in 0..self.groups.len() {
            let Group { first, len, .. } = self.groups[nth];
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

    /// Asks one server of a group, and no other, for its mark.
    fn send_mark(&mut self, nth: usize, server: u16) {
        let suffix = self.plan.groups[nth].suffix.as_name();
        let Some(name) = self.plan.marks.name(server, suffix, self.now) else { return };
        let kind = Kind::new(Rtype::TXT.0, Class::IN.0, false, false);
        // No other question is for that name, so that any hash will do.
        let key = Key { hash: server.into(), kind, name: name.as_name().octets() };
        let only = Group { first: server, len: 1, mixes_case: false };
        let asked = self.with(|forwarder, now, dice| forwarder.ask(&key, only, None, now, dice));
        if asked != Asked::Waits {
            // It rests, or there is no room.
            self.plan.marks.put_off(server, self.now);
        }
        self.send();
    }

    /// Whether a question is a mark that came back, or would go round as that did: nobody of the
    /// group would answer who brought it.
    pub(super) fn comes_back(&self, key: &Key<'_>, group: u16, client: IpAddr) -> bool {
        let (marks, now) = (&self.plan.marks, self.now);
        if key.kind.rtype() == Rtype::TXT.0 && Marks::are_like(key.name) {
            // Others' marks go round, so that they are told as well.
            return marks.take_back(key.name, client, now);
        }
        let group = self.groups.get(usize::from(group));
        group.is_some_and(|Group { first, len, .. }| {
            (*first..first + len).all(|server| marks.goes_round(server, client, now))
        })
    }
}
