//! The names of a store's zones, in a small file next to the store. If the store cannot be read,
//! only its zones answer SERVFAIL (invariants I10, I11).
//!
//! ```text
//! ; Dunlin's list of the zones in its store, form 1, revision 17, 2 zones 0123456789abcdef
//! example.net. 0123456789abcdef
//! example.org. 0123456789abcdef
//! ```
//! Each line ends with the SipHash-1-3 of its text, so that a damaged line affects only its own
//! zone. The first line has the number of zones, which shows truncation, and the revision of the
//! store when the list was written.
use crate::limits::{
    ZONE_LIST_LEN_MAX, ZONE_LIST_PAUSE, ZONE_LIST_RETRY, ZONE_LIST_SHORT, ZONES_MAX,
};
use durable::files;
use model::Revision;
use siphasher::sip::SipHasher13;
use std::collections::BTreeMap;
use std::fs;
use std::hash::Hasher;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;
use wire::{Name, NameBuf};

/// The name of the list, beside the files of the store.
pub const ZONE_LIST: &str = "records.zones";

/// Zones that an error names.
const NAMED_MAX: usize = 3;

/// The start of every list, up to the revision.
const HEAD: &str = "; Dunlin's list of the zones in its store, form 1, revision ";

/// The content of a list.
#[derive(Debug, Default)]
pub struct ListedZones {
    /// The zones of all valid lines, in lower case.
    pub zones: Vec<NameBuf>,
    /// No earlier write has a larger revision; 0 if the first line is damaged.
    pub revision: Revision,
    /// Why the list is incomplete, with its file; `None`: it is complete.
    pub fault: Option<String>,
}

/// The list of a store, and when to write it.
pub struct ZoneList {
    /// `None`: the store is in memory, and has no list.
    path: Option<PathBuf>,
    written: Option<Instant>,
    due: Option<Instant>,
    /// The file is missing or damaged; a damaged one is moved aside before the next is written.
    is_faulty: bool,
}

impl ZoneList {
    /// The list in this file.
    pub fn new(path: Option<PathBuf>) -> Self {
        Self { path, written: None, due: None, is_faulty: false }
    }

    /// Reads the file; `None`: there is no list.
    pub fn read(&mut self) -> Option<ListedZones> {
        let path = self.path.as_deref()?;
        let mut listed = match files::read(path, ZONE_LIST_LEN_MAX) {
            Ok(Some(bytes)) => parse(&bytes),
            Ok(None) => {
                self.is_faulty = true;
                return Some(ListedZones { fault: Some(missing(path)), ..ListedZones::default() });
            }
            Err(error) => ListedZones { fault: Some(error.to_string()), ..ListedZones::default() },
        };
        self.is_faulty = listed.fault.is_some();
        if let Some(fault) = &mut listed.fault {
            *fault = format!("{}: {fault}", path.display());
        }
        Some(listed)
    }

    /// Whether the file is missing or damaged.
    pub fn is_faulty(&self) -> bool {
        self.is_faulty
    }

    /// The zones have changed; this is their number. A short list is due at once, so that a new
    /// zone is listed before its creation is answered; a long one later.
    pub fn changed(&mut self, zones: usize, now: Instant) {
        if self.path.is_none() || self.due.is_some() {
            return;
        }
        let soonest = self.written.filter(|_| zones > ZONE_LIST_SHORT);
        self.due = Some(soonest.map_or(now, |written| now.max(written + ZONE_LIST_PAUSE)));
    }

    /// When to write the list; `None`: it is current.
    pub fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Writes the list atomically.
    ///
    /// # Errors
    /// With the file. The old file stays, and the next try is due later.
    pub fn write<'z>(
        &mut self,
        zones: impl Iterator<Item = Name<'z>>,
        revision: Revision,
        now: Instant,
    ) -> Result<(), String> {
        let Some(path) = &self.path else { return Ok(()) };
        if self.is_faulty {
            let aside = path.with_extension("zones.damaged");
            if files::rename(path, &aside).is_ok() {
                let file = aside.display();
                tracing::warn!(%file, "the damaged list of zones was moved aside");
            }
        }
        let text = text(zones, revision);
        let done = files::replace(path, 0o600, |file| file.write_all(text.as_bytes()));
        (self.written, self.is_faulty) = (Some(now), false);
        self.due = done.is_err().then(|| now + ZONE_LIST_RETRY);
        done.map_err(|error: std::io::Error| format!("{}: {error}", path.display()))
    }
}

/// What the list in this folder says of a store that it belongs to, such as "records.zones lists 2
/// zones"; `None`: there is no list, or it belongs to a store without a write. A store whose files
/// are missing is new only then (invariant I12).
pub fn evidence_of_store(folder: &Path) -> Option<String> {
    let path = folder.join(ZONE_LIST);
    if matches!(fs::symlink_metadata(&path), Err(why) if why.kind() == ErrorKind::NotFound) {
        return None;
    }
    let listed = ZoneList::new(Some(path.clone())).read()?;
    let path = path.display();
    match (&listed.zones[..], &listed.fault, listed.revision) {
        ([], None, Revision::NONE) => None,
        ([], None, revision) => Some(format!("{path} says that it was at revision {revision}")),
        ([], Some(fault), _) => Some(fault.clone()),
        (zones, ..) => {
            let named: Vec<_> = zones.iter().take(NAMED_MAX).map(ToString::to_string).collect();
            let more = if zones.len() > NAMED_MAX { ", …" } else { "" };
            let count = if zones.len() == 1 { "zone" } else { "zones" };
            let named = named.join(", ");
            Some(format!("{path} lists {} {count} of it: {named}{more}", zones.len()))
        }
    }
}

fn missing(path: &Path) -> String {
    format!("{} is missing: the zones of the store are not known", path.display())
}

fn sum(text: &[u8]) -> u64 {
    let mut hasher = SipHasher13::new();
    hasher.write(text);
    hasher.finish()
}

/// A line with its checksum.
fn line(text: &str) -> String {
    format!("{text} {:016x}\n", sum(text.as_bytes()))
}

fn text<'z>(zones: impl Iterator<Item = Name<'z>>, revision: Revision) -> String {
    // Equal zones have equal lists.
    let zones: BTreeMap<String, ()> = zones.map(|zone| (zone.to_string(), ())).collect();
    let head = line(&format!("{HEAD}{revision}, {} zones", zones.len()));
    head + &zones.keys().map(|zone| line(zone)).collect::<String>()
}

/// The content of the valid lines.
fn parse(bytes: &[u8]) -> ListedZones {
    let mut lines = bytes.split_inclusive(|byte| *byte == b'\n').map(verified);
    let head = lines.next().flatten().and_then(|text| {
        let (revision, count) = text.strip_prefix(HEAD)?.split_once(", ")?;
        let count: usize = count.strip_suffix(" zones")?.parse().ok()?;
        Some((Revision(revision.parse().ok()?), count))
    });
    let (mut zones, mut wrong) = (Vec::new(), 0usize);
    for found in lines {
        let zone = found.and_then(|text| NameBuf::from_text(text.as_bytes(), Name::ROOT).ok());
        match zone {
            Some(zone) if zones.len() < ZONES_MAX => zones.push(zone),
            _ => wrong += 1,
        }
    }
    let fault = match head {
        None => Some("its first line is damaged: there may be other zones".to_owned()),
        Some((_, count)) if wrong > 0 || zones.len() != count => {
            let lost = wrong.max(count.saturating_sub(zones.len()));
            Some(format!("it is damaged: {lost} of its {count} zones are not known"))
        }
        Some(_) => None,
    };
    ListedZones { zones, revision: head.map_or(Revision::NONE, |(revision, _)| revision), fault }
}

/// The text of a line with a correct checksum.
fn verified(line: &[u8]) -> Option<&str> {
    let line = std::str::from_utf8(line).ok()?.strip_suffix('\n')?;
    let (text, digits) = line.rsplit_once(' ')?;
    let is_right =
        digits.len() == 16 && u64::from_str_radix(digits, 16) == Ok(sum(text.as_bytes()));
    is_right.then_some(text)
}

#[cfg(test)]
mod tests;
