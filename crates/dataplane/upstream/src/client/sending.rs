//! Sending queries over UDP.
use super::UpstreamClient;
use super::restart::changing;
use crate::peer_shards::PeerShards;
use crate::pending_sends::PendingSends;
use forward::{ForwardEvent, QUERY_LEN_MAX, Transmission};
use std::io::ErrorKind;
use std::mem;
use std::ops::Range;
use std::os::fd::AsFd;

impl UpstreamClient {
    /// Sends the queries of a burst. Must be called after each burst.
    pub fn flush(&mut self) {
        changing(|| {
            self.send_all();
            self.streams.flush(self.epoll.as_fd());
            self.peer_shards.iter_mut().for_each(PeerShards::wake);
            self.arm();
        });
    }

    /// Queues transmissions for the end of the burst, and sends them if the queue is full.
    pub(super) fn send(&mut self) {
        while let Some(transmission) = self.with(|forwarder, _, _| forwarder.transmission()) {
            let mut question = [0; QUERY_LEN_MAX];
            let len = self.with(|forwarder, _, _| forwarder.compose(&transmission, &mut question));
            if !transmission.by_stream {
                self.pending_sends.push(transmission, &question[..len]);
            } else if let Err(error) = self.send_by_stream(&transmission, &question[..len]) {
                // A local limit says nothing about the server.
                self.fail_send(&transmission, error.kind() != ErrorKind::QuotaExceeded);
            }
        }
        if self.pending_sends.is_full() {
            self.send_all();
        }
    }

    fn send_all(&mut self) {
        while !self.pending_sends.is_empty() {
            let mut pending_sends = mem::take(&mut self.pending_sends);
            let mut from = 0;
            while let Some(range) = pending_sends.next(from) {
                from = range.end;
                self.send_some(&pending_sends, range);
            }
            pending_sends.clear();
            // More transmissions follow if some could not be sent.
            if self.pending_sends.is_empty() {
                self.pending_sends = pending_sends;
            }
        }
    }

    /// Sends the queries to one server.
    fn send_some(&mut self, pending_sends: &PendingSends, range: Range<usize>) {
        let upstream = pending_sends.transmission(range.start).upstream;
        let to = (upstream, self.addresses[usize::from(upstream)].at);
        let (epoll, random) = (self.epoll.as_fd(), self.random.next_u64());
        // A bit for each query that was not sent.
        let (mut refused, mut number) = (u32::MAX, 0);
        if let Ok(socket) = self.sockets.pick(epoll, to, range.len(), self.now, random) {
            number = socket.number;
            refused = pending_sends.send(socket.fd.as_fd(), range.clone());
        }
        for (nth, transmission) in range.map(|at| pending_sends.transmission(at)).enumerate() {
            if refused >> nth & 1 == 0 {
                self.with(|forwarder, _, _| forwarder.sent(transmission, number, true));
                continue;
            }
            self.fail_send(transmission, true);
            self.send();
        }
    }

    fn fail_send(&mut self, transmission: &Transmission, is_of_server: bool) {
        let event = self.with(|forwarder, now, random| {
            forwarder.fail_send(transmission, is_of_server, now, random)
        });
        if event != ForwardEvent::Nothing {
            self.failed.push(event);
        }
    }
}
