//! An answer that comes later.
use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use tokio::sync::oneshot;

/// The zone manager has ended: nothing is applied any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped;

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the zone manager has ended: the server is stopping")
    }
}

impl std::error::Error for Stopped {}

/// An answer that comes later; a task can await it, or a thread wait for it. Dropping it does not
/// cancel the request.
#[must_use = "the answer says what was refused"]
pub struct Answer<T>(oneshot::Receiver<T>);

/// Gives the answer, once. Dropping it answers [`Stopped`].
pub struct Promise<T>(oneshot::Sender<T>);

/// An answer, and what gives it.
pub fn answer<T>() -> (Promise<T>, Answer<T>) {
    let (sender, receiver) = oneshot::channel();
    (Promise(sender), Answer(receiver))
}

impl<T> Promise<T> {
    /// Gives the answer.
    pub fn give(self, answer: T) {
        // The requester may not wait for it.
        let _ = self.0.send(answer);
    }
}

impl<T> Answer<T> {
    /// Blocks this thread until the answer.
    ///
    /// # Errors
    /// The zone manager ended before.
    pub fn wait(self) -> Result<T, Stopped> {
        block_on(self)
    }
}

impl<T> Future for Answer<T> {
    type Output = Result<T, Stopped>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx).map_err(|_| Stopped)
    }
}

/// Wakes a blocked thread.
struct ThreadWaker(Thread);

impl Wake for ThreadWaker {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Blocks this thread until a future is ready. The future must not need a runtime.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(ThreadWaker(thread::current())));
    let (mut cx, mut future) = (Context::from_waker(&waker), pin!(future));
    loop {
        match future.as_mut().poll(&mut cx) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}
