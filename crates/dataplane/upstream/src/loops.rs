//! Detection of forwarding loops: a server forwards its queries, directly or indirectly, back to
//! this process.
//!
//! Each server gets a query for a *mark*, a name that only this process knows: at the start, while
//! it does not answer (which a loop causes), and while it is in a loop. If any thread receives a
//! query for that name, the server is in a loop. The status shows it, and queries from the server
//! that returned the mark are refused instead of waiting for a timeout.
//!
//! Loops are short in any case: equal queries under way are one query.
use crate::limits::{LOOP_AGE_MAX, MARK_INTERVAL};
use crate::random::SecureRandom;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use wire::{Name, NameBuf};

/// The text between token and server number in a mark.
const LABEL: &str = "dunlin-loop-";
/// Bytes of a token, in hexadecimal digits.
const TOKEN_LEN: usize = 32;

/// The marks of all servers, shared by all threads of a process.
#[derive(Clone, Debug)]
pub struct ServerMarks(Arc<SharedMarks>);

#[derive(Debug)]
struct SharedMarks {
    token: String,
    servers: Box<[ServerMark]>,
    hasher: RandomState,
}

/// Seconds of the monotonic clock plus one; 0: never.
#[derive(Debug, Default)]
struct ServerMark {
    sent_at: AtomicU64,
    seen_at: AtomicU64,
    /// A hash of the address that returned it.
    from: AtomicU64,
}

impl ServerMarks {
    /// For this number of servers.
    pub fn new(servers: usize) -> Self {
        let mut random = SecureRandom::new();
        let token = format!("{:016x}{:016x}", random.next_u64(), random.next_u64());
        let servers = (0..servers).map(|_| ServerMark::default()).collect();
        Self(Arc::new(SharedMarks { token, servers, hasher: RandomState::new() }))
    }

    /// Begins with a server that had another one's number.
    pub fn begin(&self, server: u16) {
        if let Some(mark) = self.0.servers.get(usize::from(server)) {
            mark.seen_at.store(0, Relaxed);
            mark.sent_at.store(0, Relaxed);
        }
    }

    /// The mark of a server below the suffix of its names. It changes each second, because other
    /// servers cache the result. `None` if it is too long.
    pub(crate) fn name(&self, server: u16, suffix: Name<'_>, now: Duration) -> Option<NameBuf> {
        let label = format!("{LABEL}{server}-{}", now.as_secs());
        let mut labels = vec![TOKEN_LEN as u8];
        labels.extend(self.0.token.bytes());
        labels.push(label.len() as u8);
        labels.extend(label.bytes());
        NameBuf::joined(&labels, suffix).ok()
    }

    /// Whether a mark is due; then no other thread sends it.
    pub(crate) fn take_due(&self, server: u16, is_well: bool, now: Duration) -> bool {
        let Some(mark) = self.0.servers.get(usize::from(server)) else { return false };
        let sent_at = mark.sent_at.load(Relaxed);
        let is_wanted = !is_well || mark.is_back(now);
        let is_due = sent_at == 0 || is_wanted && is_older(sent_at, MARK_INTERVAL, now);
        is_due && mark.sent_at.compare_exchange(sent_at, stamp(now), Relaxed, Relaxed).is_ok()
    }

    /// Sends a mark that could not be sent again in a second.
    pub(crate) fn put_off(&self, server: u16, now: Duration) {
        if let Some(mark) = self.0.servers.get(usize::from(server)) {
            let soon = (stamp(now) + 1).saturating_sub(MARK_INTERVAL.as_secs());
            mark.sent_at.store(soon.max(1), Relaxed);
        }
    }

    /// Whether a name is a mark, which a client returned.
    pub(crate) fn take_back(&self, name: &[u8], from: IpAddr, now: Duration) -> bool {
        let Some(number) = self.number(name) else { return false };
        if let Some(mark) = self.0.servers.get(number) {
            mark.from.store(self.0.hasher.hash_one(from.to_canonical()), Relaxed);
            mark.seen_at.store(stamp(now), Relaxed);
        }
        true
    }

    /// Whether a name is a mark of any process.
    pub(crate) fn are_like(name: &[u8]) -> bool {
        let behind = name.strip_prefix(&[TOKEN_LEN as u8]).and_then(|name| name.get(TOKEN_LEN..));
        let label = behind.and_then(|behind| behind.split_first());
        label.is_some_and(|(_, label)| label.starts_with(LABEL.as_bytes()))
    }

    /// Whether a name is a mark of this process.
    pub(crate) fn has(&self, name: &[u8]) -> bool {
        self.number(name).is_some()
    }

    fn number(&self, name: &[u8]) -> Option<usize> {
        let rest = name.strip_prefix(&[TOKEN_LEN as u8])?;
        let rest = rest.strip_prefix(self.0.token.as_bytes())?;
        let (len, rest) = rest.split_first()?;
        let numbers = rest.get(..usize::from(*len))?.strip_prefix(LABEL.as_bytes())?;
        let (server, _) = std::str::from_utf8(numbers).ok()?.split_once('-')?;
        server.parse().ok()
    }

    /// Whether a server is in a loop, as far as known.
    pub(crate) fn is_loop(&self, server: u16, now: Duration) -> bool {
        self.0.servers.get(usize::from(server)).is_some_and(|mark| mark.is_back(now))
    }

    /// Whether this client's query to a server is in a loop.
    pub(crate) fn goes_round(&self, server: u16, client: IpAddr, now: Duration) -> bool {
        let mark = self.0.servers.get(usize::from(server)).filter(|mark| mark.is_back(now));
        let from = || self.0.hasher.hash_one(client.to_canonical());
        mark.is_some_and(|mark| mark.from.load(Relaxed) == from())
    }
}

impl ServerMark {
    fn is_back(&self, now: Duration) -> bool {
        let seen_at = self.seen_at.load(Relaxed);
        seen_at != 0 && !is_older(seen_at, LOOP_AGE_MAX, now)
    }
}

const fn stamp(now: Duration) -> u64 {
    now.as_secs() + 1
}

const fn is_older(at: u64, age: Duration, now: Duration) -> bool {
    stamp(now).saturating_sub(at) >= age.as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
    const THERE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2));

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_mark_that_comes_back_tells_which_server_leads_here() {
        let marks = ServerMarks::new(12);
        let suffix = NameBuf::from_text(b"corp.example", Name::ROOT).unwrap();
        let name = marks.name(11, suffix.as_name(), at(5)).unwrap();
        assert!(!marks.is_loop(11, at(5)));
        assert!(ServerMarks::are_like(name.as_name().as_bytes()));
        assert!(marks.take_back(name.as_name().as_bytes(), THERE, at(5)));
        assert!(marks.is_loop(11, at(5)) && !marks.is_loop(1, at(5)));
        assert!(marks.goes_round(11, THERE, at(6)) && !marks.goes_round(11, HERE, at(6)));
        let over = at(5) + LOOP_AGE_MAX;
        assert!(!marks.is_loop(11, over) && !marks.goes_round(11, THERE, over));
    }

    #[test]
    fn nobody_elses_name_is_a_mark() {
        let marks = ServerMarks::new(1);
        let other = ServerMarks::new(1).name(0, Name::ROOT, at(1)).unwrap();
        let own = marks.name(0, Name::ROOT, at(1)).unwrap();
        assert!(ServerMarks::are_like(other.as_name().as_bytes()), "but it is known for one");
        assert!(!ServerMarks::are_like(b"\x03www\0") && !ServerMarks::are_like(b"\0"));
        let mut wrong = vec![other.as_name().as_bytes().to_vec(), b"\x03www\0".to_vec(), vec![0]];
        wrong.extend(
            (0..own.as_name().len() - 4).map(|len| own.as_name().as_bytes()[..len].to_vec()),
        );
        for name in wrong {
            assert!(!marks.take_back(&name, HERE, at(1)), "{name:?}");
        }
        assert!(!marks.is_loop(0, at(1)));
        let of_nobody = marks.name(7, Name::ROOT, at(1)).unwrap();
        assert!(marks.take_back(of_nobody.as_name().as_bytes(), HERE, at(1)), "and no server's");
    }

    #[test]
    fn one_thread_sends_a_mark_first_and_then_now_and_again_while_it_is_needed() {
        let marks = ServerMarks::new(1);
        assert!(marks.take_due(0, true, at(0)), "at the start");
        assert!(!marks.clone().take_due(0, true, at(0)), "no other thread does");
        assert!(!marks.take_due(0, true, at(1_000_000)), "it answers");
        assert!(
            marks.take_due(0, false, MARK_INTERVAL) && !marks.take_due(0, false, MARK_INTERVAL)
        );
        marks.put_off(0, at(100));
        assert!(!marks.take_due(0, false, at(100)) && marks.take_due(0, false, at(101)));
    }

    #[test]
    fn overlong_text_is_not_a_name() {
        let label = [&[63][..], &[b'a'; 63]].concat();
        let long = NameBuf::joined(
            &[&label.repeat(3)[..], b"\x03abc".repeat(5).as_slice()].concat(),
            Name::ROOT,
        )
        .unwrap();
        assert_eq!(ServerMarks::new(1).name(0, long.as_name(), at(1)), None);
    }
}
