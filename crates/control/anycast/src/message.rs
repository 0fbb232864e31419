//! The messages between server and keeper, a datagram each.
use crate::limits::MESSAGE_LEN_MAX;
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// The first byte of each message: the version of their form. A keeper is passed on only to a
/// process with the same one.
pub const VERSION: u8 = 1;
/// Bytes of a heartbeat, and of a report before its text.
const HEARTBEAT_LEN: usize = 12;
const REPORT_LEN: usize = 2;

/// The time since the machine's start, which is the same for all processes.
pub fn now() -> Duration {
    let now = clock_gettime(ClockId::Monotonic);
    Duration::new(now.tv_sec.cast_unsigned(), now.tv_nsec as u32)
}

/// What the server wants, and when it wanted that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heartbeat {
    /// Announce; else withdraw.
    pub is_announced: bool,
    /// When it was sent, as of [`now`].
    pub sent: Duration,
}

impl Heartbeat {
    /// The message.
    pub fn to_bytes(self) -> [u8; HEARTBEAT_LEN] {
        let mut bytes = [0; HEARTBEAT_LEN];
        (bytes[0], bytes[1]) = (VERSION, u8::from(self.is_announced));
        let sent = u64::try_from(self.sent.as_nanos()).unwrap_or(u64::MAX);
        bytes[4..].copy_from_slice(&sent.to_ne_bytes());
        bytes
    }

    /// `None`: it is not a heartbeat of this version.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let [VERSION, wanted @ 0..=1, 0, 0, sent @ ..] = bytes else { return None };
        let sent = Duration::from_nanos(u64::from_ne_bytes(sent.try_into().ok()?));
        Some(Self { is_announced: *wanted == 1, sent })
    }
}

/// The state of the keeper, as reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeeperState {
    /// There is no route.
    #[default]
    Withdrawn,
    /// There is a route for each address.
    Announced,
    /// It was to announce, and could not.
    Failed,
}

/// A report of the keeper.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// What it does.
    pub state: KeeperState,
    /// Why it cannot announce; the name of the device while it does.
    pub text: String,
}

impl Report {
    /// The message; a long text is cut.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut end = self.text.len().min(MESSAGE_LEN_MAX - REPORT_LEN);
        while !self.text.is_char_boundary(end) {
            end -= 1;
        }
        [&[VERSION, self.state as u8], &self.text.as_bytes()[..end]].concat()
    }

    /// `None`: it is not a report of this version.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let [VERSION, state, text @ ..] = bytes else { return None };
        let state = match state {
            0 => KeeperState::Withdrawn,
            1 => KeeperState::Announced,
            2 => KeeperState::Failed,
            _ => return None,
        };
        Some(Self { state, text: String::from_utf8_lossy(text).into_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_as_they_are_written() {
        for is_announced in [false, true] {
            let heartbeat = Heartbeat { is_announced, sent: now() };
            assert_eq!(Heartbeat::from_bytes(&heartbeat.to_bytes()), Some(heartbeat));
        }
        for state in [KeeperState::Withdrawn, KeeperState::Announced, KeeperState::Failed] {
            let report = Report { state, text: "why".into() };
            assert_eq!(Report::from_bytes(&report.to_bytes()), Some(report));
        }
    }

    #[test]
    fn invalid_message_is_refused_and_long_text_is_truncated() {
        for wrong in [&[][..], &[VERSION], &[2; HEARTBEAT_LEN], &[VERSION, 1, 0, 0, 1]] {
            assert_eq!(Heartbeat::from_bytes(wrong), None, "{wrong:?}");
        }
        assert_eq!(Report::from_bytes(&[VERSION, 3]), None);
        let report = Report { state: KeeperState::Failed, text: "ä".repeat(MESSAGE_LEN_MAX) };
        let bytes = report.to_bytes();
        assert!(bytes.len() <= MESSAGE_LEN_MAX);
        let read = Report::from_bytes(&bytes).expect("a report");
        assert!(report.text.starts_with(&read.text) && read.text.ends_with('ä'));
    }
}
