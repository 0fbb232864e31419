//! Annotations and age of an object with a part.
use super::{CHECK, Meta};
use serde::{Deserialize, Serialize};

/// The annotation with the TTL of its records.
const TTL: &str = "dunlin.io/ttl";
/// The policy of its sets.
const POLICY: &str = "dunlin.io/policy";
/// The weight of its members.
const WEIGHT: &str = "dunlin.io/weight";
/// Their tier.
const TIER: &str = "dunlin.io/tier";

/// Annotations and age of an object with a part. Empty texts: there is no such annotation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct PartRules {
    /// The UID.
    pub uid: Box<str>,
    /// When it was created, in seconds since 1970.
    pub created: u64,
    /// The TTL of its records.
    pub ttl: Box<str>,
    /// The policy of its sets.
    pub policy: Box<str>,
    /// The weight of its members.
    pub weight: Box<str>,
    /// The tier of its members.
    pub tier: Box<str>,
    /// The check of its addresses.
    pub check: Box<str>,
}

impl PartRules {
    /// Takes them out of the metadata.
    pub(super) fn take(meta: &mut Meta) -> Self {
        let mut annotation = |key: &str| meta.annotations.remove(key).unwrap_or_default();
        Self {
            ttl: annotation(TTL),
            policy: annotation(POLICY),
            weight: annotation(WEIGHT),
            tier: annotation(TIER),
            check: annotation(CHECK),
            created: seconds_of(&meta.creation_timestamp),
            uid: std::mem::take(&mut meta.uid),
        }
    }
}

/// The seconds since 1970 of a time such as `2026-11-28T07:00:00Z`; 0 for others.
pub(crate) fn seconds_of(text: &str) -> u64 {
    text.parse::<jiff::Timestamp>().map_or(0, |time| time.as_second().try_into().unwrap_or(0))
}
