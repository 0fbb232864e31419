//! Servers that do not understand all of a query: EDNS, or letters in random case.
//!
//! A server without EDNS replies with an error, and is queried again without it (RFC 6891 §6.2.2).
//! A server that does not keep the case of letters, or finds names in lower case only, is queried
//! again over TCP: there, a reply cannot be forged by someone who does not see the query. Only a
//! server that offers no TCP gets the question in lower case over UDP.
use crate::forwarder::Forwarder;
use crate::limits::{
    CASE_CHECK_MICROS, CASE_CHECKS_MAX, CASE_GRACE_MICROS, CASE_LOSSES_MAX, COMPATIBILITY_MICROS,
};
use crate::message::is_denial;
use crate::pending::{Attempt, PendingQuery};
use crate::upstream::UpstreamTransport;

/// Why the case of letters may matter to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CaseDoubt {
    /// Its reply has the letters of the question in another case.
    Question,
    /// It denied the name, or refused the query.
    Denial,
    /// It answered other queries meanwhile, and this one not.
    Silence,
}

/// What is known of a server. All of it is forgotten after a while.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Compatibility {
    /// Until when its queries have no OPT record.
    edns_off_until: u64,
    /// Until when it counts as a server that keeps the case of letters.
    case_kept_until: u64,
    /// Until when its queries are in lower case.
    lower_until: u64,
    /// Evidence that it does not keep the case, since it last did.
    case_losses: u8,
    /// Denials that were checked, and when the next one may be.
    case_checks: u8,
    case_check_at: u64,
    /// Whether it did not keep the case, and has not done so since.
    has_case_fault: bool,
}

impl Compatibility {
    pub(crate) const NEW: Self = Self {
        edns_off_until: 0,
        case_kept_until: 0,
        lower_until: 0,
        case_losses: 0,
        case_checks: 0,
        case_check_at: 0,
        has_case_fault: false,
    };

    pub(crate) const fn has_edns(&self, now: u64) -> bool {
        now >= self.edns_off_until
    }

    pub(crate) const fn has_case_fault(&self) -> bool {
        self.has_case_fault
    }

    fn keeps_case(&self, now: u64) -> bool {
        now < self.case_kept_until
    }

    fn needs_lower_case(&self, now: u64) -> bool {
        now < self.lower_until
    }

    fn note_missing_edns(&mut self, now: u64) {
        self.edns_off_until = now + COMPATIBILITY_MICROS;
    }

    /// It answered a question with letters in random case.
    fn note_case_kept(&mut self, now: u64) {
        (self.case_losses, self.case_checks, self.has_case_fault) = (0, 0, false);
        self.case_kept_until = now + COMPATIBILITY_MICROS;
    }

    /// It answered the question in lower case that it did not answer otherwise. One such answer may
    /// be the work of an attacker, if the server kept the case before; or chance, if it denied the
    /// name, which may be new, or was silent.
    fn note_case_lost(&mut self, doubt: CaseDoubt, now: u64) {
        self.case_losses += match doubt {
            _ if self.keeps_case(now) => 1,
            CaseDoubt::Question => CASE_LOSSES_MAX,
            CaseDoubt::Denial | CaseDoubt::Silence => CASE_LOSSES_MAX.div_ceil(2),
        };
        // The next denial is checked, too.
        self.case_check_at = 0;
        if self.case_losses >= CASE_LOSSES_MAX {
            (self.case_losses, self.has_case_fault) = (0, true);
            (self.case_kept_until, self.lower_until) = (0, now + COMPATIBILITY_MICROS);
        }
    }

    /// Whether a denial is checked: the first ones are, and later ones now and then.
    fn take_case_check(&mut self, now: u64) -> bool {
        if self.keeps_case(now) || now < self.case_check_at {
            return false;
        }
        self.case_checks = self.case_checks.saturating_add(1);
        if self.case_checks >= CASE_CHECKS_MAX {
            self.case_check_at = now + CASE_CHECK_MICROS;
        }
        true
    }

    /// A check found no TCP service.
    pub(crate) fn put_off_case_checks(&mut self, now: u64) {
        self.case_check_at = now + COMPATIBILITY_MICROS;
    }
}

/// How a query is sent to a server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueryForm {
    pub(crate) by_stream: bool,
    /// Whether it goes by stream only because of the case of letters.
    pub(crate) is_case_retry: bool,
    pub(crate) mixes_case: bool,
    pub(crate) has_edns: bool,
}

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
    pub(crate) fn doubt_question(&mut self, (number, attempt): (u16, usize), now: u64) {
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
    pub(crate) fn note_compatibility(
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
            known.note_missing_edns(now);
        }
        if query.is_mixed(&sent) {
            if !is_denial(code) {
                known.note_case_kept(now);
            }
            return;
        }
        match query.case_doubt(sent.upstream) {
            // It says the same of the name in lower case.
            Some(CaseDoubt::Denial) if is_denial(code) => {}
            Some(doubt) => known.note_case_lost(doubt, now),
            None => {}
        }
    }

    /// A try has ended without a reply.
    pub(crate) fn note_lost_try(&mut self, sent: &Attempt, now: u64) {
        if sent.is_case_retry && sent.is_opening {
            let server = &mut self.state.upstreams[usize::from(sent.upstream)];
            server.compatibility.put_off_case_checks(now);
        }
    }
}
