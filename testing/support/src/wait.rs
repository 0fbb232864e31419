//! Waiting for what a test needs: the only way in which tests wait.
//!
//! A wait that does not end within the deadline fails the test. The message says what was awaited,
//! for how long, and what was seen last. A wait for what can no longer come ends at once: a check
//! that sees it panics.
use std::fmt::{Debug, Display};
use std::process::{Child, ExitStatus};
use std::sync::LazyLock;
use std::thread;
use std::time::{Duration, Instant};

/// The deadline of each wait. Only a test that fails lasts so long; on a busy machine the API
/// server of a cluster needs more than a minute to start.
const DEADLINE: Duration = Duration::from_secs(180);
/// A longer deadline, for slow machines: an emulated CPU.
const VARIABLE: &str = "DUNLIN_DEADLINE_SECONDS";

/// Between two checks: a part of the time waited so far, so that short waits end at once, and long
/// ones cost little.
const PAUSE_MIN: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(50);
const PAUSE_PART: u32 = 8;

/// The deadline of each wait, also for timeouts of sockets and channels: three minutes, or the
/// seconds in `DUNLIN_DEADLINE_SECONDS` if they are more.
///
/// # Panics
/// The variable is not a number.
pub fn deadline() -> Duration {
    static CHOSEN: LazyLock<Duration> = LazyLock::new(|| widened(std::env::var(VARIABLE).ok()));
    *CHOSEN
}

fn widened(seconds: Option<String>) -> Duration {
    let Some(text) = seconds else { return DEADLINE };
    let seconds = text.parse().unwrap_or_else(|why| panic!("{VARIABLE}={text}: {why}"));
    DEADLINE.max(Duration::from_secs(seconds))
}

/// Checks until there is a value.
///
/// # Panics
/// The deadline is over.
#[track_caller]
pub fn until<T>(what: &str, mut check: impl FnMut() -> Option<T>) -> T {
    until_ok(what, || check().ok_or("nothing"))
}

/// Checks until it is so. [`until_value`] and [`until_eq`] also say what was there instead.
///
/// # Panics
/// The deadline is over.
#[track_caller]
pub fn until_true(what: &str, mut is_so: impl FnMut() -> bool) {
    until_ok(what, || is_so().then_some(()).ok_or("it was not so"));
}

/// Reads until the value is the expected one.
///
/// # Panics
/// The deadline is over.
#[track_caller]
pub fn until_eq<T: PartialEq<E> + Debug, E: Debug>(
    what: &str,
    read: impl FnMut() -> T,
    expected: E,
) {
    until_value(&format!("{what} = {expected:?}"), read, |value| *value == expected);
}

/// Reads until the value is right, and returns it.
///
/// # Panics
/// The deadline is over.
#[track_caller]
pub fn until_value<T: Debug>(
    what: &str,
    mut read: impl FnMut() -> T,
    is_right: impl Fn(&T) -> bool,
) -> T {
    until_ok(what, || expect(read(), &is_right))
}

fn expect<T: Debug>(value: T, is_right: impl Fn(&T) -> bool) -> Result<T, String> {
    if is_right(&value) { Ok(value) } else { Err(format!("{value:#?}")) }
}

/// Tries until it succeeds.
///
/// # Panics
/// The deadline is over: with the last error.
#[track_caller]
pub fn until_ok<T, E: Display>(what: &str, attempt: impl FnMut() -> Result<T, E>) -> T {
    match try_until_ok(what, attempt) {
        Ok(value) => value,
        Err(why) => panic!("{why}"),
    }
}

/// Waits for the end of a process.
///
/// # Panics
/// The deadline is over, or the process cannot be waited for.
#[track_caller]
pub fn until_exit(what: &str, child: &mut Child) -> ExitStatus {
    let id = child.id();
    until_ok(&format!("{what} (process {id}) ends"), || {
        child.try_wait().expect("an own child").ok_or("it runs")
    })
}

/// Tries until it succeeds; for callers that have something to do before they fail.
///
/// # Errors
/// The deadline is over: what was awaited, and the last error.
pub fn try_until_ok<T, E: Display>(
    what: &str,
    attempt: impl FnMut() -> Result<T, E>,
) -> Result<T, String> {
    within(deadline(), what, attempt)
}

/// The same with a deadline that is later: for an emulated machine that boots.
///
/// # Errors
/// As of [`try_until_ok`].
pub fn try_until_ok_within<T, E: Display>(
    max: Duration,
    what: &str,
    attempt: impl FnMut() -> Result<T, E>,
) -> Result<T, String> {
    within(max.max(deadline()), what, attempt)
}

fn within<T, E: Display>(
    deadline: Duration,
    what: &str,
    mut attempt: impl FnMut() -> Result<T, E>,
) -> Result<T, String> {
    let begun = Instant::now();
    loop {
        let why = match attempt() {
            Ok(value) => return Ok(value),
            Err(why) => why,
        };
        let waited = begun.elapsed();
        if waited >= deadline {
            return Err(format!("waited {waited:.1?} for: {what}; seen last: {why}"));
        }
        thread::sleep((waited / PAUSE_PART).clamp(PAUSE_MIN, PAUSE_MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn wait_ends_with_the_first_success() {
        let mut attempts = 0;
        let value = until_ok("the third attempt", || {
            attempts += 1;
            if attempts == 3 { Ok(attempts) } else { Err("too early") }
        });
        assert_eq!((value, attempts), (3, 3));
        let mut left = 2..5;
        assert_eq!(until("an odd number", || left.next().filter(|number| number % 2 == 1)), 3);
        until_eq("the next one", || left.next(), Some(4));
        until_true("none is left", || left.next().is_none());
    }

    #[test]
    fn failed_wait_reports_the_condition_and_the_last_value() {
        let mut seen = 0;
        let deadline = Duration::from_millis(20);
        let why = within(deadline, "a tenth server", || {
            seen += 1;
            expect(vec![seen], |_| false)
        });
        let why = why.expect_err("it never comes");
        assert!(why.contains("for: a tenth server; seen last: [\n"), "{why}");
        assert!(seen > 1 && why.contains(&format!("    {seen},\n")), "{why} after {seen}");
        let none = within(Duration::ZERO, "a port", || Err::<(), _>("refused"));
        assert!(none.expect_err("no time").ends_with("for: a port; seen last: refused"));
    }

    #[test]
    fn variable_only_widens_the_deadline() {
        let widened = |text: &str| widened(Some(text.into())).as_secs();
        assert_eq!([widened("600"), widened("5")], [600, 180]);
        assert_eq!(super::widened(None), DEADLINE);
    }

    #[test]
    #[should_panic(expected = "DUNLIN_DEADLINE_SECONDS=10m: invalid digit")]
    fn deadline_that_is_no_number_is_an_error() {
        widened(Some("10m".into()));
    }

    #[test]
    fn end_of_a_process_is_its_status() {
        let mut child = Command::new("false").spawn().expect("false runs");
        assert_eq!(until_exit("false", &mut child).code(), Some(1));
    }
}
