//! A forwarded query and its waiters.
use crate::case_mask::CaseMask;
use crate::compatibility::CaseDoubt;
use crate::limits::{
    STREAM_OPEN_MICROS_MAX, STREAM_WAIT_MICROS_MORE, TRIES_MAX, TRIES_OF_SERVER_MAX,
};
use cache::{CacheKey, QueryKind};

/// No number of a query or a waiter.
pub(crate) const NONE: u16 = u16::MAX;

/// A query under way, or a free slot.
#[derive(Clone, Debug)]
pub struct PendingQuery {
    pub(crate) hash: u64,
    pub(crate) kind: QueryKind,
    name: [u8; 255],
    name_len: u8,
    /// Distinguishes the queries of one slot.
    pub(crate) serial: u32,
    pub(crate) group: UpstreamGroup,
    /// The next query of the same hash list, or the next free slot.
    pub(crate) next: u16,
    /// The last waiter.
    pub(crate) waiter: u16,
    pub(crate) waiters: u16,
    pub(crate) began_at: u64,
    /// How often it was sent.
    pub(crate) tries_len: u8,
    pub(crate) tries: [Attempt; TRIES_MAX],
    /// Whether it was hedged.
    pub(crate) is_hedged: bool,
    /// Whether it takes no more waiters, and its answer is not cached.
    pub(crate) is_cut_off: bool,
    /// Whether a server answered it.
    pub(crate) is_answered: bool,
    /// While it is delegated: until when.
    pub(crate) left_until: Option<u64>,
    /// Whether it ever was delegated.
    pub(crate) was_delegated: bool,
}

/// One transmission of a query.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attempt {
    pub(crate) upstream: u16,
    pub(crate) id: u16,
    pub(crate) casing: CaseMask,
    pub(crate) by_stream: bool,
    /// Whether it went by stream because of the case of letters.
    pub(crate) is_case_retry: bool,
    /// Whether it had an OPT record.
    pub(crate) has_edns: bool,
    /// Whether it waits for its stream to open.
    pub(crate) is_opening: bool,
    /// The socket it was sent by.
    pub(crate) socket: Option<u32>,
    pub(crate) sent_at: u64,
    /// How long to wait for its server.
    pub(crate) patience_micros: u64,
    /// Whether the query still waits for it. A later reply is accepted too.
    pub(crate) is_waited: bool,
    /// Whether the server replied that it cannot answer.
    pub(crate) is_refused: bool,
    /// Whether the server did not understand it.
    pub(crate) is_misunderstood: bool,
    /// Why the case of its letters may matter to the server.
    pub(crate) doubt: Option<CaseDoubt>,
}

impl Attempt {
    pub(crate) const NEVER: Self = Self {
        upstream: 0,
        id: 0,
        casing: CaseMask::LOWER,
        by_stream: false,
        is_case_retry: false,
        has_edns: true,
        is_opening: false,
        socket: None,
        sent_at: 0,
        patience_micros: 0,
        is_waited: false,
        is_refused: false,
        is_misunderstood: false,
        doubt: None,
    };

    /// Whether it waited in vain for its stream to open.
    pub(crate) const fn is_not_opened(&self) -> bool {
        self.by_stream && self.is_opening && !self.is_waited
    }

    /// How long to wait for it.
    pub(crate) fn wait_micros(&self) -> u64 {
        match self {
            Self { is_opening: true, is_case_retry: false, .. } => STREAM_OPEN_MICROS_MAX,
            Self { by_stream: true, .. } => self.patience_micros + STREAM_WAIT_MICROS_MORE,
            _ => self.patience_micros,
        }
    }
}

/// Servers for the same names: a range of numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UpstreamGroup {
    /// The first number.
    pub first: u16,
    /// The number of servers, at most [`GROUP_LEN_MAX`](crate::limits::GROUP_LEN_MAX).
    pub len: u16,
    /// Whether queries have random case. Some servers do not preserve it.
    pub mixes_case: bool,
}

impl PendingQuery {
    /// A free slot.
    pub const FREE: Self = Self {
        hash: 0,
        kind: QueryKind::new(0, 0, false, false),
        name: [0; 255],
        name_len: 0,
        serial: 0,
        group: UpstreamGroup { first: 0, len: 0, mixes_case: false },
        next: NONE,
        waiter: NONE,
        waiters: 0,
        began_at: 0,
        tries_len: 0,
        tries: [Attempt::NEVER; TRIES_MAX],
        is_hedged: false,
        is_cut_off: false,
        is_answered: false,
        left_until: None,
        was_delegated: false,
    };

    /// Uses the slot for a query.
    pub(crate) fn begin(&mut self, key: &CacheKey<'_>, group: UpstreamGroup, now: u64) {
        let CacheKey { hash, kind, name } = *key;
        self.serial = self.serial.wrapping_add(1);
        (self.hash, self.kind, self.group, self.began_at) = (hash, kind, group, now);
        self.name[..name.len()].copy_from_slice(name);
        self.name_len = name.len() as u8;
        (self.waiter, self.waiters, self.tries_len) = (NONE, 0, 0);
        (self.is_hedged, self.is_cut_off, self.is_answered) = (false, false, false);
        (self.left_until, self.was_delegated) = (None, false);
    }

    /// Continues with the serials of the slot in an earlier table, so that no query has the ID of
    /// one there.
    pub fn continue_serials(&mut self, earlier: &Self) {
        self.serial = earlier.serial;
    }

    /// The key, with the name in lower case.
    pub fn key(&self) -> CacheKey<'_> {
        CacheKey { hash: self.hash, kind: self.kind, name: &self.name[..self.name_len.into()] }
    }

    /// The servers that are queried.
    pub fn group(&self) -> UpstreamGroup {
        self.group
    }

    /// Whether it was [cut off](crate::Forwarder::cut_off): its answer must not be cached.
    pub fn is_cut_off(&self) -> bool {
        self.is_cut_off
    }

    pub(crate) fn is(&self, key: &CacheKey<'_>, group: UpstreamGroup) -> bool {
        !self.is_cut_off
            && self.hash == key.hash
            && self.kind == key.kind
            && self.group == group
            && self.key().name == key.name
    }

    pub(crate) fn tries(&self) -> &[Attempt] {
        &self.tries[..self.tries_len.into()]
    }

    /// Whether a server may be queried once more.
    pub(crate) fn may_forward(&self, upstream: u16) -> bool {
        let mut tries = self.tries().iter().filter(|tried| tried.upstream == upstream);
        // A question in lower case may go by stream, and then by datagram.
        let most = TRIES_OF_SERVER_MAX + usize::from(self.case_doubt(upstream).is_some());
        self.asked(upstream) < most && !tries.any(|tried| tried.is_refused)
    }

    /// Whether there are no waiters, and can be none.
    pub(crate) fn is_without_waiters(&self) -> bool {
        self.is_cut_off && self.waiters == 0
    }

    /// The stream and ID of each try that went by stream.
    pub fn sent_by_stream(&self) -> impl Iterator<Item = (u32, u16)> {
        let by_stream = self.tries().iter().filter(|sent| sent.by_stream);
        by_stream.filter_map(|sent| Some((sent.socket?, sent.id)))
    }

    /// How often a server was queried.
    pub(crate) fn asked(&self, upstream: u16) -> usize {
        self.tries().iter().filter(|tried| tried.upstream == upstream).count()
    }
}
