//! A file as a stream of entries: a window that moves over it and grows only for a long entry.
use std::io::{self, Read};

use model::Rule;

use crate::lex::{Entry, Token, lex};
use crate::limits::{ENTRY_OCTETS_MAX, READ_OCTETS};
use crate::report::Fault;

const TOO_LONG: &str = "what begins here is too long for one entry";
const TOO_LONG_HELP: &str = "is a closing parenthesis missing? nothing behind this was read";

/// The window on one file.
pub(crate) struct Source<'r> {
    input: &'r mut dyn Read,
    window: Vec<u8>,
    /// What is read and not yet used: `window[start..end]`.
    start: usize,
    end: usize,
    /// The input has ended.
    last: bool,
}

impl<'r> Source<'r> {
    pub(crate) fn new(input: &'r mut dyn Read) -> Self {
        Self { input, window: vec![0; READ_OCTETS], start: 0, end: 0, last: false }
    }

    /// Reads the next entry and its text; nothing at the end. An entry that is too long is the
    /// last one and has a fault.
    pub(crate) fn next(&mut self, tokens: &mut Vec<Token>) -> io::Result<Option<(&[u8], Entry)>> {
        let mut cut = false;
        loop {
            if self.start == self.end && self.last {
                return Ok(None);
            }
            let unread = self.start..self.end;
            if let Some(mut entry) = lex(&self.window[unread], self.last, tokens) {
                if cut {
                    let at = entry.fault.and_then(|fault| fault.at).unwrap_or(0);
                    entry.fault =
                        Some(Fault::new(at, TOO_LONG).help(TOO_LONG_HELP).rule(Rule::LIMIT));
                }
                let text = &self.window[self.start..self.start + entry.len];
                self.start += entry.len;
                return Ok(Some((text, entry)));
            }
            cut = !self.fill()?;
            self.last |= cut;
        }
    }

    /// Fills the window behind what is there; false when that is as much as an entry may have.
    fn fill(&mut self) -> io::Result<bool> {
        self.window.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        if self.end == self.window.len() {
            if self.end >= ENTRY_OCTETS_MAX {
                return Ok(false);
            }
            self.window.resize(self.end * 2, 0);
        }
        // Until it is full: an entry that does not end is read again from its start.
        while self.end < self.window.len() && !self.last {
            match self.input.read(&mut self.window[self.end..]) {
                Ok(count) => {
                    self.end += count;
                    self.last = count == 0;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}
