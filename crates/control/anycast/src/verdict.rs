//! The verdict: whether an address is announced. Pure: time is an argument.
use crate::limits::{HOLD_DOWN_MAX, STEADY_AFTER};
use std::time::Duration;

/// The known state of the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// Why the server is not ready, or does not answer through its addresses; `None`: it does.
    pub hindrance: Option<String>,
}

/// Decides by what is observed, and delays announcements of a server that flaps.
#[derive(Debug)]
pub struct Verdict {
    /// The shortest time between a withdrawal and the next announcement.
    hold_down: Duration,
    /// The time after the next withdrawal: it doubles.
    next_hold: Duration,
    /// When it was announced; `None`: it is withdrawn.
    announced: Option<Duration>,
    /// No announcement before.
    held_until: Duration,
    /// Why it is withdrawn.
    reason: String,
    /// When it was last announced or withdrawn.
    since: Duration,
    withdrawals: u64,
}

impl Verdict {
    /// Withdrawn: the server is starting.
    pub fn new(hold_down: Duration) -> Self {
        Self {
            hold_down,
            next_hold: hold_down,
            announced: None,
            held_until: Duration::ZERO,
            reason: "starting".into(),
            since: Duration::ZERO,
            withdrawals: 0,
        }
    }

    /// Announced: by the old process of a hot restart.
    pub fn announced(hold_down: Duration, now: Duration) -> Self {
        Self { announced: Some(now), since: now, ..Self::new(hold_down) }
    }

    /// Decides; returns whether the addresses are to be announced.
    pub fn decide(&mut self, observed: &Observed, now: Duration) -> bool {
        match (self.announced, &observed.hindrance) {
            (Some(since), None) => {
                if now.saturating_sub(since) >= STEADY_AFTER {
                    self.next_hold = self.hold_down;
                }
            }
            (Some(_), Some(why)) => {
                (self.announced, self.since) = (None, now);
                self.reason.clone_from(why);
                self.withdrawals += 1;
                self.held_until = now + self.next_hold;
                self.next_hold = (self.next_hold * 2).min(HOLD_DOWN_MAX.max(self.hold_down));
            }
            (None, Some(why)) => self.reason.clone_from(why),
            (None, None) if now < self.held_until => {
                let left = (self.held_until - now).as_secs() + 1;
                self.reason = format!("held down for {left} s more, after a withdrawal");
            }
            (None, None) => (self.announced, self.since) = (Some(now), now),
        }
        self.announced.is_some()
    }

    /// Why it is withdrawn; `None`: it is announced.
    pub fn reason(&self) -> Option<&str> {
        self.announced.is_none().then_some(self.reason.as_str())
    }

    /// How often it was withdrawn.
    pub const fn withdrawals(&self) -> u64 {
        self.withdrawals
    }

    /// When it was last announced or withdrawn.
    pub const fn since(&self) -> Duration {
        self.since
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOLD: Duration = Duration::from_secs(5);

    fn of(hindrance: Option<&str>) -> Observed {
        Observed { hindrance: hindrance.map(str::to_owned) }
    }

    /// How long it stays withdrawn after each of some short failures.
    fn delays(verdict: &mut Verdict, from: Duration, count: usize) -> Vec<u64> {
        let mut now = from;
        let mut delays = Vec::new();
        for _ in 0..count {
            assert!(!verdict.decide(&of(Some("worker-0 hangs")), now));
            let begun = now;
            while !verdict.decide(&of(None), now) {
                now += Duration::from_secs(1);
            }
            delays.push((now - begun).as_secs());
        }
        delays
    }

    #[test]
    fn ready_server_is_announced_at_once_and_a_reason_is_named() {
        let mut verdict = Verdict::new(HOLD);
        assert!(!verdict.decide(&of(Some("starting")), Duration::ZERO));
        assert_eq!((verdict.reason(), verdict.withdrawals()), (Some("starting"), 0));
        assert!(verdict.decide(&of(None), Duration::from_millis(100)));
        assert_eq!(verdict.reason(), None);
        assert!(!verdict.decide(&of(Some("draining")), Duration::from_millis(200)));
        assert_eq!((verdict.reason(), verdict.withdrawals()), (Some("draining"), 1));
    }

    #[test]
    fn flapping_delays_each_announcement_twice_as_long_up_to_a_minute() {
        let mut verdict = Verdict::new(HOLD);
        assert!(verdict.decide(&of(None), Duration::ZERO));
        let begun = Duration::from_secs(1);
        assert_eq!(delays(&mut verdict, begun, 6), [5, 10, 20, 40, 60, 60]);
        // Announced for long enough, it is trusted again.
        let later = begun + Duration::from_secs(200) + STEADY_AFTER;
        assert!(verdict.decide(&of(None), later));
        assert_eq!(delays(&mut verdict, later, 2), [5, 10]);
    }
}
