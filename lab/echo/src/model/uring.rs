//! io_uring: one receive continues for ever and fills buffers that the kernel was lent; each call
//! hands over a batch of answers, and brings what came meanwhile.

mod buffer_ring;

use crate::Error;
use crate::datagram::PeerAddress;
use crate::limits::PATIENCE;
use crate::reply::Reason;
use crate::thread_context::{ThreadContext, is_passing};
use buffer_ring::{BUFFERS_MAX, BufferRing};
use io_uring::types::{Fixed, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};
use std::collections::VecDeque;
use std::io;
use std::mem;
use std::os::fd::AsRawFd;
use std::thread;

/// Identifies completions of the receive; those of answers have the number of the buffer.
const RECEIVE: u64 = u64::MAX;
/// Index of the socket in the ring's table of files.
const SOCKET: Fixed = Fixed(0);
/// The only group of buffers.
const GROUP: u16 = 0;
/// Buffers lent, unless batches are large.
const BUFFERS: usize = 1_024;
/// The sysctl that may forbid it.
const SYSCTL: &str = "kernel.io_uring_disabled";

pub fn run(context: &ThreadContext) -> io::Result<()> {
    let buffers = (4 * context.batch).next_power_of_two().clamp(BUFFERS, BUFFERS_MAX);
    // Memory that the kernel uses comes first: it must outlive the ring.
    let mut buffer_ring = BufferRing::new(buffers);
    // SAFETY: zeros are a valid header: no address, no bytes.
    let mut header: Box<libc::msghdr> = Box::new(unsafe { mem::zeroed() });
    header.msg_namelen = PeerAddress::SIZE;
    let mut ring = open(context.batch, buffers)?;
    ring.submitter().register_files(&[context.fd().as_raw_fd()])?;
    let (address, entries) = buffer_ring.ring();
    // SAFETY: `buffer_ring` is dropped after the ring.
    unsafe { ring.submitter().register_buf_ring_with_flags(address, entries, GROUP, 0)? };
    (0..entries).for_each(|buffer| buffer_ring.lend(buffer));
    buffer_ring.show();
    let handed = VecDeque::with_capacity(2 * context.batch);
    let mut turns = EventLoop {
        context,
        buffer_ring: &mut buffer_ring,
        header: &header,
        handed,
        is_armed: false,
    };
    while context.goes_on() {
        turns.turn(&mut ring)?;
    }
    Ok(())
}

/// A ring that one thread uses, and that does its work when that thread asks.
fn open(batch: usize, buffers: usize) -> io::Result<IoUring> {
    let entries = (batch + 1).next_power_of_two() as u32;
    IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        // Room for every buffer's completion and every answer's: none is ever deferred.
        .setup_cqsize(entries + buffers as u32)
        .build(entries)
}

struct EventLoop<'s> {
    context: &'s ThreadContext,
    buffer_ring: &'s mut BufferRing,
    /// How much room of a buffer is for the address.
    header: &'s libc::msghdr,
    /// Buffers whose answers were handed over.
    handed: VecDeque<u16>,
    /// Whether the receive continues.
    is_armed: bool,
}

impl EventLoop<'_> {
    /// Hands over what is queued, waits for what comes, and queues a batch of answers.
    fn turn(&mut self, ring: &mut IoUring) -> io::Result<()> {
        if !self.is_armed {
            let receive = opcode::RecvMsgMulti::new(SOCKET, self.header, GROUP);
            let entry = receive.build().user_data(RECEIVE);
            // SAFETY: the header outlives the ring. There is room: a batch and one more.
            self.is_armed = unsafe { ring.submission().push(&entry) }.is_ok();
        }
        // Signals do not come to this thread, and if the time ends nothing has come.
        let time = Timespec::from(PATIENCE);
        match ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&time)) {
            Ok(_) => {}
            Err(error) if error.raw_os_error() == Some(libc::ETIME) || is_passing(&error) => {}
            Err(error) => return Err(error),
        }
        self.reclaim(ring.submission().len());
        self.complete(ring)
    }

    /// Returns the buffers of sent answers to the ring. An answer that may not wait is done with
    /// when the call that handed it over returns; of those, `left` were not looked at yet.
    fn reclaim(&mut self, left: usize) {
        let left = left.min(self.handed.len());
        for buffer in self.handed.drain(..self.handed.len() - left) {
            self.buffer_ring.lend(buffer);
        }
        self.buffer_ring.show();
    }

    /// Handles completions, at most a batch.
    fn complete(&mut self, ring: &mut IoUring) -> io::Result<()> {
        let mut received = 0;
        let (_, mut answers, completions) = ring.split();
        for completion in completions {
            let result = completion.result();
            if completion.user_data() != RECEIVE {
                // Only refused answers have a completion.
                self.context.counters_mut().refused(1);
                continue;
            }
            self.is_armed = cqueue::more(completion.flags());
            if let Some(buffer) = cqueue::buffer_select(completion.flags()) {
                received += 1;
                self.answer(buffer, &mut answers);
            } else if result < 0 {
                let error = io::Error::from_raw_os_error(-result);
                if !is_passing(&error) {
                    return Err(error);
                }
            }
            if received == self.context.batch {
                break;
            }
        }
        if received > 0 {
            self.context.counters_mut().burst(received);
        }
        Ok(())
    }

    /// Queues the answer to what is in a buffer; one that is not answered is lent again.
    fn answer(&mut self, buffer: u16, answers: &mut squeue::SubmissionQueue<'_>) {
        let received = self.buffer_ring.received(buffer);
        let len = received.message.len() as u32;
        let is_answered = if received.is_cut {
            self.context.counters_mut().dropped(Reason::Oversize, 1);
            false
        } else {
            self.context.answer(received.message, received.peer.port())
        };
        if is_answered {
            let (peer, payload) = self.buffer_ring.parts(buffer);
            let send = opcode::Send::new(SOCKET, payload, len)
                .flags(libc::MSG_DONTWAIT)
                .dest_addr(peer)
                .dest_addr_len(PeerAddress::SIZE);
            let entry = send.build().user_data(buffer.into());
            let entry = entry.flags(squeue::Flags::SKIP_SUCCESS);
            // SAFETY: the buffer is not lent again before the kernel is done with the answer.
            let is_queued = unsafe { answers.push(&entry) }.is_ok();
            self.context.sent(1, usize::from(is_queued));
            if is_queued {
                return self.handed.push_back(buffer);
            }
        }
        self.buffer_ring.lend(buffer);
    }
}

/// # Errors
/// The kernel refuses io_uring, with the reason.
pub fn probe() -> Result<(), Error> {
    // In a thread of its own: the end of a ring interrupts the thread that made it, later on.
    let tried = thread::spawn(|| open(1, 1).map(drop)).join();
    match tried.unwrap_or_else(|_| Err(io::ErrorKind::Other.into())) {
        Ok(()) => Ok(()),
        Err(error) => {
            let sysctl = std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled");
            Err(Error::Failed(refusal(&error, sysctl.ok().as_deref().map(str::trim))))
        }
    }
}

/// The obstacle, and what to do about it.
fn refusal(error: &io::Error, sysctl: Option<&str>) -> String {
    let text = match (error.raw_os_error(), sysctl) {
        (Some(libc::EPERM), Some(value @ ("1" | "2"))) => {
            return format!("io_uring is switched off by {SYSCTL}={value}: sysctl -w {SYSCTL}=0");
        }
        (Some(libc::EPERM | libc::ENOSYS), Some("0")) => {
            "io_uring is kept from this process, as containers do by seccomp: allow \
             io_uring_setup, io_uring_enter and io_uring_register in its profile"
        }
        (Some(libc::ENOSYS), _) => "this kernel was built without io_uring (CONFIG_IO_URING)",
        (Some(libc::EINVAL), _) => {
            "this kernel's io_uring is too old: Linux 6.1 or later has what \
                                    is needed"
        }
        (Some(libc::ENOMEM), _) => "io_uring may lock no more memory: raise the limit (ulimit -l)",
        _ => return format!("io_uring cannot be set up: {error}"),
    };
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn obstacles_are_reported_with_a_remedy() {
        let error = io::Error::from_raw_os_error;
        for (code, sysctl, told) in [
            (libc::EPERM, Some("2"), "sysctl -w kernel.io_uring_disabled=0"),
            (libc::EPERM, Some("1"), "kernel.io_uring_disabled=1"),
            (libc::EPERM, Some("0"), "seccomp"),
            (libc::ENOSYS, Some("0"), "seccomp"),
            (libc::ENOSYS, None, "CONFIG_IO_URING"),
            (libc::EINVAL, Some("0"), "6.1"),
            (libc::ENOMEM, Some("0"), "ulimit -l"),
            (libc::EMFILE, Some("0"), "Too many open files"),
        ] {
            let text = refusal(&error(code), sysctl);
            assert!(text.contains(told), "{text}");
        }
    }
}
