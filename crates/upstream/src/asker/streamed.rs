//! What goes by stream.
use super::{Answer, Asker};
use crate::fault::Fault;
use crate::streams::Ended;
use forward::{Event, Order};
use std::io;
use std::os::fd::AsFd;

impl Asker {
    pub(super) fn send_by_stream(&mut self, order: &Order, question: &[u8]) -> io::Result<()> {
        let id = question.first_chunk().map_or(0, |id| u16::from_be_bytes(*id));
        let epoll = self.epoll.as_fd();
        let (number, is_open) =
            self.streams.ask(epoll, order.upstream, (id, question), self.now)?;
        self.with(|forwarder, _, _| forwarder.sent(order, number, is_open));
        Ok(())
    }

    /// Sends and receives what can be on a connection.
    pub(super) fn take_stream(&mut self, place: usize, answer: Answer<'_>) {
        let turned = self.streams.turn(self.epoll.as_fd(), place, self.now);
        let Some((connection, turn)) = turned else { return };
        if turn.opened {
            let (number, ids) = (connection.number, connection.ids.clone());
            for id in ids {
                self.with(|forwarder, now, _| forwarder.open(number, id, now));
            }
        }
        let fault = self.take_messages(place, answer).or(turn.fault);
        match fault {
            Some(fault) => self.end_stream(place, fault, answer),
            None if self.streams.is_done(place) => self.end_stream(place, Fault::None, answer),
            None => {}
        }
    }

    /// Takes the messages that came whole on a connection; tells what is wrong with them, if
    /// something is.
    fn take_messages(&mut self, place: usize, answer: Answer<'_>) -> Option<Fault> {
        let (mut inbox, number, server) = self.streams.take_inbox(place)?;
        let mut at = 0;
        let mut fault = None;
        while let Some(message) = framed(&inbox[at..]) {
            at += 2 + message.len();
            let Some(id) = self.streams.take_reply(place, message) else {
                self.with(|forwarder, _, _| forwarder.upstream(server).counts.mismatched += 1);
                fault = Some(Fault::Nonsense);
                break;
            };
            let event = self
                .with(|forwarder, now, dice| forwarder.receive(number, server, message, now, dice));
            match event {
                Event::Answer(ticket) => self.learn(ticket, message, answer),
                // Another will not come, be this one a reply or none.
                Event::Nothing => self.lose(number, id, answer),
                Event::Failure(_) | Event::Late(_) => self.settle(event, answer),
            }
        }
        inbox.drain(..at);
        self.streams.put_inbox(place, inbox);
        fault
    }

    /// Ends a connection; what was asked there is asked of another, or again.
    fn end_stream(&mut self, place: usize, fault: Fault, answer: Answer<'_>) {
        let Some(ended) = self.streams.end(place, fault, self.now) else { return };
        let Ended { number, server, ids, loss } = ended;
        self.with(|forwarder, now, _| forwarder.upstream(server).lose(loss, now));
        for id in ids {
            self.lose(number, id, answer);
        }
    }

    fn lose(&mut self, number: u32, id: u16, answer: Answer<'_>) {
        let event = self.with(|forwarder, now, dice| forwarder.lose(number, id, now, dice));
        self.settle(event, answer);
    }

    /// Ends those connections whose time is over.
    pub(super) fn end_late_streams(&mut self, answer: Answer<'_>) {
        while let Some((place, fault)) = self.streams.late(self.now) {
            self.end_stream(place, fault, answer);
        }
    }
}

/// The first message, if all of it is there behind its length (RFC 1035 §4.2.2).
fn framed(octets: &[u8]) -> Option<&[u8]> {
    let (len, rest) = octets.split_first_chunk()?;
    rest.get(..u16::from_be_bytes(*len).into())
}
