//! Edits of record sets: what a source or a client wants to change.
use crate::BrokenRule;
use std::fmt;
use wire::{NameBuf, Rtype};

/// The number of a write to the store. It survives a restart and never goes back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

impl Revision {
    /// Before the first write; for a set: it does not exist.
    pub const NONE: Self = Self(0);

    /// The serial of a zone with this offset last written at this revision. Serials wrap (RFC
    /// 1982): secondaries must not miss 2^31 writes.
    pub fn serial(self, offset: u32) -> u32 {
        (self.0 as u32).wrapping_add(offset)
    }

    /// The next revision.
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
            /// Its name in JSON and texts.
            pub const fn word(self) -> &'static str {
                $word
            }

            /// The variant of a name; `None` for unknown ones.
            pub fn from_word(word: &str) -> Option<Self> {
                (word == $word).then_some(Self::$only)
            }
        }
    };
}

words! {
    /// The clients that a set is for; part of its key.
    View {
        /// All clients.
        Default = "default"
    }
}

words! {
    /// The records that an answer contains.
    Policy {
        /// All of them.
        All = "all"
    }
}

/// Identifies a set.
#[derive(Clone, Debug)]
pub struct SetKey {
    /// Its zone, by the origin.
    pub zone: NameBuf,
    /// Its name, absolute.
    pub name: NameBuf,
    /// Its type.
    pub rtype: Rtype,
    /// Its view.
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

/// The content of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetValue {
    /// Its TTL in seconds.
    pub ttl: u32,
    /// Which of its records an answer contains.
    pub policy: Policy,
    /// The data of each record, in wire form with uncompressed names.
    pub data: Vec<Box<[u8]>>,
}

impl SetValue {
    /// These records, all in each answer.
    pub fn new(ttl: u32, data: Vec<Box<[u8]>>) -> Self {
        Self { ttl, policy: Policy::All, data }
    }

    /// A set whose data the journal does not store.
    pub const UNKEPT: Self = Self { ttl: 0, policy: Policy::All, data: Vec::new() };

    /// Whether this is content, not [`SetValue::UNKEPT`]: a set has at least one record.
    pub fn is_kept(&self) -> bool {
        !self.data.is_empty()
    }
}

impl From<image::RecordSet<'_>> for SetValue {
    fn from(set: image::RecordSet<'_>) -> Self {
        let data = set.records().map(Box::from).collect();
        Self { ttl: set.ttl(), policy: Policy::All, data }
    }
}

/// A condition for an edit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Precondition {
    /// None.
    #[default]
    Anything,
    /// The set does not exist (`If-None-Match: *`).
    Absent,
    /// The set exists (`If-Match: *`).
    Present,
    /// The set's last revision (`If-Match: "7"`).
    At(Revision),
    /// The set has exactly this TTL and these records, in any order.
    Equal(Box<SetValue>),
}

/// A change of one set.
#[derive(Clone, Debug)]
pub struct Edit {
    /// The name of the set, absolute.
    pub name: NameBuf,
    /// Its type.
    pub rtype: Rtype,
    /// Its view.
    pub view: View,
    /// Its condition.
    pub expect: Precondition,
    /// The new content; `None` removes the set.
    pub put: Option<SetValue>,
}

impl Edit {
    /// Replaces the content of a set, without a condition.
    pub fn put(name: NameBuf, rtype: Rtype, value: SetValue) -> Self {
        Self { put: Some(value), ..Self::remove(name, rtype) }
    }

    /// Removes a set, without a condition.
    pub fn remove(name: NameBuf, rtype: Rtype) -> Self {
        Self { name, rtype, view: View::Default, expect: Precondition::Anything, put: None }
    }
}

/// A change of a zone or layer by its source.
#[derive(Clone, Debug)]
pub enum Change {
    /// Replaces or removes a set.
    Set(Edit),
    /// Adds the records of `put` to the set, whose TTL becomes that of `put`. Creates the set if it
    /// does not exist.
    Add(Edit),
    /// Removes the records of `put` from the set. A set without records is removed.
    Take(Edit),
    /// The name exists, even without records: queries get NODATA instead of NXDOMAIN.
    AddName(NameBuf),
    /// The name need not exist without records any more.
    RemoveName(NameBuf),
}

impl Change {
    /// The changed name.
    pub fn name(&self) -> &NameBuf {
        match self {
            Self::Set(edit) | Self::Add(edit) | Self::Take(edit) => &edit.name,
            Self::AddName(name) | Self::RemoveName(name) => name,
        }
    }
}

impl From<Edit> for Change {
    fn from(edit: Edit) -> Self {
        Self::Set(edit)
    }
}

/// Why an edit is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidEdit {
    /// Its index in the batch, from 0.
    pub edit: usize,
    /// The invalid field: `name`, `type`, `ttl`, `data` or `edits`.
    pub field: &'static str,
    /// The broken rule.
    pub rule: BrokenRule,
    /// What is wrong: a sentence without a period.
    pub what: String,
}
