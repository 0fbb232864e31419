//! Threads that do not end unnoticed.

use rustix::event::{EventfdFlags, eventfd};
use std::any::Any;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
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

/// Becomes readable, and stays so, when the threads that share it are to stop.
#[derive(Clone, Debug)]
pub struct OnStop(Arc<OwnedFd>);

impl OnStop {
    /// One that is not readable yet.
    ///
    /// # Errors
    /// The process has no file descriptor left.
    pub fn new() -> io::Result<Self> {
        Ok(Self(Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)))
    }

    /// Tells every thread that shares it to stop.
    pub fn stop(&self) {
        // Only a counter at its very end refuses, and then it is readable already.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }
}

impl AsFd for OnStop {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
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
