//! A timer wheel: a ring of short lists, one for each few milliseconds.
use crate::limits::{QUERIES_MAX, WHEEL_LEN, WHEEL_MICROS};

/// No number.
const NONE: u16 = u16::MAX;

/// Numbers below [`QUERIES_MAX`] with the time they are due. A time beyond the ring is reported too
/// early; the caller sets it again.
#[derive(Debug)]
pub(crate) struct TimerWheel {
    firsts: [u16; WHEEL_LEN],
    nexts: [u16; QUERIES_MAX],
    befores: [u16; QUERIES_MAX],
    /// The list of each number, or [`NONE`].
    lists: [u16; QUERIES_MAX],
    /// The turn up to which everything was reported.
    turned: u64,
    /// Numbers in lists.
    len: usize,
}

impl TimerWheel {
    pub(crate) const fn new() -> Self {
        Self {
            firsts: [NONE; WHEEL_LEN],
            nexts: [NONE; QUERIES_MAX],
            befores: [NONE; QUERIES_MAX],
            lists: [NONE; QUERIES_MAX],
            turned: 0,
            len: 0,
        }
    }

    /// Sets when a number is due, instead of an earlier setting.
    pub(crate) fn set(&mut self, number: u16, due_micros: u64) {
        self.clear(number);
        // A number that is already due is reported at the next turn. A list is reported before its
        // times, never late.
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

    /// Removes a number.
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

    /// Removes and returns a number that is due, or may be.
    pub(crate) fn pop(&mut self, now_micros: u64) -> Option<u16> {
        let now = now_micros / WHEEL_MICROS;
        if self.len == 0 {
            self.turned = self.turned.max(now);
            return None;
        }
        // After a pause longer than one round, all lists are due at once.
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

    /// When [`pop`](Self::pop) should be called next.
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

/// Turns ahead that can be distinguished.
const SPAN: u64 = WHEEL_LEN as u64 - 1;
