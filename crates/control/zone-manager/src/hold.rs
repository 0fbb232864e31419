//! Judges new content: it is believed, believed with a warning, or held.
//!
//! Half-written files, interrupted lists, cut uploads and wrong selectors look alike: most of the
//! content is gone, or its end is missing. What knows records says how they came ([`Evidence`]),
//! and [`judge`] decides for all of them: zone files, hosts files, lists, imports, and the zones of
//! a config. Held content is not used until an operator accepts it (`dunlin zones accept ZONE`,
//! `dunlin reload --accept`, `--accept-loss`).
//!
//! A hold of a file's zone stores two counts, not the content; its source reads the file again
//! after it was accepted.
use crate::limits::LOSS_MIN;
use server_status::HeldZone;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// How content came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// As a whole: renamed into place, which a writer does once it is done, or named again by the
    /// config.
    Whole,
    /// Written in place, listed or sent: what made it may have been stopped.
    InPlace,
}

/// What is known of new content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// How it came.
    pub arrival: Arrival,
    /// Its text does not end with a newline, and differs from what is in use.
    pub is_cut: bool,
    /// The items in use now: names, record sets or zones; `None`: nothing is in use.
    pub had: Option<u64>,
    /// The items after the change.
    pub has: u64,
}

impl Evidence {
    /// Of what is listed or sent, item by item, where `had` items are in use.
    pub fn listed(had: u64, has: u64) -> Self {
        Self { arrival: Arrival::InPlace, is_cut: false, had: Some(had), has }
    }

    /// Whether more than half of the items are lost, and at least [`LOSS_MIN`].
    pub fn lost_most(&self) -> bool {
        self.had.is_some_and(|had| is_loss(had, self.has))
    }
}

/// What becomes of new content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is used.
    Believe,
    /// It is used, with a warning.
    Warn,
    /// It is not used until it is accepted.
    Hold,
}

/// Decides about new content.
///
/// | the content | nothing was in use | came as a whole | written in place |
/// | --- | --- | --- | --- |
/// | ends with a newline, and has lost little | believe | believe | believe |
/// | lost more than half of its items, and at least [`LOSS_MIN`] | (cannot be) | warn | hold |
/// | does not end with a newline | warn | warn | hold |
pub fn judge(evidence: &Evidence) -> Verdict {
    let Evidence { arrival, is_cut, had, .. } = *evidence;
    let is_doubted = is_cut || evidence.lost_most();
    match (arrival, had) {
        _ if !is_doubted => Verdict::Believe,
        (Arrival::Whole, _) | (Arrival::InPlace, None) => Verdict::Warn,
        (Arrival::InPlace, Some(_)) => Verdict::Hold,
    }
}

/// Whether the change from `had` to `has` names is a loss of more than half, and at least
/// [`LOSS_MIN`].
fn is_loss(had: u64, has: u64) -> bool {
    let lost = had.saturating_sub(has);
    lost >= LOSS_MIN && lost > had / 2
}

/// All held zones and hosts files.
#[derive(Debug, Default)]
pub struct HeldZones(Mutex<BTreeMap<String, HoldEntry>>);

#[derive(Clone, Copy, Debug)]
struct HoldEntry {
    held: HeldZone,
    /// An operator accepted content with this many names.
    accepted: Option<u64>,
}

/// The outcome of the acceptance of held content.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Acceptance {
    /// It is served.
    Served(HeldZone),
    /// It is served once its source gives it again.
    GiveAgain(HeldZone),
    /// There is no held content of this name.
    NotHeld,
}

impl HeldZones {
    /// Decides about new content by [`judge`], and begins or ends the hold. Compares with accepted
    /// content if there is any, so that a further loss is held again.
    pub(crate) fn judge(&self, zone: impl fmt::Display, evidence: &Evidence) -> Verdict {
        let key = key(zone);
        let mut entries = self.entries();
        let known = entries.remove(&key);
        let accepted = known.and_then(|entry| entry.accepted);
        let Evidence { had, has, is_cut, .. } = *evidence;
        let verdict = judge(&Evidence {
            had: had.map(|had| accepted.map_or(had, |names| names.min(had))),
            is_cut: is_cut && accepted != Some(has),
            ..*evidence
        });
        if verdict == Verdict::Hold {
            let since_seconds = known.map_or_else(now_seconds, |entry| entry.held.since_seconds);
            let (had, lost_most) = (had.unwrap_or_default(), evidence.lost_most());
            let held = HeldZone { had, has, since_seconds, is_cut, lost_most };
            entries.insert(key, HoldEntry { held, accepted: None });
        }
        verdict
    }

    /// Ends a hold: the content was served for another reason, refused, or removed.
    pub(crate) fn release(&self, zone: impl fmt::Display) {
        self.entries().remove(&key(zone));
    }

    /// Accepts held content that its source gives again.
    pub(crate) fn accept(&self, zone: impl fmt::Display) -> Acceptance {
        let mut entries = self.entries();
        let Some(entry) = entries.get_mut(&key(zone)) else { return Acceptance::NotHeld };
        entry.accepted = Some(entry.held.has);
        Acceptance::GiveAgain(entry.held)
    }

    /// The hold of a zone.
    pub fn held(&self, zone: impl fmt::Display) -> Option<HeldZone> {
        self.entries().get(&key(zone)).map(|entry| entry.held)
    }

    /// All holds, by the zone's lower-case name with its final dot, or by the hosts file.
    pub fn all(&self) -> BTreeMap<String, HeldZone> {
        self.entries().iter().map(|(zone, entry)| (zone.clone(), entry.held)).collect()
    }

    fn entries(&self) -> MutexGuard<'_, BTreeMap<String, HoldEntry>> {
        // The lock is never held across code that can panic midway.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The key of a zone, whose name ends with a dot, or of a hosts file.
fn key(zone: impl fmt::Display) -> String {
    let key = zone.to_string();
    if key.ends_with('.') { key.to_ascii_lowercase() } else { key }
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
    fn one_table_decides_about_all_content() {
        use Arrival::{InPlace, Whole};
        use Verdict::{Believe, Hold, Warn};
        let cases = [
            // How, cut, had and has, verdict.
            (InPlace, false, Some(100), 90, Believe),
            (InPlace, false, Some(100), 49, Hold),
            (InPlace, true, Some(100), 100, Hold),
            (InPlace, true, Some(100), 49, Hold),
            (InPlace, false, None, 1, Believe),
            (InPlace, true, None, 1, Warn),
            (Whole, false, Some(100), 90, Believe),
            (Whole, false, Some(100), 49, Warn),
            (Whole, true, Some(100), 100, Warn),
            (Whole, true, None, 1, Warn),
        ];
        for (arrival, is_cut, had, has, expected) in cases {
            let evidence = Evidence { arrival, is_cut, had, has };
            assert_eq!(judge(&evidence), expected, "{evidence:?}");
        }
    }

    /// The hold of content that was written in place.
    fn judged(
        holds: &HeldZones,
        zone: &NameBuf,
        had: u64,
        has: u64,
        is_cut: bool,
    ) -> Option<HeldZone> {
        let evidence = Evidence { arrival: Arrival::InPlace, is_cut, had: Some(had), has };
        let verdict = holds.judge(zone.as_name(), &evidence);
        let held = holds.held(zone.as_name());
        assert_eq!(verdict == Verdict::Hold, held.is_some());
        held
    }

    fn loss(holds: &HeldZones, zone: &NameBuf, had: u64, has: u64) -> Option<HeldZone> {
        judged(holds, zone, had, has, false)
    }

    #[test]
    fn accepted_content_without_a_last_newline_is_served_until_it_changes() {
        let (holds, zone) = (HeldZones::default(), name("a.test."));
        let held = judged(&holds, &zone, 100, 100, true).expect("cut");
        assert_eq!(held.reason(), "does not end with a newline, so its end may be missing");
        assert!(matches!(holds.accept(zone.as_name()), Acceptance::GiveAgain(_)));
        assert_eq!(judged(&holds, &zone, 100, 101, true).map(|held| held.has), Some(101));
        assert!(matches!(holds.accept(zone.as_name()), Acceptance::GiveAgain(_)));
        assert_eq!(judged(&holds, &zone, 100, 101, true), None);
        assert!(judged(&holds, &zone, 101, 9, true).expect("both").reason().contains(" and "));
    }

    #[test]
    fn hosts_file_keeps_its_letters() {
        let (holds, file) = (HeldZones::default(), "/etc/Hosts");
        let evidence = Evidence { arrival: Arrival::InPlace, is_cut: true, had: Some(1), has: 1 };
        assert_eq!(holds.judge(file, &evidence), Verdict::Hold);
        assert_eq!(holds.all().into_keys().collect::<Vec<_>>(), [file]);
    }

    #[test]
    fn hold_lasts_until_content_is_served() {
        let (holds, zone) = (HeldZones::default(), name("Example.ORG."));
        let held = loss(&holds, &zone, 100, 10).expect("a loss");
        assert_eq!((held.had, held.has), (100, 10));
        let again = loss(&holds, &zone, 100, 20).expect("a loss still");
        assert_eq!((again.has, again.since_seconds), (20, held.since_seconds));
        let all: Vec<String> = holds.all().into_keys().collect();
        assert_eq!(all, ["example.org."]);
        assert_eq!(loss(&holds, &zone, 100, 90), None, "content that is whole");
        assert!(holds.all().is_empty() && holds.held(zone.as_name()).is_none());
    }

    #[test]
    fn accepted_content_is_served_and_a_further_loss_held() {
        let (holds, zone) = (HeldZones::default(), name("a.test."));
        assert_eq!(holds.accept(zone.as_name()), Acceptance::NotHeld);
        loss(&holds, &zone, 1_000, 100).expect("a loss");
        assert!(matches!(holds.accept(zone.as_name()), Acceptance::GiveAgain(_)));
        let held = loss(&holds, &zone, 1_000, 40).expect("less than was accepted");
        assert_eq!((held.had, held.has), (1_000, 40));
        assert!(matches!(holds.accept(zone.as_name()), Acceptance::GiveAgain(_)));
        assert_eq!(loss(&holds, &zone, 1_000, 40), None);
        assert_eq!(holds.accept(zone.as_name()), Acceptance::NotHeld, "it is used up");
        assert!(loss(&holds, &zone, 40, 0).is_some(), "and lets nothing else pass");
    }

    #[test]
    fn hold_affects_only_its_zone() {
        let (holds, a, b) = (HeldZones::default(), name("a.test."), name("b.test."));
        for zone in [&a, &b] {
            loss(&holds, zone, 100, 0).expect("a loss");
        }
        assert!(matches!(holds.accept(a.as_name()), Acceptance::GiveAgain(_)));
        holds.release(a.as_name());
        assert_eq!(holds.accept(a.as_name()), Acceptance::NotHeld);
        assert!(holds.held(b.as_name()).is_some());
    }
}
