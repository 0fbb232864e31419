//! Queries without waiters: abandoned ones and probes. A reply to one shows that its server is
//! alive.
use crate::Forwarder;
use crate::event::{ForwardEvent, LateAnswer};
use crate::limits::{LATE_MAX, LATE_MICROS, QUERIES_MAX, TRIES_MAX};
use crate::message::{self, ParsedResponse};
use crate::pending::{Attempt, PendingQuery};
use cache::QueryKind;

/// The value of the first late query in the table of IDs.
const FIRST: u16 = (QUERIES_MAX * TRIES_MAX) as u16 + 1;
const _: () = assert!(QUERIES_MAX * TRIES_MAX + LATE_MAX < u16::MAX as usize);

/// A query without waiters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LateQuery {
    /// The socket it was sent by.
    socket: Option<u32>,
    /// The lower bits of the clock in microseconds: it lives for seconds.
    sent_at: u32,
    pub(crate) id: u16,
    pub(crate) upstream: u16,
    /// A keyed hash of its question, case included.
    digest: u64,
    /// The hash of its name, for the cache.
    hash: u64,
    pub(crate) purpose: LatePurpose,
    /// Whether it waits for its stream to open.
    is_opening: bool,
}

/// The purpose of a late query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LatePurpose {
    /// A client's query, whose answer may be cached.
    Clients { kind: QueryKind },
    /// A client's query, whose answer must not be cached.
    None,
    /// A probe for the suffix of the server's names, or for the root.
    Probe { root: bool },
}

/// The late queries of a thread, as a ring: the oldest is replaced.
#[derive(Debug)]
pub(crate) struct LateQueries {
    entries: [LateQuery; LATE_MAX],
    next: usize,
    /// The key of the digests; 0: not chosen yet.
    key: u64,
}

impl LateQuery {
    const NEVER: Self = Self {
        socket: None,
        sent_at: 0,
        id: 0,
        upstream: 0,
        digest: 0,
        hash: 0,
        purpose: LatePurpose::None,
        is_opening: false,
    };
}

impl LateQueries {
    pub(crate) const fn new() -> Self {
        Self { entries: [LateQuery::NEVER; LATE_MAX], next: 0, key: 0 }
    }

    pub(crate) fn get(&self, slot: usize) -> &LateQuery {
        &self.entries[slot]
    }

    /// Stops caching the answers of all current late queries.
    pub(crate) fn cut_off(&mut self) {
        for late in &mut self.entries {
            if matches!(late.purpose, LatePurpose::Clients { .. }) {
                late.purpose = LatePurpose::None;
            }
        }
    }
}

/// The slot in the ring for a value of the table of IDs.
pub(crate) fn slot_of(entry: u16) -> Option<usize> {
    entry.checked_sub(FIRST).map(usize::from)
}

impl Forwarder<'_> {
    /// Adds a late query; returns its slot.
    pub(crate) fn put_late(&mut self, late: LateQuery) -> usize {
        let slot = self.state.late_queries.next;
        self.state.late_queries.next = (slot + 1) % LATE_MAX;
        let before = core::mem::replace(&mut self.state.late_queries.entries[slot], late);
        let (own, ids) = (FIRST + slot as u16, &mut self.state.ids);
        if ids[usize::from(before.id)] == own {
            ids[usize::from(before.id)] = 0;
        }
        ids[usize::from(late.id)] = own;
        slot
    }

    /// Abandons a try for a client. A reply to it still counts for the health of the server, and
    /// for the cache.
    pub(crate) fn give_up(&mut self, number: u16, sent: &Attempt) {
        self.state.ids[usize::from(sent.id)] = 0;
        if sent.socket.is_none() {
            return;
        }
        let query = &self.queries[usize::from(number)];
        let is_wanted = !query.is_cut_off && !query.is_answered;
        let kind = query.kind;
        let late = LateQuery {
            socket: sent.socket,
            sent_at: sent.sent_at as u32,
            id: sent.id,
            upstream: sent.upstream,
            digest: self.digest_of_try(query, sent),
            hash: query.hash,
            purpose: if is_wanted { LatePurpose::Clients { kind } } else { LatePurpose::None },
            is_opening: sent.is_opening,
        };
        self.put_late(late);
    }

    fn digest_of_try(&self, query: &PendingQuery, sent: &Attempt) -> u64 {
        let question = message::question_bytes(query.key().name, query.kind, sent.casing);
        digest(self.state.late_queries.key, question)
    }

    /// Adds a probe with this ID; returns its slot.
    pub(crate) fn put_probe(&mut self, (upstream, id): (u16, u16), root: bool, now: u64) -> usize {
        let question = message::probe_question(self.probe_name(upstream, root));
        self.put_late(LateQuery {
            sent_at: now as u32,
            id,
            upstream,
            digest: digest(self.state.late_queries.key, question),
            purpose: LatePurpose::Probe { root },
            ..LateQuery::NEVER
        })
    }

    /// Chooses the key of the digests, once.
    pub(crate) fn choose_key(&mut self, random: crate::RandomSource<'_>) {
        if self.state.late_queries.key == 0 {
            self.state.late_queries.key = random() | 1;
        }
    }

    /// Sets the socket of a probe.
    pub(crate) fn sent_late(&mut self, slot: usize, socket: u32, is_open: bool) {
        let late = &mut self.state.late_queries.entries[slot];
        (late.socket, late.is_opening) = (Some(socket), !is_open);
    }

    /// The stream of a late query has opened.
    pub(crate) fn open_late(&mut self, slot: usize, now: u64) {
        let late = &mut self.state.late_queries.entries[slot];
        if core::mem::take(&mut late.is_opening) {
            late.sent_at = now as u32;
        }
    }

    /// The slot of the late query with this socket and ID.
    pub(crate) fn late_at(&self, socket: u32, id: u16) -> Option<usize> {
        let slot = slot_of(self.state.ids[usize::from(id)])?;
        (self.state.late_queries.entries[slot].socket == Some(socket)).then_some(slot)
    }

    /// Receives a message with the ID of a late query, at its socket.
    pub(crate) fn receive_late(
        &mut self,
        slot: usize,
        upstream: u16,
        message: &[u8],
        now: u64,
    ) -> ForwardEvent {
        let late = self.state.late_queries.entries[slot];
        let took = u64::from((now as u32).wrapping_sub(late.sent_at));
        let parsed = message::read_matching(message);
        let is_probe = matches!(late.purpose, LatePurpose::Probe { .. });
        let is_bare = is_probe && message::is_bare_error(message);
        let is_reply = is_bare
            || message::question_of(message).is_some_and(|question| {
                digest(self.state.late_queries.key, question.iter().copied()) == late.digest
            });
        if late.upstream != upstream
            || !is_reply
            || parsed == ParsedResponse::Other
            || took > LATE_MICROS
        {
            return self.mismatch(upstream);
        }
        // A second reply may be forged.
        self.state.ids[usize::from(late.id)] = 0;
        let server = &mut self.state.upstreams[usize::from(upstream)];
        match (late.purpose, parsed) {
            (LatePurpose::Probe { .. }, _) => server.record_probe_reply(now, took),
            (_, ParsedResponse::Failure | ParsedResponse::Misunderstood) => {
                server.record_sign_of_life(now)
            }
            (LatePurpose::Clients { kind }, ParsedResponse::Answer) => {
                server.record_answer(now, took);
                return ForwardEvent::LateAnswer(LateAnswer { hash: late.hash, kind, upstream });
            }
            _ => server.record_answer(now, took),
        }
        ForwardEvent::Nothing
    }
}

/// A keyed hash of bytes. Without the key, an attacker cannot find others with the same digest.
fn digest(key: u64, bytes: impl IntoIterator<Item = u8>) -> u64 {
    let mut bytes = bytes.into_iter();
    let mut digest = key;
    loop {
        let (mut word, mut len) = (0, 0);
        for byte in bytes.by_ref().take(8) {
            word = word << 8 | u64::from(byte);
            len += 1;
        }
        let mixed = u128::from(digest ^ word) * u128::from(key ^ 0x9e37_79b9_7f4a_7c15 | 1);
        digest = (mixed as u64 ^ (mixed >> 64) as u64).wrapping_add(len);
        if len < 8 {
            return digest;
        }
    }
}
