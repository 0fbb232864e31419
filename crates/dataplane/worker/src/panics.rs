//! Panics on the threads that answer: their places and messages, without a line on standard error
//! for each, which a client could repeat at any rate.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{self, AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::sync::Once;

thread_local! {
    /// Whether the panics of this thread are recorded instead of printed.
    static IS_RECORDED: Cell<bool> = const { Cell::new(false) };
    /// The last panic that was not taken yet.
    static RECORDED: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs `act`; a panic ends it.
///
/// The caller must replace what `act` changes if it cannot be used half changed.
///
/// # Errors
/// Where `act` panicked, and its message.
#[inline]
pub fn catch_panic<T>(act: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(act)).map_err(|panic| describe(&*panic))
}

/// The place and the message of a panic that this thread has just caught.
#[cold]
pub(crate) fn describe(panic: &(dyn Any + Send)) -> String {
    RECORDED.take().unwrap_or_else(|| message(panic).to_owned())
}

/// Records the panics of this thread from now on. The code that catches them must report them.
pub(crate) fn record_panics() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let print = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !record(info) {
                print(info);
            }
        }));
    });
    IS_RECORDED.set(true);
}

/// Records a panic; false if this thread's are printed, or if an earlier one is still being
/// handled, so that the process is about to end.
fn record(info: &PanicHookInfo<'_>) -> bool {
    if !IS_RECORDED.get() {
        return false;
    }
    RECORDED.with(|recorded| {
        let Ok(mut recorded) = recorded.try_borrow_mut() else { return false };
        if recorded.is_some() {
            return false;
        }
        let place = info.location().map_or_else(String::new, |place| format!("{place}: "));
        *recorded = Some(place + message(info.payload()));
        true
    })
}

/// The message of a panic.
fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn panic_is_caught_with_its_place() {
        let caught = thread::spawn(|| {
            record_panics();
            let first = catch_panic(|| panic!("a defect")).expect_err("it panics");
            let second = catch_panic(|| [0; 4][std::hint::black_box(7)]).expect_err("it panics");
            assert_eq!(catch_panic(|| 7), Ok(7));
            [first, second]
        });
        let [first, second] = caught.join().expect("it was caught");
        for (caught, message) in [(first, ": a defect"), (second, " 7")] {
            assert!(caught.contains("src/panics.rs:") && caught.ends_with(message), "{caught}");
        }
    }

    #[test]
    fn panic_of_another_thread_has_its_message_alone() {
        assert_eq!(catch_panic(|| panic!("a test of {}", 1)), Err::<(), _>("a test of 1".into()));
    }
}
