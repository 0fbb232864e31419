//! The frames of one queue, and the owner of each.

use crate::counts::QueueCounts;
use crate::limits::{FILLED_MAX, FRAMES, HEADROOM, KICKS_MAX, LATE_MAX, RING, SMALL};
use crate::ring::QueueRings;
use crate::umem::Mapping;
use libc::xdp_desc;
use packet::BURST_MAX;
use port::{Frame, FrameBurst, Frames};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::slice;
use std::sync::Arc;

/// The kernel behind the rings, or a simulation.
pub trait XdpDevice {
    /// Sends what is in the ring; false: the device is down, and sends nothing for now.
    ///
    /// # Errors
    /// The driver refuses, for example while its queues are being changed. Frames stay in the ring,
    /// as while it is down.
    fn send(&mut self) -> io::Result<bool>;

    /// Reports that there are frames to receive into.
    fn receive(&mut self);

    /// Readable if something was received.
    fn as_fd(&self) -> BorrowedFd<'_>;
}

/// The owner of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FrameOwner {
    /// It is in the list of free frames.
    Free,
    /// The kernel, to receive into.
    Filled,
    /// A burst, or a deferred reply.
    Lent,
    /// The kernel, to send.
    Sent,
}

/// One queue of one device. Allocates only when it is made.
#[derive(Debug)]
pub struct XdpQueue<D> {
    device: D,
    rings: QueueRings,
    memory: Arc<Mapping>,
    /// Bytes of a frame's memory, a power of two.
    chunk: u32,
    mtu: usize,
    owners: Box<[FrameOwner]>,
    free: Vec<u32>,
    /// Frames that the kernel has for reception, or that were not taken yet.
    filled: u32,
    /// Frames that the kernel has to send.
    sent: u32,
    late: Vec<xdp_desc>,
    /// Whether frames in the ring need another call to be sent.
    is_stuck: bool,
    counts: Arc<QueueCounts>,
}

impl<D: XdpDevice> XdpQueue<D> {
    /// A queue over `memory`, whose frames of `chunk` bytes are all unused.
    ///
    /// # Panics
    /// The memory holds fewer than [`FRAMES`] of them.
    pub fn new(device: D, rings: QueueRings, memory: Arc<Mapping>, chunk: u32, mtu: usize) -> Self {
        assert!(chunk.is_power_of_two() && memory.len() >= (FRAMES * chunk) as usize);
        let mut queue = Self {
            device,
            counts: Arc::new(QueueCounts::new(&rings)),
            rings,
            memory,
            chunk,
            mtu,
            owners: vec![FrameOwner::Free; FRAMES as usize].into(),
            free: (0..FRAMES).rev().collect(),
            filled: 0,
            sent: 0,
            late: Vec::with_capacity(LATE_MAX),
            is_stuck: false,
        };
        queue.fill();
        queue.counts.set_free(queue.free.len());
        queue
    }

    /// Its counters.
    pub fn counts(&self) -> &Arc<QueueCounts> {
        &self.counts
    }

    /// The kernel, or a simulation.
    pub fn device(&mut self) -> &mut D {
        &mut self.device
    }

    /// Gives a frame to another owner, if `from` has it; false otherwise.
    #[inline]
    fn pass(&mut self, frame: u32, from: FrameOwner, to: FrameOwner) -> bool {
        match self.owners.get_mut(frame as usize) {
            Some(owner) if *owner == from => {
                *owner = to;
                true
            }
            _ => {
                self.counts.stray();
                false
            }
        }
    }

    /// The frame of an address.
    #[inline]
    fn frame_of(&self, address: u64) -> u32 {
        u32::try_from(address >> self.chunk.trailing_zeros()).unwrap_or(u32::MAX)
    }

    /// Gives the kernel free frames up to the maximum, so that no ring is ever full of received
    /// ones.
    fn fill(&mut self) {
        let before = self.filled;
        while self.filled < FILLED_MAX
            && let Some(&frame) = self.free.last()
            && self.rings.fill.push(u64::from(frame) * u64::from(self.chunk))
        {
            self.free.pop();
            self.filled += u32::from(self.pass(frame, FrameOwner::Free, FrameOwner::Filled));
        }
        if self.filled != before {
            self.rings.fill.show();
        }
    }

    /// Takes back sent frames.
    fn reap(&mut self) {
        let mut reaped = false;
        while let Some(address) = self.rings.complete.pop() {
            reaped = true;
            let frame = self.frame_of(address);
            if self.pass(frame, FrameOwner::Sent, FrameOwner::Free) {
                self.free.push(frame);
                self.sent -= 1;
            }
        }
        if reaped {
            self.rings.complete.release();
        }
    }

    /// Takes received frames, up to a burst.
    fn take(&mut self, taken: &mut [xdp_desc; BURST_MAX]) -> usize {
        let (mut count, mut popped) = (0, false);
        while count < BURST_MAX {
            let Some(received) = self.rings.receive.pop() else { break };
            popped = true;
            let frame = self.frame_of(received.addr);
            let offset = received.addr as u32 & (self.chunk - 1);
            let is_whole = received.len <= self.chunk - offset && received.options == 0;
            if !self.pass(frame, FrameOwner::Filled, FrameOwner::Lent) {
                continue;
            }
            self.filled -= 1;
            if is_whole {
                taken[count] = received;
                count += 1;
            } else {
                self.stray(frame);
            }
        }
        if popped {
            self.rings.receive.release();
        }
        count
    }

    /// A frame came back with an invalid length.
    #[cold]
    fn stray(&mut self, frame: u32) {
        self.counts.stray();
        self.recycle(frame);
    }

    #[inline]
    fn recycle(&mut self, frame: u32) {
        if self.pass(frame, FrameOwner::Lent, FrameOwner::Free) {
            self.free.push(frame);
        }
    }

    /// Gives the kernel a frame to send; false: it has too many, and the frame is free again.
    #[inline]
    fn give(&mut self, frame: xdp_desc) -> bool {
        let number = self.frame_of(frame.addr);
        // As many frames as the ring holds stay for reception, however slowly others are sent.
        if self.sent >= RING || !self.rings.send.push(frame) {
            self.recycle(number);
            return false;
        }
        self.sent += u32::from(self.pass(number, FrameOwner::Lent, FrameOwner::Sent));
        true
    }

    /// Lets `app` edit frames, and gives the kernel those to send. Returns how many it refused.
    #[inline]
    fn answer(
        &mut self,
        frames: &mut [Frame<'_>],
        taken: &[xdp_desc],
        app: &mut impl FnMut(&mut [Frame<'_>]),
    ) -> usize {
        app(frames);
        let mut refused = 0;
        for (frame, taken) in frames.iter().zip(taken) {
            if !frame.is_sent {
                self.recycle(self.frame_of(taken.addr));
                continue;
            }
            let len = frame.len.min(frame.buf.len()) as u32;
            refused += usize::from(!self.give(xdp_desc { len, ..*taken }));
        }
        refused
    }

    /// Makes the kernel send all frames in the ring, also those of earlier bursts.
    #[inline]
    fn finish(&mut self) {
        self.counts.set_free(self.free.len());
        self.is_stuck = false;
        if self.sent > 0 {
            self.kick();
        }
    }

    fn kick(&mut self) {
        self.rings.send.show();
        let mut waiting = self.rings.send.waiting();
        for _ in 0..KICKS_MAX {
            if waiting == 0 || !self.rings.send.wants_wake() {
                return;
            }
            match self.device.send() {
                Ok(true) => {}
                Ok(false) => return,
                Err(_) => return self.counts.refuse(),
            }
            let left = self.rings.send.waiting();
            if left == waiting {
                break;
            }
            waiting = left;
        }
        // The maximum is under way: the kernel must be called again for the rest.
        self.is_stuck = waiting > 0;
    }

    /// The memory from an address to the end of its frame.
    ///
    /// # Safety
    /// The frame is lent, and there is no other reference into it.
    #[inline]
    unsafe fn room<'a>(&self, address: u64) -> &'a mut [u8] {
        let offset = address as u32 & (self.chunk - 1);
        let len = (self.chunk - offset) as usize;
        // SAFETY: within the memory, as the frame is one of ours; initialized by the mapping; the
        // caller guarantees the rest.
        unsafe { slice::from_raw_parts_mut(self.memory.base().add(address as usize), len) }
    }
}

impl<D: XdpDevice> Frames for XdpQueue<D> {
    fn mtu(&self) -> usize {
        self.mtu
    }

    fn burst(&mut self, mut app: impl FnMut(&mut [Frame<'_>])) -> io::Result<FrameBurst> {
        self.reap();
        self.fill();
        if self.rings.fill.wants_wake() {
            self.device.receive();
        }
        const NONE: xdp_desc = xdp_desc { addr: 0, len: 0, options: 0 };
        let mut taken = [NONE; BURST_MAX];
        let received = self.take(&mut taken);
        let mut exchange = FrameBurst { received, refused: 0 };
        if received == 0 {
            self.finish();
            return Ok(exchange);
        }
        let mut frames = [const { MaybeUninit::<Frame<'_>>::uninit() }; BURST_MAX];
        for (frame, taken) in frames.iter_mut().zip(&taken[..received]) {
            // SAFETY: each was just lent, once, and is given away after the burst.
            let buf = unsafe { self.room(taken.addr) };
            frame.write(Frame { buf, len: taken.len as usize, is_sent: false });
        }
        // SAFETY: the first `received` were written; the cast only drops `MaybeUninit`.
        let frames =
            unsafe { slice::from_raw_parts_mut(frames.as_mut_ptr().cast::<Frame<'_>>(), received) };
        // Waking the first client takes longer than answering the others. In a short burst its
        // reply is sent first; in a long one, a single call matters more.
        let lead = if received <= SMALL { 1 } else { received };
        let (first, others) = frames.split_at_mut(lead);
        exchange.refused = self.answer(first, &taken[..lead], &mut app);
        if !others.is_empty() {
            if first.iter().any(|frame| frame.is_sent) {
                self.finish();
            }
            exchange.refused += self.answer(others, &taken[lead..], &mut app);
        }
        self.finish();
        Ok(exchange)
    }

    fn queue(&mut self, write: impl FnOnce(&mut [u8]) -> Option<usize>) -> bool {
        if self.late.len() == LATE_MAX {
            return false;
        }
        self.reap();
        let Some(frame) = self.free.pop() else { return false };
        self.pass(frame, FrameOwner::Free, FrameOwner::Lent);
        let addr = u64::from(frame) * u64::from(self.chunk) + u64::from(HEADROOM);
        // SAFETY: it was just lent.
        let room = unsafe { self.room(addr) };
        let Some(len) = write(room).filter(|len| *len <= room.len()) else {
            self.recycle(frame);
            return false;
        };
        self.late.push(xdp_desc { addr, len: len as u32, options: 0 });
        true
    }

    fn flush(&mut self, mut reported: impl FnMut(bool)) {
        for nth in 0..self.late.len() {
            let frame = self.late[nth];
            reported(self.give(frame));
        }
        self.late.clear();
        self.finish();
    }

    fn is_stuck(&self) -> bool {
        self.is_stuck
    }

    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.device.as_fd())
    }
}

#[cfg(test)]
impl<D: XdpDevice> XdpQueue<D> {
    /// How many frames are free, with the kernel for reception, lent, and with the kernel to be
    /// sent.
    pub fn census(&self) -> [usize; 4] {
        let count = |owner| self.owners.iter().filter(|one| **one == owner).count();
        let census =
            [FrameOwner::Free, FrameOwner::Filled, FrameOwner::Lent, FrameOwner::Sent].map(count);
        assert_eq!(census[0], self.free.len(), "what is free is listed once");
        assert_eq!([census[1], census[3]], [self.filled as usize, self.sent as usize]);
        assert_eq!(census.iter().sum::<usize>(), FRAMES as usize, "no frame is lost");
        census
    }

    /// How many deferred replies wait.
    pub fn late(&self) -> usize {
        self.late.len()
    }
}
