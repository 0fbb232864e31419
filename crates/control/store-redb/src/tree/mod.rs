//! Reads the tree's file without redb, and verifies each page with the checksum in its parent page.
//! Used before redb opens the file, because redb trusts its content, and to salvage a damaged one.
mod page;
#[cfg(test)]
mod tests;

use crate::store_error;
use crate::wal::TreeProgress;
use page::{ColumnWidths, CommitSlot, HEADER, PageLink, TableRoot, TreeHeader, TreePage};
use redb::StorageBackend;
use std::collections::BTreeMap;
use store::{Form, Revision, StoreError};

/// Maximum depth of pages; real trees are far below.
const DEPTH_MAX: usize = 64;

/// A page or its content is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageFault;

/// A range of keys: at least the first, and less than the second.
pub type Keys<'k> = (&'k [u8], Option<&'k [u8]>);
/// All keys.
pub const ALL: Keys<'_> = (&[], None);

/// An item of a walk, in the order of keys.
pub enum TreeItem<'s> {
    /// An entry: key and value.
    Entry(&'s [u8], &'s [u8]),
    /// A damaged page at this byte of the file, with all below it.
    Lost(u64),
}

/// Tables by name.
pub type TableRoots = BTreeMap<String, TableRoot>;

/// The last committed state of a tree's file.
pub struct Tree<'f> {
    file: &'f dyn StorageBackend,
    header: TreeHeader,
    slot: CommitSlot,
    len: u64,
}

/// The header of a tree.
#[derive(Clone, Debug, Default)]
pub struct TreeInfo {
    /// The form of its content; `None`: it is not a store.
    pub form: Option<Form>,
    pub revision: Revision,
    /// The key of the store and its log.
    pub store: [u64; 2],
    /// The sequence number of the newest log group in the tree.
    pub sequence: u64,
}

fn damaged(why: &str) -> StoreError {
    StoreError::Damaged(why.into())
}

/// Verifies everything in a tree's file that redb may read.
///
/// # Errors
/// The file is damaged, or cannot be read.
pub fn inspect(file: &dyn StorageBackend) -> Result<TreeInfo, StoreError> {
    let header = header(file)?;
    let mut why = damaged("");
    // An incomplete commit does not count.
    let count = if header.may_be_cut_off { 2 } else { 1 };
    for slot in &header.slots[..count] {
        let tree = Tree::at(file, header, *slot)?;
        match tree.verify() {
            Ok(about) => return Ok(about),
            Err(error @ StoreError::Damaged(_)) => why = error,
            Err(error) => return Err(error),
        }
    }
    Err(why)
}

fn header(file: &dyn StorageBackend) -> Result<TreeHeader, StoreError> {
    let len = file.len().map_err(|error| store_error(error.into()))?;
    if len == 0 {
        return Err(damaged("it is empty, but a store makes no empty file"));
    }
    let mut bytes = [0; HEADER];
    if len >= HEADER as u64 {
        file.read(0, &mut bytes).map_err(|error| store_error(error.into()))?;
    }
    TreeHeader::read(&bytes)
        .map_err(|PageFault| damaged("its header is damaged, or it is not a file of a store"))
}

impl<'f> Tree<'f> {
    fn at(
        file: &'f dyn StorageBackend,
        header: TreeHeader,
        slot: CommitSlot,
    ) -> Result<Self, StoreError> {
        let len = file.len().map_err(|error| store_error(error.into()))?;
        Ok(Self { file, header, slot, len })
    }

    /// The possible states of a damaged file, the newest first.
    ///
    /// # Errors
    /// The header cannot be read.
    pub fn of_damaged(file: &'f dyn StorageBackend) -> Result<Vec<Self>, StoreError> {
        let header = header(file)?;
        let whole = header.slots.into_iter().filter(|slot| slot.is_whole);
        whole.map(|slot| Self::at(file, header, slot)).collect()
    }

    fn verify(&self) -> Result<TreeInfo, StoreError> {
        if !self.slot.is_whole {
            return Err(damaged("its header is damaged"));
        }
        let (mut about, mut lost) = (TreeInfo::default(), None);
        for (root, is_ours) in [(self.slot.user, true), (self.slot.system, false)] {
            for (name, table) in self.tables(root, &mut lost)? {
                let is_meta = is_ours && name == "meta";
                let mut meta = BTreeMap::new();
                self.walk(&table, ALL, &mut |seen| match seen {
                    TreeItem::Entry(key, value) if is_meta => {
                        drop(meta.insert(key.to_vec(), value.to_vec()))
                    }
                    TreeItem::Entry(..) => {}
                    TreeItem::Lost(at) => lost = Some(at),
                })?;
                if is_meta {
                    about = TreeInfo::read(&meta);
                }
            }
        }
        match lost {
            None => Ok(about),
            Some(at) => Err(damaged(&format!("it is damaged near byte {at}"))),
        }
    }

    fn tables(
        &self,
        root: Option<PageLink>,
        lost: &mut Option<u64>,
    ) -> Result<TableRoots, StoreError> {
        let mut tables = BTreeMap::new();
        let all = TableRoot { root, widths: ColumnWidths::default() };
        self.walk(&all, ALL, &mut |seen| match seen {
            TreeItem::Lost(at) => *lost = Some(at),
            TreeItem::Entry(name, value) => match TableRoot::read(value) {
                Ok(table) => {
                    tables.insert(String::from_utf8_lossy(name).into_owned(), table);
                }
                Err(PageFault) => *lost = Some(0),
            },
        })?;
        Ok(tables)
    }

    /// The tables of the store by name, and whether some may be lost.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn store_tables(&self) -> Result<(TableRoots, bool), StoreError> {
        let mut lost = None;
        let tables = self.tables(self.slot.user, &mut lost)?;
        Ok((tables, lost.is_some()))
    }

    /// Passes the readable entries of a key range to `each`.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn walk(
        &self,
        table: &TableRoot,
        keys: Keys<'_>,
        each: &mut dyn FnMut(TreeItem<'_>),
    ) -> Result<(), StoreError> {
        match table.root {
            Some(root) => self.page(root, table.widths, keys, 0, each),
            None => Ok(()),
        }
    }

    fn page(
        &self,
        link: PageLink,
        widths: ColumnWidths,
        keys: Keys<'_>,
        depth: usize,
        each: &mut dyn FnMut(TreeItem<'_>),
    ) -> Result<(), StoreError> {
        let place = self.header.place(link).ok();
        let inside = place.filter(|(at, len)| at.saturating_add(*len as u64) <= self.len);
        let Some((at, len)) = inside.filter(|_| depth < DEPTH_MAX) else {
            each(TreeItem::Lost(place.map_or(self.len, |(at, _)| at)));
            return Ok(());
        };
        let mut bytes = vec![0; len];
        self.file.read(at, &mut bytes).map_err(|error| store_error(error.into()))?;
        let part = |(start, end): (usize, usize)| bytes.get(start..end).unwrap_or_default();
        match TreePage::read(&bytes, link, widths) {
            Err(PageFault) => each(TreeItem::Lost(at)),
            Ok(TreePage::Leaf(entries)) => {
                for [key, value] in entries {
                    let key = part(key);
                    if key >= keys.0 && keys.1.is_none_or(|end| key < end) {
                        each(TreeItem::Entry(key, part(value)));
                    }
                }
            }
            Ok(TreePage::Branch(children, between)) => {
                for (n, child) in children.iter().enumerate() {
                    let last = between.get(n).is_some_and(|key| part(*key) < keys.0);
                    let first = n > 0 && keys.1.is_some_and(|end| part(between[n - 1]) >= end);
                    if !last && !first {
                        self.page(*child, widths, keys, depth + 1, each)?;
                    }
                }
            }
        }
        Ok(())
    }
}

impl TreeInfo {
    /// What the tree has of the log.
    pub fn in_tree(&self) -> TreeProgress {
        TreeProgress { revision: self.revision, sequence: self.sequence }
    }

    /// Reads the entries of the table `meta`.
    pub fn read(meta: &BTreeMap<Vec<u8>, Vec<u8>>) -> Self {
        let number = |name: &str| {
            let value = meta.get(name.as_bytes())?.first_chunk()?;
            Some(u64::from_le_bytes(*value))
        };
        let known = |name| number(name).unwrap_or(0);
        Self {
            form: number("form").map(|form| Form(u32::try_from(form).unwrap_or(u32::MAX))),
            revision: Revision(known("revision")),
            store: [known("log 0"), known("log 1")],
            sequence: known("log"),
        }
    }
}
