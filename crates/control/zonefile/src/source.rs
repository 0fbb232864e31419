//! Reads a file as a stream of entries, through a window that grows only for a long entry.
use std::io::{self, Read};

use crate::BrokenRule;

use crate::lex::{Entry, Token, lex};
use crate::limits::{ENTRY_BYTES_MAX, READ_BYTES};
use crate::report::EntryError;

const TOO_LONG: &str = "this entry is too long";
const TOO_LONG_HELP: &str = "is a closing parenthesis missing? the rest of the file was not read";

pub(crate) struct FileWindow<'r> {
    input: &'r mut dyn Read,
    window: Vec<u8>,
    /// The unread bytes are `window[start..end]`.
    start: usize,
    end: usize,
    /// The input has ended.
    last: bool,
    /// The last byte of the input so far.
    last_byte: Option<u8>,
}

impl<'r> FileWindow<'r> {
    pub(crate) fn new(input: &'r mut dyn Read) -> Self {
        Self { input, window: vec![0; READ_BYTES], start: 0, end: 0, last: false, last_byte: None }
    }

    /// Whether the input has ended without a newline.
    pub(crate) fn is_cut_off(&self) -> bool {
        self.last && self.last_byte.is_some_and(|byte| byte != b'\n')
    }

    /// The encoding that the first bytes of the input show, if a zone file cannot have it. To be
    /// called before the first [`next`](Self::next).
    pub(crate) fn foreign_encoding(&mut self) -> io::Result<Option<&'static str>> {
        self.fill()?;
        Ok(match self.window[..self.end] {
            [0xef, 0xbb, 0xbf, ..] => Some("this file begins with a byte order mark"),
            [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => Some("this file is UTF-16"),
            [0, b' '..=b'~', 0, ..] | [b' '..=b'~', 0, b' '..=b'~', 0, ..] => {
                Some("this file is UTF-16 without a byte order mark")
            }
            _ if has_old_line_ends(&self.window[..self.end]) => {
                Some("the lines of this file end in CR alone, as on old Macs")
            }
            _ => None,
        })
    }

    /// Reads the next entry and its text; `None` at the end. An entry that is too long is the last
    /// one and has an error.
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
                    entry.fault = Some(
                        EntryError::new(at, TOO_LONG).help(TOO_LONG_HELP).rule(BrokenRule::LIMIT),
                    );
                }
                let text = &self.window[self.start..self.start + entry.len];
                self.start += entry.len;
                return Ok(Some((text, entry)));
            }
            cut = !self.fill()?;
            self.last |= cut;
        }
    }

    /// Fills the window; false if the entry has reached its maximum.
    fn fill(&mut self) -> io::Result<bool> {
        self.window.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        if self.end == self.window.len() {
            if self.end >= ENTRY_BYTES_MAX {
                return Ok(false);
            }
            self.window.resize(self.end * 2, 0);
        }
        // Fill completely: an incomplete entry is lexed again from its start.
        while self.end < self.window.len() && !self.last {
            match self.input.read(&mut self.window[self.end..]) {
                Ok(count) => {
                    self.end += count;
                    self.last = count == 0;
                    if count > 0 {
                        self.last_byte = Some(self.window[self.end - 1]);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}

/// Whether text has CR within it, and no LF.
fn has_old_line_ends(text: &[u8]) -> bool {
    let cr = text.iter().position(|byte| *byte == b'\r');
    let is_inner = |at: usize| text[at..].iter().any(|byte| !byte.is_ascii_whitespace());
    cr.is_some_and(is_inner) && !text.contains(&b'\n')
}
