//! What is heard of a question that was sent: a reply, that its stream ended, or nothing in time.
use crate::forwarder::{Dice, Event, Forwarder, Order};
use crate::limits::TRIES_MAX;
use crate::message::{Said, read};

impl Forwarder<'_> {
    /// Notes the socket that a question went out of, whose number nothing else has. A reply to it
    /// counts only if it comes there. A question that goes by stream may have to wait until that is
    /// [open](Self::open). Nothing if the question has ended.
    pub fn sent(&mut self, order: &Order, socket: u32, is_open: bool) {
        if self.get(order.ticket()).is_none() {
            return;
        }
        let ask = &mut self.asks[usize::from(order.ask)];
        let sent = &mut ask.tries[usize::from(order.attempt)];
        (sent.socket, sent.is_opening) = (Some(socket), !is_open);
    }

    /// Notes that the stream has opened which the question with this id waited for.
    pub fn open(&mut self, socket: u32, id: u16, now: u64) {
        let Some((number, attempt)) = self.try_at(socket, id) else { return };
        let sent = &mut self.asks[number].tries[attempt];
        (sent.is_opening, sent.sent_at) = (false, now);
        if sent.is_waited {
            self.schedule(number as u16, now);
        }
    }

    /// Takes a message that came at a socket from the server that the socket is for.
    pub fn receive(
        &mut self,
        socket: u32,
        upstream: u16,
        message: &[u8],
        now: u64,
        dice: Dice<'_>,
    ) -> Event {
        let id = message.first_chunk().map(|id| u16::from_be_bytes(*id));
        let Some((number, attempt)) = id.and_then(|id| self.try_at(socket, id)) else {
            return self.mismatch(upstream);
        };
        let ask = &mut self.asks[number];
        let sent = ask.tries[attempt];
        let said = read(ask, &sent, message);
        if sent.upstream != upstream || said == Said::Other {
            return self.mismatch(upstream);
        }
        let was_waited = core::mem::replace(&mut ask.tries[attempt].is_waited, false);
        // Another reply to the same would be somebody else's.
        self.state.ids[usize::from(sent.id)] = 0;
        let server = &mut self.state.upstreams[usize::from(upstream)];
        if was_waited {
            server.let_go();
        }
        let number = number as u16;
        match said {
            Said::Truncated if !sent.by_stream => {
                server.hear(now, now - sent.sent_at);
                if !self.send(number, (upstream, true), now, dice) {
                    return self.go_on(number, now, dice);
                }
                self.schedule(number, now);
                Event::Nothing
            }
            Said::Failure | Said::Truncated => {
                server.fail_to_answer(now);
                ask.tries[attempt].is_refused = true;
                self.go_on(number, now, dice)
            }
            _ => {
                server.hear(now, now - sent.sent_at);
                let ask = &self.asks[usize::from(number)];
                for other in ask.tries().iter().filter(|other| other.is_waited) {
                    let server = &mut self.state.upstreams[usize::from(other.upstream)];
                    server.outrun(now, now - other.sent_at);
                }
                Event::Answer(self.ticket(number))
            }
        }
    }

    /// Notes that a question could not be sent. Nothing if it has ended.
    pub fn fail_send(&mut self, order: &Order, now: u64, dice: Dice<'_>) -> Event {
        if self.get(order.ticket()).is_none() {
            return Event::Nothing;
        }
        let sent = &mut self.asks[usize::from(order.ask)].tries[usize::from(order.attempt)];
        if core::mem::take(&mut sent.is_waited) {
            let server = &mut self.state.upstreams[usize::from(order.upstream)];
            server.let_go();
            server.fail(now);
        }
        self.go_on(order.ask, now, dice)
    }

    /// Notes that the stream is no more on which a reply with this id was to come. What that says
    /// of the server is to be told it first, by [`Upstream::lose`](crate::Upstream::lose).
    pub fn lose(&mut self, socket: u32, id: u16, now: u64, dice: Dice<'_>) -> Event {
        let Some((number, attempt)) = self.try_at(socket, id) else { return Event::Nothing };
        self.state.ids[usize::from(id)] = 0;
        let sent = &mut self.asks[number].tries[attempt];
        if !core::mem::take(&mut sent.is_waited) {
            return Event::Nothing;
        }
        self.state.upstreams[usize::from(sent.upstream)].let_go();
        self.go_on(number as u16, now, dice)
    }

    /// What time brings, until there is nothing more; every event has to be dealt with.
    pub fn expire(&mut self, now: u64, dice: Dice<'_>) -> Option<Event> {
        let number = self.state.wheel.pop(now)?;
        if let Some(until) = self.asks[usize::from(number)].left_until {
            if until <= now {
                return Some(Event::Late(self.ticket(number)));
            }
            self.state.wheel.set(number, until);
            return Some(Event::Nothing);
        }
        let ask = &mut self.asks[usize::from(number)];
        let mut is_late = false;
        for sent in ask.tries.iter_mut().take(ask.tries_len.into()).filter(|sent| sent.is_waited) {
            let server = &mut self.state.upstreams[usize::from(sent.upstream)];
            if now - sent.sent_at >= sent.wait_micros() {
                sent.is_waited = false;
                is_late = true;
                server.let_go();
                server.fail(now);
                server.counts.late += 1;
            }
        }
        if is_late {
            return Some(self.go_on(number, now, dice));
        }
        self.hedge(number, now, dice);
        self.schedule(number, now);
        Some(Event::Nothing)
    }

    /// The ask and the try that went out of a socket with an id, if a reply to it still counts.
    fn try_at(&self, socket: u32, id: u16) -> Option<(usize, usize)> {
        let at = usize::from(self.state.ids[usize::from(id)]).checked_sub(1)?;
        let (number, attempt) = (at / TRIES_MAX, at % TRIES_MAX);
        let is_it = self.asks[number].tries[attempt].socket == Some(socket);
        is_it.then_some((number, attempt))
    }
}
