//! Who is due next: a ring of short lists, each of what is due in the same few milliseconds.
use crate::limits::{ASKS_MAX, WHEEL_LEN, WHEEL_MICROS};

/// No number.
const NONE: u16 = u16::MAX;

/// Numbers below [`ASKS_MAX`], each with the time it is due, if it is. A time further ahead than
/// the ring is long comes round early, and is put in again by who finds that it is not due.
#[derive(Debug)]
pub(crate) struct Wheel {
    firsts: [u16; WHEEL_LEN],
    nexts: [u16; ASKS_MAX],
    befores: [u16; ASKS_MAX],
    /// The list each number is in, or [`NONE`].
    lists: [u16; ASKS_MAX],
    /// The turn up to which all was due.
    turned: u64,
    /// Numbers in lists.
    len: usize,
}

impl Wheel {
    pub(crate) const fn new() -> Self {
        Self {
            firsts: [NONE; WHEEL_LEN],
            nexts: [NONE; ASKS_MAX],
            befores: [NONE; ASKS_MAX],
            lists: [NONE; ASKS_MAX],
            turned: 0,
            len: 0,
        }
    }

    /// Notes when a number is due, in place of what was noted before.
    pub(crate) fn set(&mut self, number: u16, due_micros: u64) {
        self.clear(number);
        // What is due already is so at the next turn; a list comes before its times, never late.
        let turn = (due_micros / WHEEL_MICROS).clamp(self.turned + 1, self.turned + SPAN);
        let list = (turn % WHEEL_LEN as u64) as usize;
        let first = self.firsts[list];
        let own = usize::from(number);
        (self.nexts[own], self.befores[own], self.lists[own]) = (first, NONE, list as u16);
        if first != NONE {
            self.befores[usize::from(first)] = number;
        }
        self.firsts[list] = number;
        self.len += 1;
    }

    /// Forgets a number.
    pub(crate) fn clear(&mut self, number: u16) {
        let own = usize::from(number);
        let list = core::mem::replace(&mut self.lists[own], NONE);
        if list == NONE {
            return;
        }
        let (next, before) = (self.nexts[own], self.befores[own]);
        if next != NONE {
            self.befores[usize::from(next)] = before;
        }
        match before {
            NONE => self.firsts[usize::from(list)] = next,
            before => self.nexts[usize::from(before)] = next,
        }
        self.len -= 1;
    }

    /// A number whose time has come, or may have; it is forgotten.
    pub(crate) fn pop(&mut self, now_micros: u64) -> Option<u16> {
        let now = now_micros / WHEEL_MICROS;
        if self.len == 0 {
            self.turned = self.turned.max(now);
            return None;
        }
        // Who was away for longer than a round finds all lists in one.
        self.turned = self.turned.max(now.saturating_sub(WHEEL_LEN as u64));
        loop {
            let list = (self.turned % WHEEL_LEN as u64) as usize;
            if self.firsts[list] != NONE {
                let number = self.firsts[list];
                self.clear(number);
                return Some(number);
            }
            if self.turned >= now {
                return None;
            }
            self.turned += 1;
        }
    }

    /// When [`pop`](Self::pop) is worth calling next, if ever.
    pub(crate) fn next_micros(&self) -> Option<u64> {
        if self.len == 0 {
            return None;
        }
        let ahead = (0..=SPAN).find(|ahead| {
            let list = ((self.turned + ahead) % WHEEL_LEN as u64) as usize;
            self.firsts[list] != NONE
        });
        ahead.map(|ahead| (self.turned + ahead) * WHEEL_MICROS)
    }
}

/// Turns ahead that can be told apart.
const SPAN: u64 = WHEEL_LEN as u64 - 1;
