//! `[store]`: the storage of records that are written over the API.
use super::section::Section;
use super::values;

/// `[store]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Store {
    /// The kind of storage.
    pub kind: StoreKind,
}

/// The kind of storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreKind {
    /// None: all zones come from files.
    None,
    /// Files in `[server] data_dir`.
    Redb,
}

impl Store {
    pub(super) fn read(mut section: Section<'_, '_>, has_data_dir: bool) -> Self {
        let kinds = [("none", StoreKind::None), ("redb", StoreKind::Redb)];
        let kind = section.read("kind", StoreKind::None, values::word(kinds));
        if kind == StoreKind::Redb && !has_data_dir {
            let what = "needs a folder to keep records in";
            section.wrong("kind", what, "name one as [server] data_dir");
        }
        section.close();
        Self { kind }
    }
}
