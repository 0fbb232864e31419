//! The state of one target: up, down or unknown, with rise and fall.
use crate::check::Check;
use crate::limits::{REASON_MAX, WARNING_INTERVAL};
use std::time::Duration;
use zone_manager::MemberClass;

/// The state of a target by its probes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProbeState {
    /// Too few probes yet.
    #[default]
    Unknown,
    /// It passes.
    Up,
    /// It fails.
    Down,
}

impl ProbeState {
    /// Its name in JSON and texts.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Up => "up",
            Self::Down => "down",
        }
    }

    /// The state of a name.
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Unknown, Self::Up, Self::Down].into_iter().find(|state| state.word() == word)
    }
}

/// The state of a target, and the probes in a row that speak against it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TargetState {
    /// The state by the probes.
    pub state: ProbeState,
    /// Whether it was ever up.
    pub ever_up: bool,
    /// When the state began, since 1970.
    pub since: Duration,
    /// Why the last probe failed; empty: it passed, or there was none.
    pub reason: Box<str>,
    /// Probes in a row that speak against the state.
    against: u8,
    /// The certificate of its server, if it was seen.
    pub certificate: Option<Box<Certificate>>,
}

/// The certificate of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Certificate {
    /// When it ends, since 1970.
    pub end: Duration,
    /// When operators were warned, since 1970; 0: not.
    warned: Duration,
}

impl Certificate {
    /// Whether it ends so soon that the check warns of it.
    pub fn ends_soon(&self, check: &Check, now: Duration) -> bool {
        check.tls().is_some_and(|(tls, _)| self.end < now + tls.expiry_warning)
    }
}

impl TargetState {
    /// A state from an earlier run.
    pub fn saved(state: ProbeState, ever_up: bool, since: Duration) -> Self {
        Self { state, ever_up, since, ..Self::default() }
    }

    /// The state of a target that is not probed any more: what was known may be wrong for ever.
    pub fn forgotten(&self) -> Self {
        Self { ever_up: self.ever_up, ..Self::default() }
    }

    /// Takes in the result of a probe. `is_suspect`: the prober itself may be what fails; then
    /// nothing goes down for one more round. Returns whether the state changed.
    pub fn observe(
        &mut self,
        result: Result<(), &str>,
        check: &Check,
        is_suspect: bool,
        now: Duration,
    ) -> bool {
        self.take_reason(result.err().unwrap_or_default());
        let next = match result {
            Ok(()) => ProbeState::Up,
            Err(_) => ProbeState::Down,
        };
        if self.state == next {
            self.against = 0;
            return false;
        }
        // A first pass is enough for a new target. A failure before a pass counts towards `fall`.
        if self.state == ProbeState::Unknown && result.is_ok() {
            return self.enter(next, now);
        }
        self.against = self.against.saturating_add(1);
        let needed = match next {
            ProbeState::Up => check.rise,
            _ => check.fall.saturating_add(is_suspect.into()),
        };
        self.against >= needed && self.enter(next, now)
    }

    /// Stores why the last probe did not pass; empty: it passed.
    pub fn take_reason(&mut self, reason: &str) {
        if *self.reason != *reason {
            self.reason = reason[..reason.floor_char_boundary(REASON_MAX)].into();
        }
    }

    /// Takes in when the certificate ends. Returns whether operators have to be warned: it ends
    /// soon, and they were not warned for a day.
    pub fn observe_certificate(&mut self, end: Duration, check: &Check, now: Duration) -> bool {
        let certificate = self.certificate.get_or_insert_default();
        certificate.end = end;
        if !certificate.ends_soon(check, now) {
            certificate.warned = Duration::ZERO;
            return false;
        }
        let is_new = certificate.warned.is_zero() || certificate.warned + WARNING_INTERVAL <= now;
        if is_new {
            certificate.warned = now;
        }
        is_new
    }

    fn enter(&mut self, state: ProbeState, now: Duration) -> bool {
        (self.state, self.against, self.since) = (state, 0, now);
        self.ever_up |= state == ProbeState::Up;
        true
    }

    /// Whether it is up, and its last probe failed.
    pub fn is_failing(&self) -> bool {
        self.state == ProbeState::Up && self.against > 0
    }

    /// Whether it is known, and its last probe agrees.
    pub fn is_confirmed(&self) -> bool {
        self.state != ProbeState::Unknown && self.against == 0
    }

    /// Its class in answers.
    pub fn class(&self) -> MemberClass {
        match (self.state, self.ever_up) {
            (ProbeState::Up, _) => MemberClass::Up,
            (ProbeState::Unknown, _) => MemberClass::Unknown,
            (ProbeState::Down, true) => MemberClass::DownOnceUp,
            (ProbeState::Down, false) => MemberClass::Down,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::check;

    /// Probes, passed as `+`, failed as `-`; the state after each.
    fn run(probes: &str, is_suspect: bool) -> String {
        let (mut state, check) = (TargetState::default(), check("web"));
        let step = |probe: char| {
            let result = if probe == '+' { Ok(()) } else { Err("refused") };
            state.observe(result, &check, is_suspect, Duration::ZERO);
            match state.state {
                ProbeState::Unknown => '?',
                ProbeState::Up => 'u',
                ProbeState::Down => 'd',
            }
        };
        probes.chars().map(step).collect()
    }

    #[test]
    fn states_change_after_rise_and_fall() {
        assert_eq!(run("+--+---", false), "uuuuuud");
        assert_eq!(run("---+++", false), "??dduu");
        assert_eq!(run("--+", false), "??u");
        assert_eq!(run("---+-++", false), "??ddddu");
    }

    #[test]
    fn suspect_prober_waits_for_one_more_round() {
        assert_eq!(run("+----", true), "uuuud");
    }

    #[test]
    fn end_of_a_certificate_is_a_warning_once_a_day() {
        let day = Duration::from_secs(24 * 60 * 60);
        let mut check = check("web");
        let tls = crate::TlsCheck { expiry_warning: day * 14, ..crate::TlsCheck::default() };
        check.kind = crate::CheckKind::Grpc(crate::GrpcCheck {
            tls: Some(tls),
            ..crate::GrpcCheck::default()
        });
        let mut state = TargetState::default();
        let (end, hour) = (day * 100, day / 24);
        let mut warned = Vec::new();
        for now in (0..24 * 90).map(|hours| hour * hours) {
            if state.observe_certificate(end, &check, now) {
                warned.push(now.as_secs() / day.as_secs());
            }
        }
        assert_eq!(warned, [86, 87, 88, 89], "once a day of the last fourteen");
        assert!(!state.observe_certificate(end + day * 90, &check, day * 90), "renewed");
        assert_eq!(state.state, ProbeState::Unknown, "the probe decides, not the certificate");
    }

    #[test]
    fn long_reason_is_cut_between_characters() {
        let mut state = TargetState::default();
        state.observe(Err(&"ä".repeat(200)), &check("web"), false, Duration::ZERO);
        assert_eq!(state.reason.len(), REASON_MAX);
    }
}
