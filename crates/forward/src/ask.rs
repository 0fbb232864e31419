//! A question that was sent on, and who waits for its answer.
use crate::Forwarder;
use crate::casing::Casing;
use crate::limits::{
    STREAM_OPEN_MICROS_MAX, STREAM_WAIT_MICROS_MORE, TRIES_MAX, TRIES_OF_SERVER_MAX,
};
use crate::upstream::Upstream;
use cache::{Key, Kind};

/// No number of an ask or of a waiter.
pub(crate) const NONE: u16 = u16::MAX;

/// A question under way, or room for one.
#[derive(Clone, Debug)]
pub struct Ask {
    pub(crate) hash: u64,
    pub(crate) kind: Kind,
    name: [u8; 255],
    name_len: u8,
    /// Tells it from whoever had this room before.
    pub(crate) serial: u32,
    pub(crate) group: Group,
    /// The next ask whose hash chooses the same list, or the next free one.
    pub(crate) next: u16,
    /// The client that joined last.
    pub(crate) waiter: u16,
    pub(crate) waiters: u16,
    pub(crate) began_at: u64,
    /// How often it was sent.
    pub(crate) tries_len: u8,
    pub(crate) tries: [Try; TRIES_MAX],
    /// Whether a second server was asked because the first one was late.
    pub(crate) is_hedged: bool,
    /// Whether nobody may join it, nor keep what comes of it.
    pub(crate) is_cut_off: bool,
    /// Until when somebody else sees to it, if anybody does.
    pub(crate) left_until: Option<u64>,
    /// Whether anybody else ever did.
    pub(crate) was_left: bool,
}

/// One time that a question was sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Try {
    pub(crate) upstream: u16,
    pub(crate) id: u16,
    pub(crate) casing: Casing,
    pub(crate) by_stream: bool,
    /// Whether it waits for its stream to open.
    pub(crate) is_opening: bool,
    /// The socket it went out of, once it did.
    pub(crate) socket: Option<u32>,
    pub(crate) sent_at: u64,
    /// How long its server is waited for.
    pub(crate) patience_micros: u64,
    /// Whether it is still waited for. What comes later is taken all the same.
    pub(crate) is_waited: bool,
    /// Whether the server said that it cannot answer.
    pub(crate) is_refused: bool,
}

impl Try {
    pub(crate) const NEVER: Self = Self {
        upstream: 0,
        id: 0,
        casing: Casing::LOWER,
        by_stream: false,
        is_opening: false,
        socket: None,
        sent_at: 0,
        patience_micros: 0,
        is_waited: false,
        is_refused: false,
    };

    /// How long it is waited for.
    pub(crate) fn wait_micros(&self) -> u64 {
        match self {
            Self { is_opening: true, .. } => STREAM_OPEN_MICROS_MAX,
            Self { by_stream: true, .. } => self.patience_micros + STREAM_WAIT_MICROS_MORE,
            _ => self.patience_micros,
        }
    }
}

/// Servers that are asked for the same names: a range of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// The first one's number.
    pub first: u16,
    /// How many they are, at most [`GROUP_LEN_MAX`](crate::limits::GROUP_LEN_MAX).
    pub len: u16,
    /// Whether letters change their case at random. Some servers do not send them back as they
    /// were.
    pub mixes_case: bool,
}

impl Ask {
    /// Room for an ask.
    pub const FREE: Self = Self {
        hash: 0,
        kind: Kind::new(0, 0, false, false),
        name: [0; 255],
        name_len: 0,
        serial: 0,
        group: Group { first: 0, len: 0, mixes_case: false },
        next: NONE,
        waiter: NONE,
        waiters: 0,
        began_at: 0,
        tries_len: 0,
        tries: [Try::NEVER; TRIES_MAX],
        is_hedged: false,
        is_cut_off: false,
        left_until: None,
        was_left: false,
    };

    /// Takes the room for another question.
    pub(crate) fn begin(&mut self, key: &Key<'_>, group: Group, now: u64) {
        let Key { hash, kind, name } = *key;
        self.serial = self.serial.wrapping_add(1);
        (self.hash, self.kind, self.group, self.began_at) = (hash, kind, group, now);
        self.name[..name.len()].copy_from_slice(name);
        self.name_len = name.len() as u8;
        (self.waiter, self.waiters, self.tries_len) = (NONE, 0, 0);
        (self.is_hedged, self.is_cut_off) = (false, false);
        (self.left_until, self.was_left) = (None, false);
    }

    /// What is asked, in lower case.
    pub fn key(&self) -> Key<'_> {
        Key { hash: self.hash, kind: self.kind, name: &self.name[..self.name_len.into()] }
    }

    /// Whom it is asked of.
    pub fn group(&self) -> Group {
        self.group
    }

    /// Whether it was [cut off](crate::Forwarder::cut_off): what comes of it is not to be kept.
    pub fn is_cut_off(&self) -> bool {
        self.is_cut_off
    }

    pub(crate) fn is(&self, key: &Key<'_>, group: Group) -> bool {
        !self.is_cut_off
            && self.hash == key.hash
            && self.kind == key.kind
            && self.group == group
            && self.key().name == key.name
    }

    pub(crate) fn tries(&self) -> &[Try] {
        &self.tries[..self.tries_len.into()]
    }

    /// Whether an upstream may be asked once more.
    pub(crate) fn may_ask(&self, upstream: u16) -> bool {
        let mut tries = self.tries().iter().filter(|tried| tried.upstream == upstream);
        self.asked(upstream) < TRIES_OF_SERVER_MAX && !tries.any(|tried| tried.is_refused)
    }

    /// Whether nobody waits for it, nor may.
    pub(crate) fn is_for_nobody(&self) -> bool {
        self.is_cut_off && self.waiters == 0
    }

    /// Goes on for nobody if a server is asked that failed: its answer may come after another's,
    /// and is how its return is seen.
    pub(crate) fn lingers(&mut self, upstreams: &[Upstream]) -> bool {
        let mut waited = self.tries().iter().filter(|sent| sent.is_waited);
        let lingers = waited.any(|sent| upstreams[usize::from(sent.upstream)].has_failed());
        if lingers {
            (self.is_cut_off, self.is_hedged) = (true, true);
        }
        lingers
    }

    /// How often an upstream was asked.
    pub(crate) fn asked(&self, upstream: u16) -> usize {
        self.tries().iter().filter(|tried| tried.upstream == upstream).count()
    }
}

impl Forwarder<'_> {
    /// Cuts off the questions under way that `is_old` chooses: who asks one of them from now on has
    /// it asked anew, and what comes of it is for those alone who wait for it by now. Returns how
    /// many they are.
    pub fn cut_off(&mut self, mut is_old: impl FnMut(&Ask) -> bool) -> usize {
        let mut count = 0;
        for ask in self.asks.iter_mut().filter(|ask| ask.group.len > 0 && !ask.is_cut_off) {
            ask.is_cut_off = is_old(ask);
            count += usize::from(ask.is_cut_off);
        }
        count
    }
}
