//! The queries of one thread: those under way, and the results of the others.

use crate::counts::{QueryCounts, Times};
use crate::fleet::{Fleet, LookupEnd, LookupResult};
use crate::options::Options;
use crate::oracle::{ContentCheck, Oracle};
use crate::query::Answer;
use crate::table::{MatchResult, Table};
use std::sync::Arc;

/// No lookup: a query for itself.
pub(crate) const ALONE: u32 = u32::MAX;

/// Counts and times of an interval.
#[derive(Debug, Default)]
pub(crate) struct IntervalPart {
    pub until_ns: u64,
    pub counts: QueryCounts,
    pub times: Times,
}

#[derive(Debug)]
pub(crate) struct Recorder {
    pub table: Table,
    pub part: Box<IntervalPart>,
    pub fleet: Option<Fleet>,
    oracle: Option<Arc<Oracle>>,
    check_one_in: u64,
    errors_are_wrong: bool,
    unchecked: u64,
    timeout_ns: u64,
    /// When the last query left, or the last answer came.
    pub busy_ns: u64,
}

impl Recorder {
    pub fn new(options: &Options, table: Table, fleet: Option<Fleet>) -> Self {
        Self {
            table,
            part: Box::default(),
            fleet,
            oracle: options.oracle.clone(),
            check_one_in: options.check_one_in,
            errors_are_wrong: options.errors_are_wrong,
            unchecked: 0,
            timeout_ns: options.timeout_ns,
            busy_ns: 0,
        }
    }

    /// A query has left.
    #[inline]
    pub fn sent(&mut self, at: u32, len: usize) {
        let place = self.table.get(at);
        let lateness = place.sent.saturating_sub(place.due);
        self.busy_ns = self.busy_ns.max(place.sent);
        self.part.counts.sent += 1;
        self.part.counts.bytes_sent += len as u64;
        record(&mut self.part.times.lateness, lateness);
    }

    /// A query will never leave.
    pub fn refused(&mut self, at: u32, now: u64) {
        let tag = self.table.get(at).tag;
        self.table.close(at);
        self.unsent(1);
        self.lookup_ended(tag, LookupEnd::Silence, now);
    }

    /// These queries will never leave. They count in the response times at the timeout, like
    /// those without an answer.
    pub fn unsent(&mut self, count: u64) {
        self.part.counts.unsent += count;
        self.part.times.response.saturating_record_n(self.timeout_ns, count);
    }

    /// A message has come on a channel.
    #[inline]
    pub fn came(&mut self, channel: usize, now: u64, message: &[u8]) {
        let counts = &mut self.part.counts;
        counts.bytes_received += message.len() as u64;
        let Some(answer) = Answer::read(message) else {
            counts.unexpected += 1;
            return;
        };
        let (at, in_time) = match self.table.find(channel, answer.id) {
            MatchResult::Open(at) => (at, true),
            MatchResult::TimedOut(at) => (at, false),
            MatchResult::Nothing => {
                counts.unexpected += 1;
                return;
            }
        };
        let place = *self.table.get(at);
        if !answer.is_of(place.question_len.into(), place.identity) {
            counts.unexpected += 1;
        } else if !in_time {
            counts.late += 1;
            self.table.forget(at);
        } else if now.saturating_sub(place.sent) >= self.timeout_ns {
            counts.late += 1;
            self.time_out(at, now);
            self.table.forget(at);
        } else {
            self.answered(at, now, &answer);
        }
    }

    fn answered(&mut self, at: u32, now: u64, answer: &Answer<'_>) {
        let place = *self.table.get(at);
        self.table.close(at);
        self.busy_ns = self.busy_ns.max(now);
        let counts = &mut self.part.counts;
        counts.count_rcode(answer.full_rcode(place.question_len.into()));
        counts.truncated += u64::from(answer.is_truncated());
        record(&mut self.part.times.response, now.saturating_sub(place.due));
        record(&mut self.part.times.service, now.saturating_sub(place.sent));
        match self.is_wrong(answer, place.question_len.into()) {
            true => self.part.counts.wrong += 1,
            false => self.part.counts.answered += 1,
        }
        let is_address = answer.rcode == 0 && answer.answers > 0;
        let end = if is_address { LookupEnd::Address } else { LookupEnd::Nothing };
        self.lookup_ended(place.tag, end, now);
    }

    /// Compares the RCODE, and the content of one answer in N.
    #[inline]
    fn is_wrong(&mut self, answer: &Answer<'_>, question_len: usize) -> bool {
        if self.errors_are_wrong && !matches!(answer.full_rcode(question_len), 0 | 3) {
            return true;
        }
        let Some(oracle) = &self.oracle else { return false };
        self.unchecked += 1;
        if self.unchecked < self.check_one_in {
            return false;
        }
        self.unchecked = 0;
        let judgement = oracle.judge(answer, question_len);
        self.part.counts.checked += u64::from(judgement != ContentCheck::Unknown);
        judgement == ContentCheck::Wrong
    }

    /// Ends the queries whose timeout has passed.
    #[inline]
    pub fn expire(&mut self, now: u64) {
        while let Some(at) = self.table.oldest() {
            if now.saturating_sub(self.table.get(at).sent) < self.timeout_ns {
                return;
            }
            self.time_out(at, now);
        }
    }

    fn time_out(&mut self, at: u32, now: u64) {
        let tag = self.table.get(at).tag;
        self.table.time_out(at);
        self.part.counts.timeouts += 1;
        record(&mut self.part.times.response, self.timeout_ns);
        record(&mut self.part.times.service, self.timeout_ns);
        self.lookup_ended(tag, LookupEnd::Silence, now);
    }

    /// When the next query times out.
    pub fn next_timeout(&mut self) -> Option<u64> {
        let at = self.table.oldest()?;
        Some(self.table.get(at).sent + self.timeout_ns)
    }

    fn lookup_ended(&mut self, tag: u32, end: LookupEnd, now: u64) {
        if tag == ALONE {
            return;
        }
        let done = self.fleet.as_mut().and_then(|fleet| fleet.ended(tag, end, now));
        if let Some(LookupResult { found, due }) = done {
            let counts = &mut self.part.counts;
            counts.lookups_found += u64::from(found);
            counts.lookups_failed += u64::from(!found);
            record(&mut self.part.times.lookup, now.saturating_sub(due));
        }
    }
}

#[inline]
fn record(histogram: &mut hdrhistogram::Histogram<u64>, time_ns: u64) {
    // A time above an hour counts as an hour.
    histogram.saturating_record(time_ns);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::{Order, QuestionSet, QuestionSpec};
    use crate::options::QuerySource;
    use crate::query::{HEADER, QueryFormat};
    use crate::table::NewQuery;
    use wire::Rtype;

    const FORM: QueryFormat =
        QueryFormat { recursion: true, edns: false, dnssec: false, option: None };
    const SECOND: u64 = 1_000_000_000;

    struct Scene {
        recorder: Recorder,
        set: Arc<QuestionSet>,
    }

    /// A book with a timeout of a second.
    fn scene() -> Scene {
        let set = Arc::new(QuestionSet::from_pattern("n{i}.example", 10, Rtype::A, FORM).unwrap());
        let what = QuestionSpec {
            set: set.clone(),
            order: Order::Given,
            unique: 0.0,
            nxdomain: 0.0,
            under: None,
        };
        let server = "192.0.2.1:53".parse().unwrap();
        let options = Options {
            timeout_ns: SECOND,
            ..Options::new(server, QuerySource::Questions(Box::new(what)))
        };
        Scene { recorder: Recorder::new(&options, Table::new(1, 16, 1), None), set }
    }

    impl Scene {
        /// A query that was due and left at these times; what answers it.
        fn ask(&mut self, due: u64, sent: u64) -> Vec<u8> {
            let (query, asked) = self.set.asked(0);
            let (question_len, identity) = (asked.question_len, asked.identity);
            let new = NewQuery { due, sent, identity, question_len, tag: ALONE };
            let (place, id) = self.recorder.table.open(0, new).unwrap();
            self.recorder.part.counts.planned += 1;
            self.recorder.sent(place, query.len());
            let mut answer = query.to_vec();
            answer[..2].copy_from_slice(&id.to_be_bytes());
            answer[2] |= 0x80;
            assert_eq!(answer.len(), HEADER + usize::from(question_len));
            answer
        }
    }

    /// A histogram's values, rounded as it rounds them, with their counts.
    fn held(histogram: &hdrhistogram::Histogram<u64>) -> Vec<(u64, u64)> {
        let round = |value| histogram.lowest_equivalent(value);
        histogram
            .iter_recorded()
            .map(|bucket| (round(bucket.value_iterated_to()), bucket.count_at_value()))
            .collect()
    }

    #[test]
    fn times_are_exact() {
        let mut scene = scene();
        // Due, sent, answered, in ns: none above 2,047, which three digits tell apart exactly.
        for (due, sent, answered) in [(0, 0, 700), (100, 150, 900), (200, 1_200, 1_300)] {
            let answer = scene.ask(due, sent);
            scene.recorder.came(0, answered, &answer);
        }
        scene.ask(1_000, 1_010);
        scene.recorder.expire(1_009 + SECOND);
        assert_eq!(scene.recorder.part.counts.timeouts, 0, "a nanosecond is left");
        scene.recorder.expire(1_010 + SECOND);
        let IntervalPart { counts, times, .. } = &*scene.recorder.part;
        assert_eq!((counts.answered, counts.timeouts, counts.open()), (3, 1, 0));
        let timeout = times.response.lowest_equivalent(SECOND);
        assert_eq!(held(&times.response), [(700, 1), (800, 1), (1_100, 1), (timeout, 1)]);
        assert_eq!(held(&times.service), [(100, 1), (700, 1), (750, 1), (timeout, 1)]);
        assert_eq!(held(&times.lateness), [(0, 1), (10, 1), (50, 1), (1_000, 1)]);
        assert_eq!(scene.recorder.busy_ns, 1_300);
    }

    #[test]
    fn an_answer_that_is_read_behind_its_timeout_is_late() {
        let mut scene = scene();
        let answer = scene.ask(0, 0);
        scene.recorder.came(0, SECOND, &answer);
        scene.recorder.came(0, SECOND, &answer);
        let counts = scene.recorder.part.counts;
        assert_eq!((counts.answered, counts.timeouts, counts.late), (0, 1, 1));
        assert_eq!((counts.unexpected, counts.open()), (1, 0), "it came twice");
    }

    #[test]
    fn queries_time_out_in_the_order_they_left() {
        let mut scene = scene();
        (0..5).for_each(|n| _ = scene.ask(n * SECOND, n * SECOND));
        assert_eq!(scene.recorder.next_timeout(), Some(SECOND));
        scene.recorder.expire(3 * SECOND);
        assert_eq!((scene.recorder.part.counts.timeouts, scene.recorder.table.len()), (3, 2));
        assert_eq!(scene.recorder.next_timeout(), Some(4 * SECOND));
    }
}
