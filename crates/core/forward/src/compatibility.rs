//! Servers that do not understand all of a query: EDNS, or letters in random case.
//!
//! A server without EDNS replies with an error, and is queried again without it (RFC 6891 §6.2.2).
//! A server that does not keep the case of letters, or finds names in lower case only, is queried
//! again over TCP: there, a reply cannot be forged by someone who does not see the query. Only a
//! server that offers no TCP gets the question in lower case over UDP.
use crate::limits::{CASE_CHECK_MICROS, CASE_CHECKS_MAX, CASE_LOSSES_MAX, COMPATIBILITY_MICROS};

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

/// The known state of a server. All of it is forgotten after a while.
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

    pub(crate) fn keeps_case(&self, now: u64) -> bool {
        now < self.case_kept_until
    }

    pub(crate) fn needs_lower_case(&self, now: u64) -> bool {
        now < self.lower_until
    }

    pub(crate) fn record_missing_edns(&mut self, now: u64) {
        self.edns_off_until = now + COMPATIBILITY_MICROS;
    }

    /// It answered a question with letters in random case.
    pub(crate) fn record_case_preserved(&mut self, now: u64) {
        (self.case_losses, self.case_checks, self.has_case_fault) = (0, 0, false);
        self.case_kept_until = now + COMPATIBILITY_MICROS;
    }

    /// It answered the question in lower case that it did not answer otherwise. One such answer may
    /// be the work of an attacker, if the server kept the case before; or chance, if it denied the
    /// name, which may be new, or was silent.
    pub(crate) fn record_case_changed(&mut self, doubt: CaseDoubt, now: u64) {
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
    pub(crate) fn take_case_check(&mut self, now: u64) -> bool {
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
