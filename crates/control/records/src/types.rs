//! Writes, their principals, and errors.
use crate::{CommitId, WriteRights};
use compile::Zone;
use model::{BrokenRule, Edit, InvalidEdit, Precondition, Revision, SetKey, SetValue, View};
use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;
use store::limits::{EDITS_MAX, REASON_LEN_MAX, ZONES_MAX};
use wire::{NameBuf, Rcode, Rtype};
use zone_manager::{Sequence, Stopped, ZoneOwner};

/// A set in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredSet {
    /// Its key.
    pub key: SetKey,
    /// Its content. The serial of an SOA is the zone's.
    pub value: SetValue,
    /// Its last revision, used as ETag. An SOA has the zone's, because its serial changes with each
    /// write. [`Revision::NONE`] outside of the store.
    pub revision: Revision,
}

/// The principal, time, reason and condition of a write.
#[derive(Clone, Debug)]
pub struct WriteContext {
    /// The principal.
    pub by: Arc<str>,
    /// The time of the request.
    pub when: SystemTime,
    /// The client's reason. The journal stores up to [`REASON_LEN_MAX`] bytes.
    pub reason: Option<Arc<str>>,
    /// A condition on the zone, or on the whole store for a restore. The revision of a zone is its
    /// last write's, that of the store the last of all.
    pub expect: Precondition,
    /// What the principal may write, for what the write hides; `None`: everything.
    pub rights: Option<Arc<dyn WriteRights>>,
}

impl WriteContext {
    /// A write by this principal, now, without reason or condition.
    pub fn by(principal: impl Into<Arc<str>>) -> Self {
        let (when, expect) = (SystemTime::now(), Precondition::Anything);
        Self { by: principal.into(), when, reason: None, expect, rights: None }
    }

    /// The part of the reason that the journal stores, in whole characters.
    pub(crate) fn kept_reason(&self) -> Option<Arc<str>> {
        let reason = self.reason.as_ref()?;
        let end = reason.floor_char_boundary(REASON_LEN_MAX);
        Some(if end == reason.len() { Arc::clone(reason) } else { reason[..end].into() })
    }
}

/// Edits of one zone, applied all or none. Removals come before additions, in any order. Edits that
/// change nothing are skipped; a batch of only those writes nothing.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The zone, by its origin.
    pub zone: NameBuf,
    /// The changes; each set once.
    pub edits: Vec<Edit>,
    /// The principal, and the condition.
    pub context: WriteContext,
}

/// A write whose edits depend on the zone: they are made when its turn comes, from the zone with
/// all writes before it. So no condition is checked against a zone that is another one by then.
pub trait PlannedWrite: fmt::Debug + Send + Sync {
    /// The edits, each set once; none if nothing changes. They may be asked for again, if another
    /// writer was first.
    ///
    /// # Errors
    /// The zone does not allow it.
    fn edits(&self, zone: &Zone) -> Result<Vec<Edit>, Refused>;

    /// Its memory in the queue, in bytes.
    fn weight(&self) -> usize;
}

/// A warning about a set that a write has changed: it is valid, and probably a mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetWarning {
    /// The owner of the set.
    pub name: NameBuf,
    /// Its type.
    pub rtype: Rtype,
    /// The rule that is broken.
    pub rule: BrokenRule,
    /// The fault.
    pub what: String,
    /// The remedy.
    pub help: String,
}

/// A durable write, on its way to the workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteResult {
    /// Its revision. If nothing changed: the last revision of the batch's only set, or else of the
    /// zone.
    pub revision: Revision,
    /// The zone's last revision, with this write.
    pub zone: Revision,
    /// Waits for the image with this write, unless the zone has another owner by now.
    pub sequence: Sequence,
    /// Warnings about the sets of the batch and those that depend on them, up to
    /// [`WARNINGS_MAX`](crate::limits::WARNINGS_MAX).
    pub warnings: Vec<SetWarning>,
}

/// A summary of a zone.
#[derive(Clone, Debug)]
pub struct ZoneInfo {
    /// Its name.
    pub origin: NameBuf,
    /// Its owner.
    pub owner: ZoneOwner,
    /// Its last revision; [`Revision::NONE`] outside of the store.
    pub revision: Revision,
    /// The served serial of its SOA; `None`: never loaded.
    pub serial: Option<u32>,
    /// The serial after the next write, if no other zone is written before; `None` outside of the
    /// store.
    pub next_serial: Option<u32>,
    /// The number of its sets; `None` outside of the store.
    pub sets: Option<u64>,
}

/// A part of a zone's sets, in canonical order of names, then by type.
#[derive(Clone, Debug, Default)]
pub struct SetPage {
    /// The sets.
    pub sets: Vec<StoredSet>,
    /// The next page begins after this set; `None`: no more.
    pub next: Option<SetKey>,
    /// The zone's revision at the moment of this page; [`Revision::NONE`] outside of the store.
    pub revision: Revision,
}

/// A filter of sets.
#[derive(Clone, Debug, Default)]
pub struct SetFilter {
    /// Those of this view.
    pub view: View,
    /// Only names of the same depth and parent whose first label begins with this name's first
    /// label. The zone's origin: only the origin.
    pub prefix: Option<NameBuf>,
    /// Only this type.
    pub rtype: Option<Rtype>,
}

/// Why a request was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The zone does not exist.
    NoSuchZone,
    /// The zone exists already.
    ZoneExists,
    /// The zone was never loaded, so its content is unknown: it answers SERVFAIL.
    Unloaded,
    /// The zone has another owner.
    NotTheOwner {
        /// The owner.
        owner: ZoneOwner,
    },
    /// A set does not meet the condition.
    Conflict {
        /// The index of the edit, from 0.
        edit: usize,
        /// The set's last revision; [`Revision::NONE`]: it does not exist.
        is: Revision,
    },
    /// The zone or the store does not meet the condition.
    ZoneConflict {
        /// Its last revision; [`Revision::NONE`]: it does not exist.
        is: Revision,
    },
    /// The journal does not reach back that far.
    JournalCut {
        /// It is complete after this revision.
        whole_after: Revision,
    },
    /// The store has not reached the requested revision.
    JournalAhead {
        /// The newest revision of the store.
        newest: Revision,
    },
    /// An edit is invalid.
    Invalid(InvalidEdit),
    /// A write would hide a wildcard from names that its principal may not write.
    HidesWildcard {
        /// The index of the edit, from 0.
        edit: usize,
        /// The name that would begin to exist.
        name: Box<NameBuf>,
        /// A type that the wildcard answers, and the principal may not write there.
        rtype: Rtype,
        /// The wildcard.
        wildcard: Box<NameBuf>,
    },
    /// The zone does not allow a planned write: in the words of RFC 2136.
    Unmet {
        /// The response code of an update.
        rcode: Rcode,
        /// What is not met: a sentence without a period.
        what: Arc<str>,
    },
    /// A limit was exceeded.
    TooMany {
        /// What there are too many of.
        what: &'static str,
        /// The limit.
        max: usize,
    },
    /// The disk is full; zones are still served.
    Full,
    /// The queue is full: try again later.
    Busy,
    /// A read or write of the store failed.
    Failed(Arc<str>),
    /// The store cannot be used: its zones are served as they were, or answer SERVFAIL. It is
    /// opened again once its files can be read.
    Unavailable(Arc<str>),
    /// The shared store does not accept writes now; the zones are served and can be read.
    Unreachable(Arc<str>),
    /// The shared store has no space left; the zones are served and can be read.
    NoSpace(Arc<str>),
    /// The store has a form in which this cannot be done, and what to do.
    Form(Arc<str>),
    /// The shared store did not say whether it has the write. It may have it, or get it later.
    UnknownOutcome {
        /// Identifies the commit.
        id: CommitId,
        /// Why nothing is known.
        why: Arc<str>,
    },
    /// The write is in the shared store, but not every server serves it; which do not.
    Lagging(Arc<str>),
    /// This server has no right to write.
    ReadOnly,
    /// Other servers do not share the store.
    NotShared,
    /// The server is stopping or in a hot restart: try again later.
    Stopping,
}

impl From<Stopped> for Refused {
    fn from(Stopped: Stopped) -> Self {
        Self::Stopping
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchZone => f.write_str("there is no such zone"),
            Self::Unloaded => f.write_str(
                "the zone was never loaded, and answers SERVFAIL: `dunlin status` and the log say \
                 why",
            ),
            Self::ZoneExists => f.write_str("a zone of this name exists already"),
            Self::NotTheOwner { owner } => {
                write!(f, "the zone is not in the store: its owner is {owner}")
            }
            Self::Conflict { edit, is: Revision::NONE } => {
                write!(f, "edit {edit}: the set does not exist")
            }
            Self::Conflict { edit, is } => {
                write!(f, "edit {edit}: the set exists, last written at revision {is}")
            }
            Self::ZoneConflict { is: Revision::NONE } => f.write_str("it does not exist"),
            Self::ZoneConflict { is } => write!(f, "it was last written at revision {is}"),
            Self::JournalCut { whole_after } => write!(
                f,
                "the journal reaches back only to revision {whole_after}: read the whole zone by \
                 an export, and continue from its revision"
            ),
            Self::JournalAhead { newest } => write!(
                f,
                "the newest revision is {newest}: the store was replaced or set back; read the \
                 whole zone by an export, and continue from its revision"
            ),
            Self::Invalid(InvalidEdit { edit, field, what, rule }) => {
                write!(f, "edit {edit}, {field}: {what} ({rule})")
            }
            Self::HidesWildcard { name, rtype, wildcard, .. } => write!(
                f,
                "it makes {name} exist, so that {wildcard} {rtype} is no longer the answer for \
                 {name} and the names below it, which no grant covers: a grant with the verb \
                 `hide-wildcard` beside `write` allows it, or one that covers {name} and *.{name}"
            ),
            Self::Unmet { rcode, what } => write!(f, "{what} ({})", rcode.name()),
            Self::TooMany { what, max } => write!(f, "too many {what}: the maximum is {max}"),
            Self::Full => f.write_str(
                "the disk of [server] data_dir is full: free some space; earlier writes \
                 are still served",
            ),
            Self::Busy => f.write_str("too many writes at the same time: try again later"),
            Self::Failed(why) => write!(f, "the store failed: {why}"),
            Self::Unavailable(why) => write!(f, "the store cannot be used: {why}"),
            Self::Unreachable(why) => write!(f, "the shared store cannot be written now: {why}"),
            Self::NoSpace(why) | Self::Form(why) => f.write_str(why),
            Self::UnknownOutcome { id, why } => write!(
                f,
                "outcome unknown, id {id}: {why}; read the set again before you repeat the write"
            ),
            Self::Lagging(who) => f.write_str(who),
            Self::ReadOnly => f.write_str(
                "this server does not write, because [server] roles lacks `api`: write on a server \
                 that has it, which `dunlin fleet` shows",
            ),
            Self::NotShared => {
                f.write_str("the store is of this server alone: [store] kind = \"etcd\" shares it")
            }
            Self::Stopping => f.write_str("the server is stopping or restarting: try again later"),
        }
    }
}

impl std::error::Error for Refused {}

impl Refused {
    pub(crate) const EDITS: Self = Self::TooMany { what: "edits in one batch", max: EDITS_MAX };
    pub(crate) const ZONES: Self = Self::TooMany { what: "zones in the store", max: ZONES_MAX };
}
