//! One connection: messages behind their lengths, answered in order (RFC 7766 §8, RFC 1035 §4.2.2).

use crate::counters::{COUNTERS, count};
use crate::limits::{LAST_CALL, OUTBOX_FULL, READ_MAX};
use crate::{App, clock};
use door::Counters;
use packet::{Drop, Packet, Transport, Verdict};
use port::Burst;
use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::slice;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};

/// Octets of the length in front of each message.
const PREFIX: usize = 2;
/// The longest message that the length can tell.
const MESSAGE_MAX: usize = u16::MAX as usize;

/// Where the connections of a thread have their queries answered. What it works in is there once,
/// not once a connection: an idle connection has no buffer at all.
pub struct Desk<A> {
    tools: RefCell<Tools<A>>,
}

struct Tools<A> {
    app: A,
    /// What a socket is read into.
    read: Box<[u8]>,
    /// What a query is answered in.
    message: Box<[u8]>,
    counters: Counters<COUNTERS>,
}

impl<A: App> Desk<A> {
    /// A desk where `app` answers.
    pub fn new(app: A, counters: Counters<COUNTERS>) -> Self {
        let read = vec![0; READ_MAX].into();
        let message = vec![0; MESSAGE_MAX].into();
        Self { tools: RefCell::new(Tools { app, read, message, counters }) }
    }

    /// Appends what has come to `inbox`, and returns how much; 0: no more will come.
    fn receive(&self, stream: &TcpStream, inbox: &mut Vec<u8>) -> io::Result<usize> {
        let read = &mut self.tools.borrow_mut().read;
        let len = stream.try_read(read)?;
        inbox.extend_from_slice(&read[..len]);
        Ok(len)
    }

    /// Answers the whole messages in `inbox`, and takes them out, until none is left or the
    /// outbox returned is full. An empty outbox means that none was left.
    fn answer(&self, inbox: &mut Vec<u8>, peer: SocketAddr) -> (Vec<u8>, Burst) {
        let tools = &mut *self.tools.borrow_mut();
        let (mut outbox, mut burst, mut used) = (Vec::new(), Burst::default(), 0);
        while outbox.len() < OUTBOX_FULL
            && let Some(query) = first_message(&inbox[used..])
        {
            used += PREFIX + query.len();
            burst.received += 1;
            tools.message[..query.len()].copy_from_slice(query);
            let mut packet = Packet::new(&mut tools.message, query.len(), peer, Transport::Stream);
            tools.app.burst(slice::from_mut(&mut packet), clock::now());
            match packet.verdict {
                Verdict::Drop(reason) => burst.drop(reason),
                Verdict::Reply => {
                    burst.replied += 1;
                    // One buffer for length and message, so that they leave in one segment.
                    outbox.extend_from_slice(&(packet.len as u16).to_be_bytes());
                    outbox.extend_from_slice(packet.message());
                }
            }
        }
        if burst.received > 0 {
            // The thread may wait next.
            tools.app.park();
        }
        inbox.drain(..used);
        if inbox.is_empty() {
            *inbox = Vec::new();
        }
        (outbox, burst)
    }

    /// Sends the replies of a burst, and counts it.
    async fn send(
        &self,
        stream: &mut TcpStream,
        outbox: &[u8],
        mut burst: Burst,
        patience: Duration,
    ) -> io::Result<()> {
        let begun = clock::now();
        let sent = timeout(patience, stream.write_all(outbox)).await.map_err(io::Error::from);
        let sent = sent.and_then(|written| written);
        if sent.is_err() {
            burst.dropped[Drop::Unsent as usize] += burst.replied;
            burst.replied = 0;
        }
        let took = clock::now().saturating_sub(begun);
        count(&mut self.tools.borrow_mut().counters, &burst, took);
        sent
    }
}

/// The first message of `octets`, without its length, if all of it is there.
fn first_message(octets: &[u8]) -> Option<&[u8]> {
    let (length, rest) = octets.split_first_chunk::<PREFIX>()?;
    rest.get(..u16::from_be_bytes(*length).into())
}

/// Answers what a client asks until it closes, says nothing for too long, or we stop.
pub async fn converse<A: App>(
    mut stream: TcpStream,
    desk: &Desk<A>,
    idle_max: Duration,
    mut stopped: watch::Receiver<bool>,
) -> io::Result<()> {
    let peer = stream.peer_addr()?;
    stream.set_nodelay(true)?;
    let mut inbox = Vec::new();
    let mut stopping = false;
    let mut deadline = Instant::now() + idle_max;
    loop {
        tokio::select! {
            biased;
            ready = timeout_at(deadline, stream.readable()) => ready??,
            _ = stopped.wait_for(|stopped| *stopped), if !stopping => {
                // What is on its way is still answered; no connection stays for long.
                stopping = true;
                deadline = deadline.min(Instant::now() + LAST_CALL);
                continue;
            }
        }
        match desk.receive(&stream, &mut inbox) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(error) => return Err(error),
        }
        loop {
            let (outbox, burst) = desk.answer(&mut inbox, peer);
            if burst.received == 0 {
                break;
            }
            desk.send(&mut stream, &outbox, burst, idle_max).await?;
            if !stopping {
                deadline = Instant::now() + idle_max;
            }
        }
    }
}
