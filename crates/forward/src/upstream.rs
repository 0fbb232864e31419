//! One server that is asked: how fast it answers, and whether it does.
use crate::limits::{
    FAILURES_DOWN, FAILURES_SURE, HALF_LIFE_MICROS, HEDGE_MICROS_MIN, REST_MICROS_MAX,
    REST_MICROS_MIN, SILENCE_MICROS_DOWN, SILENCE_MICROS_GONE, TRIES_OF_SERVER_MAX,
    WAIT_MICROS_MAX, WAIT_MICROS_MIN, WAIT_MICROS_UNHEARD,
};
use core::mem;

/// How a server is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Means {
    /// By datagrams; by stream where an answer is too long for one.
    #[default]
    Datagrams,
    /// By stream.
    Streams,
    /// By stream, enciphered: questions are padded, so that their lengths say little.
    Enciphered,
}

/// Why no reply comes by a stream any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// It was closed, as a server may at any time (RFC 7766 §6.2.4).
    Closed,
    /// It failed.
    Failed,
    /// Nobody is there, or not who should be.
    Refused,
}

/// What is known of a server by the thread that asks it.
#[derive(Clone, Debug)]
pub struct Upstream {
    /// How it is asked.
    pub means: Means,
    /// Smoothed round trip time and its variation, as RFC 6298 has them; 0: never heard.
    round_trip_micros: u32,
    variation_micros: u32,
    /// When it was heard last.
    heard_at: u64,
    /// When it last sent anything, if only that it cannot answer; 0: never, or nobody is there.
    spoke_at: u64,
    /// Whether that came after all of its failures: then it is there, however long ago it was.
    is_heard: bool,
    /// Failures in a row, and when the first of them was.
    failures: u8,
    failing_since: u64,
    /// While it is down: when it is tried again, and how often that was in vain.
    rest_until: Option<u64>,
    rests: u8,
    /// Questions it has not answered yet.
    waiting: u16,
    /// Whether it is not to be asked, because somebody said so: see [`Standing::Drained`].
    pub is_drained: bool,
    /// What happened so far.
    pub counts: Counts,
}

/// What happened with a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Questions sent.
    pub sent: u64,
    /// Replies that could be used.
    pub answered: u64,
    /// Replies that said that it could not answer.
    pub refused: u64,
    /// Questions that were not answered in time.
    pub late: u64,
    /// Datagrams that were no reply to what was asked.
    pub mismatched: u64,
}

/// Whether a server is worth asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is.
    Up,
    /// It failed, and it is time to see whether it is back.
    Due,
    /// Somebody said that it is not to be asked. It is where nobody else can be, as any answer is
    /// better than none.
    Drained,
    /// It failed not long ago.
    Down,
}

impl Upstream {
    /// Of whom nothing is known.
    pub const NEW: Self = Self {
        means: Means::Datagrams,
        round_trip_micros: 0,
        variation_micros: 0,
        heard_at: 0,
        spoke_at: 0,
        is_heard: false,
        failures: 0,
        failing_since: 0,
        rest_until: None,
        rests: 0,
        waiting: 0,
        is_drained: false,
        counts: Counts { sent: 0, answered: 0, refused: 0, late: 0, mismatched: 0 },
    };

    /// Whether it is worth asking.
    pub fn standing(&self, now: u64) -> Standing {
        match self {
            Self { rest_until: Some(until), .. } if now < *until => Standing::Down,
            Self { is_drained: true, .. } => Standing::Drained,
            Self { rest_until: Some(_), .. } => Standing::Due,
            Self { rest_until: None, .. } => Standing::Up,
        }
    }

    /// Whether it failed, and was not heard since.
    pub(crate) const fn has_failed(&self) -> bool {
        self.rest_until.is_some()
    }

    /// Whether the last thing that came of asking it was an answer.
    pub const fn is_well(&self) -> bool {
        self.failures == 0
    }

    /// The smoothed round trip time, microseconds; 0: it was never heard.
    pub const fn round_trip_micros(&self) -> u32 {
        self.round_trip_micros
    }

    /// Who has the least is asked. Who was never heard comes first; who has much to do comes later.
    pub(crate) fn cost(&self, now: u64) -> u64 {
        let half_lives = now.saturating_sub(self.heard_at) / HALF_LIFE_MICROS;
        let aged = u64::from(self.round_trip_micros) >> half_lives.min(32);
        aged * (16 + u64::from(self.waiting)) / 16
    }

    /// How long its answer is waited for where it is asked for the `nth` time about the same: twice
    /// as long each time (RFC 6298 §5.5). Who failed may have become slow, and nobody else waits;
    /// and nobody is given up before a silence that says so.
    pub(crate) fn wait_micros(&self, nth: usize, now: u64) -> u64 {
        let wait = match self.round_trip_micros {
            _ if self.standing(now) == Standing::Due => WAIT_MICROS_MAX,
            0 => WAIT_MICROS_UNHEARD,
            _ => self.expected_micros().clamp(WAIT_MICROS_MIN, WAIT_MICROS_MAX),
        };
        let least = if nth + 1 >= TRIES_OF_SERVER_MAX { SILENCE_MICROS_GONE } else { 0 };
        (wait << nth.min(8)).clamp(least, WAIT_MICROS_MAX)
    }

    /// When another one is asked too.
    pub(crate) fn hedge_micros(&self) -> u64 {
        self.expected_micros().clamp(HEDGE_MICROS_MIN, WAIT_MICROS_MAX)
    }

    /// Whether it can be asked as one of this standing: who is down only if it is there.
    pub(crate) fn serves_as(&self, standing: Standing, now: u64) -> bool {
        self.standing(now) == standing && (standing != Standing::Down || self.is_there(now))
    }

    /// Whether it is there, though it may have failed: something came of it not long ago, or, if
    /// only that it cannot answer, when it was asked last. Who asks little, and that what it cannot
    /// tell, would have it be gone otherwise.
    fn is_there(&self, now: u64) -> bool {
        let is_silent = !self.is_heard && now - self.spoke_at >= SILENCE_MICROS_GONE;
        self.spoke_at != 0 && !is_silent && !self.is_drained
    }

    /// RFC 6298 §2.3.
    fn expected_micros(&self) -> u64 {
        match self.round_trip_micros {
            0 => WAIT_MICROS_UNHEARD,
            time => u64::from(time) + 4 * u64::from(self.variation_micros),
        }
    }

    pub(crate) fn ask(&mut self, now: u64) {
        self.counts.sent += 1;
        self.waiting = self.waiting.saturating_add(1);
        if self.standing(now) == Standing::Due {
            // Nobody else tries while this one is waited for.
            self.rests = self.rests.saturating_add(1);
            self.rest(now);
        }
    }

    /// Nobody waits for one of its answers any more.
    pub(crate) fn let_go(&mut self) {
        self.waiting = self.waiting.saturating_sub(1);
    }

    /// It answered, after so long.
    pub(crate) fn hear(&mut self, now: u64, took_micros: u64) {
        let took = took_micros.clamp(1, WAIT_MICROS_MAX) as u32;
        if self.round_trip_micros == 0 {
            (self.round_trip_micros, self.variation_micros) = (took, took / 2);
        } else {
            let off = took.abs_diff(self.round_trip_micros);
            self.variation_micros = self.variation_micros - self.variation_micros / 4 + off / 4;
            self.round_trip_micros = self.round_trip_micros - self.round_trip_micros / 8 + took / 8;
        }
        self.round_trip_micros = self.round_trip_micros.max(1);
        (self.heard_at, self.spoke_at, self.is_heard, self.failures) = (now, now, true, 0);
        (self.rest_until, self.rests) = (None, 0);
        self.counts.answered += 1;
    }

    /// The network says that nobody is there: it need not be told twice.
    pub fn refuse(&mut self, now: u64) {
        (self.failures, self.spoke_at, self.is_heard) = (FAILURES_SURE, 0, false);
        self.fail(now);
    }

    /// It said that it cannot answer.
    pub(crate) fn fail_to_answer(&mut self, now: u64) {
        self.counts.refused += 1;
        self.fail(now);
        (self.spoke_at, self.is_heard) = (now, true);
    }

    /// That it just said so is no failure of its own: what it was asked, nobody could answer.
    pub fn excuse(&mut self, now: u64) {
        if self.spoke_at == now {
            (self.failures, self.rest_until, self.rests) = (0, None, 0);
        }
    }

    /// Another one answered while this one had not, for so long. It would be asked first for ever
    /// if nothing came of that.
    pub(crate) fn outrun(&mut self, now: u64, for_micros: u64) {
        let at_least = for_micros.min(WAIT_MICROS_MAX) as u32;
        if let Some(more) = at_least.checked_sub(self.round_trip_micros) {
            let unheard = self.round_trip_micros == 0;
            self.round_trip_micros += if unheard { more } else { more / 8 };
            self.heard_at = now;
        }
    }

    /// A stream to it came to an end. Whether its datagrams are answered is another matter.
    pub fn lose(&mut self, loss: Loss, now: u64) {
        match loss {
            Loss::Closed => {}
            Loss::Refused if self.means != Means::Datagrams => self.refuse(now),
            Loss::Failed | Loss::Refused => self.fail(now),
        }
    }

    /// It did not answer in time, or not what could be used. Where one datagram in five gets lost,
    /// a few in a row do now and then: so it has to be silent for a while too, unless they are
    /// many.
    pub(crate) fn fail(&mut self, now: u64) {
        if mem::take(&mut self.is_heard) {
            // It is silent since it was asked, and not since it was heard.
            self.spoke_at = self.spoke_at.max(now.saturating_sub(WAIT_MICROS_UNHEARD));
        }
        if self.failures == 0 {
            self.failing_since = now;
        }
        self.failures = self.failures.saturating_add(1);
        let is_silent = now - self.failing_since >= SILENCE_MICROS_DOWN;
        let is_down = self.failures >= FAILURES_SURE || is_silent && self.failures >= FAILURES_DOWN;
        if is_down && self.rest_until.is_none() {
            self.rest(now);
        }
    }

    fn rest(&mut self, now: u64) {
        let rest = (REST_MICROS_MIN << self.rests.min(16)).min(REST_MICROS_MAX);
        self.rest_until = Some(now + rest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: u64 = 1000;

    fn heard(times: &[u64]) -> Upstream {
        let mut upstream = Upstream::NEW;
        for (at, took) in times.iter().enumerate() {
            upstream.hear(at as u64 * MILLI, *took);
        }
        upstream
    }

    #[test]
    fn it_is_waited_for_as_long_as_it_used_to_take() {
        assert_eq!(Upstream::NEW.wait_micros(0, 0), WAIT_MICROS_UNHEARD);
        assert_eq!(heard(&[100]).wait_micros(0, 0), WAIT_MICROS_MIN);
        let steady = heard(&[100_000; 50]).wait_micros(0, 0);
        assert!((100_000..110_000).contains(&steady), "{steady}");
        assert_eq!(heard(&[10_000_000; 50]).wait_micros(0, 0), WAIT_MICROS_MAX);
    }

    #[test]
    fn it_is_waited_for_longer_each_time_and_when_it_may_be_back() {
        let mut upstream = heard(&[100]);
        assert_eq!(upstream.wait_micros(1, 0), 2 * WAIT_MICROS_MIN);
        assert_eq!(upstream.wait_micros(2, 0), SILENCE_MICROS_GONE, "the last time");
        assert_eq!(upstream.wait_micros(200, 0), WAIT_MICROS_MAX);
        upstream.refuse(0);
        assert_eq!(upstream.wait_micros(0, REST_MICROS_MIN), WAIT_MICROS_MAX);
    }

    #[test]
    fn who_says_anything_is_there() {
        let mut upstream = Upstream::NEW;
        assert!(!upstream.is_there(5), "it never did");
        (0..100).for_each(|_| upstream.fail_to_answer(7));
        assert_eq!(upstream.standing(7), Standing::Down);
        assert!(upstream.is_there(7 + 100 * SILENCE_MICROS_GONE), "nothing says otherwise");
        let asked_at = 200 * SILENCE_MICROS_GONE;
        upstream.fail(asked_at + WAIT_MICROS_UNHEARD);
        assert!(upstream.is_there(asked_at + SILENCE_MICROS_GONE - 1));
        upstream.fail(asked_at + SILENCE_MICROS_GONE - 1);
        assert!(!upstream.is_there(asked_at + SILENCE_MICROS_GONE));
        upstream.fail_to_answer(asked_at + SILENCE_MICROS_GONE);
        assert!(upstream.is_there(u64::MAX >> 1));
        upstream.refuse(u64::MAX >> 1);
        assert!(!upstream.is_there(u64::MAX >> 1), "the network knows better");
    }

    #[test]
    fn failures_in_a_row_bring_rest_and_one_answer_ends_it() {
        let mut upstream = heard(&[1000]);
        for at in [0, 1, SILENCE_MICROS_DOWN - 1] {
            upstream.fail(at);
            assert_eq!(upstream.standing(at), Standing::Up, "for too short a time");
        }
        let down_at = SILENCE_MICROS_DOWN;
        upstream.fail(down_at);
        let back_at = down_at + REST_MICROS_MIN;
        assert_eq!(upstream.standing(back_at - 1), Standing::Down);
        assert_eq!(upstream.standing(back_at), Standing::Due);
        upstream.hear(back_at, 1000);
        assert_eq!(upstream.standing(back_at), Standing::Up);
        (1..FAILURES_SURE).for_each(|_| upstream.fail(back_at));
        assert_eq!(upstream.standing(back_at), Standing::Up);
        upstream.fail(back_at);
        assert_eq!(upstream.standing(back_at), Standing::Down, "often enough");
    }

    #[test]
    fn who_is_not_there_is_down_at_once() {
        let mut upstream = heard(&[1000]);
        upstream.refuse(7);
        assert_eq!(upstream.standing(7), Standing::Down);
    }

    #[test]
    fn what_nobody_could_answer_is_no_failure() {
        let mut upstream = heard(&[1000]);
        (0..100).for_each(|_| upstream.fail_to_answer(7));
        upstream.excuse(8);
        assert!(!upstream.is_well(), "that was something else");
        upstream.fail_to_answer(9);
        upstream.excuse(9);
        assert!(upstream.is_well());
        assert_eq!(upstream.standing(9), Standing::Up);
    }

    #[test]
    fn who_is_outrun_comes_later() {
        let (mut dead, other) = (heard(&[1000]), heard(&[20_000]));
        let questions = (0..).take_while(|at| {
            dead.outrun(*at, 25_000);
            dead.cost(*at) < other.cost(*at)
        });
        assert!((5..30).contains(&questions.count()));
        dead.outrun(0, 10);
        assert!(dead.cost(0) > other.cost(0), "to be outrun soon says nothing");
    }

    #[test]
    fn a_stream_that_ends_says_little_of_datagrams() {
        let mut upstream = heard(&[1000]);
        upstream.lose(Loss::Refused, 7);
        assert_eq!(upstream.standing(7), Standing::Up);
        upstream.means = Means::Streams;
        (0..100).for_each(|_| upstream.lose(Loss::Closed, 7));
        assert_eq!(upstream.standing(7), Standing::Up, "any server may close");
        upstream.lose(Loss::Refused, 7);
        assert_eq!(upstream.standing(7), Standing::Down);
    }

    #[test]
    fn rest_grows_with_every_try_to_its_maximum() {
        let mut upstream = Upstream::NEW;
        upstream.refuse(0);
        let (mut now, mut before) = (0, 0);
        for _ in 0..300 {
            (0..200).for_each(|_| upstream.fail(now));
            let until = upstream.rest_until.expect("it is down");
            let rest = until - now;
            assert!(rest >= before && rest <= REST_MICROS_MAX, "{rest}");
            (now, before) = (until, rest);
            assert_eq!(upstream.standing(now), Standing::Due);
            upstream.ask(now);
            assert_eq!(upstream.standing(now), Standing::Down, "one question at a time");
        }
        assert_eq!(before, REST_MICROS_MAX);
    }

    #[test]
    fn who_was_slow_is_tried_again() {
        let (slow, fast) = (heard(&[100_000]), heard(&[1000]));
        assert!(slow.cost(0) > fast.cost(0));
        assert!(slow.cost(100_000 * MILLI) < fast.cost(0));
    }

    #[test]
    fn who_has_much_to_do_comes_later() {
        let mut busy = heard(&[1000]);
        let idle = heard(&[1500]);
        assert!(busy.cost(0) < idle.cost(0));
        (0..16).for_each(|_| busy.ask(0));
        assert!(busy.cost(0) > idle.cost(0));
        (0..16).for_each(|_| busy.let_go());
        assert!(busy.cost(0) < idle.cost(0));
    }

    #[test]
    fn who_is_drained_is_neither_asked_nor_tried_again() {
        let mut drained = Upstream { is_drained: true, ..Upstream::NEW };
        assert_eq!(drained.standing(0), Standing::Drained);
        drained.refuse(0);
        assert_eq!(drained.standing(1), Standing::Down);
        assert_eq!(drained.standing(u64::MAX), Standing::Drained, "and not due");
    }
}
