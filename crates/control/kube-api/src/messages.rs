//! Messages to people: lines on standard error, each once in a while.
use crate::limits::{MESSAGES_MAX, REMIND};
use std::cell::RefCell;
use std::time::Instant;

/// Writes lines; those that repeat only now and then.
pub struct Messages {
    program: &'static str,
    last: RefCell<Vec<(String, Instant)>>,
    #[cfg(any(test, feature = "lying-server"))]
    written: RefCell<Vec<String>>,
}

impl Messages {
    /// Lines begin with the name of a program.
    pub fn new(program: &'static str) -> Self {
        Self {
            program,
            last: RefCell::default(),
            #[cfg(any(test, feature = "lying-server"))]
            written: RefCell::default(),
        }
    }

    /// Writes a line, unless it was written not long ago.
    pub fn tell(&self, text: &str) {
        self.tell_new(text);
    }

    /// The same; whether it was written.
    pub fn tell_new(&self, text: &str) -> bool {
        let mut last = self.last.borrow_mut();
        last.retain(|(_, told)| told.elapsed() < REMIND);
        if last.iter().any(|(known, _)| known == text) {
            return false;
        }
        if last.len() >= MESSAGES_MAX {
            last.remove(0);
        }
        last.push((text.to_owned(), Instant::now()));
        self.announce(text);
        true
    }

    /// Writes a line about something that was done, also if it was done before.
    pub fn announce(&self, text: &str) {
        #[cfg(any(test, feature = "lying-server"))]
        self.written.borrow_mut().push(text.to_owned());
        eprintln!("{}: {}", self.program, command_line::plain(text));
    }

    /// All lines so far.
    #[cfg(any(test, feature = "lying-server"))]
    pub fn written(&self) -> Vec<String> {
        self.written.borrow().clone()
    }
}
