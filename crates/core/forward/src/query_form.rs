//! The form in which a query is sent next, by the server's [compatibility](crate::compatibility).
use crate::compatibility::{CaseDoubt, QueryForm};
use crate::forwarder::Forwarder;
use crate::limits::CASE_GRACE_MICROS;
use crate::message::is_denial;
use crate::pending::{Attempt, PendingQuery};
use crate::upstream::UpstreamTransport;

impl PendingQuery {
    fn tries_of(&self, upstream: u16) -> impl Iterator<Item = &Attempt> {
        self.tries().iter().filter(move |tried| tried.upstream == upstream)
    }

    /// Why the case of letters may matter to this server.
    pub(crate) fn case_doubt(&self, upstream: u16) -> Option<CaseDoubt> {
        self.tries_of(upstream).find_map(|tried| tried.doubt)
    }

    /// Whether a try had letters in upper case.
    fn is_mixed(&self, sent: &Attempt) -> bool {
        let name = self.key().name;
        !sent.casing.of(name).eq(name.iter().copied())
    }
}

impl Forwarder<'_> {
    /// How a query is sent to a server next. `is_long`: the answer is too long for a datagram.
    pub(crate) fn form(
        &self,
        query: &PendingQuery,
        (upstream, is_long): (u16, bool),
        now: u64,
    ) -> QueryForm {
        let server = &self.state.upstreams[usize::from(upstream)];
        let known = &server.compatibility;
        let is_understood = !query.tries_of(upstream).any(|tried| tried.is_misunderstood);
        let has_no_streams = query.tries_of(upstream).any(Attempt::is_not_opened);
        let uses_streams = is_long || server.transport != UpstreamTransport::Datagrams;
        let is_in_doubt = query.case_doubt(upstream).is_some() || known.needs_lower_case(now);
        let is_case_retry =
            query.group.mixes_case && is_in_doubt && !uses_streams && !has_no_streams;
        QueryForm {
            by_stream: uses_streams || is_case_retry,
            is_case_retry,
            mixes_case: query.group.mixes_case && !uses_streams && !is_in_doubt,
            has_edns: is_understood && known.has_edns(now),
        }
    }

    /// A reply has the question in another case. It may be forged, so the query waits for another
    /// one for a moment, and is then sent again.
    pub(crate) fn suspect_case(&mut self, (number, attempt): (u16, usize), now: u64) {
        let sent = &mut self.queries[usize::from(number)].tries[attempt];
        if sent.doubt.is_some() {
            return;
        }
        sent.doubt = Some(CaseDoubt::Question);
        sent.patience_micros = sent.patience_micros.min(now - sent.sent_at + CASE_GRACE_MICROS);
        if sent.is_waited {
            self.schedule(number, now);
        }
    }

    /// Whether a reply with this code is doubted, and the question is to be asked in lower case:
    /// the server denies a name in random case, and has answered none so far.
    pub(crate) fn doubts_denial(
        &mut self,
        (number, attempt): (u16, usize),
        code: u8,
        now: u64,
    ) -> bool {
        let query = &self.queries[usize::from(number)];
        let sent = query.tries[attempt];
        let known = &mut self.state.upstreams[usize::from(sent.upstream)].compatibility;
        let is_doubted = is_denial(code)
            && query.is_mixed(&sent)
            && query.tries().iter().all(|tried| tried.doubt.is_none())
            && known.take_case_check(now);
        if is_doubted {
            self.queries[usize::from(number)].tries[attempt].doubt = Some(CaseDoubt::Denial);
        }
        is_doubted
    }

    /// Whether the silence about a try may be due to the case of its letters: the server answers
    /// others, and has kept the case for none so far.
    pub(crate) fn doubts_silence(&self, query: &PendingQuery, sent: &Attempt, now: u64) -> bool {
        let server = &self.state.upstreams[usize::from(sent.upstream)];
        let mut tries = query.tries_of(sent.upstream);
        let (first, is_only) = (tries.next(), tries.next().is_none());
        query.is_mixed(sent)
            && !is_only
            && !server.compatibility.keeps_case(now)
            && first.is_some_and(|first| server.has_replied_since(first.sent_at))
    }

    /// Draws conclusions about the server from an answer with this code.
    pub(crate) fn record_compatibility(
        &mut self,
        (number, attempt): (u16, usize),
        code: u8,
        now: u64,
    ) {
        let query = &self.queries[usize::from(number)];
        let sent = query.tries[attempt];
        let known = &mut self.state.upstreams[usize::from(sent.upstream)].compatibility;
        let was_misunderstood = query.tries_of(sent.upstream).any(|tried| tried.is_misunderstood);
        if !sent.has_edns && was_misunderstood {
            known.record_missing_edns(now);
        }
        if query.is_mixed(&sent) {
            if !is_denial(code) {
                known.record_case_preserved(now);
            }
            return;
        }
        match query.case_doubt(sent.upstream) {
            // It says the same of the name in lower case.
            Some(CaseDoubt::Denial) if is_denial(code) => {}
            Some(doubt) => known.record_case_changed(doubt, now),
            None => {}
        }
    }

    /// A try has ended without a reply.
    pub(crate) fn record_lost_try(&mut self, sent: &Attempt, now: u64) {
        if sent.is_case_retry && sent.is_opening {
            let server = &mut self.state.upstreams[usize::from(sent.upstream)];
            server.compatibility.put_off_case_checks(now);
        }
    }
}
