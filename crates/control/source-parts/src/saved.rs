//! The parts on disk (invariant I10).
use crate::part::{Part, PartKey};
use documents::Lines;
use serde::{Deserialize, Serialize};
use std::path::Path;

const SAVED: Lines = Lines {
    file: "clusters.state",
    head: "dunlin_parts_of_clusters",
    format: 1,
    what: "parts of clusters",
    mode: 0o640,
};

#[derive(Deserialize, Serialize)]
struct Line {
    key: String,
    part: String,
    /// Older versions do not know it, and take all for those of this site.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    site: Box<str>,
}

/// A part that was saved.
pub struct SavedPart {
    pub key: PartKey,
    pub part: Part,
    /// Where it came from; empty: this site.
    pub site: Box<str>,
}

/// Saves parts, each with its site.
///
/// # Errors
/// The file, and why it cannot be written.
pub fn save<'p>(
    folder: &Path,
    parts: impl Iterator<Item = (&'p PartKey, &'p Part, &'p str)>,
) -> Result<(), String> {
    let line = |(key, part, site): (&PartKey, &Part, &str)| {
        let part = String::from_utf8(part.write()).unwrap_or_default();
        Line { key: key.write(), part, site: site.into() }
    };
    SAVED.save(folder, parts.map(line))
}

/// Reads them. A part that cannot be read is left out.
///
/// # Errors
/// The file, and what is wrong with it.
pub fn load(folder: &Path) -> Result<Vec<SavedPart>, String> {
    let read = |Line { key, part, site }: Line| {
        let (key, part) = (PartKey::read(&key)?, Part::read(part.as_bytes()).ok()?);
        Some(SavedPart { key, part, site })
    };
    Ok(SAVED.load::<Line>(folder)?.into_iter().filter_map(read).collect())
}
