//! The query log: where its lines go.
use crate::limits::{COMPLAINT_PAUSE, LOG_OUTBOX_OCTETS};
use crate::line::Line;
use crate::outbox::Outbox;
use crate::sample::Sample;
use crate::settings::{Format, Queries};
use rustix::fs::OFlags;
use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Add;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};
use wire::Query;

/// Writes a line for each sample.
pub struct QueryLog {
    target: Target,
    query: Box<Query>,
    counts: Logged,
}

/// What became of the lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Logged {
    /// Written.
    pub written: u64,
    /// Not written: the disk is full, or a pipe's reader slow.
    pub lost: u64,
}

impl Add for Logged {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { written: self.written + other.written, lost: self.lost + other.lost }
    }
}

enum Target {
    Log,
    File(Lines),
}

impl QueryLog {
    /// A query log as the settings say; nothing where it is off.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn open(settings: &Queries) -> io::Result<Option<Self>> {
        if settings.one_in == 0 {
            return Ok(None);
        }
        let target = match &settings.file {
            None => Target::Log,
            Some(path) => Target::File(Lines::open(path, settings.format)?),
        };
        Ok(Some(Self { target, query: Box::default(), counts: Logged::default() }))
    }

    /// What became of the lines so far.
    pub fn counts(&self) -> Logged {
        self.counts
    }

    /// Logs a sample.
    pub fn push(&mut self, sample: &Sample<'_>) {
        let line = Line::new(sample, &mut self.query);
        match &mut self.target {
            Target::File(lines) => lines.push(&line, &mut self.counts),
            Target::Log => {
                line.log();
                self.counts.written += 1;
            }
        }
    }

    /// Writes what can be written without waiting.
    pub fn turn(&mut self) {
        if let Target::File(lines) = &mut self.target {
            lines.flush(&mut self.counts);
        }
    }

    /// Writes what waits, and gives up what has not been taken by then.
    pub fn finish(mut self, until: Instant) -> Logged {
        if let Target::File(lines) = &mut self.target {
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

/// Lines on their way into a file.
struct Lines {
    path: PathBuf,
    file: File,
    format: Format,
    outbox: Outbox,
    text: String,
    /// The last line in the file has no end: writing failed within it.
    torn: bool,
    complained: Option<Instant>,
}

impl Lines {
    fn open(path: &Path, format: Format) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        // Who asked for what is nobody's business but the operator's. A pipe without a reader is
        // an error, and a slow one no reason to wait.
        options.append(true).create(true).mode(0o640);
        options.custom_flags(OFlags::NONBLOCK.bits() as i32);
        let file = options.open(path).map_err(|error| {
            let path = path.display();
            let message = format!("the query log {path} cannot be opened for writing: {error}");
            io::Error::new(error.kind(), message)
        })?;
        let (path, outbox) = (path.into(), Outbox::new(LOG_OUTBOX_OCTETS));
        Ok(Self { path, file, format, outbox, text: String::new(), torn: false, complained: None })
    }

    fn push(&mut self, line: &Line, counts: &mut Logged) {
        use std::fmt::Write;
        self.text.clear();
        let torn = if self.torn { "\n" } else { "" };
        let written = match self.format {
            Format::Text => writeln!(self.text, "{torn}{}", line.text()),
            Format::Json => writeln!(self.text, "{torn}{}", line.json()),
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

    fn flush(&mut self, counts: &mut Logged) {
        let Err(error) = self.outbox.flush(&mut self.file, &mut counts.written) else { return };
        let begun = self.outbox.give_up_begun();
        self.torn |= begun > 0;
        counts.lost += begun + self.outbox.give_up();
        if self.complained.is_none_or(|when| when.elapsed() > COMPLAINT_PAUSE) {
            self.complained = Some(Instant::now());
            let file = self.path.display();
            tracing::warn!(%file, %error, "the query log cannot be written; lines are lost");
        }
    }
}
