//! Leaving names to their homes, and being the home of some.
use super::{Answer, Asker};
use crate::board::Alone;
use crate::limits::{HOME_LATE, HOME_SLOW, PEERS_MAX, RENEWAL_MAX};
use crate::neighbours::{Life, Message, Neighbours, Wanted};
use crate::telling::News;
use crate::waiters::{Peer, Waiter};
use answer::{Relayed, is_failure, summary};
use cache::{Found, Key};
use forward::{Ask, Asked, Event, Forwarder, Ticket};
use rustix::event::epoll::{self, EventData, EventFlags};
use std::io;
use wire::HEADER_LEN;

/// What epoll tells of neighbours.
pub(super) const NEIGHBOURS: u64 = crate::asker::BELL - 1;

impl Asker {
    /// Has it leave names to neighbours, and be a home to theirs.
    ///
    /// # Errors
    /// The system has no memory left.
    pub fn meet(&mut self, neighbours: Neighbours) -> io::Result<()> {
        // Each write is told of once, and nobody needs to read the counter.
        let flags = EventFlags::IN | EventFlags::ET;
        epoll::add(&self.epoll, &neighbours.bell, EventData::new_u64(NEIGHBOURS), flags)?;
        self.neighbours = Some(neighbours);
        Ok(())
    }

    /// Asks about a name, or has its home do so; `number` is who waits for it.
    pub(super) fn ask_at_home(
        &mut self,
        key: &Key<'_>,
        group: u16,
        number: Option<u16>,
        is_renewal: bool,
    ) -> Asked {
        let Some(servers) = self.groups.get(usize::from(group)).copied() else {
            return Asked::Nobody;
        };
        let home = self.home(key, group);
        let is_asked = self.with(|forwarder, _, _| forwarder.is_asked(key, servers));
        let (Some(home), false) = (home, is_asked) else {
            return self
                .with(|forwarder, now, dice| forwarder.ask(key, servers, number, now, dice));
        };
        let until = (self.now + HOME_LATE).as_micros() as u64;
        let left = self.with(|forwarder, now, _| forwarder.leave(key, servers, number, until, now));
        let (Some(ticket), Some(neighbours)) = (left, &mut self.neighbours) else {
            return Asked::Full;
        };
        let wanted = Wanted { ticket, group, flush: neighbours.begun, is_renewal };
        if !neighbours.tell(home, &Message::Want(wanted, *key)) {
            let event = self.ask_alone(ticket, Alone::Full);
            if event != Event::Nothing {
                self.failed.push(event);
            }
        }
        Asked::Waits
    }

    /// Who sees to a name: nobody but this one, or another.
    fn home(&self, key: &Key<'_>, group: u16) -> Option<usize> {
        let neighbours = self.neighbours.as_ref()?;
        let home = neighbours.home(key.hash);
        // What is not kept is worth nothing to anybody else.
        let is_kept = self.plan.groups.get(usize::from(group))?.caches;
        (home != neighbours.own && is_kept).then_some(home)
    }

    fn ask_alone(&mut self, ticket: Ticket, why: Alone) -> Event {
        self.board.count_alone(why);
        self.with(|forwarder, now, dice| forwarder.urge(ticket, now, dice))
    }

    /// Waits longer for a home that is at it, and no longer for one that is not.
    pub(super) fn look_after(&mut self, ticket: Ticket, answer: Answer<'_>) {
        let forwarder = Forwarder { state: &mut self.state, asks: &mut self.asks };
        let (Some(ask), Some(neighbours)) = (forwarder.get(ticket), &mut self.neighbours) else {
            return;
        };
        let home = neighbours.home(ask.key().hash);
        if neighbours.has_begun(home, ticket) {
            let until = (self.now + HOME_SLOW).as_micros() as u64;
            return self.with(|forwarder, _, _| forwarder.wait(ticket, until));
        }
        let event = self.ask_alone(ticket, Alone::Late);
        self.settle(event, answer);
    }

    /// Hears what neighbours told.
    pub(super) fn hear_neighbours(&mut self, answer: Answer<'_>) {
        let Some(neighbours) = &mut self.neighbours else { return };
        let mut ears = neighbours.take_ears();
        for (from, ear) in ears.iter_mut().enumerate() {
            let Some(ear) = ear else { continue };
            ear.drain(|octets| match Message::read(octets) {
                Some(message) => self.hear(from, message, answer),
                None => debug_assert!(false, "a neighbour wrote {octets:?}"),
            });
        }
        if let Some(neighbours) = &mut self.neighbours {
            neighbours.listen_on(ears);
        }
    }

    fn hear(&mut self, from: usize, message: Message<'_>, answer: Answer<'_>) {
        let ticket = match message {
            Message::Want(wanted, key) => return self.serve(from, &wanted, &key),
            Message::Answer(ticket, ..) | Message::Stale(ticket, ..) => ticket,
            Message::Failure(ticket, _) | Message::Refusal(ticket) => ticket,
        };
        // Or it is asked alone by now, or has ended.
        let is_left = self.with(|forwarder, _, _| forwarder.get(ticket).is_some_and(Ask::is_left));
        if is_left && !matches!(message, Message::Refusal(_)) {
            self.board.count_home();
        }
        match message {
            Message::Answer(_, life, value) => {
                if let Some(len) = self.keep_from_home(ticket, life, value) {
                    let Life { made, ttl } = life;
                    self.tell(News::Answer { ticket, len, ttl, made }, ticket, answer);
                }
            }
            Message::Stale(_, life, value) => {
                self.keep_stale(ticket, life, value);
                if is_left {
                    self.fail(ticket, answer);
                }
            }
            Message::Failure(_, life) if is_left => self.fail_for(ticket, life, answer),
            Message::Refusal(_) if is_left => {
                let event = self.ask_alone(ticket, Alone::Refused);
                self.settle(event, answer);
            }
            _ => {}
        }
    }

    /// Tells a neighbour what is known, or asks others for it.
    fn serve(&mut self, from: usize, wanted: &Wanted, key: &Key<'_>) {
        let Wanted { ticket, group, flush, is_renewal } = *wanted;
        let now = self.seconds();
        let Self { neighbours: Some(neighbours), store, groups, state, asks, plan, .. } = self
        else {
            return;
        };
        let refusal = Message::Refusal(ticket);
        let Some(servers) = groups.get(usize::from(group)).copied() else { return };
        // Here may be what who asks has forgotten.
        if flush > neighbours.done {
            neighbours.tell(from, &refusal);
            return;
        }
        let forwarder = Forwarder { state, asks };
        let is_asked = forwarder.is_asked(key, servers);
        if let Some(found) = store.lend().into_found(key, now) {
            let is_failure = is_failure(found.message, key.name.len());
            let is_good = found.is_fresh() && !(is_renewal && answer::is_old(&found));
            // Somebody tried in vain not long ago.
            let is_vain = if is_failure { found.is_fresh() } else { !found.may_renew && !is_asked };
            let known = match (is_failure, is_good) {
                (false, true) => {
                    Some(Message::Answer(ticket, life(&found, now), value(&found, key)))
                }
                _ if is_vain => Some(in_vain(ticket, key, Some(&found), now, plan.stale_max)),
                _ => None,
            };
            if let Some(known) = known {
                if !neighbours.tell(from, &known) {
                    neighbours.tell(from, &refusal);
                }
                return;
            }
        }
        if !self.ask_for(from, ticket, key, group) {
            self.tell_neighbour(from, &refusal);
        } else if is_renewal {
            self.store.lend().hold(key, now + RENEWAL_MAX);
        }
    }

    /// Asks others for a neighbour; false where that cannot be.
    fn ask_for(&mut self, from: usize, ticket: Ticket, key: &Key<'_>, group: u16) -> bool {
        if self.waiters.peers() >= PEERS_MAX {
            return false;
        }
        let servers = self.groups[usize::from(group)];
        let peer = Waiter::Peer(Peer { from, ticket });
        let Some(place) = self.waiters.put(peer) else { return false };
        let number = place.number;
        let asked =
            self.with(|forwarder, now, dice| forwarder.ask(key, servers, Some(number), now, dice));
        if asked != Asked::Waits {
            self.waiters.free(number);
            return false;
        }
        self.send();
        true
    }

    fn tell_neighbour(&mut self, to: usize, message: &Message<'_>) -> bool {
        self.neighbours.as_mut().is_some_and(|neighbours| neighbours.tell(to, message))
    }

    /// Tells a neighbour who waits what came of it: `own` is the question here, which ends.
    pub(super) fn answer_peer(&mut self, peer: &Peer, news: News, own: Ticket) {
        let Peer { from, ticket } = *peer;
        let now = self.seconds();
        let Self { neighbours: Some(neighbours), store, state, asks, kept, plan, .. } = self else {
            return;
        };
        let forwarder = Forwarder { state, asks };
        let Some(ask) = forwarder.get(own) else { return };
        let key = ask.key();
        let found;
        let message = match news {
            News::Answer { len, ttl, made, .. } => {
                let value = &kept[HEADER_LEN + key.name.len()..len];
                Message::Answer(ticket, Life { made, ttl }, value)
            }
            _ => {
                found = store.lend().into_found(&key, now);
                in_vain(ticket, &key, found.as_ref(), now, plan.stale_max)
            }
        };
        if !neighbours.tell(from, &message) {
            neighbours.tell(from, &Message::Refusal(ticket));
        }
    }

    /// Takes what the home of a name said of it, and keeps it for as long as that does; how long
    /// the message is. Nothing: the question has ended.
    fn keep_from_home(&mut self, ticket: Ticket, life: Life, value: &[u8]) -> Option<usize> {
        let now = self.seconds();
        let Self { state, asks, kept, store, .. } = self;
        let forwarder = Forwarder { state, asks };
        let ask = forwarder.get(ticket)?;
        let key = ask.key();
        let value_at = HEADER_LEN + key.name.len();
        let len = value_at + value.len();
        kept[..HEADER_LEN].fill(0);
        kept[HEADER_LEN..value_at].copy_from_slice(key.name);
        kept[value_at..len].copy_from_slice(value);
        let Life { made, ttl } = life;
        if ttl == 0 {
            store.let_end(&key, now);
        } else if !ask.is_cut_off()
            && let Some(summary) = summary(&kept[..len], key.name.len())
        {
            let (is_name_error, is_unfinished) = (summary.is_name_error(), summary.is_unfinished);
            let taken = Relayed { len, value_at, ttl, is_name_error, is_unfinished };
            store.keep(&key, made, &taken, kept);
        }
        Some(len)
    }

    /// Keeps what is too old, and the best that the home of a name has: what is known here may be
    /// newer.
    fn keep_stale(&mut self, ticket: Ticket, life: Life, value: &[u8]) {
        let now = self.seconds();
        let Self { state, asks, store, .. } = self;
        let forwarder = Forwarder { state, asks };
        if forwarder.get(ticket).is_some_and(|ask| !store.has_answer(&ask.key(), now)) {
            self.keep_from_home(ticket, life, value);
        }
    }
}

impl Drop for Asker {
    /// Neighbours wait no longer for what it was asked.
    fn drop(&mut self) {
        let Self { neighbours: Some(neighbours), waiters, .. } = self else { return };
        for Peer { from, ticket } in waiters.all_peers() {
            neighbours.tell(from, &Message::Refusal(ticket));
        }
        neighbours.ring();
    }
}

fn life(found: &Found<'_>, now: u32) -> Life {
    Life { made: now - found.age, ttl: found.ttl }
}

/// What is kept of an answer.
fn value<'f>(found: &Found<'f>, key: &Key<'_>) -> &'f [u8] {
    &found.message[HEADER_LEN + key.name.len()..]
}

/// What is told where nobody could answer: what is known, too old as it is (RFC 8767), or for how
/// long it is remembered (RFC 9520).
fn in_vain<'f>(
    ticket: Ticket,
    key: &Key<'_>,
    found: Option<&Found<'f>>,
    now: u32,
    stale_max: u32,
) -> Message<'f> {
    let Some(found) = found else { return Message::Failure(ticket, None) };
    let life = life(found, now);
    let is_failure = is_failure(found.message, key.name.len());
    match (is_failure, found.is_fresh()) {
        (true, true) => Message::Failure(ticket, Some(life)),
        (false, false) if found.age - found.ttl < stale_max => {
            Message::Stale(ticket, life, value(found, key))
        }
        _ => Message::Failure(ticket, None),
    }
}
