//! Counters of every thread of every process, in shared memory.

use crate::limits::STORY_MAX;
use crate::reply::Reason;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::io;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// The stage of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum State {
    /// Not started; the value of new memory.
    Coming = 0,
    /// It answers.
    Running = 1,
    /// It has stopped as commanded.
    Stopped = 2,
    /// It ended by itself, with a reason.
    Failed = 3,
}

impl State {
    fn of(number: u32) -> Self {
        [Self::Coming, Self::Running, Self::Stopped]
            .into_iter()
            .find(|state| *state as u32 == number)
            .unwrap_or(Self::Failed)
    }
}

/// The counters of one thread. Written by that thread alone, so that no cache line has two writers;
/// as CPUs fetch lines in pairs, the next place begins two lines on.
#[repr(C, align(128))]
struct CounterSlot {
    received: AtomicU64,
    answered: AtomicU64,
    bursts: AtomicU64,
    dropped: [AtomicU64; Reason::COUNT],
    /// Nanoseconds on a CPU, when it has ended.
    cpu_ns: AtomicU64,
    /// The kernel's number of the thread; 0 before it runs.
    tid: AtomicU32,
    state: AtomicU32,
    /// Why it failed, as UTF-8, padded with zeros.
    story: [AtomicU8; STORY_MAX],
}

/// The stop word: all threads read it, and it is written once.
#[repr(C, align(128))]
struct Head {
    stop: AtomicBool,
}

/// Shared memory: a head and a place for each thread. A process that is forked has the same.
pub struct SharedCounters {
    memory: NonNull<Head>,
    threads: usize,
}

// SAFETY: what is behind the pointer lives as long as the shared counters and is made of atomics
// only.
unsafe impl Send for SharedCounters {}
// SAFETY: as above.
unsafe impl Sync for SharedCounters {}

/// Counts of one thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Datagrams received: `answered` + all of `dropped`, between two bursts.
    pub received: u64,
    /// Answers that the kernel accepted.
    pub answered: u64,
    /// Wake-ups, or calls, that brought at least one datagram.
    pub bursts: u64,
    /// Datagrams not answered; [`Reason`] is the index.
    pub dropped: [u64; Reason::COUNT],
}

impl Counts {
    /// All that were not answered.
    pub fn dropped(&self) -> u64 {
        self.dropped.iter().sum()
    }

    /// The sum of both.
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            received: self.received + other.received,
            answered: self.answered + other.answered,
            bursts: self.bursts + other.bursts,
            dropped: std::array::from_fn(|reason| self.dropped[reason] + other.dropped[reason]),
        }
    }

    /// The change since `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        let less = u64::saturating_sub;
        Self {
            received: less(self.received, earlier.received),
            answered: less(self.answered, earlier.answered),
            bursts: less(self.bursts, earlier.bursts),
            dropped: std::array::from_fn(|r| less(self.dropped[r], earlier.dropped[r])),
        }
    }
}

impl SharedCounters {
    /// For this many threads, all zero.
    ///
    /// # Errors
    /// No memory is left.
    pub fn new(threads: usize) -> io::Result<Self> {
        let (access, kind) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a new mapping, at a place the kernel chooses.
        let memory = unsafe { mmap_anonymous(ptr::null_mut(), Self::size(threads), access, kind)? };
        let memory = NonNull::new(memory.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { memory, threads })
    }

    fn size(threads: usize) -> usize {
        size_of::<Head>() + threads * size_of::<CounterSlot>()
    }

    fn head(&self) -> &Head {
        // SAFETY: the mapping is page-aligned, begins with a head, and zeros are a valid one.
        unsafe { self.memory.as_ref() }
    }

    fn places(&self) -> &[CounterSlot] {
        // SAFETY: behind the head, whose size is a multiple of a place's alignment, are so many
        // places; zeros are valid ones.
        unsafe { slice::from_raw_parts(self.memory.as_ptr().add(1).cast(), self.threads) }
    }

    /// Tells all threads to stop.
    pub fn stop(&self) {
        self.head().stop.store(true, Ordering::Relaxed);
    }

    /// Whether threads are to stop.
    #[inline]
    pub fn is_stopped(&self) -> bool {
        self.head().stop.load(Ordering::Relaxed)
    }

    /// A thread's counts.
    pub fn counts(&self, thread: usize) -> Counts {
        let place = &self.places()[thread];
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            received: read(&place.received),
            answered: read(&place.answered),
            bursts: read(&place.bursts),
            dropped: std::array::from_fn(|reason| read(&place.dropped[reason])),
        }
    }

    /// The stage of a thread.
    pub fn state(&self, thread: usize) -> State {
        State::of(self.places()[thread].state.load(Ordering::Acquire))
    }

    /// Why a thread failed.
    pub fn story(&self, thread: usize) -> String {
        let bytes = self.places()[thread].story.iter().map(|byte| byte.load(Ordering::Relaxed));
        let bytes: Vec<u8> = bytes.take_while(|byte| *byte != 0).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The kernel's number of a thread, once it runs.
    pub fn tid(&self, thread: usize) -> Option<u32> {
        let tid = self.places()[thread].tid.load(Ordering::Relaxed);
        (tid != 0).then_some(tid)
    }

    /// How long a thread was on a CPU, user and system; `None` where the kernel does not report it.
    pub fn cpu_time(&self, thread: usize) -> Option<Duration> {
        let ended = self.places()[thread].cpu_ns.load(Ordering::Relaxed);
        if ended > 0 {
            return Some(Duration::from_nanos(ended));
        }
        let path = format!("/proc/{}/schedstat", self.tid(thread)?);
        let text = std::fs::read_to_string(path).ok()?;
        Some(Duration::from_nanos(text.split(' ').next()?.parse().ok()?))
    }

    /// The counters of a thread, for that thread.
    pub fn counters_mut(&self, thread: usize) -> ThreadCounters<'_> {
        ThreadCounters(&self.places()[thread])
    }
}

impl Drop for SharedCounters {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this size; no reference is left, as each borrows `self`.
        // That it cannot be unmapped would be a defect, and costs memory only.
        let _ = unsafe { munmap(self.memory.as_ptr().cast(), Self::size(self.threads)) };
    }
}

/// One thread's place, as that thread writes it.
#[derive(Clone, Copy)]
pub struct ThreadCounters<'b>(&'b CounterSlot);

impl ThreadCounters<'_> {
    /// No other thread writes here, so that a load and a store need not be one operation.
    #[inline]
    fn add(counter: &AtomicU64, n: u64) {
        counter.store(counter.load(Ordering::Relaxed) + n, Ordering::Relaxed);
    }

    /// A wake-up or a call brought `received` datagrams.
    #[inline]
    pub fn burst(&self, received: usize) {
        Self::add(&self.0.bursts, 1);
        Self::add(&self.0.received, received as u64);
    }

    /// The kernel took this many answers.
    #[inline]
    pub fn answered(&self, n: usize) {
        Self::add(&self.0.answered, n as u64);
    }

    /// This many were not answered.
    #[inline]
    pub fn dropped(&self, reason: Reason, n: usize) {
        Self::add(&self.0.dropped[reason as usize], n as u64);
    }

    /// This many that were counted as answered were refused after all.
    #[inline]
    pub fn refused(&self, n: u64) {
        let answered = self.0.answered.load(Ordering::Relaxed);
        self.0.answered.store(answered.saturating_sub(n), Ordering::Relaxed);
        Self::add(&self.0.dropped[Reason::Unsent as usize], n);
    }

    /// Replaces all counts: for a model that counts elsewhere.
    pub fn set(&self, counts: &Counts) {
        let set = |counter: &AtomicU64, n: u64| counter.store(n, Ordering::Relaxed);
        set(&self.0.received, counts.received);
        set(&self.0.answered, counts.answered);
        set(&self.0.bursts, counts.bursts);
        for (counter, n) in self.0.dropped.iter().zip(counts.dropped) {
            set(counter, n);
        }
    }

    /// The calling thread begins.
    pub fn begin(&self) {
        let tid = rustix::thread::gettid().as_raw_nonzero().get();
        self.0.tid.store(tid.unsigned_abs(), Ordering::Relaxed);
        self.0.state.store(State::Running as u32, Ordering::Release);
    }

    /// The calling thread ends: as commanded, or for this reason.
    pub fn end(&self, result: Result<(), String>) {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        let nanos = time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
        self.0.cpu_ns.store(nanos, Ordering::Relaxed);
        let state = match result {
            Ok(()) => State::Stopped,
            Err(story) => {
                for (place, byte) in self.0.story.iter().zip(story.bytes()) {
                    place.store(byte, Ordering::Relaxed);
                }
                State::Failed
            }
        };
        self.0.state.store(state as u32, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_counters_sum_their_threads() {
        let counters = SharedCounters::new(3).unwrap();
        let counters_mut = counters.counters_mut(1);
        counters_mut.burst(5);
        counters_mut.answered(3);
        counters_mut.dropped(Reason::Response, 2);
        let counts = counters.counts(1);
        assert_eq!((counts.received, counts.answered, counts.bursts), (5, 3, 1));
        assert_eq!((counts.dropped[Reason::Response as usize], counts.dropped()), (2, 2));
        assert_eq!((counters.counts(0), counters.counts(2)), Default::default());
        assert_eq!(counts.plus(&counts).since(&counts), counts);
        let set = Counts { received: 1, ..counts };
        counters_mut.set(&set);
        assert_eq!(counters.counts(1), set);
    }

    #[test]
    fn threads_report_their_state_and_failure() {
        let counters = SharedCounters::new(2).unwrap();
        assert_eq!(
            (counters.state(0), counters.tid(0), counters.cpu_time(0)),
            (State::Coming, None, None)
        );
        counters.counters_mut(0).begin();
        assert_eq!(counters.state(0), State::Running);
        assert!(counters.cpu_time(0).is_some(), "of one that runs");
        counters.counters_mut(0).end(Ok(()));
        assert_eq!(counters.state(0), State::Stopped);
        assert!(
            counters.cpu_time(0).is_some_and(|time| time > Duration::ZERO),
            "of one that ended"
        );
        counters.counters_mut(1).end(Err("é".repeat(STORY_MAX)));
        assert_eq!(counters.state(1), State::Failed);
        assert!(counters.story(1).starts_with("éé") && counters.story(0).is_empty());
        assert!(!counters.is_stopped());
        counters.stop();
        assert!(counters.is_stopped());
    }

    #[test]
    fn no_two_threads_share_cache_lines() {
        assert_eq!((align_of::<CounterSlot>(), size_of::<CounterSlot>() % 128), (128, 0));
        assert_eq!(size_of::<Head>(), 128);
    }
}
