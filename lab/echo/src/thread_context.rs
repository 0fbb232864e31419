//! The context of one thread, the same for all models.

use crate::Error;
use crate::model::Device;
use crate::reply::{Reason, turn_around};
use crate::shared_counters::{SharedCounters, ThreadCounters};
use rustix::time::{ClockId, clock_gettime};
use std::hint;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use worker::StopHook;

/// The context of a thread: its socket, its counters and its options.
pub struct ThreadContext {
    /// Its number, through all processes.
    pub number: usize,
    /// The only CPU it may use.
    pub cpu: Option<usize>,
    /// Datagrams a call or a wake-up at most.
    pub batch: usize,
    pub socket: Arc<OwnedFd>,
    /// Its device, until it begins.
    pub device: Mutex<Option<Device>>,
    /// Readable once a stop is requested, for models that wait in the kernel.
    pub on_stop: StopHook,
    pub counters: Arc<SharedCounters>,
    /// Time to be spent on each query.
    pub spin: Duration,
}

impl ThreadContext {
    /// Whether the thread is to continue.
    #[inline]
    pub fn goes_on(&self) -> bool {
        !self.counters.is_stopped()
    }

    /// Tells all threads to stop.
    pub fn stop(&self) {
        self.counters.stop();
        self.on_stop.stop();
    }

    #[inline]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// The counters of the thread.
    #[inline]
    pub fn counters_mut(&self) -> ThreadCounters<'_> {
        self.counters.counters_mut(self.number)
    }

    /// Turns a message into its answer, in place, and spends the configured time on it. False where
    /// it has none; that is counted.
    #[inline]
    pub fn answer(&self, message: &mut [u8], peer_port: u16) -> bool {
        let turned = match peer_port {
            0 => Err(Reason::NoPeer),
            _ => turn_around(message),
        };
        match turned {
            Ok(()) => {
                spend(self.spin);
                true
            }
            Err(reason) => {
                self.counters_mut().dropped(reason, 1);
                false
            }
        }
    }

    /// Counts the outcomes of answers that were given to the kernel.
    #[inline]
    pub fn sent(&self, handed: usize, taken: usize) {
        self.counters_mut().answered(taken);
        if taken < handed {
            self.counters_mut().dropped(Reason::Unsent, handed - taken);
        }
    }

    /// Pins the calling thread, if it is to be pinned.
    pub fn enter(&self) -> Result<(), Error> {
        let Some(cpu) = self.cpu else { return Ok(()) };
        cpu::pin(cpu).map_err(|error| Error::failed(format!("cannot pin it to CPU {cpu}"), error))
    }
}

/// Busy-waits by the clock, so that the time is the same on every machine.
#[inline]
pub fn spend(time: Duration) {
    if time.is_zero() {
        return;
    }
    let now = || {
        let now = clock_gettime(ClockId::Monotonic);
        Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
    };
    let end = now() + time;
    while now() < end {
        hint::spin_loop();
    }
}

/// Whether a socket still works after this receive error: a timeout, a signal, or lack of memory.
pub fn is_passing(error: &std::io::Error) -> bool {
    let passing = [libc::EAGAIN, libc::EINTR, libc::ENOBUFS, libc::ENOMEM];
    error.raw_os_error().is_some_and(|code| passing.contains(&code))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::time::Instant;

    impl ThreadContext {
        /// That of the only thread, which is not pinned.
        pub fn alone() -> Self {
            let socket: OwnedFd = UdpSocket::bind("127.0.0.1:0").unwrap().into();
            Self {
                number: 0,
                cpu: None,
                batch: 1,
                socket: Arc::new(socket),
                device: Mutex::default(),
                on_stop: StopHook::new().unwrap(),
                counters: Arc::new(SharedCounters::new(1).unwrap()),
                spin: Duration::ZERO,
            }
        }
    }

    #[test]
    fn queries_from_port_0_get_no_answer() {
        let context = ThreadContext::alone();
        assert!(context.answer(&mut [0; 12], 1));
        assert!(!context.answer(&mut [0; 12], 0));
        assert_eq!(context.counters.counts(0).dropped[Reason::NoPeer as usize], 1);
    }

    #[test]
    fn spin_time_is_exact() {
        let begun = Instant::now();
        spend(Duration::from_millis(5));
        assert!(begun.elapsed() >= Duration::from_millis(5));
    }
}
