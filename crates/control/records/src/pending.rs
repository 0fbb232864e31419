//! An answer that comes later; a task can await it, or a thread wait for it.
use crate::Refused;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use zone_manager::{Answer, Stopped, answer};

/// An answer that comes later. Dropping it does not cancel the request.
#[must_use = "the answer says whether the request was refused"]
pub struct Pending<T>(Answer<Result<T, Refused>>);

/// Gives the answer, once. Dropping it answers that the service is stopping.
pub struct Promise<T>(zone_manager::Promise<Result<T, Refused>>);

/// An answer that comes later, and what gives it.
pub fn pending<T>() -> (Promise<T>, Pending<T>) {
    let (promise, answer) = answer();
    (Promise(promise), Pending(answer))
}

impl<T> Pending<T> {
    /// An immediate answer.
    pub fn answered(answer: Result<T, Refused>) -> Self {
        let (promise, pending) = pending();
        promise.answer(answer);
        pending
    }

    /// Blocks this thread until the answer.
    ///
    /// # Errors
    /// The reason of the refusal.
    pub fn wait(self) -> Result<T, Refused> {
        self.0.wait().unwrap_or_else(|Stopped| Err(Refused::Stopping))
    }
}

impl<T> Future for Pending<T> {
    type Output = Result<T, Refused>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let answered = Pin::new(&mut self.0).poll(context);
        answered.map(|answer| answer.unwrap_or_else(|Stopped| Err(Refused::Stopping)))
    }
}

impl<T> Promise<T> {
    /// Gives the answer.
    pub fn answer(self, answer: Result<T, Refused>) {
        self.0.give(answer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};
    use std::task::Waker;
    use std::thread;

    #[test]
    fn dropped_promise_wakes_the_waiter() {
        let (promise, pending) = pending::<u8>();
        let waiter = thread::spawn(|| pending.wait());
        drop(promise);
        assert_eq!(waiter.join().unwrap(), Err(Refused::Stopping));
    }

    #[test]
    fn answer_wakes_the_task() {
        struct WakeFlag(Mutex<bool>);
        impl std::task::Wake for WakeFlag {
            fn wake(self: Arc<Self>) {
                *self.0.lock().unwrap() = true;
            }
        }
        let (promise, mut pending) = pending::<u8>();
        let woken = Arc::new(WakeFlag(Mutex::new(false)));
        let waker = Waker::from(Arc::clone(&woken));
        let mut context = Context::from_waker(&waker);
        assert!(Pin::new(&mut pending).poll(&mut context).is_pending());
        promise.answer(Ok(7));
        assert!(*woken.0.lock().unwrap());
        assert_eq!(Pin::new(&mut pending).poll(&mut context), Poll::Ready(Ok(7)));
    }
}
