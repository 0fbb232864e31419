//! Queries over TCP and TLS.
use super::{AnswerCallback, UpstreamClient};
use crate::fault::TlsFault;
use crate::streams::EndedConnection;
use forward::{ForwardEvent, Forwarder, QueryId, Transmission};
use std::io;
use std::os::fd::AsFd;

impl UpstreamClient {
    pub(super) fn send_by_stream(
        &mut self,
        transmission: &Transmission,
        question: &[u8],
    ) -> io::Result<()> {
        let id = question.first_chunk().map_or(0, |id| u16::from_be_bytes(*id));
        let epoll = self.epoll.as_fd();
        let (number, is_open) =
            self.streams.query(epoll, transmission.upstream, (id, question), self.now)?;
        self.with(|forwarder, _, _| forwarder.sent(transmission, number, is_open));
        if transmission.is_probe() {
            self.streams.record_probe(transmission.upstream, number, id);
        }
        Ok(())
    }

    /// Sends and receives on a connection.
    pub(super) fn take_stream(&mut self, slot: usize, answer: AnswerCallback<'_>) {
        let turned = self.streams.turn(self.epoll.as_fd(), slot, self.now);
        let Some((connection, turn)) = turned else { return };
        if turn.opened {
            let (number, ids) = (connection.number, connection.ids.clone());
            for id in ids {
                self.with(|forwarder, now, _| forwarder.open(number, id, now));
            }
        }
        let fault = self.take_messages(slot, answer).or(turn.fault);
        match fault {
            Some(fault) => self.end_stream(slot, fault, answer),
            None if self.streams.is_done(slot) => self.end_stream(slot, TlsFault::None, answer),
            None => {}
        }
    }

    /// Handles the whole messages of a connection; returns what is wrong with them.
    fn take_messages(&mut self, slot: usize, answer: AnswerCallback<'_>) -> Option<TlsFault> {
        let (mut inbox, number, server) = self.streams.take_inbox(slot)?;
        let mut at = 0;
        let mut fault = None;
        while let Some(message) = framed(&inbox[at..]) {
            at += 2 + message.len();
            let Some(id) = self.streams.take_reply(slot, message) else {
                self.with(|forwarder, _, _| forwarder.upstream(server).counts.mismatched += 1);
                fault = Some(TlsFault::Nonsense);
                break;
            };
            let event = self.with(|forwarder, now, random| {
                forwarder.receive(number, server, message, now, random)
            });
            match event {
                ForwardEvent::Answer(query_id) => self.learn(query_id, message, answer),
                ForwardEvent::LateAnswer(belated) => self.learn_late(&belated, message),
                // No other reply with this ID will come, whether this one is valid or not.
                ForwardEvent::Nothing => self.record_stream_loss(number, id, answer),
                ForwardEvent::Failure(_) | ForwardEvent::Late(_) => self.settle(event, answer),
            }
        }
        inbox.drain(..at);
        self.streams.put_inbox(slot, inbox);
        fault
    }

    /// Closes a connection, and sends its queries again.
    fn end_stream(&mut self, slot: usize, fault: TlsFault, answer: AnswerCallback<'_>) {
        let Some(ended) = self.streams.end(slot, fault, self.now) else { return };
        let EndedConnection { number, server, ids, loss } = ended;
        self.with(|forwarder, now, _| forwarder.upstream(server).record_stream_loss(loss, now));
        for id in ids {
            self.record_stream_loss(number, id, answer);
        }
    }

    /// Frees the IDs of a query that is about to end.
    pub(super) fn give_up(&mut self, query_id: QueryId) {
        let forwarder = Forwarder { state: &mut self.state, queries: &mut self.queries };
        let Some(query) = forwarder.get(query_id) else { return };
        for (number, id) in query.sent_by_stream() {
            self.streams.give_up(number, id);
        }
    }

    fn record_stream_loss(&mut self, number: u32, id: u16, answer: AnswerCallback<'_>) {
        let event = self
            .with(|forwarder, now, random| forwarder.record_stream_loss(number, id, now, random));
        self.settle(event, answer);
    }

    /// Closes the connections that timed out.
    pub(super) fn end_late_streams(&mut self, answer: AnswerCallback<'_>) {
        while let Some((slot, fault)) = self.streams.late(self.now) {
            self.end_stream(slot, fault, answer);
        }
    }
}

/// The first message if it is complete (RFC 1035 §4.2.2).
fn framed(bytes: &[u8]) -> Option<&[u8]> {
    let (len, rest) = bytes.split_first_chunk()?;
    rest.get(..u16::from_be_bytes(*len).into())
}
