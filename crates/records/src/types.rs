//! What is written, by whom, and why it may be refused.
use crate::limits::{EDITS_MAX, ZONES_MAX};
use control::Ticket;
use model::Rule;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;
use wire::{NameBuf, Rtype};

/// A place in the one line of all writes of a store. It survives a restart, and never goes back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

impl Revision {
    /// Before the first write; of a set: there is none.
    pub const NONE: Self = Self(0);

    /// The serial of a zone that was written last at this revision. Serials wrap (RFC 1982): who
    /// transfers a zone must not miss 2^31 writes.
    pub fn serial(self) -> u32 {
        self.0 as u32
    }

    /// The one after it.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $(#[$variant_doc:meta])* $only:ident = $word:literal }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub enum $name {
            $(#[$variant_doc])*
            #[default]
            $only,
        }

        impl $name {
            /// The word for it, in JSON and wherever else it is written.
            pub const fn word(self) -> &'static str {
                $word
            }

            /// What a word stands for; nothing for one that has no meaning yet.
            pub fn from_word(word: &str) -> Option<Self> {
                (word == $word).then_some(Self::$only)
            }
        }
    };
}

words! {
    /// For whom a set is: a part of its key.
    View {
        /// For everybody.
        Default = "default"
    }
}

words! {
    /// Which records of a set an answer holds.
    Policy {
        /// All of them.
        All = "all"
    }
}

/// Which set.
#[derive(Clone, Debug)]
pub struct SetKey {
    /// Its zone, by the origin.
    pub zone: NameBuf,
    /// Its name, absolute.
    pub name: NameBuf,
    /// Its type.
    pub rtype: Rtype,
    /// For whom it is.
    pub view: View,
}

impl PartialEq for SetKey {
    fn eq(&self, other: &Self) -> bool {
        let names = |key: &Self| (key.rtype, key.view);
        names(self) == names(other)
            && self.zone.as_name() == other.zone.as_name()
            && self.name.as_name() == other.name.as_name()
    }
}

impl Eq for SetKey {}

/// What a set holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetValue {
    /// Seconds it may be kept.
    pub ttl: u32,
    /// Which of its records an answer holds.
    pub policy: Policy,
    /// The data of each record, in wire form with uncompressed names.
    pub data: Vec<Box<[u8]>>,
}

impl From<image::RecordSet<'_>> for SetValue {
    fn from(set: image::RecordSet<'_>) -> Self {
        let data = set.records().map(Box::from).collect();
        Self { ttl: set.ttl(), policy: Policy::All, data }
    }
}

/// A set as the store holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredSet {
    /// Which one.
    pub key: SetKey,
    /// What it holds. The serial of an SOA is that of its zone.
    pub value: SetValue,
    /// When it was last written: its ETag; of an SOA when its zone was, as its serial changed then.
    /// [`Revision::NONE`] where the zone is not the store's.
    pub revision: Revision,
}

/// What must be true of a set for an edit to be done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expect {
    /// Nothing.
    #[default]
    Anything,
    /// It is not there (`If-None-Match: *`).
    Absent,
    /// It is there (`If-Match: *`).
    Present,
    /// It was last written then (`If-Match: "7"`).
    At(Revision),
}

/// One change of one set.
#[derive(Clone, Debug)]
pub struct Edit {
    /// The name of the set, absolute.
    pub name: NameBuf,
    /// Its type.
    pub rtype: Rtype,
    /// For whom it is.
    pub view: View,
    /// What must be true of it.
    pub expect: Expect,
    /// What it holds from now on; `None`: it goes.
    pub put: Option<SetValue>,
}

impl Edit {
    /// Has a set hold this, whatever it held.
    pub fn put(name: NameBuf, rtype: Rtype, value: SetValue) -> Self {
        Self { name, rtype, view: View::Default, expect: Expect::Anything, put: Some(value) }
    }
}

/// Edits of one zone that are all done, or none. What goes does so before what comes, whatever
/// their order.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The zone, by its origin.
    pub zone: NameBuf,
    /// What changes; each set once.
    pub edits: Vec<Edit>,
    /// Who wants it: a principal.
    pub by: Arc<str>,
    /// When it came.
    pub when: SystemTime,
}

/// What was written is on the disk, and on its way to the workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Its place in the line of all writes.
    pub revision: Revision,
    /// Stands for an image that holds it, unless somebody else has the zone by now.
    pub ticket: Ticket,
}

/// Who says what a zone holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The store: it is written here.
    Store,
    /// A file that the config names.
    File(PathBuf),
    /// The server itself (RFC 6303, RFC 6761, rules of the config).
    BuiltIn,
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store => f.write_str("the store"),
            Self::File(file) => write!(f, "the file {}", file.display()),
            Self::BuiltIn => f.write_str("the server, which has it built in"),
        }
    }
}

/// A zone, in short.
#[derive(Clone, Debug)]
pub struct ZoneInfo {
    /// Its name.
    pub origin: NameBuf,
    /// Who says what it holds.
    pub owner: Owner,
    /// When it was last written; [`Revision::NONE`] where it is not the store's.
    pub revision: Revision,
    /// The serial of its SOA as it is answered; nothing: it was never loaded.
    pub serial: Option<u32>,
    /// Its sets; nothing where it is not the store's.
    pub sets: Option<u64>,
}

/// A part of a zone's sets, in canonical order of names, then by type.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// The sets.
    pub sets: Vec<StoredSet>,
    /// Where the next page begins: behind this set; nothing: there are no more.
    pub next: Option<SetKey>,
}

/// Which sets of a zone are wanted.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Only names that begin so, in lower case, as they are written relative to the zone's origin.
    pub prefix: String,
    /// Only this type.
    pub rtype: Option<Rtype>,
}

/// What a journal says was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The zone was made.
    Created,
    /// Sets of it changed.
    Changed,
    /// All of it came back from a snapshot.
    Restored,
}

/// What became of one set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetChange {
    /// Its name relative to the origin, in lower case, without a root.
    pub name: Box<[u8]>,
    /// Its type.
    pub rtype: Rtype,
    /// For whom it is.
    pub view: View,
    /// What it held; `None`: it was not there, or the journal keeps the batch as a number alone.
    pub before: Option<SetValue>,
    /// What it holds; `None`: it is gone.
    pub after: Option<SetValue>,
}

/// One write to a zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalEntry {
    /// Its place in the line of all writes.
    pub revision: Revision,
    /// When it came, to the millisecond.
    pub when: SystemTime,
    /// Who wanted it.
    pub by: String,
    /// What it was.
    pub kind: Kind,
    /// How many sets it changed.
    pub count: u64,
    /// What became of each set; empty where there were too many to keep.
    pub changes: Vec<SetChange>,
}

/// Why an edit is wrong in itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    /// Its number in the batch, from 0.
    pub edit: usize,
    /// The field that is wrong: `name`, `type`, `ttl`, `data` or `edits`.
    pub field: &'static str,
    /// Which rule is broken.
    pub rule: Rule,
    /// What is wrong: a sentence without its end.
    pub what: String,
}

/// Why nothing was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// There is no zone of this origin.
    NoSuchZone,
    /// There is one already.
    ZoneExists,
    /// The zone was never loaded, so nobody knows what it holds: it answers SERVFAIL.
    Unloaded,
    /// Somebody else says what the zone holds.
    NotTheOwner {
        /// Who.
        owner: Owner,
    },
    /// A set is not as was expected.
    Conflict {
        /// The number of the edit, from 0.
        edit: usize,
        /// When the set was last written; [`Revision::NONE`]: it is not there.
        is: Revision,
    },
    /// An edit is wrong in itself.
    Invalid(Invalid),
    /// More than a limit lets in.
    TooMany {
        /// Of what.
        what: &'static str,
        /// The most there may be.
        max: usize,
    },
    /// The disk is full: what is there goes on being served.
    Full,
    /// Too much waits already: try again later.
    Busy,
    /// The store cannot be written or read.
    Failed(Arc<str>),
    /// The server ends, or gives its place to a successor: try again later.
    Stopping,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchZone => f.write_str("there is no such zone"),
            Self::Unloaded => f.write_str(
                "the zone was never loaded, and answers SERVFAIL: `dunlin status` and the log say \
                 why",
            ),
            Self::ZoneExists => f.write_str("there is a zone of this name already"),
            Self::NotTheOwner { owner } => {
                write!(f, "the zone is not the store's: {owner} says what it holds")
            }
            Self::Conflict { edit, is: Revision::NONE } => {
                write!(f, "edit {edit}: the set is not there")
            }
            Self::Conflict { edit, is } => {
                write!(f, "edit {edit}: the set is there, last written at revision {is}")
            }
            Self::Invalid(Invalid { edit, field, what, rule }) => {
                write!(f, "edit {edit}, {field}: {what} ({rule})")
            }
            Self::TooMany { what, max } => write!(f, "too many {what}: {max} is the most"),
            Self::Full => f.write_str(
                "the disk of [server] data_dir is full: make room on it; what was written before \
                 goes on being served",
            ),
            Self::Busy => f.write_str("too much waits to be written already: try again later"),
            Self::Failed(why) => write!(f, "the store failed: {why}"),
            Self::Stopping => f.write_str("the server ends or changes hands: try again later"),
        }
    }
}

impl std::error::Error for Refused {}

impl Refused {
    pub(crate) const EDITS: Self = Self::TooMany { what: "edits in one batch", max: EDITS_MAX };
    pub(crate) const ZONES: Self = Self::TooMany { what: "zones in the store", max: ZONES_MAX };
}
