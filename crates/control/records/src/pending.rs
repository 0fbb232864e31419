//! An answer that comes later; a task can await it, or a thread wait for it.
use crate::Refused;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

struct PendingState<T> {
    answer: Option<Result<T, Refused>>,
    is_answered: bool,
    waker: Option<Waker>,
}

struct PendingShared<T> {
    state: Mutex<PendingState<T>>,
    answered: Condvar,
}

impl<T> PendingShared<T> {
    fn state(&self) -> MutexGuard<'_, PendingState<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An answer that comes later. Dropping it does not cancel the request.
#[must_use = "the answer says whether the request was refused"]
pub struct Pending<T>(Arc<PendingShared<T>>);

/// Gives the answer, once. Dropping it answers that the service is stopping.
pub(crate) struct Promise<T>(Arc<PendingShared<T>>);

pub(crate) fn pending<T>() -> (Promise<T>, Pending<T>) {
    let state = Mutex::new(PendingState { answer: None, is_answered: false, waker: None });
    let shared = Arc::new(PendingShared { state, answered: Condvar::new() });
    (Promise(Arc::clone(&shared)), Pending(shared))
}

impl<T> Pending<T> {
    /// An immediate answer.
    pub(crate) fn answered(answer: Result<T, Refused>) -> Self {
        let (promise, pending) = pending();
        promise.answer(answer);
        pending
    }

    /// Blocks this thread until the answer.
    ///
    /// # Errors
    /// The reason of the refusal.
    pub fn wait(self) -> Result<T, Refused> {
        let mut state = self.0.state();
        loop {
            match state.answer.take() {
                Some(answer) => return answer,
                None => {
                    let waited = self.0.answered.wait(state);
                    state = waited.unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }
}

impl<T> Future for Pending<T> {
    type Output = Result<T, Refused>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.0.state();
        match state.answer.take() {
            Some(answer) => Poll::Ready(answer),
            None => {
                state.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl<T> Promise<T> {
    pub(crate) fn answer(self, answer: Result<T, Refused>) {
        self.give(answer);
    }

    /// Only the first answer counts.
    fn give(&self, answer: Result<T, Refused>) {
        let mut state = self.0.state();
        if state.is_answered {
            return;
        }
        (state.answer, state.is_answered) = (Some(answer), true);
        let waker = state.waker.take();
        drop(state);
        self.0.answered.notify_all();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T> Drop for Promise<T> {
    fn drop(&mut self) {
        self.give(Err(Refused::Stopping));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
