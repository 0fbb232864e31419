//! The outputs of the query log.
use crate::limits::{COMPLAINT_PAUSE, LOG_OUTBOX_BYTES};
use crate::line::LogLine;
use crate::send_buffer::SendBuffer;
use crate::settings::{LogFormat, QueryLogSettings};
use rustix::fs::OFlags;
use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Add;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tap::Sample;
use wire::Query;

/// Writes a line for each sample.
pub struct QueryLog {
    target: LogTarget,
    query: Box<Query>,
    counts: LogCounts,
}

/// Counts of lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogCounts {
    /// Written.
    pub written: u64,
    /// Lost: the disk is full, or a pipe's reader slow.
    pub lost: u64,
}

impl Add for LogCounts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { written: self.written + other.written, lost: self.lost + other.lost }
    }
}

enum LogTarget {
    Log,
    File(LineBuffer),
}

impl QueryLog {
    /// A query log with these settings; `None` if it is off.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn open(settings: &QueryLogSettings) -> io::Result<Option<Self>> {
        if settings.one_in == 0 {
            return Ok(None);
        }
        let target = match &settings.file {
            None => LogTarget::Log,
            Some(path) => LogTarget::File(LineBuffer::open(path, settings.format)?),
        };
        Ok(Some(Self { target, query: Box::default(), counts: LogCounts::default() }))
    }

    /// The counts so far.
    pub fn counts(&self) -> LogCounts {
        self.counts
    }

    /// Why lines cannot be written now; `None`: they can.
    pub fn fault(&self) -> Option<String> {
        match &self.target {
            LogTarget::File(lines) => lines.fault.clone(),
            LogTarget::Log => None,
        }
    }

    /// Logs a sample.
    pub fn push(&mut self, sample: &Sample<'_>) {
        let line = LogLine::new(sample, &mut self.query);
        match &mut self.target {
            LogTarget::File(lines) => lines.push(&line, &mut self.counts),
            LogTarget::Log => {
                line.log();
                self.counts.written += 1;
            }
        }
    }

    /// Writes what is possible without waiting.
    pub fn turn(&mut self) {
        if let LogTarget::File(lines) = &mut self.target {
            lines.flush(&mut self.counts);
        }
    }

    /// Writes buffered lines until the given time.
    pub fn finish(mut self, until: Instant) -> LogCounts {
        if let LogTarget::File(lines) = &mut self.target {
            lines.flush(&mut self.counts);
            while !lines.outbox.is_empty() && Instant::now() < until {
                sleep(Duration::from_millis(5));
                lines.flush(&mut self.counts);
            }
            self.counts.lost += lines.outbox.give_up();
        }
        self.counts
    }
}

/// Lines to be written to a file.
struct LineBuffer {
    path: PathBuf,
    file: File,
    format: LogFormat,
    outbox: SendBuffer,
    text: String,
    /// The last line in the file is incomplete after an error.
    torn: bool,
    complained: Option<Instant>,
    /// Why the last lines were lost; `None`: they were written.
    fault: Option<String>,
}

impl LineBuffer {
    fn open(path: &Path, format: LogFormat) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        // Only the operator may read queries. A pipe without a reader is an error, and a slow one
        // must not block.
        options.append(true).create(true).mode(0o640);
        options.custom_flags(OFlags::NONBLOCK.bits() as i32);
        let file = options.open(path).map_err(|error| {
            let path = path.display();
            let message = format!("the query log {path} cannot be opened for writing: {error}");
            io::Error::new(error.kind(), message)
        })?;
        let (path, outbox) = (path.into(), SendBuffer::new(LOG_OUTBOX_BYTES));
        let (text, torn, complained, fault) = (String::new(), false, None, None);
        Ok(Self { path, file, format, outbox, text, torn, complained, fault })
    }

    fn push(&mut self, line: &LogLine, counts: &mut LogCounts) {
        use std::fmt::Write;
        self.text.clear();
        let torn = if self.torn { "\n" } else { "" };
        let written = match self.format {
            LogFormat::Text => writeln!(self.text, "{torn}{}", line.text()),
            LogFormat::Json => writeln!(self.text, "{torn}{}", line.json()),
        };
        written.expect("a String takes all");
        let mut taken = self.outbox.push(&[self.text.as_bytes()]);
        if !taken {
            self.flush(counts);
            taken = self.outbox.push(&[self.text.as_bytes()]);
        }
        if taken {
            self.torn = false;
        } else {
            counts.lost += 1;
        }
    }

    fn flush(&mut self, counts: &mut LogCounts) {
        let before = counts.written;
        let Err(error) = self.outbox.flush(&mut self.file, &mut counts.written) else {
            self.fault = self.fault.take().filter(|_| counts.written == before);
            return;
        };
        let begun = self.outbox.give_up_begun();
        self.torn |= begun > 0;
        counts.lost += begun + self.outbox.give_up();
        if self.complained.is_none_or(|when| when.elapsed() > COMPLAINT_PAUSE) {
            self.complained = Some(Instant::now());
            let file = self.path.display();
            tracing::warn!(%file, %error, "the query log cannot be written; lines are lost");
        }
        let file = self.path.display();
        self.fault = Some(format!("the query log {file} cannot be written: {error}"));
    }
}
