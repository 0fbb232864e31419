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

/// An answer that comes later, or why there is none; a task can await it, or a thread wait for it.
/// Dropping it does not cancel the request.
#[must_use = "the answer says what was refused"]
pub struct Answer<T, E = Stopped>(oneshot::Receiver<Result<T, E>>);

/// Gives the answer, once. Dropping it answers [`Stopped`].
pub struct Promise<T, E = Stopped>(oneshot::Sender<Result<T, E>>);

/// An answer, and what gives it.
pub fn answer<T, E>() -> (Promise<T, E>, Answer<T, E>) {
    let (sender, receiver) = oneshot::channel();
    (Promise(sender), Answer(receiver))
}

impl<T, E> Promise<T, E> {
    /// Gives the answer.
    pub fn give(self, answer: T) {
        self.answer(Ok(answer));
    }

    /// Gives the answer, or says why there is none.
    pub fn answer(self, answer: Result<T, E>) {
        // The requester may not wait for it.
        let _ = self.0.send(answer);
    }
}

impl<T, E: From<Stopped>> Answer<T, E> {
    /// An immediate answer.
    pub fn answered(answer: Result<T, E>) -> Self {
        let (promise, later) = self::answer();
        promise.answer(answer);
        later
    }

    /// Blocks this thread until the answer.
    ///
    /// # Errors
    /// The reason of a refusal, or the answerer ended before.
    pub fn wait(self) -> Result<T, E> {
        block_on(self)
    }
}

impl<T, E: From<Stopped>> Future for Answer<T, E> {
    type Output = Result<T, E>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx).map(|given| given.unwrap_or_else(|_| Err(E::from(Stopped))))
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
pub fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(ThreadWaker(thread::current())));
    let (mut cx, mut future) = (Context::from_waker(&waker), pin!(future));
    loop {
        match future.as_mut().poll(&mut cx) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn dropped_promise_wakes_the_waiter() {
        let (promise, answer) = answer::<u8, Stopped>();
        let waiter = thread::spawn(|| answer.wait());
        drop(promise);
        assert_eq!(waiter.join().expect("no panic"), Err(Stopped));
    }

    #[test]
    fn answer_wakes_the_task() {
        struct WakeFlag(AtomicBool);
        impl Wake for WakeFlag {
            fn wake(self: Arc<Self>) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let (promise, mut answer) = answer::<u8, Stopped>();
        let woken = Arc::new(WakeFlag(AtomicBool::new(false)));
        let waker = Waker::from(Arc::clone(&woken));
        let mut context = Context::from_waker(&waker);
        assert!(Pin::new(&mut answer).poll(&mut context).is_pending());
        promise.give(7);
        assert!(woken.0.load(Ordering::Relaxed));
        assert_eq!(Pin::new(&mut answer).poll(&mut context), Poll::Ready(Ok(7)));
    }
}
