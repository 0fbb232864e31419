//! Log lines on their way to standard error. A thread of its own writes them, so a paused terminal
//! or a full pipe delays no other thread.
use crate::limits::{LOG_FLUSH_MAX, LOG_LEN_MAX};
use rustix::event::{PollFd, PollFlags, poll};
use std::fs::File;
use std::io::{self, ErrorKind, Write, stderr};
use std::os::fd::AsFd;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use tracing::Metadata;
use tracing_subscriber::fmt::MakeWriter;

/// Target of the query log. Its lines wait for space instead of being lost, because the query log
/// counts what it drops meanwhile; they use at most half of the buffer.
pub const QUERIES: &str = "queries";

/// The buffer of this process.
static LINES: Lines = Lines::new();

/// Lines that are logged and not yet written.
#[derive(Debug)]
struct Lines(Mutex<Waiting>, Condvar);

#[derive(Debug)]
struct Waiting {
    bytes: Vec<u8>,
    /// Lines that found the buffer full and are not reported yet.
    lost: u64,
    /// Whether the thread is writing lines that it took out.
    writing: bool,
    /// Whether a thread takes lines out.
    drained: bool,
}

impl Lines {
    const fn new() -> Self {
        let waiting = Waiting { bytes: Vec::new(), lost: 0, writing: false, drained: false };
        Self(Mutex::new(waiting), Condvar::new())
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a line. If there is no space, the line waits with `waits`, or else is lost and counted.
    /// Returns false if there is no writing thread.
    fn push(&self, line: &[u8], waits: bool) -> bool {
        let mut waiting = self.waiting();
        if waits {
            let full = |waiting: &mut Waiting| {
                waiting.drained && waiting.bytes.len() + line.len() > LOG_LEN_MAX / 2
            };
            waiting = self.1.wait_while(waiting, full).unwrap_or_else(PoisonError::into_inner);
        }
        if !waiting.drained {
            return false;
        }
        if waiting.bytes.len() + line.len() > LOG_LEN_MAX {
            waiting.lost += 1;
        } else {
            waiting.bytes.extend_from_slice(line);
            self.1.notify_all();
        }
        true
    }

    /// Writes lines forever; `report` receives how many were lost.
    fn drain(&self, mut write: impl FnMut(&[u8]), report: impl Fn(u64)) {
        loop {
            let idle = |waiting: &mut Waiting| waiting.bytes.is_empty();
            let waiting = self.1.wait_while(self.waiting(), idle);
            let mut waiting = waiting.unwrap_or_else(PoisonError::into_inner);
            let bytes = std::mem::take(&mut waiting.bytes);
            let lost = std::mem::take(&mut waiting.lost);
            waiting.writing = true;
            drop(waiting);
            self.1.notify_all();
            write(&bytes);
            if lost > 0 {
                report(lost);
            }
            self.waiting().writing = false;
            self.1.notify_all();
        }
    }

    /// Waits until all lines are written, at most `LOG_FLUSH_MAX`.
    fn flush(&self) {
        let busy = |waiting: &mut Waiting| {
            waiting.drained && (waiting.writing || !waiting.bytes.is_empty())
        };
        // A reader that is too slow loses the rest.
        drop(self.1.wait_timeout_while(self.waiting(), LOG_FLUSH_MAX, busy));
    }
}

/// Starts the thread that writes.
///
/// # Errors
/// The thread cannot be started: each thread then writes its own lines, as before.
pub fn start_thread() -> io::Result<()> {
    // The lock of the standard library would block a panic's message.
    let out = File::from(stderr().as_fd().try_clone_to_owned()?);
    let report = |lines| tracing::warn!(lines, "log lines were lost: the log is read too slowly");
    let run = move || LINES.drain(|bytes| write(&out, bytes), report);
    thread::Builder::new().name("log".into()).spawn(run)?;
    LINES.waiting().drained = true;
    Ok(())
}

/// Waits until all log lines are written, at most `LOG_FLUSH_MAX`.
pub fn flush() {
    LINES.flush();
}

/// Writes all bytes, unless the reader is gone.
fn write(mut out: &File, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        match out.write(bytes) {
            Ok(0) => return,
            Ok(len) => bytes = &bytes[len..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // Another process has set the terminal or pipe to non-blocking.
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let _ = poll(&mut [PollFd::new(out, PollFlags::OUT)], None);
            }
            Err(_) => return,
        }
    }
}

/// The writer of the log: each line at once and as a whole.
#[derive(Clone, Copy, Debug)]
pub struct Writer {
    waits: bool,
}

impl Writer {
    /// A writer of lines that do not wait.
    pub const fn new() -> Self {
        Self { waits: false }
    }
}

impl MakeWriter<'_> for Writer {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        *self
    }

    fn make_writer_for(&self, meta: &Metadata<'_>) -> Self {
        Self { waits: meta.target() == QUERIES }
    }
}

impl Write for Writer {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if !LINES.push(line, self.waits) {
            stderr().write_all(line)?;
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{channel, sync_channel};
    use std::time::{Duration, Instant};

    const LINE: [u8; 1 << 10] = [b'x'; 1 << 10];
    const PATIENCE: Duration = Duration::from_secs(20);

    #[test]
    fn full_log_delays_no_thread_and_lost_lines_are_reported() {
        static LINES: Lines = Lines::new();
        assert!(!LINES.push(b"before", false), "there is no thread yet");
        let (written, read) = sync_channel(0);
        let (reported, lost) = channel();
        thread::spawn(move || {
            let write = |bytes: &[u8]| written.send(bytes.len()).expect("the test reads");
            LINES.drain(write, |count| reported.send(count).expect("the test receives"));
        });
        LINES.waiting().drained = true;
        assert!(LINES.push(b"first", false));
        let until = Instant::now() + PATIENCE;
        while !LINES.waiting().writing {
            assert!(Instant::now() < until, "the thread does not write");
        }
        // The first line is being written and not yet read.
        let fit = LOG_LEN_MAX / LINE.len();
        (0..fit / 2).for_each(|_| assert!(LINES.push(&LINE, true)));
        let (pushed, waited) = channel();
        thread::spawn(move || pushed.send(LINES.push(&LINE, true)));
        assert!(waited.recv_timeout(Duration::from_millis(50)).is_err(), "a query waits for room");
        (0..fit / 2 + 3).for_each(|_| assert!(LINES.push(&LINE, false)));
        assert_eq!(LINES.waiting().lost, 3);
        assert_eq!(read.recv_timeout(PATIENCE), Ok(5));
        assert_eq!(read.recv_timeout(PATIENCE), Ok(fit * LINE.len()));
        assert_eq!(lost.recv_timeout(PATIENCE), Ok(3));
        assert_eq!(waited.recv_timeout(PATIENCE), Ok(true), "there is room again");
        assert_eq!(read.recv_timeout(PATIENCE), Ok(LINE.len()));
        LINES.flush();
        assert!(LINES.waiting().bytes.is_empty());
    }

    #[test]
    fn flush_ends_without_a_reader() {
        let lines = Lines::new();
        lines.flush();
        lines.waiting().drained = true;
        lines.push(b"stuck", false);
        let began = Instant::now();
        lines.flush();
        assert!(began.elapsed() >= LOG_FLUSH_MAX);
    }
}
