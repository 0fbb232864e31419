//! An answer that comes later: to be awaited by a task, or waited for by a thread.
use crate::Refused;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

struct State<T> {
    answer: Option<Result<T, Refused>>,
    is_answered: bool,
    waker: Option<Waker>,
}

struct Shared<T> {
    state: Mutex<State<T>>,
    answered: Condvar,
}

impl<T> Shared<T> {
    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An answer that comes later. Who drops it only does not learn of it.
#[must_use = "what is refused is told by the answer"]
pub struct Pending<T>(Arc<Shared<T>>);

/// Gives the answer, once. Who drops it says that nothing was done, since the desk ends.
pub(crate) struct Promise<T>(Arc<Shared<T>>);

pub(crate) fn pending<T>() -> (Promise<T>, Pending<T>) {
    let state = Mutex::new(State { answer: None, is_answered: false, waker: None });
    let shared = Arc::new(Shared { state, answered: Condvar::new() });
    (Promise(Arc::clone(&shared)), Pending(shared))
}

impl<T> Pending<T> {
    /// One that is answered already.
    pub(crate) fn answered(answer: Result<T, Refused>) -> Self {
        let (promise, pending) = pending();
        promise.answer(answer);
        pending
    }

    /// Has this thread wait for the answer.
    ///
    /// # Errors
    /// Why it was refused.
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

    /// The first answer is the answer.
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
    fn a_dropped_promise_leaves_nobody_waiting() {
        let (promise, pending) = pending::<u8>();
        let waiter = thread::spawn(|| pending.wait());
        drop(promise);
        assert_eq!(waiter.join().unwrap(), Err(Refused::Stopping));
    }

    #[test]
    fn a_task_is_woken_by_the_answer() {
        struct Told(Mutex<bool>);
        impl std::task::Wake for Told {
            fn wake(self: Arc<Self>) {
                *self.0.lock().unwrap() = true;
            }
        }
        let (promise, mut pending) = pending::<u8>();
        let told = Arc::new(Told(Mutex::new(false)));
        let waker = Waker::from(Arc::clone(&told));
        let mut context = Context::from_waker(&waker);
        assert!(Pin::new(&mut pending).poll(&mut context).is_pending());
        promise.answer(Ok(7));
        assert!(*told.0.lock().unwrap());
        assert_eq!(Pin::new(&mut pending).poll(&mut context), Poll::Ready(Ok(7)));
    }
}
