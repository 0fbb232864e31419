//! Counts of queries by outcome, and their times.

use crate::limits::TIME_MAX_NS;
use hdrhistogram::Histogram;
use std::ops::AddAssign;

/// How many. Every planned query is in the end exactly one of unsent, answered, wrong and timed
/// out; every addition keeps `planned == unsent + answered + wrong + timeouts`
/// ([`QueryCounts::open`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueryCounts {
    /// Due by the plan.
    pub planned: u64,
    /// Taken by the kernel.
    pub sent: u64,
    /// Due, and not taken: the kernel refused it, the table was full, or the time was over.
    pub unsent: u64,
    /// Of `unsent`: there was no place for another query under way.
    pub crowded: u64,
    /// Answered in time: ID, question and source are right, and the content, if it was compared.
    pub answered: u64,
    /// Right, but after the timeout; also counted as a timeout.
    pub late: u64,
    /// Not answered in time.
    pub timeouts: u64,
    /// Answered in time, but not as the oracle expects.
    pub wrong: u64,
    /// Of `answered` and `wrong`: compared with the oracle.
    pub checked: u64,
    /// Messages that answer no query: a wrong ID or question, no response, or a second one.
    pub unexpected: u64,
    /// Answers cut to fit (TC).
    pub truncated: u64,
    /// Answers by RCODE; all above 22 are the last.
    pub rcodes: [u64; RCODES],
    /// Connections that were opened, and that the server ended while queries were under way.
    pub connections: u64,
    /// See above.
    pub cut: u64,
    /// Bytes of queries and of answers, without headers of lower layers.
    pub bytes_sent: u64,
    /// See above.
    pub bytes_received: u64,
    /// Lookups through a search list that were begun, that found an address, and that failed: no
    /// answer to one of their queries, or no name of the list exists.
    pub lookups: u64,
    /// See above.
    pub lookups_found: u64,
    /// See above.
    pub lookups_failed: u64,
}

/// RCODEs that are counted apart.
pub const RCODES: usize = 24;

impl QueryCounts {
    /// Counts an answer's RCODE.
    #[inline]
    pub(crate) fn count_rcode(&mut self, rcode: u16) {
        self.rcodes[usize::from(rcode).min(RCODES - 1)] += 1;
    }

    /// Planned queries that have not come to their end yet.
    pub fn open(&self) -> u64 {
        self.planned - self.unsent - self.answered - self.wrong - self.timeouts
    }

    /// The share of sent queries without an answer, 0 to 1.
    pub fn loss(&self) -> f64 {
        self.timeouts as f64 / self.sent.max(1) as f64
    }

    /// The RCODEs there were, by their names, and how often.
    pub fn rcodes(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.rcodes
            .into_iter()
            .enumerate()
            .filter(|(_, count)| *count > 0)
            .map(|(code, count)| (rcode_name(code), count))
    }
}

/// The mnemonic of the IANA registry (RFC 6895 §2.3).
fn rcode_name(code: usize) -> &'static str {
    const NAMES: [&str; 11] = [
        "NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED", "YXDOMAIN", "YXRRSET",
        "NXRRSET", "NOTAUTH", "NOTZONE",
    ];
    match code {
        16 => "BADVERS",
        _ => NAMES.get(code).copied().unwrap_or("OTHER"),
    }
}

impl AddAssign<&QueryCounts> for QueryCounts {
    fn add_assign(&mut self, other: &QueryCounts) {
        let QueryCounts { rcodes, .. } = other;
        self.rcodes.iter_mut().zip(rcodes).for_each(|(sum, more)| *sum += more);
        for (sum, more) in [
            (&mut self.planned, other.planned),
            (&mut self.sent, other.sent),
            (&mut self.unsent, other.unsent),
            (&mut self.crowded, other.crowded),
            (&mut self.answered, other.answered),
            (&mut self.late, other.late),
            (&mut self.timeouts, other.timeouts),
            (&mut self.wrong, other.wrong),
            (&mut self.checked, other.checked),
            (&mut self.unexpected, other.unexpected),
            (&mut self.truncated, other.truncated),
            (&mut self.connections, other.connections),
            (&mut self.cut, other.cut),
            (&mut self.bytes_sent, other.bytes_sent),
            (&mut self.bytes_received, other.bytes_received),
            (&mut self.lookups, other.lookups),
            (&mut self.lookups_found, other.lookups_found),
            (&mut self.lookups_failed, other.lookups_failed),
        ] {
            *sum += more;
        }
    }
}

/// How long, in nanoseconds; to three digits.
#[derive(Clone, Debug)]
pub struct Times {
    /// From the due time of a query to its answer. A timeout counts with the timeout's value, and
    /// so does a query that was never sent.
    pub response: Histogram<u64>,
    /// From sending to the answer; timeouts as above. Unsent queries are left out.
    pub service: Histogram<u64>,
    /// From the due time to sending.
    pub lateness: Histogram<u64>,
    /// From when a lookup was due to its end, where there are lookups.
    pub lookup: Histogram<u64>,
}

impl Times {
    /// None yet.
    pub fn new() -> Self {
        let histogram =
            || Histogram::new_with_bounds(1, TIME_MAX_NS, 3).expect("the bounds are in order");
        Self {
            response: histogram(),
            service: histogram(),
            lateness: histogram(),
            lookup: histogram(),
        }
    }

    /// All of another's.
    pub fn add(&mut self, other: &Self) {
        for (sum, more) in [
            (&mut self.response, &other.response),
            (&mut self.service, &other.service),
            (&mut self.lateness, &other.lateness),
            (&mut self.lookup, &other.lookup),
        ] {
            sum.add(more).expect("they have the same bounds");
        }
    }

    /// None again.
    pub fn clear(&mut self) {
        for histogram in
            [&mut self.response, &mut self.service, &mut self.lateness, &mut self.lookup]
        {
            histogram.clear();
        }
    }
}

impl Default for Times {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_and_shares() {
        let mut sum =
            QueryCounts { planned: 10, sent: 8, unsent: 2, timeouts: 2, ..QueryCounts::default() };
        sum.count_rcode(3);
        sum.count_rcode(4_000);
        let more = sum;
        sum += &more;
        assert_eq!((sum.planned, sum.open(), sum.loss()), (20, 12, 0.25));
        assert_eq!(sum.rcodes().collect::<Vec<_>>(), [("NXDOMAIN", 2), ("OTHER", 2)]);
        assert_eq!(
            [0, 5, 10, 11, 16].map(rcode_name)[1..],
            ["REFUSED", "NOTZONE", "OTHER", "BADVERS"]
        );
    }
}
