//! Events of a query: replies, ends of streams, timeouts.
use crate::compatibility::CaseDoubt;
use crate::event::{ForwardEvent, Transmission};
use crate::forwarder::{Forwarder, RandomSource, id_of};
use crate::late::slot_of;
use crate::limits::TRIES_MAX;
use crate::message::{ParsedResponse, read_response, response_code};

impl Forwarder<'_> {
    /// Sets the socket of a transmission, a number that nothing else has. A reply counts only at
    /// this socket. On a stream, the query may wait until it is [open](Self::open). Without effect
    /// if the query has ended.
    pub fn sent(&mut self, transmission: &Transmission, socket: u32, is_open: bool) {
        if let Some(slot) = transmission.probe() {
            return self.sent_late(slot, socket, is_open);
        }
        if self.get(transmission.query_id()).is_none() {
            return;
        }
        let query = &mut self.queries[usize::from(transmission.query)];
        let sent = &mut query.tries[usize::from(transmission.attempt)];
        (sent.socket, sent.is_opening) = (Some(socket), !is_open);
    }

    /// The stream of the query with this ID has opened.
    pub fn open(&mut self, socket: u32, id: u16, now: u64) {
        if let Some(slot) = self.late_at(socket, id) {
            return self.open_late(slot, now);
        }
        let Some((number, attempt)) = self.try_at(socket, id) else { return };
        let sent = &mut self.queries[number].tries[attempt];
        (sent.is_opening, sent.sent_at) = (false, now);
        if sent.is_waited {
            self.schedule(number as u16, now);
        }
    }

    /// Receives a message from a server at the socket for that server.
    pub fn receive(
        &mut self,
        socket: u32,
        upstream: u16,
        message: &[u8],
        now: u64,
        random: RandomSource<'_>,
    ) -> ForwardEvent {
        let id = message.first_chunk().map(|id| u16::from_be_bytes(*id));
        if let Some(slot) = id.and_then(|id| self.late_at(socket, id)) {
            return self.receive_late(slot, upstream, message, now);
        }
        let Some((number, attempt)) = id.and_then(|id| self.try_at(socket, id)) else {
            return self.mismatch(upstream);
        };
        let query = &mut self.queries[number];
        let sent = query.tries[attempt];
        let parsed = read_response(query, &sent, message);
        if sent.upstream != upstream || parsed == ParsedResponse::Other {
            return self.mismatch(upstream);
        }
        if parsed == ParsedResponse::OtherCase {
            self.suspect_case((number as u16, attempt), now);
            return self.mismatch(upstream);
        }
        let was_waited = core::mem::replace(&mut query.tries[attempt].is_waited, false);
        // A second reply may be forged.
        self.state.ids[usize::from(sent.id)] = 0;
        let server = &mut self.state.upstreams[usize::from(upstream)];
        if was_waited {
            server.record_query_end();
        }
        let number = number as u16;
        match parsed {
            ParsedResponse::Truncated if !sent.by_stream => {
                server.record_answer(now, now - sent.sent_at);
                self.send_again(number, (upstream, true), now, random)
            }
            ParsedResponse::Misunderstood if sent.has_edns => {
                server.record_sign_of_life(now);
                query.tries[attempt].is_misunderstood = true;
                self.send_again(number, (upstream, false), now, random)
            }
            ParsedResponse::Answer => {
                server.record_answer(now, now - sent.sent_at);
                self.take_answer((number, attempt), response_code(message), now, random)
            }
            _ => {
                server.record_refusal(now);
                let is_doubted = self.doubts_denial((number, attempt), response_code(message), now);
                let sent = &mut self.queries[usize::from(number)].tries[attempt];
                sent.is_refused = !is_doubted;
                self.go_on(number, now, random)
            }
        }
    }

    /// Sends a query to the same server again, in another form.
    fn send_again(
        &mut self,
        number: u16,
        to: (u16, bool),
        now: u64,
        random: RandomSource<'_>,
    ) -> ForwardEvent {
        if !self.send(number, to, now, random) {
            return self.go_on(number, now, random);
        }
        self.schedule(number, now);
        ForwardEvent::Nothing
    }

    /// Takes an answer with this code, unless the server may have the name in lower case only.
    fn take_answer(
        &mut self,
        (number, attempt): (u16, usize),
        code: u8,
        now: u64,
        random: RandomSource<'_>,
    ) -> ForwardEvent {
        let upstream = self.queries[usize::from(number)].tries[attempt].upstream;
        if self.doubts_denial((number, attempt), code, now)
            && self.send(number, (upstream, false), now, random)
        {
            self.schedule(number, now);
            return ForwardEvent::Nothing;
        }
        self.record_compatibility((number, attempt), code, now);
        self.queries[usize::from(number)].is_answered = true;
        self.outrun_others(number, upstream, now);
        ForwardEvent::Answer(self.query_id(number))
    }

    /// Records that a server answered before others that were queried earlier: those still waited
    /// for, and abandoned ones that answered no client since.
    fn outrun_others(&mut self, number: u16, by: u16, now: u64) {
        let tries = self.queries[usize::from(number)].tries().iter().enumerate();
        for (attempt, other) in tries {
            let server = &mut self.state.upstreams[usize::from(other.upstream)];
            let is_open = self.state.ids[usize::from(other.id)] == id_of(number, attempt);
            let is_silent = other.upstream != by && !server.has_answered_since(other.sent_at);
            if other.is_waited || is_open && is_silent {
                server.record_outrun(now, now - other.sent_at);
            }
        }
    }

    /// A query could not be sent. `is_of_server`: that counts against the server, and not if a
    /// local limit was reached. Without effect if the query has ended.
    pub fn fail_send(
        &mut self,
        transmission: &Transmission,
        is_of_server: bool,
        now: u64,
        random: RandomSource<'_>,
    ) -> ForwardEvent {
        if self.get(transmission.query_id()).is_none() {
            return ForwardEvent::Nothing;
        }
        let sent = &mut self.queries[usize::from(transmission.query)].tries
            [usize::from(transmission.attempt)];
        if core::mem::take(&mut sent.is_waited) {
            let server = &mut self.state.upstreams[usize::from(transmission.upstream)];
            server.record_query_end();
            if is_of_server {
                server.record_timeout(now, now);
                self.state.is_probe_wanted = true;
            }
        }
        self.go_on(transmission.query, now, random)
    }

    /// The stream with this query has ended. Call
    /// [`Upstream::record_stream_loss`](crate::Upstream::record_stream_loss) first, for the health
    /// of the server.
    pub fn record_stream_loss(
        &mut self,
        socket: u32,
        id: u16,
        now: u64,
        random: RandomSource<'_>,
    ) -> ForwardEvent {
        if self.late_at(socket, id).is_some() {
            self.state.ids[usize::from(id)] = 0;
        }
        let Some((number, attempt)) = self.try_at(socket, id) else { return ForwardEvent::Nothing };
        self.state.ids[usize::from(id)] = 0;
        let sent = &mut self.queries[number].tries[attempt];
        if !core::mem::take(&mut sent.is_waited) {
            return ForwardEvent::Nothing;
        }
        let sent = *sent;
        self.state.upstreams[usize::from(sent.upstream)].record_query_end();
        self.record_lost_try(&sent, now);
        self.go_on(number as u16, now, random)
    }

    /// The next event by time, until there is none; each must be handled.
    pub fn expire(&mut self, now: u64, random: RandomSource<'_>) -> Option<ForwardEvent> {
        if let Some(event) = self.expire_probe(now, random) {
            return Some(event);
        }
        let number = self.state.wheel.pop(now)?;
        if let Some(until) = self.queries[usize::from(number)].left_until {
            if until <= now {
                return Some(ForwardEvent::Late(self.query_id(number)));
            }
            self.state.wheel.set(number, until);
            return Some(ForwardEvent::Nothing);
        }
        if self.end_late_tries(number, now) {
            return Some(self.go_on(number, now, random));
        }
        self.hedge(number, now, random);
        self.schedule(number, now);
        Some(ForwardEvent::Nothing)
    }

    /// Stops waiting for the late tries of a query; returns whether there are any.
    fn end_late_tries(&mut self, number: u16, now: u64) -> bool {
        let mut is_late = false;
        for attempt in 0..self.queries[usize::from(number)].tries().len() {
            let query = &self.queries[usize::from(number)];
            let sent = query.tries[attempt];
            if !sent.is_waited || now - sent.sent_at < sent.wait_micros() {
                continue;
            }
            is_late = true;
            let is_doubted = sent.doubt.is_none() && self.doubts_silence(query, &sent, now);
            let tried = &mut self.queries[usize::from(number)].tries[attempt];
            tried.is_waited = false;
            if is_doubted {
                tried.doubt = Some(CaseDoubt::Silence);
            }
            self.record_lost_try(&sent, now);
            let server = &mut self.state.upstreams[usize::from(sent.upstream)];
            server.record_query_end();
            // Otherwise it did send something.
            if sent.doubt.is_none() {
                server.record_timeout(sent.sent_at, now);
                server.counts.late += 1;
                self.state.is_probe_wanted = true;
            }
        }
        is_late
    }

    /// The query and try with this socket and ID, if a reply still counts.
    fn try_at(&self, socket: u32, id: u16) -> Option<(usize, usize)> {
        let entry = self.state.ids[usize::from(id)];
        let at = usize::from(entry).checked_sub(1).filter(|_| slot_of(entry).is_none())?;
        let (number, attempt) = (at / TRIES_MAX, at % TRIES_MAX);
        let is_it = self.queries[number].tries[attempt].socket == Some(socket);
        is_it.then_some((number, attempt))
    }
}
