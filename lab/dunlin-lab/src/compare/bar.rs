//! A line on a terminal that tells how far a command is.
use command_line::span;
use std::io::{IsTerminal, Write, stderr};
use std::time::Instant;

/// How far it is, on a terminal.
pub(crate) struct Bar {
    shown: bool,
    begun: Instant,
}

impl Bar {
    pub(crate) fn new() -> Self {
        Self { shown: stderr().is_terminal(), begun: Instant::now() }
    }

    pub(crate) fn show(&mut self, who: &str, done: usize, of: usize) {
        self.show_since(who, 0, done, of);
    }

    /// As [`Self::show`], of which `before` had been done when this was made.
    pub(crate) fn show_since(&mut self, who: &str, before: usize, done: usize, of: usize) {
        if !self.shown {
            return;
        }
        let share = done as f64 / of.max(1) as f64;
        let left = match done.saturating_sub(before) {
            0 => "?".into(),
            new => span(self.begun.elapsed().as_secs_f64() / new as f64 * (of - done) as f64),
        };
        // Without a live line, the result is still printed.
        let _ = write!(stderr(), "\r\x1b[K{:3.0} %  {left} left  {who}", share * 100.0);
    }

    pub(crate) fn end(&mut self) {
        if self.shown {
            let _ = write!(stderr(), "\r\x1b[K");
        }
    }
}
