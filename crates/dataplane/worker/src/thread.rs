//! Threads whose end is always reported.

use crate::panics::{catch_panic, record_panics};
use rustix::event::{EventfdFlags, eventfd};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};

/// A thread ended without a command to stop.
#[derive(Debug)]
pub struct ThreadFailure {
    /// The thread's name.
    pub thread: String,
    /// Why it ended.
    pub cause: FailureCause,
}

/// Why a thread ended.
#[derive(Debug)]
pub enum FailureCause {
    /// A device, or what it needed to start, cannot be used.
    Io(io::Error),
    /// It panicked at this place with this message: a defect.
    Panic(String),
}

impl fmt::Display for ThreadFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cause {
            FailureCause::Io(error) => write!(f, "{} ended: {error}", self.thread),
            FailureCause::Panic(message) => write!(f, "{} panicked: {message}", self.thread),
        }
    }
}

impl std::error::Error for ThreadFailure {}

/// Called by a failing thread, as its last act. The process should end: the thread's share of the
/// clients is no longer answered.
pub type OnFailure = Arc<dyn Fn(ThreadFailure) + Send + Sync>;

/// Becomes readable, and stays so, when the threads that share it must stop. A thread with its own
/// hook can be woken by it for other reasons as well.
#[derive(Clone, Debug)]
pub struct StopHook(Arc<Waker>);

#[derive(Debug)]
struct Waker {
    fd: OwnedFd,
    is_stopped: AtomicBool,
}

impl StopHook {
    /// A hook that is not readable yet.
    ///
    /// # Errors
    /// No file descriptor is left.
    pub fn new() -> io::Result<Self> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self(Arc::new(Waker { fd, is_stopped: AtomicBool::new(false) })))
    }

    /// Stops all threads that share it.
    pub fn stop(&self) {
        self.0.is_stopped.store(true, Ordering::Release);
        self.wake();
    }

    /// Makes it readable.
    pub(crate) fn wake(&self) {
        // Only a full counter refuses a write, and then it is readable already.
        let _ = rustix::io::write(&self.0.fd, &1u64.to_ne_bytes());
    }

    /// Whether the threads must stop. If not, it is not readable any more, and the other reasons
    /// must be checked now.
    pub(crate) fn take_stop(&self) -> bool {
        if self.0.is_stopped.load(Ordering::Acquire) {
            return true;
        }
        let _ = rustix::io::read(&self.0.fd, &mut [0; 8]);
        // A stop may have come at this moment, and its wake-up may be the one that was read.
        self.0.is_stopped.load(Ordering::Acquire)
    }
}

impl AsFd for StopHook {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.fd.as_fd()
    }
}

/// Starts a thread whose error or panic is reported.
///
/// # Errors
/// The system has no thread left.
pub fn spawn(
    name: String,
    on_failure: OnFailure,
    body: impl FnOnce() -> io::Result<()> + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    Builder::new().name(name.clone()).spawn(move || {
        record_panics();
        // A panic drops what the body owned, so nothing half done is used afterwards.
        let cause = match catch_panic(body) {
            Ok(Ok(())) => return,
            Ok(Err(error)) => FailureCause::Io(error),
            Err(panic) => FailureCause::Panic(panic),
        };
        on_failure(ThreadFailure { thread: name, cause });
    })
}
