//! Lines on their way to standard error. Once there are threads, one of its own writes them: who
//! logs waits for no reader, be it a terminal that is paused or a pipe that is full.
use crate::limits::{LOG_FLUSH_MAX, LOG_OCTETS_MAX};
use rustix::event::{PollFd, PollFlags, poll};
use std::fs::File;
use std::io::{self, ErrorKind, Write, stderr};
use std::os::fd::AsFd;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use tracing::Metadata;
use tracing_subscriber::fmt::MakeWriter;

/// Whom the lines of the query log are from. They may be many: they wait for room instead of being
/// lost, since who writes them counts what is lost meanwhile, and leave half of it to others.
pub const QUERIES: &str = "queries";

/// Those of this process.
static LINES: Lines = Lines::new();

/// What has been logged and not been written.
#[derive(Debug)]
struct Lines(Mutex<Waiting>, Condvar);

#[derive(Debug)]
struct Waiting {
    octets: Vec<u8>,
    /// Lines that found it full, of which nobody knows yet.
    lost: u64,
    /// Whether lines that were taken out are being written.
    writing: bool,
    /// Whether a thread takes them out.
    drained: bool,
}

impl Lines {
    const fn new() -> Self {
        let waiting = Waiting { octets: Vec::new(), lost: 0, writing: false, drained: false };
        Self(Mutex::new(waiting), Condvar::new())
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a line in; one that finds no room waits for it, or is lost and counted. False: nobody
    /// writes here.
    fn push(&self, line: &[u8], waits: bool) -> bool {
        let mut waiting = self.waiting();
        if waits {
            let full = |waiting: &mut Waiting| {
                waiting.drained && waiting.octets.len() + line.len() > LOG_OCTETS_MAX / 2
            };
            waiting = self.1.wait_while(waiting, full).unwrap_or_else(PoisonError::into_inner);
        }
        if !waiting.drained {
            return false;
        }
        if waiting.octets.len() + line.len() > LOG_OCTETS_MAX {
            waiting.lost += 1;
        } else {
            waiting.octets.extend_from_slice(line);
            self.1.notify_all();
        }
        true
    }

    /// Writes lines as they come, for ever; `tell` is for how many were lost.
    fn drain(&self, mut write: impl FnMut(&[u8]), tell: impl Fn(u64)) {
        loop {
            let idle = |waiting: &mut Waiting| waiting.octets.is_empty();
            let waiting = self.1.wait_while(self.waiting(), idle);
            let mut waiting = waiting.unwrap_or_else(PoisonError::into_inner);
            let octets = std::mem::take(&mut waiting.octets);
            let lost = std::mem::take(&mut waiting.lost);
            waiting.writing = true;
            drop(waiting);
            self.1.notify_all();
            write(&octets);
            if lost > 0 {
                tell(lost);
            }
            self.waiting().writing = false;
            self.1.notify_all();
        }
    }

    /// Waits until all is written, but not for ever.
    fn flush(&self) {
        let busy = |waiting: &mut Waiting| {
            waiting.drained && (waiting.writing || !waiting.octets.is_empty())
        };
        // Who does not read loses what it did not read.
        drop(self.1.wait_timeout_while(self.waiting(), LOG_FLUSH_MAX, busy));
    }
}

/// Has a thread of its own write from now on.
///
/// # Errors
/// It could not be started: who logs writes, as before.
pub fn start_thread() -> io::Result<()> {
    // Not through the lock of the standard library, behind which a panic would wait.
    let out = File::from(stderr().as_fd().try_clone_to_owned()?);
    let tell = |lines| tracing::warn!(lines, "lines of this log were lost: it is read too slowly");
    let run = move || LINES.drain(|octets| write(&out, octets), tell);
    thread::Builder::new().name("log".into()).spawn(run)?;
    LINES.waiting().drained = true;
    Ok(())
}

/// Waits, for a moment at most, until all that was logged is written.
pub fn flush() {
    LINES.flush();
}

/// Writes it all, as long as somebody may read it.
fn write(mut out: &File, mut octets: &[u8]) {
    while !octets.is_empty() {
        match out.write(octets) {
            Ok(0) => return,
            Ok(len) => octets = &octets[len..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // Another process has made the terminal or pipe so.
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let _ = poll(&mut [PollFd::new(out, PollFlags::OUT)], None);
            }
            Err(_) => return,
        }
    }
}

/// Where the log's layers write: each line at once and whole.
#[derive(Clone, Copy, Debug)]
pub struct Writer {
    waits: bool,
}

impl Writer {
    /// For lines that do not wait.
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
    fn who_logs_waits_for_no_reader_and_what_is_lost_is_told() {
        static LINES: Lines = Lines::new();
        assert!(!LINES.push(b"before", false), "there is no thread yet");
        let (written, read) = sync_channel(0);
        let (told, lost) = channel();
        thread::spawn(move || {
            let write = |octets: &[u8]| written.send(octets.len()).expect("the test reads");
            LINES.drain(write, |count| told.send(count).expect("the test listens"));
        });
        LINES.waiting().drained = true;
        assert!(LINES.push(b"first", false));
        let until = Instant::now() + PATIENCE;
        while !LINES.waiting().writing {
            assert!(Instant::now() < until, "nobody writes");
        }
        // Nobody reads the first now.
        let fit = LOG_OCTETS_MAX / LINE.len();
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
        assert!(LINES.waiting().octets.is_empty());
    }

    #[test]
    fn the_end_does_not_wait_for_ever() {
        let lines = Lines::new();
        lines.flush();
        lines.waiting().drained = true;
        lines.push(b"stuck", false);
        let began = Instant::now();
        lines.flush();
        assert!(began.elapsed() >= LOG_FLUSH_MAX);
    }
}
