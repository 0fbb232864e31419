//! The interface of sources: who they are, what they change, and what becomes of it.
use crate::sender::UpdateSender;
use model::{BrokenRule, InvalidEdit};
use server_status::HeldZone;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use wire::NameBuf;

/// Knows records. [`ZonePublisher::start_source`](crate::ZonePublisher::start_source) registers it,
/// once; from then on it sends updates, and gets the result of each. Nothing else publishes.
pub trait Source {
    /// What stays of it: a handle on its thread, or the source itself if another thread drives it.
    type Started;

    /// What the zone manager needs to know of it.
    fn settings(&self) -> SourceSettings;

    /// Starts to send updates. A source that waits for something starts a thread for it.
    fn start(self, updates: UpdateSender) -> Self::Started;
}

/// A source that its creator drives is only its sender.
impl Source for SourceSettings {
    type Started = UpdateSender;

    fn settings(&self) -> SourceSettings {
        self.clone()
    }

    fn start(self, updates: UpdateSender) -> UpdateSender {
        updates
    }
}

/// Kinds of sources. If two sources have a zone, the one of the greater kind owns it, and hides the
/// zone of the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SourceKind {
    /// The server itself (RFC 6303, RFC 6761, rules of the config).
    BuiltIn,
    /// Servers from which zones are transferred. A zone that is promoted is that of the store.
    Primary,
    /// The store.
    Store,
    /// The store of another site. A zone has one home: if one of two has it, the other is refused.
    Site,
    /// The Kubernetes API.
    Kubernetes,
    /// Parts that several clusters have of a zone. It merges them with what the store, or a
    /// controller of a cluster, has of the zone and goes on writing.
    Parts,
    /// Hosts files.
    Hosts,
    /// Zone files in the config.
    File,
}

impl SourceKind {
    /// Whether a zone of a source of this kind cannot be that of one of the other kind, too.
    pub(crate) fn excludes(self, other: Self) -> bool {
        let is_home = |kind| matches!(kind, Self::Store | Self::Site);
        self == other || (is_home(self) && is_home(other))
    }
}

/// What happens with content that lost more than half of its names, and at least
/// [`LOSS_MIN`](crate::limits::LOSS_MIN).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldPolicy {
    /// It is published.
    Never,
    /// It is held until an operator accepts it, or for this time.
    Until(Duration),
    /// It is held until an operator accepts it.
    Operator,
    /// As [`HoldPolicy::Operator`], but the zone manager does not keep it: the source gives it
    /// again once it is accepted.
    Source,
}

/// The lane of a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// In the order of arrival.
    Normal,
    /// Before everything of the normal lane.
    Urgent,
}

/// What the zone manager needs to know of a source.
#[derive(Clone, Debug)]
pub struct SourceSettings {
    /// Its name in status and logs.
    pub name: String,
    /// Its kind.
    pub kind: SourceKind,
    /// The lane of its updates.
    pub lane: Lane,
    /// What happens with a full sync that lost most of the content.
    pub hold: HoldPolicy,
}

/// Part of the zone data that a source can have.
#[allow(clippy::large_enum_variant, reason = "most are zones")]
#[derive(Clone, Debug)]
pub enum Target {
    /// The zone of this origin.
    Zone(NameBuf),
    /// A layer of whole names at any place of the tree, by the source's number; the lower has
    /// priority. A name without data falls through to the next layer, then to forward rules. Zones
    /// come before layers, except built-in ones.
    Layer(u32),
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Zone(origin) => origin.fmt(f),
            Self::Layer(number) => write!(f, "layer {number}"),
        }
    }
}

/// The owner of a zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ZoneOwner {
    /// The store.
    Store,
    /// A file in the config.
    File(PathBuf),
    /// The server itself (RFC 6303, RFC 6761, rules of the config).
    BuiltIn,
    /// Another source, by its name.
    Source(Arc<str>),
}

impl fmt::Display for ZoneOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store => f.write_str("the store"),
            Self::File(file) => write!(f, "the file {}", file.display()),
            Self::BuiltIn => f.write_str("the server, which has it built in"),
            Self::Source(name) => write!(f, "the source {name}"),
        }
    }
}

/// Why a change was refused. Nothing of it was applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The source has no such zone: it needs a full sync first.
    NoSuchTarget,
    /// Another source of the same kind has the zone.
    NotTheOwner(ZoneOwner),
    /// The precondition is not met.
    Unmet,
    /// The change is invalid by itself, or in the zone as it would be.
    Invalid {
        /// The invalid field: `name`, `type`, `ttl`, `data` or `edits`.
        field: &'static str,
        /// The broken rule.
        rule: BrokenRule,
        /// The fault: a sentence without a period.
        what: String,
    },
    /// A limit was exceeded.
    TooMany {
        /// What there are too many of.
        what: &'static str,
        /// The limit.
        max: usize,
    },
}

impl From<InvalidEdit> for Refusal {
    fn from(InvalidEdit { field, rule, what, .. }: InvalidEdit) -> Self {
        Self::Invalid { field, rule, what }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchTarget => f.write_str("there is no such zone: it needs a full sync first"),
            Self::NotTheOwner(owner) => write!(f, "the owner of the zone is {owner}"),
            Self::Unmet => f.write_str("the precondition is not met"),
            Self::Invalid { field, rule, what } => write!(f, "{field}: {what} ({rule})"),
            Self::TooMany { what, max } => write!(f, "too many {what}: the maximum is {max}"),
        }
    }
}

impl std::error::Error for Refusal {}

/// The outcome of changes. It comes when they are published.
#[derive(Clone, Debug)]
pub struct Applied {
    /// The result of each change, in their order. A refused change does not affect the others.
    pub results: Vec<Result<(), Refusal>>,
    /// Their place in the queue.
    pub sequence: crate::Sequence,
}

/// The outcome of a full sync.
#[derive(Clone, Debug)]
pub struct Synced {
    /// The puts that were refused, by their numbers from 0, and why; none of compiled content.
    pub refused: Vec<(usize, Refusal)>,
    /// The outcome of the content.
    pub outcome: SyncOutcome,
    /// Its place in the queue.
    pub sequence: crate::Sequence,
}

/// The outcome of the content of a full sync.
#[derive(Clone, Debug, PartialEq)]
pub enum SyncOutcome {
    /// It is published, unless the source of a greater kind hides it.
    Published,
    /// It is published, although it is doubted: it came as a whole, or there was nothing before.
    Doubted,
    /// It is not believed yet, and the content before it is served. Later changes apply to both.
    Held(HeldZone),
    /// It is invalid as a whole, and the content before it is served.
    Refused(Refusal),
}
