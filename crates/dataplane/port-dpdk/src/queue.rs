//! A queue of a device, as a port.

use crate::calls::{Calls, RawFrame};
use crate::counts::QueueCounts;
use crate::device::Device;
use crate::interrupts::Interrupts;
use crate::limits::{EMPTY_POLLS_MAX, HOST_BURST_MAX, HOST_TURNS, LATE_MAX};
use crate::selection::Recipient;
use crate::{HostInterface, Selection};
use packet::BURST_MAX;
use packet::frame::LINK_MAX;
use port::{Frame, FrameBurst, Frames};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::slice;
use std::sync::Arc;

/// One queue of one device. Allocates only when it is made.
#[derive(Debug)]
pub struct DpdkQueue {
    /// Keeps the device started.
    _device: Arc<Device>,
    calls: &'static Calls,
    port: u16,
    queue: u16,
    mtu: usize,
    selection: Selection,
    /// What gets the frames for the host, and bursts until it is read.
    host: Option<Arc<HostInterface>>,
    host_turns: u32,
    /// `None`: the device has none, or may not pause.
    interrupts: Option<Interrupts>,
    /// Polls that received nothing, one after the other.
    empty_polls: u32,
    /// The frames of a burst for this server, those to be sent, and those to be freed.
    ours: FrameList,
    sent: FrameList,
    unused: FrameList,
    /// Frames that wait for a flush.
    late: Vec<RawFrame>,
    /// Whether its thread is one of DPDK's.
    has_joined: bool,
    may_pause: bool,
    counts: Arc<QueueCounts>,
}

// SAFETY: frames belong to the queue that holds them, and DPDK's buffers to no thread.
unsafe impl Send for DpdkQueue {}

/// Frames of a burst.
#[derive(Debug)]
struct FrameList {
    frames: [RawFrame; BURST_MAX],
    count: usize,
}

impl FrameList {
    const EMPTY: Self = Self { frames: [RawFrame::NONE; BURST_MAX], count: 0 };

    #[inline]
    fn push(&mut self, frame: RawFrame) {
        self.frames[self.count] = frame;
        self.count += 1;
    }
}

impl DpdkQueue {
    /// A queue of a started device.
    pub(crate) fn new(
        device: Arc<Device>,
        (queue, mtu): (u16, usize),
        selection: Selection,
        host: Option<Arc<HostInterface>>,
    ) -> Self {
        let (calls, port) = (device.library().calls(), device.port());
        // The first queue sends what the kernel sends, so that the order is kept.
        let sender = host.as_deref().filter(|_| queue == 0);
        Self {
            _device: device,
            calls,
            port,
            queue,
            mtu,
            selection,
            interrupts: Interrupts::open(calls, (port, queue), sender),
            host,
            host_turns: 0,
            empty_polls: 0,
            ours: FrameList::EMPTY,
            sent: FrameList::EMPTY,
            unused: FrameList::EMPTY,
            late: Vec::with_capacity(LATE_MAX),
            has_joined: false,
            may_pause: true,
            counts: Arc::default(),
        }
    }

    /// Lets its worker poll it without pauses.
    #[must_use]
    pub fn without_pauses(mut self) -> Self {
        self.may_pause = false;
        self.interrupts = None;
        self
    }

    /// Whether the device wakes the worker.
    pub(crate) fn has_interrupts(&self) -> bool {
        self.interrupts.is_some()
    }

    /// Its counters.
    pub fn counts(&self) -> &Arc<QueueCounts> {
        &self.counts
    }

    /// Makes this thread one of DPDK's: it then has a cache of buffers. It works without, as when
    /// DPDK knows as many threads as it can, but slower.
    #[cold]
    fn join(&mut self) {
        self.has_joined = true;
        // SAFETY: it concerns this thread alone.
        unsafe { (self.calls.join)() };
    }

    /// Receives up to a burst, of which `ours` has the frames for this server then.
    #[inline]
    fn receive(&mut self) {
        let (most, taken) = (BURST_MAX as u16, self.ours.frames.as_mut_ptr());
        // SAFETY: the device is started, this is the only user of the queue, and there is room for
        // so many frames.
        let count = unsafe { (self.calls.receive)(self.port, self.queue, taken, most) };
        self.ours.count = 0;
        self.counts.polls.add(1);
        if count == 0 {
            self.empty_polls = self.empty_polls.saturating_add(1);
            return self.counts.empty.add(1);
        }
        self.empty_polls = 0;
        self.unused.count = 0;
        let mut passed = 0;
        for nth in 0..usize::from(count).min(BURST_MAX) {
            let frame = self.ours.frames[nth];
            // SAFETY: the frame was just received, and there is no other reference into it.
            let bytes = unsafe { slice::from_raw_parts(frame.data, frame.len as usize) };
            match self.selection.recipient(bytes) {
                Recipient::Server => self.ours.push(frame),
                Recipient::Host => {
                    self.pass(bytes, &mut passed);
                    self.unused.push(frame);
                }
                Recipient::Foreign => {
                    self.counts.foreign.add(1);
                    self.unused.push(frame);
                }
            }
        }
        self.give_back(&self.unused);
    }

    /// Gives the kernel a frame for the host, if it has an interface of this device, and the burst
    /// has not passed too many.
    #[cold]
    fn pass(&self, frame: &[u8], passed: &mut usize) {
        let Some(host) = &self.host else { return self.counts.other.add(1) };
        *passed += 1;
        match *passed <= HOST_BURST_MAX && host.pass(frame) {
            true => self.counts.to_host.add(1),
            false => self.counts.host_full.add(1),
        }
    }

    /// Sends packets of the kernel's network stack, a limited number a call.
    #[cold]
    fn forward(&mut self) {
        let Some(host) = self.host.as_ref().filter(|_| self.queue == 0) else { return };
        self.sent.count = 0;
        while self.sent.count < HOST_BURST_MAX
            && let Some(frame) = self.take()
        {
            // SAFETY: the frame was just taken, has so much room of initialized memory, and there
            // is no other reference into it.
            let room = unsafe { slice::from_raw_parts_mut(frame.data, frame.room as usize) };
            let Some(len) = host.take(room).filter(|len| *len <= self.mtu + LINK_MAX) else {
                // SAFETY: the frame is ours, and used no more.
                unsafe { (self.calls.give_back)(&raw const frame, 1) };
                break;
            };
            self.sent.push(RawFrame { len: len as u32, ..frame });
        }
        self.counts.from_host.add(self.sent.count);
        self.send(&self.sent.frames[..self.sent.count]);
    }

    /// Receives a burst, and now and then what the kernel sends. A queue that has received nothing
    /// for long has the device interrupt, if it can.
    #[inline]
    fn poll(&mut self) {
        let was_armed = self.interrupts.as_mut().is_some_and(Interrupts::disarm);
        if was_armed {
            // An interrupt may come before what it tells of.
            self.empty_polls = 0;
        }
        self.receive();
        self.host_turns += 1;
        if self.host_turns >= HOST_TURNS || was_armed {
            self.host_turns = 0;
            self.forward();
        }
        if self.empty_polls >= EMPTY_POLLS_MAX
            && self.interrupts.as_mut().is_some_and(Interrupts::arm)
        {
            self.receive();
            match self.empty_polls {
                0 => drop(self.interrupts.as_mut().map(Interrupts::disarm)),
                _ => self.counts.waits.add(1),
            }
        }
    }

    /// Takes a free frame.
    fn take(&self) -> Option<RawFrame> {
        let mut frame = RawFrame::NONE;
        // SAFETY: the device is started, and one frame is written.
        let taken = unsafe { (self.calls.take)(self.port, &raw mut frame) };
        (taken != 0).then_some(frame)
    }

    /// Frees frames.
    #[inline]
    fn give_back(&self, list: &FrameList) {
        if list.count > 0 {
            // SAFETY: so many frames, which are used no more.
            unsafe { (self.calls.give_back)(list.frames.as_ptr(), list.count as u16) };
        }
    }

    /// Sends frames; returns how many the device took, the first ones. The others are free.
    #[inline]
    fn send(&self, frames: &[RawFrame]) -> usize {
        if frames.is_empty() {
            return 0;
        }
        let count = frames.len().min(BURST_MAX) as u16;
        // SAFETY: as in `receive`; each frame is ours, and its length within its room.
        let sent = unsafe { (self.calls.send)(self.port, self.queue, frames.as_ptr(), count) };
        self.counts.refused.add(frames.len() - usize::from(sent));
        sent.into()
    }
}

impl Frames for DpdkQueue {
    fn mtu(&self) -> usize {
        self.mtu
    }

    fn burst(&mut self, mut app: impl FnMut(&mut [Frame<'_>])) -> io::Result<FrameBurst> {
        if !self.has_joined {
            self.join();
        }
        self.poll();
        let received = self.ours.count;
        if received == 0 {
            return Ok(FrameBurst::default());
        }
        let mut frames = [const { MaybeUninit::<Frame<'_>>::uninit() }; BURST_MAX];
        for (frame, raw) in frames.iter_mut().zip(&self.ours.frames[..received]) {
            // SAFETY: the frame was just received, has so much room of initialized memory, and
            // there is no other reference into it.
            let buf = unsafe { slice::from_raw_parts_mut(raw.data, raw.room as usize) };
            frame.write(Frame { buf, len: raw.len as usize, is_sent: false });
        }
        // SAFETY: the first `received` were written; the cast only drops `MaybeUninit`.
        let frames =
            unsafe { slice::from_raw_parts_mut(frames.as_mut_ptr().cast::<Frame<'_>>(), received) };
        app(frames);
        (self.sent.count, self.unused.count) = (0, 0);
        for (frame, raw) in frames.iter().zip(&self.ours.frames) {
            let len = frame.len.min(frame.buf.len()) as u32;
            match frame.is_sent {
                true => self.sent.push(RawFrame { len, ..*raw }),
                false => self.unused.push(*raw),
            }
        }
        let refused = self.sent.count - self.send(&self.sent.frames[..self.sent.count]);
        self.give_back(&self.unused);
        Ok(FrameBurst { received, refused })
    }

    fn queue(&mut self, write: impl FnOnce(&mut [u8]) -> Option<usize>) -> bool {
        if self.late.len() == LATE_MAX {
            return false;
        }
        let Some(frame) = self.take() else { return false };
        // SAFETY: the frame was just taken, as in `burst`.
        let room = unsafe { slice::from_raw_parts_mut(frame.data, frame.room as usize) };
        let Some(len) = write(room).filter(|len| *len <= frame.room as usize) else {
            // SAFETY: the frame is ours, and used no more.
            unsafe { (self.calls.give_back)(&raw const frame, 1) };
            return false;
        };
        self.late.push(RawFrame { len: len as u32, ..frame });
        true
    }

    fn flush(&mut self, mut reported: impl FnMut(bool)) {
        let sent = self.send(&self.late);
        (0..self.late.len()).for_each(|nth| reported(nth < sent));
        self.late.clear();
    }

    fn is_stuck(&self) -> bool {
        false
    }

    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        self.interrupts.as_ref()?.as_fd()
    }

    fn may_pause(&self) -> bool {
        self.may_pause
    }
}

impl Drop for DpdkQueue {
    fn drop(&mut self) {
        let mut list = FrameList::EMPTY;
        self.late.drain(..).for_each(|frame| list.push(frame));
        self.give_back(&list);
    }
}
