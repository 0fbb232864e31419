//! The result of a salvage.
use crate::StoreError;
use model::Revision;
use std::io::Write;
use std::path::Path;

/// Writes what can be read of the store in a folder as a snapshot.
pub type SalvageStore = fn(&Path, &mut dyn Write) -> Result<SalvageReport, StoreError>;

/// The result of a salvage.
#[derive(Clone, Debug, Default)]
pub struct SalvageReport {
    /// The revision of the snapshot: at least that of all content.
    pub revision: Revision,
    /// The salvaged zones, in the order of their names.
    pub zones: Vec<SalvagedZone>,
    /// The damage, a sentence each; empty if there is none.
    pub damage: Vec<String>,
}

/// A salvaged zone.
#[derive(Clone, Debug)]
pub struct SalvagedZone {
    /// Its name.
    pub origin: String,
    /// Its record sets in the snapshot.
    pub sets: u64,
    /// Its lost record sets, if their number is still known.
    pub lost: u64,
}
