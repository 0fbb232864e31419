//! Threads that do not end unnoticed.

use rustix::event::{EventfdFlags, eventfd};
use std::any::Any;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};

/// A thread of the plane ended though nobody told it to.
#[derive(Debug)]
pub struct Failure {
    /// The thread's name.
    pub thread: String,
    /// Why it ended.
    pub cause: Cause,
}

/// Why a thread ended.
#[derive(Debug)]
pub enum Cause {
    /// A device, or what it needed to start, cannot be used.
    Io(io::Error),
    /// It panicked with this message: a defect.
    Panic(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cause {
            Cause::Io(error) => write!(f, "{} ended: {error}", self.thread),
            Cause::Panic(message) => write!(f, "{} panicked: {message}", self.thread),
        }
    }
}

impl std::error::Error for Failure {}

/// Called by a failing thread, as its last act. The process should end: its share of the clients
/// is no longer answered.
pub type OnFailure = Arc<dyn Fn(Failure) + Send + Sync>;

/// Becomes readable, and stays so, when the threads that share it are to stop. Who has one alone
/// may be called by it for other things as well.
#[derive(Clone, Debug)]
pub struct OnStop(Arc<Bell>);

#[derive(Debug)]
struct Bell {
    fd: OwnedFd,
    is_stopped: AtomicBool,
}

impl OnStop {
    /// One that is not readable yet.
    ///
    /// # Errors
    /// The process has no file descriptor left.
    pub fn new() -> io::Result<Self> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self(Arc::new(Bell { fd, is_stopped: AtomicBool::new(false) })))
    }

    /// Tells every thread that shares it to stop.
    pub fn stop(&self) {
        self.0.is_stopped.store(true, Ordering::Release);
        self.ring();
    }

    /// Makes it readable.
    pub(crate) fn ring(&self) {
        // Only a counter at its very end refuses, and then it is readable already.
        let _ = rustix::io::write(&self.0.fd, &1u64.to_ne_bytes());
    }

    /// Whether it was readable because the threads are to stop. If not, it is not readable any
    /// more, and what it was rung for is to be looked at now.
    pub(crate) fn hear(&self) -> bool {
        if self.0.is_stopped.load(Ordering::Acquire) {
            return true;
        }
        let _ = rustix::io::read(&self.0.fd, &mut [0; 8]);
        // Told to stop just now: that ring may be the one that was read.
        self.0.is_stopped.load(Ordering::Acquire)
    }
}

impl AsFd for OnStop {
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
        // What the body owned is gone when it panicked; nothing half done is used afterwards.
        let cause = match catch_unwind(AssertUnwindSafe(body)) {
            Ok(Ok(())) => return,
            Ok(Err(error)) => Cause::Io(error),
            Err(panic) => Cause::Panic(message(&*panic)),
        };
        on_failure(Failure { thread: name, cause });
    })
}

/// What a panic said.
pub fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "no message".to_owned())
}
