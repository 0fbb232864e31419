//! Questions on their way to the sockets.
use super::Asker;
use crate::neighbours::Neighbours;
use crate::outbox::Outbox;
use forward::{Event, Order, QUESTION_LEN_MAX};
use std::mem;
use std::ops::Range;
use std::os::fd::AsFd;

impl Asker {
    /// Sends what was asked since. To be called after each burst of questions.
    pub fn flush(&mut self) {
        self.send_all();
        self.streams.flush(self.epoll.as_fd());
        self.neighbours.iter_mut().for_each(Neighbours::ring);
        self.arm();
    }

    /// Has what was ordered leave with the rest of a burst, or now if that is much.
    pub(super) fn send(&mut self) {
        while let Some(order) = self.with(|forwarder, _, _| forwarder.order()) {
            let mut question = [0; QUESTION_LEN_MAX];
            let len = self.with(|forwarder, _, _| forwarder.compose(&order, &mut question));
            if !order.by_stream {
                self.outbox.push(order, &question[..len]);
            } else if self.send_by_stream(&order, &question[..len]).is_err() {
                self.fail_send(&order);
            }
        }
        if self.outbox.is_full() {
            self.send_all();
        }
    }

    fn send_all(&mut self) {
        while !self.outbox.is_empty() {
            let mut outbox = mem::take(&mut self.outbox);
            let mut from = 0;
            while let Some(range) = outbox.next(from) {
                from = range.end;
                self.send_some(&outbox, range);
            }
            outbox.clear();
            // Unless others are to be asked because some did not leave.
            if self.outbox.is_empty() {
                self.outbox = outbox;
            }
        }
    }

    /// Sends what goes to the same server.
    fn send_some(&mut self, outbox: &Outbox, range: Range<usize>) {
        let upstream = outbox.order(range.start).upstream;
        let to = (upstream, self.addresses[usize::from(upstream)].at);
        let (epoll, random) = (self.epoll.as_fd(), self.dice.throw());
        // A bit for each that did not leave.
        let (mut refused, mut number) = (u32::MAX, 0);
        if let Ok(socket) = self.sockets.pick(epoll, to, range.len(), self.now, random) {
            number = socket.number;
            refused = outbox.send(socket.fd.as_fd(), range.clone());
        }
        for (nth, order) in range.map(|at| outbox.order(at)).enumerate() {
            if refused >> nth & 1 == 0 {
                self.with(|forwarder, _, _| forwarder.sent(order, number, true));
                continue;
            }
            self.fail_send(order);
            self.send();
        }
    }

    fn fail_send(&mut self, order: &Order) {
        let event = self.with(|forwarder, now, dice| forwarder.fail_send(order, now, dice));
        if event != Event::Nothing {
            self.failed.push(event);
        }
    }
}
