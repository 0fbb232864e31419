//! io_uring: each socket has one multishot receive, which fills buffers that the kernel owns
//! meanwhile. One system call submits a batch of queries and returns the messages received so far.

mod buffer_ring;

use super::udp::{Out, is_about_segments};
use super::{Batch, ChannelOptions, Sent, Transport, is_passing};
use crate::clock::Clock;
use crate::limits::BATCH_MAX;
use buffer_ring::BufferRing;
use io_uring::types::{CancelBuilder, Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

/// Marks completions of sends, beside the number of a header.
const SEND: u64 = 1 << 63;
/// That of a receive that is called off.
const CALL_OFF: u64 = 1 << 62;
/// The only group of buffers.
const GROUP: u16 = 0;
/// Entries of the submission and completion queues: for all buffers, sends and ends.
const ENTRIES: u32 = 4 * BATCH_MAX as u32;
const COMPLETIONS: u32 = 4 * buffer_ring::BUFFERS as u32;
/// IORING_ENTER_GETEVENTS: deferred completions are run.
const GET_EVENTS: u32 = 1;

/// An answer in a buffer.
struct Completion {
    channel: usize,
    buffer: u16,
    len: usize,
}

/// A socket.
struct Channel {
    socket: OwnedFd,
    /// How many sockets it has had: receives of earlier ones are no longer its own.
    turn: u32,
    /// Whether its receive continues.
    is_armed: bool,
}

/// Sockets, each a channel, of one thread.
pub(crate) struct Uring {
    ring: IoUring,
    /// Dropped behind the ring, when nothing is under way any more.
    buffer_ring: BufferRing,
    makes: ChannelOptions,
    channels: Vec<Channel>,
    /// Whether equal queries leave together.
    segments: bool,
    out: Out,
    came: VecDeque<Completion>,
    /// Channels whose receive has ended.
    unarmed: Vec<usize>,
    /// Headers that were not taken, and why.
    failed: Vec<(usize, i32)>,
    /// Queries of the batch that were not, though some behind them were.
    refused: Vec<usize>,
    /// Why the ring accepts no more requests.
    failure: Option<io::Error>,
}

impl Uring {
    /// This many sockets.
    ///
    /// # Errors
    /// One cannot be made, or the kernel has no io_uring for us.
    pub fn new(mut makes: ChannelOptions, count: usize, segments: bool) -> io::Result<Self> {
        let buffer_ring = BufferRing::new();
        let ring = open().map_err(|error| {
            let told = format!(
                "io_uring cannot be had: {error}; it takes Linux 6.1, kernel.io_uring_disabled=0, \
                 and a container's profile that allows it; or --path sockets"
            );
            io::Error::new(error.kind(), told)
        })?;
        // SAFETY: the loan is dropped after the ring.
        unsafe {
            ring.submitter().register_buf_ring_with_flags(
                buffer_ring.address(),
                buffer_ring::BUFFERS as u16,
                GROUP,
                0,
            )?;
        }
        let channel = |_| Ok(Channel { socket: makes.datagrams()?, turn: 0, is_armed: false });
        let channels: Vec<Channel> = (0..count).map(channel).collect::<io::Result<_>>()?;
        Ok(Self {
            ring,
            buffer_ring,
            makes,
            unarmed: (0..channels.len()).collect(),
            channels,
            segments,
            out: Out::new(),
            came: VecDeque::with_capacity(buffer_ring::BUFFERS),
            failed: Vec::with_capacity(BATCH_MAX),
            refused: Vec::with_capacity(BATCH_MAX),
            failure: None,
        })
    }

    /// Queues an operation; the queue is handed over first where it is full.
    fn push(&mut self, entry: &squeue::Entry) {
        // SAFETY: what entries point at, headers and a batch, stays until `hand_over` returns.
        while unsafe { self.ring.submission().push(entry) }.is_err() && self.failure.is_none() {
            self.hand_over();
        }
    }

    /// Submits the queued requests, and reads the completions.
    fn hand_over(&mut self) {
        loop {
            self.buffer_ring.show();
            let waiting = self.ring.submission().len() as u32;
            // SAFETY: there is no argument.
            let entered = unsafe {
                self.ring.submitter().enter::<libc::sigset_t>(waiting, 0, GET_EVENTS, None)
            };
            self.drain();
            match entered {
                Ok(_) if self.ring.submission().is_empty() => return,
                Ok(_) => {}
                // No memory, or completions that wait: then it is retried.
                Err(error) if is_busy(&error) => {}
                Err(error) => {
                    let told = format!("io_uring takes nothing any more: {error}");
                    self.failure = Some(io::Error::new(error.kind(), told));
                    return;
                }
            }
        }
    }

    /// Reads the completions.
    fn drain(&mut self) {
        let Self { ring, buffer_ring, channels, came, unarmed, failed, .. } = self;
        for completion in ring.completion() {
            let (data, result) = (completion.user_data(), completion.result());
            if data & SEND != 0 {
                // Only those that failed complete with a word about it.
                failed.push(((data & !SEND) as usize, -result));
                continue;
            }
            let index = data as u32 as usize;
            let Some(channel) = channels.get_mut(index).filter(|_| data & CALL_OFF == 0) else {
                continue;
            };
            let is_own = receive_of(index, channel.turn) == data;
            if let Some(buffer) = cqueue::buffer_select(completion.flags()) {
                match usize::try_from(result) {
                    Ok(len) if is_own => came.push_back(Completion { channel: index, buffer, len }),
                    _ => buffer_ring.lend(buffer),
                }
            }
            if is_own && !cqueue::more(completion.flags()) {
                channel.is_armed = false;
                unarmed.push(index);
            }
        }
    }

    /// Begins the receives that have ended, or have not begun.
    fn arm(&mut self) {
        while let Some(index) = self.unarmed.pop() {
            let channel = &mut self.channels[index];
            if !channel.is_armed {
                channel.is_armed = true;
                let receive = opcode::RecvMulti::new(Fd(channel.socket.as_raw_fd()), GROUP);
                let entry = receive.build().user_data(receive_of(index, channel.turn));
                self.push(&entry);
            }
        }
    }

    /// Sends these headers; those that were not taken are in `failed` then, in order.
    fn send_headers(&mut self, fd: Fd, which: impl Iterator<Item = usize>) {
        self.failed.clear();
        for index in which {
            let send = opcode::SendMsg::new(fd, self.out.header(index));
            let entry = send.flags(libc::MSG_DONTWAIT as u32).build();
            let entry = entry.user_data(SEND | index as u64).flags(squeue::Flags::SKIP_SUCCESS);
            self.push(&entry);
        }
        self.hand_over();
        self.failed.sort_unstable();
    }

    /// The result of a batch of which some headers failed.
    fn weigh(&mut self, batch: &Batch, used: usize) -> Sent {
        // Those at the end for which there is no room wait; others are lost for good.
        let mut taken = used;
        while self.failed.last() == Some(&(taken.wrapping_sub(1), libc::EAGAIN)) {
            self.failed.pop();
            taken -= 1;
        }
        for (header, _) in &self.failed {
            let first = batch.done + self.out.queries(0..*header);
            self.refused.extend(first..first + self.out.queries(*header..header + 1));
        }
        Sent { taken: self.out.queries(0..taken), refused: false }
    }
}

/// Marks completions of a channel's receive.
fn receive_of(channel: usize, turn: u32) -> u64 {
    u64::from(turn & 0x3fff_ffff) << 32 | channel as u64
}

fn is_busy(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN | libc::EBUSY | libc::ENOMEM))
}

/// A ring for one thread, which runs its deferred work when that thread enters the kernel.
fn open() -> io::Result<IoUring> {
    IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_cqsize(COMPLETIONS)
        .build(ENTRIES)
}

impl Drop for Uring {
    fn drop(&mut self) {
        // Nothing may write into freed buffers. If this fails, requests under way end with the
        // ring, after the buffers would be freed: so they are leaked.
        if self.ring.submitter().register_sync_cancel(None, CancelBuilder::any()).is_err() {
            self.buffer_ring.keep();
        }
    }
}

impl Transport for Uring {
    #[inline]
    fn takes(&self, _lane: usize) -> usize {
        usize::MAX
    }

    fn send(&mut self, batch: &Batch) -> Sent {
        let fd = Fd(self.channels[batch.channel].socket.as_raw_fd());
        self.refused.clear();
        let used = self.out.lay(batch, self.segments);
        self.send_headers(fd, 0..used);
        if self.failed.is_empty() {
            return Sent { taken: self.out.queries(0..used), refused: false };
        }
        let is_of = |is: fn(&io::Error) -> bool| {
            move |(_, code): &(usize, i32)| is(&io::Error::from_raw_os_error(*code))
        };
        // The device or the path cannot cut: then we do.
        if self.segments && self.failed.iter().any(is_of(is_about_segments)) {
            self.segments = false;
            if self.failed.len() == used {
                return self.send(batch);
            }
        }
        // A pending socket error may belong to an earlier datagram: then it was not sent now.
        if self.failed.iter().any(is_of(is_passing)) {
            let again: Vec<usize> = self.failed.iter().map(|(header, _)| *header).collect();
            self.send_headers(fd, again.into_iter());
        }
        self.weigh(batch, used)
    }

    fn was_refused(&self, index: usize) -> bool {
        self.refused.contains(&index)
    }

    fn receive(&mut self, clock: &Clock, each: &mut impl FnMut(usize, u64, &[u8])) -> usize {
        self.drain();
        self.arm();
        if self.came.is_empty() {
            self.hand_over();
        }
        let received = self.came.len();
        let now = if received > 0 { clock.now() } else { 0 };
        for Completion { channel, buffer, len } in self.came.drain(..) {
            each(channel, now, self.buffer_ring.message(buffer, len));
            self.buffer_ring.lend(buffer);
        }
        received
    }

    fn wait(&mut self, length_ns: u64) {
        self.arm();
        // The submission may have completed receives.
        if !self.came.is_empty() {
            return;
        }
        self.buffer_ring.show();
        let time = Timespec::from(Duration::from_nanos(length_ns));
        // An early end does no harm, nor does a timeout.
        let _ = self.ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&time));
    }

    fn failure(&self) -> Option<&io::Error> {
        self.failure.as_ref()
    }

    fn renew(&mut self, channel: usize) -> io::Result<()> {
        let socket = self.makes.datagrams()?;
        let old = receive_of(channel, self.channels[channel].turn);
        // A receive keeps its socket open after it is closed here.
        self.push(&opcode::AsyncCancel::new(old).build().user_data(CALL_OFF));
        let turn = self.channels[channel].turn.wrapping_add(1);
        self.hand_over();
        self.channels[channel] = Channel { socket, turn, is_armed: false };
        self.unarmed.push(channel);
        self.arm();
        Ok(())
    }
}

#[cfg(test)]
use test_support::skip;

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    #[test]
    fn a_ring_that_takes_nothing_ends_the_load_with_an_error() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let channels = || ChannelOptions { server, sources: Vec::new(), next: 0, buffer: 1 << 16 };
        let mut uring = match Uring::new(channels(), 1, false) {
            Ok(uring) => uring,
            Err(missing) => return skip::skip(&missing.to_string()),
        };
        uring.arm();
        uring.hand_over();
        assert!(uring.failure().is_none());
        let null = std::fs::File::open("/dev/null").unwrap();
        // SAFETY: both are open; what the ring's descriptor stood for is mapped, and so it stays.
        let copied = unsafe { libc::dup2(null.as_raw_fd(), uring.ring.as_raw_fd()) };
        assert!(copied >= 0);
        // More than the queue holds: sending does not wait for room for ever.
        for _ in 0..2 * ENTRIES {
            uring.push(&opcode::Nop::new().build());
        }
        let told = uring.failure().unwrap().to_string();
        assert!(told.contains("io_uring takes nothing any more"), "{told}");
    }
}
