//! An upstream server: its speed and health.
//!
//! Health is judged by everything that a server sends, not by single queries. A query without a
//! reply counts only if nothing at all arrived since it was sent. A server is down only if probes,
//! which any server can answer, get no reply either. So a name that no server can answer says
//! nothing about its server.
use crate::compatibility::Compatibility;
use crate::limits::{
    FAILURES_DOWN, FAILURES_SURE, HALF_LIFE_MICROS, HEDGE_MICROS_MIN, PROBE_GAP_MICROS,
    PROBES_DOWN, QUERY_MICROS_MAX, REST_MICROS_MAX, REST_MICROS_MIN, SILENCE_MICROS_DOWN,
    SILENCE_MICROS_GONE, SILENCE_MICROS_GONE_UNHEARD, SILENCE_ROUND_TRIPS_GONE, TRICKLE_MICROS,
    TRIES_OF_SERVER_MAX, WAIT_MICROS_MAX, WAIT_MICROS_MIN, WAIT_MICROS_UNHEARD,
};

/// The transport to a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UpstreamTransport {
    /// UDP, and TCP for answers that are too long.
    #[default]
    Datagrams,
    /// TCP.
    Streams,
    /// TLS. Queries are padded, so that their lengths reveal little.
    Enciphered,
}

/// Why a stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamLoss {
    /// It was closed, as a server may at any time (RFC 7766 §6.2.4).
    Closed,
    /// It failed.
    Failed,
    /// The server does not listen, or is not the expected one.
    Refused,
}

/// The state of a server, as one thread knows it.
#[derive(Clone, Debug)]
pub struct Upstream {
    /// The transport.
    pub transport: UpstreamTransport,
    /// Smoothed round trip time and its variation by RFC 6298; 0: never measured.
    round_trip_micros: u32,
    variation_micros: u32,
    /// When it was measured last.
    measured_at: u64,
    /// When it last answered a client's query.
    answered_at: u64,
    /// When the newest answered query was sent.
    answered_sent_at: u64,
    /// When it last sent any reply; 0: never.
    last_reply_at: u64,
    /// Failures in a row, and the time of the first.
    failures: u8,
    failing_since: u64,
    /// Whether it refused a query since its last answer.
    is_refusing: bool,
    /// While it is down: when it is retried, and how often that failed.
    back_off_until: Option<u64>,
    back_offs: u8,
    silence: Silence,
    /// When the next new name may be sent although it is unreachable.
    trickle_at: u64,
    /// Queries without an answer yet.
    waiting: u16,
    pub(crate) compatibility: Compatibility,
    /// Whether an operator drained it: see [`UpstreamHealth::Drained`].
    pub is_drained: bool,
    /// Counters.
    pub counts: UpstreamCounts,
}

/// The state of a server that may be unreachable.
#[derive(Clone, Copy, Debug)]
struct Silence {
    /// The time of the first query since which nothing was received.
    since: Option<u64>,
    /// Probes since then, the time of the last probe ever, and when the next one is due.
    probes: u8,
    probed_at: Option<u64>,
    probe_due: Option<u64>,
    /// Whether the network reported it unreachable.
    is_absent: bool,
}

impl Silence {
    const NONE: Self =
        Self { since: None, probes: 0, probed_at: None, probe_due: None, is_absent: false };
}

/// Counters of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UpstreamCounts {
    /// Queries sent.
    pub sent: u64,
    /// Usable replies.
    pub answered: u64,
    /// Replies that the server cannot answer.
    pub refused: u64,
    /// Queries without a reply in time.
    pub late: u64,
    /// Datagrams that match no query.
    pub mismatched: u64,
}

/// The health of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpstreamHealth {
    /// Usable.
    Up,
    /// It refused queries, and the time for a new attempt has come.
    Due,
    /// An operator drained it. It is only queried if no other server can be, since any answer is
    /// better than none.
    Drained,
    /// It refused queries recently, or is silent, also to probes.
    Down,
}

impl Upstream {
    /// A new server.
    pub const NEW: Self = Self {
        transport: UpstreamTransport::Datagrams,
        round_trip_micros: 0,
        variation_micros: 0,
        measured_at: 0,
        answered_at: 0,
        answered_sent_at: 0,
        last_reply_at: 0,
        failures: 0,
        failing_since: 0,
        is_refusing: false,
        back_off_until: None,
        back_offs: 0,
        silence: Silence::NONE,
        trickle_at: 0,
        waiting: 0,
        compatibility: Compatibility::NEW,
        is_drained: false,
        counts: UpstreamCounts { sent: 0, answered: 0, refused: 0, late: 0, mismatched: 0 },
    };

    /// The same server in another slot: queries under way stay in the old one.
    pub fn without_queries(&self) -> Self {
        Self { waiting: 0, ..self.clone() }
    }

    /// Its health. A silent server is down until it sends something. A drained one is not probed,
    /// and may be queried again after its back-off.
    pub fn health(&self, now: u64) -> UpstreamHealth {
        let back_offs = self.back_off_until.is_some_and(|until| now < until);
        let is_silent = self.back_off_until.is_some() && self.is_silent();
        match self {
            _ if back_offs || is_silent && !self.is_drained => UpstreamHealth::Down,
            Self { is_drained: true, .. } => UpstreamHealth::Drained,
            Self { back_off_until: Some(_), .. } => UpstreamHealth::Due,
            Self { back_off_until: None, .. } => UpstreamHealth::Up,
        }
    }

    /// Whether nothing was received since a probe.
    const fn is_silent(&self) -> bool {
        self.silence.probes > 0 || self.silence.is_absent
    }

    /// Whether the last query did not fail.
    pub const fn is_well(&self) -> bool {
        self.failures == 0
    }

    /// Whether it does not keep the case of letters in questions, or has names in lower case only.
    pub const fn has_case_fault(&self) -> bool {
        self.compatibility.has_case_fault()
    }

    /// Whether anything was received since then.
    pub(crate) const fn has_replied_since(&self, at: u64) -> bool {
        self.last_reply_at != 0 && self.last_reply_at >= at
    }

    /// The smoothed round trip time in microseconds; 0: never measured.
    pub const fn round_trip_micros(&self) -> u32 {
        self.round_trip_micros
    }

    /// The cheapest server is queried. A new server is cheapest, and outstanding queries make a
    /// server more expensive.
    pub(crate) fn cost(&self, now: u64) -> u64 {
        let half_lives = now.saturating_sub(self.measured_at) / HALF_LIFE_MICROS;
        let aged = u64::from(self.round_trip_micros) >> half_lives.min(32);
        aged * (16 + u64::from(self.waiting)) / 16
    }

    /// How long to wait for the `nth` transmission of a query: twice as long each time (RFC 6298
    /// §5.5). A failing server may have become slow, and gets the maximum. The last wait is not
    /// shorter than the silence after which a server is unreachable.
    pub(crate) fn wait_micros(&self, nth: usize, now: u64) -> u64 {
        let wait = match self.round_trip_micros {
            _ if self.health(now) == UpstreamHealth::Due || self.is_unreachable(now) => {
                WAIT_MICROS_MAX
            }
            0 => WAIT_MICROS_UNHEARD,
            _ => self.expected_micros().clamp(WAIT_MICROS_MIN, WAIT_MICROS_MAX),
        };
        let least = if nth + 1 >= TRIES_OF_SERVER_MAX { SILENCE_MICROS_GONE } else { 0 };
        (wait << nth.min(8)).clamp(least, WAIT_MICROS_MAX)
    }

    /// When to send a hedged query.
    pub(crate) fn hedge_micros(&self) -> u64 {
        self.expected_micros().clamp(HEDGE_MICROS_MIN, WAIT_MICROS_MAX)
    }

    /// Whether it is usable as a server of this health. A server that is down must be reachable.
    pub(crate) fn serves_as(&self, health: UpstreamHealth, now: u64) -> bool {
        let may_answer =
            health != UpstreamHealth::Down || !self.is_drained && !self.is_unreachable(now);
        self.health(now) == health && may_answer
    }

    /// Whether it is unreachable: it is down, and silent for longer than a slow server would be.
    pub(crate) fn is_unreachable(&self, now: u64) -> bool {
        let is_down = self.back_off_until.is_some() && self.silence.probes >= PROBES_DOWN;
        self.silence.is_absent || is_down && self.unreachable_at().is_some_and(|at| now >= at)
    }

    /// When it becomes unreachable if it is down.
    fn unreachable_at(&self) -> Option<u64> {
        let round_trips = SILENCE_ROUND_TRIPS_GONE * u64::from(self.round_trip_micros);
        let patience = match self.last_reply_at {
            0 => SILENCE_MICROS_GONE_UNHEARD,
            _ => SILENCE_MICROS_GONE.max(round_trips),
        };
        self.silence.since.map(|since| since + patience)
    }

    /// Whether a new name may be sent although it is unreachable, in case that it answers clients
    /// but not probes.
    pub(crate) fn may_trickle(&self, now: u64) -> bool {
        self.is_unreachable(now) && !self.is_drained && now >= self.trickle_at
    }

    /// RFC 6298 §2.3.
    fn expected_micros(&self) -> u64 {
        match self.round_trip_micros {
            0 => WAIT_MICROS_UNHEARD,
            time => u64::from(time) + 4 * u64::from(self.variation_micros),
        }
    }

    pub(crate) fn query(&mut self, now: u64) {
        self.counts.sent += 1;
        self.waiting = self.waiting.saturating_add(1);
        if self.is_unreachable(now) {
            self.trickle_at = now + TRICKLE_MICROS;
        } else if self.health(now) == UpstreamHealth::Due {
            // No other query tries while this one is under way.
            self.back_off(now);
        }
    }

    /// A query no longer waits for its answer.
    pub(crate) fn record_query_end(&mut self) {
        self.waiting = self.waiting.saturating_sub(1);
    }

    /// It answered a query after `took_micros`.
    pub(crate) fn record_answer(&mut self, now: u64, took_micros: u64) {
        (self.is_refusing, self.answered_at) = (false, now);
        self.record_sign_of_life(now);
        self.measure(now, took_micros);
        self.counts.answered += 1;
    }

    /// It replied to a probe after `took_micros`, with any code. A fast reply says nothing about
    /// other names, but a slow one does.
    pub(crate) fn record_probe_reply(&mut self, now: u64, took_micros: u64) {
        self.record_sign_of_life(now);
        let is_longer = took_micros > u64::from(self.round_trip_micros);
        if is_longer {
            self.measure(now, took_micros);
        }
        self.answered_sent_at = self.answered_sent_at.max(now.saturating_sub(took_micros));
        self.counts.answered += 1;
    }

    /// It sent something.
    pub(crate) fn record_sign_of_life(&mut self, now: u64) {
        self.last_reply_at = now;
        self.silence = Silence { probed_at: self.silence.probed_at, ..Silence::NONE };
        if !self.is_refusing {
            (self.failures, self.back_off_until, self.back_offs) = (0, None, 0);
        }
    }

    /// Updates the round trip time, unless later queries were answered first: then the name was
    /// slow, and not the server.
    fn measure(&mut self, now: u64, took_micros: u64) {
        let sent_at = now.saturating_sub(took_micros);
        let was_overtaken = self.answered_sent_at > sent_at + took_micros / 2;
        if was_overtaken && took_micros > self.expected_micros() {
            return;
        }
        self.answered_sent_at = self.answered_sent_at.max(sent_at);
        let took = took_micros.clamp(1, WAIT_MICROS_MAX) as u32;
        if self.round_trip_micros == 0 {
            (self.round_trip_micros, self.variation_micros) = (took, took / 2);
        } else {
            let off = took.abs_diff(self.round_trip_micros);
            self.variation_micros = self.variation_micros - self.variation_micros / 4 + off / 4;
            self.round_trip_micros = self.round_trip_micros - self.round_trip_micros / 8 + took / 8;
        }
        (self.round_trip_micros, self.measured_at) = (self.round_trip_micros.max(1), now);
    }

    /// The network reported it unreachable, which is conclusive.
    pub fn record_unreachable(&mut self, now: u64) {
        (self.failures, self.silence.is_absent) = (FAILURES_SURE, true);
        self.fail(now);
        self.want_probe(now);
    }

    /// It replied that it cannot answer.
    pub(crate) fn record_refusal(&mut self, now: u64) {
        self.counts.refused += 1;
        self.is_refusing = true;
        self.record_sign_of_life(now);
        self.fail(now);
    }

    /// The last refusal does not count: no server could answer the query.
    pub fn forgive_refusal(&mut self, now: u64) {
        if self.last_reply_at == now {
            (self.failures, self.back_off_until, self.back_offs) = (0, None, 0);
            self.is_refusing = false;
        }
    }

    /// Whether it answered a client since then. If it did, its unanswered queries were lost.
    pub(crate) const fn has_answered_since(&self, at: u64) -> bool {
        self.answered_at >= at
    }

    /// Another server answered first, `for_micros` after this one was queried. Without this, a
    /// silent server would remain the first choice.
    pub(crate) fn record_outrun(&mut self, now: u64, for_micros: u64) {
        let at_least = for_micros.min(WAIT_MICROS_MAX) as u32;
        if let Some(more) = at_least.checked_sub(self.round_trip_micros) {
            let unheard = self.round_trip_micros == 0;
            self.round_trip_micros += if unheard { more } else { more / 8 };
            self.measured_at = now;
        }
    }

    /// A stream to it ended. This says nothing about its UDP service.
    pub fn record_stream_loss(&mut self, loss: StreamLoss, now: u64) {
        match loss {
            StreamLoss::Closed => {}
            StreamLoss::Refused if self.transport != UpstreamTransport::Datagrams => {
                self.record_unreachable(now)
            }
            // Other streams may work.
            StreamLoss::Failed | StreamLoss::Refused => {
                self.record_timeout(now.saturating_sub(SILENCE_MICROS_GONE), now)
            }
        }
    }

    /// A query sent at `sent_at` timed out. It counts only if nothing was received since: otherwise
    /// the name is slow, or a datagram was lost.
    pub(crate) fn record_timeout(&mut self, sent_at: u64, now: u64) {
        if self.has_replied_since(sent_at) {
            return;
        }
        self.silence.since.get_or_insert(sent_at);
        self.fail(now);
        self.want_probe(now);
    }

    /// Counts a failure. With one datagram in five lost, several failures in a row are common, so a
    /// period of silence or many failures are needed too.
    fn fail(&mut self, now: u64) {
        if self.failures == 0 {
            self.failing_since = now;
        }
        self.failures = self.failures.saturating_add(1);
        self.update_health(now);
    }

    /// Marks it down after enough failures: for a while if it refused, and until it sends something
    /// if it is silent.
    fn update_health(&mut self, now: u64) {
        let Silence { probes, is_absent, .. } = self.silence;
        let is_long = now - self.failing_since >= SILENCE_MICROS_DOWN;
        // Longer than any client waits.
        let is_over = self.silence.since.is_some_and(|since| now - since >= QUERY_MICROS_MAX);
        let is_failing =
            self.failures >= FAILURES_SURE || is_long && self.failures >= FAILURES_DOWN || is_over;
        match self.back_off_until {
            None if is_failing && (self.is_refusing || is_absent) => self.back_off(now),
            None if is_failing && probes >= PROBES_DOWN => self.back_off_until = Some(now),
            _ => {}
        }
    }

    /// Backs off, longer each time.
    fn back_off(&mut self, now: u64) {
        let back_off = (REST_MICROS_MIN << self.back_offs.min(16)).min(REST_MICROS_MAX);
        if self.back_offs == 0 {
            self.trickle_at = now + TRICKLE_MICROS;
        }
        self.back_offs = self.back_offs.saturating_add(1);
        self.back_off_until = Some(now + back_off);
    }

    /// Requests a probe, now or soon.
    fn want_probe(&mut self, now: u64) {
        let earliest = match (self.silence.is_absent, self.back_off_until, self.silence.probed_at) {
            // A server that answers probes gets few.
            (false, _, Some(at)) if self.silence.probes == 0 => now.max(at + PROBE_GAP_MICROS),
            (true, Some(until), _) => until,
            _ => now,
        };
        self.silence.probe_due.get_or_insert(earliest);
    }

    /// When the next probe is due.
    pub(crate) const fn probe_due(&self) -> Option<u64> {
        self.silence.probe_due
    }

    /// Probes since something was received.
    pub(crate) const fn probes(&self) -> u8 {
        self.silence.probes
    }

    /// Records a probe, and when the next one is due. False if none may be sent, because the server
    /// is drained.
    pub(crate) fn probe(&mut self, now: u64) -> bool {
        if self.is_drained && self.is_unreachable(now) {
            self.silence = Silence { probed_at: self.silence.probed_at, ..Silence::NONE };
            return false;
        }
        let wait = self.wait_micros(0, now) << self.silence.probes.min(8);
        self.silence.since.get_or_insert(now);
        self.silence.probes = self.silence.probes.saturating_add(1);
        self.silence.probed_at = Some(now);
        let mut due = now + wait.min(WAIT_MICROS_MAX);
        if self.is_unreachable(now) {
            self.back_off(now);
            due = self.back_off_until.unwrap_or(due);
        } else if let Some(unreachable_at) = self.unreachable_at().filter(|at| *at > now) {
            due = due.min(unreachable_at);
        }
        self.silence.probe_due = Some(due);
        self.update_health(now);
        true
    }
}

#[cfg(test)]
mod tests;
