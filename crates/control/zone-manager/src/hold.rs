//! Holds new content of a zone that lost most of its names.
//!
//! Half-written files, interrupted lists and wrong selectors look alike: most names are gone. So a
//! source compares new content with the served content before it publishes. Held content is not
//! served until an operator accepts it (`dunlin zones accept ZONE`). Complete content, such as a
//! file renamed into place, is not checked.
//!
//! A hold stores two counts, not the content; the source reads its content again after it was
//! accepted.
use crate::limits::LOSS_MIN;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// A zone with held content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HeldZone {
    /// Names in the served content.
    pub had: u64,
    /// Names in the held content.
    pub has: u64,
    /// When it was first held, in seconds since 1970.
    pub since_seconds: f64,
}

/// Whether the change from `had` to `has` names is held: a loss of more than half, and at least
/// [`LOSS_MIN`] names.
pub fn is_loss(had: u64, has: u64) -> bool {
    let lost = had.saturating_sub(has);
    lost >= LOSS_MIN && lost > had / 2
}

/// All held zones.
#[derive(Debug, Default)]
pub struct HeldZones(Mutex<BTreeMap<String, HoldEntry>>);

#[derive(Clone, Copy, Debug)]
struct HoldEntry {
    held: HeldZone,
    /// An operator accepted content with this many names.
    accepted: Option<u64>,
}

/// The zone has no held content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotHeld;

impl HeldZones {
    /// Decides about new content with `has` names; `had` names are served. `None`: serve it; the
    /// hold ends. Compares with accepted content if there is any, so that a further loss is held
    /// again.
    pub fn judge(&self, zone: impl fmt::Display, had: u64, has: u64) -> Option<HeldZone> {
        let key = key(zone);
        let mut entries = self.entries();
        let known = entries.remove(&key);
        let basis = known.and_then(|entry| entry.accepted).map_or(had, |names| names.min(had));
        if !is_loss(basis, has) {
            return None;
        }
        let since_seconds = known.map_or_else(now_seconds, |entry| entry.held.since_seconds);
        let held = HeldZone { had, has, since_seconds };
        entries.insert(key, HoldEntry { held, accepted: None });
        Some(held)
    }

    /// Ends a hold: the content was served for another reason, refused, or removed.
    pub fn release(&self, zone: impl fmt::Display) {
        self.entries().remove(&key(zone));
    }

    /// Accepts held content; it is served once its source reads it again.
    ///
    /// # Errors
    /// The zone has no held content.
    pub fn accept(&self, zone: impl fmt::Display) -> Result<HeldZone, NotHeld> {
        let mut entries = self.entries();
        let entry = entries.get_mut(&key(zone)).ok_or(NotHeld)?;
        entry.accepted = Some(entry.held.has);
        Ok(entry.held)
    }

    /// The hold of a zone.
    pub fn held(&self, zone: impl fmt::Display) -> Option<HeldZone> {
        self.entries().get(&key(zone)).map(|entry| entry.held)
    }

    /// All holds, by the zone's lower-case name with its final dot.
    pub fn all(&self) -> BTreeMap<String, HeldZone> {
        self.entries().iter().map(|(zone, entry)| (zone.clone(), entry.held)).collect()
    }

    fn entries(&self) -> MutexGuard<'_, BTreeMap<String, HoldEntry>> {
        // The lock is never held across code that can panic midway.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key(zone: impl fmt::Display) -> String {
    zone.to_string().to_ascii_lowercase()
}

fn now_seconds() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::{Name, NameBuf};

    fn name(text: &str) -> NameBuf {
        NameBuf::from_text(text.as_bytes(), Name::ROOT).expect("a name")
    }

    #[test]
    fn a_loss_of_more_than_half_and_at_least_twenty_is_held() {
        let cases = [
            (2_000, 999, true),
            (2_000, 1_000, false),
            (2_000, 1_001, false),
            (2_001, 1_000, true),
            (39, 19, true),
            (39, 20, false),
            (21, 1, true),
            (20, 0, true),
            (19, 0, false),
            (0, 0, false),
            (0, 2_000, false),
            (10, 2_000, false),
            (u64::MAX, 0, true),
        ];
        for (had, has, expected) in cases {
            assert_eq!(is_loss(had, has), expected, "{had} names, then {has}");
        }
    }

    #[test]
    fn hold_lasts_until_content_is_served() {
        let (holds, zone) = (HeldZones::default(), name("Example.ORG."));
        let held = holds.judge(zone.as_name(), 100, 10).expect("a loss");
        assert_eq!((held.had, held.has), (100, 10));
        let again = holds.judge(zone.as_name(), 100, 20).expect("a loss still");
        assert_eq!((again.has, again.since_seconds), (20, held.since_seconds));
        let all: Vec<String> = holds.all().into_keys().collect();
        assert_eq!(all, ["example.org."]);
        assert_eq!(holds.judge(zone.as_name(), 100, 90), None, "content that is whole");
        assert!(holds.all().is_empty() && holds.held(zone.as_name()).is_none());
    }

    #[test]
    fn accepted_content_is_served_and_a_further_loss_held() {
        let (holds, zone) = (HeldZones::default(), name("a.test."));
        assert_eq!(holds.accept(zone.as_name()), Err(NotHeld));
        holds.judge(zone.as_name(), 1_000, 100).expect("a loss");
        holds.accept(zone.as_name()).expect("held");
        let held = holds.judge(zone.as_name(), 1_000, 40).expect("less than was accepted");
        assert_eq!((held.had, held.has), (1_000, 40));
        holds.accept(zone.as_name()).expect("held");
        assert_eq!(holds.judge(zone.as_name(), 1_000, 40), None);
        assert_eq!(holds.accept(zone.as_name()), Err(NotHeld), "it is used up");
        assert!(holds.judge(zone.as_name(), 40, 0).is_some(), "and lets nothing else pass");
    }

    #[test]
    fn hold_affects_only_its_zone() {
        let (holds, a, b) = (HeldZones::default(), name("a.test."), name("b.test."));
        for zone in [&a, &b] {
            holds.judge(zone.as_name(), 100, 0).expect("a loss");
        }
        holds.accept(a.as_name()).expect("held");
        holds.release(a.as_name());
        assert_eq!(holds.accept(a.as_name()), Err(NotHeld));
        assert!(holds.held(b.as_name()).is_some());
    }
}
