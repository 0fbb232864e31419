//! The image: all zones, searched from the root down.
use crate::vector::{Buckets, Vector};
use crate::zone::{Zone, parent};
use image::{HashKey, LabelStep, ZoneTable};
use packet::View;
use std::sync::Arc;
use wire::Name;

/// Average entries of a bucket.
const ENTRIES_PER_BUCKET: usize = 4;

/// An absolute name with a zone, with zones below it, or both.
#[derive(Clone)]
struct NameEntry {
    hash: u64,
    name: Box<[u8]>,
    zone: Option<Arc<Zone>>,
    /// The number of zones below this name.
    below: u32,
}

type Bucket = Arc<Vec<NameEntry>>;

/// The immutable zone data that workers answer from.
#[derive(Clone)]
pub struct Image {
    key: Arc<HashKey>,
    root: NameEntry,
    entries: Buckets<Bucket>,
    len: usize,
    /// Zones from hosts files; the first has priority.
    hosts: Arc<[Arc<Zone>]>,
    /// Changes whenever zones are added or removed.
    map: u32,
}

impl Image {
    /// An image without zones.
    pub fn new(key: Arc<HashKey>) -> Self {
        let entries = Buckets([Bucket::default()].into_iter().collect::<Vector<_>>());
        let root = NameEntry { hash: 0, name: Box::default(), zone: None, below: 0 };
        Self { key, root, entries, len: 0, hosts: Arc::default(), map: 1 }
    }

    /// The key of all hashes.
    pub fn key(&self) -> &Arc<HashKey> {
        &self.key
    }

    /// The zone of this origin.
    pub fn zone(&self, origin: Name<'_>) -> Option<&Arc<Zone>> {
        let name = path(origin);
        match name.is_empty() {
            true => self.root.zone.as_ref(),
            false => self.entry(self.key.hash_of(&name), &name)?.zone.as_ref(),
        }
    }

    /// All zones.
    pub fn zones(&self) -> impl Iterator<Item = &Arc<Zone>> {
        let others = self.entries.0.iter().flat_map(|bucket| bucket.iter());
        std::iter::once(&self.root).chain(others).filter_map(|entry| entry.zone.as_ref())
    }

    /// Adds a zone, or replaces the one with its origin.
    pub fn put_zone(&mut self, zone: Arc<Zone>) {
        let name = path(zone.origin());
        let known = self.zone(zone.origin()).is_some();
        self.edit(&name, |entry| entry.zone = Some(zone));
        if !known {
            self.bump_generation();
            self.edit_above(&name, |entry| entry.below += 1);
        }
    }

    /// Removes the zone of this origin.
    pub fn remove_zone(&mut self, origin: Name<'_>) {
        let name = path(origin);
        if self.zone(origin).is_some() {
            self.bump_generation();
            self.edit(&name, |entry| entry.zone = None);
            self.edit_above(&name, |entry| entry.below -= 1);
        }
    }

    fn bump_generation(&mut self) {
        self.map = self.map.checked_add(1).unwrap_or(1);
    }

    /// Replaces the zones from hosts files; the first has priority.
    pub fn set_hosts(&mut self, hosts: Vec<Arc<Zone>>) {
        self.hosts = hosts.into();
        self.bump_generation();
    }

    fn entry(&self, hash: u64, name: &[u8]) -> Option<&NameEntry> {
        let bucket = self.entries.get(hash)?;
        bucket.iter().find(|entry| entry.hash == hash && *entry.name == *name)
    }

    fn edit_above(&mut self, name: &[u8], edit: impl Fn(&mut NameEntry)) {
        let mut rest = name;
        while let Some(above) = parent(rest) {
            self.edit(above, &edit);
            rest = above;
        }
    }

    fn edit(&mut self, name: &[u8], edit: impl FnOnce(&mut NameEntry)) {
        if name.is_empty() {
            return edit(&mut self.root);
        }
        let hash = self.key.hash_of(name);
        let index = self.entries.index(hash);
        let mut bucket = self.entries.0.get(index).cloned().unwrap_or_default();
        let posts = Arc::make_mut(&mut bucket);
        let at = posts.iter().position(|post| post.hash == hash && *post.name == *name);
        let at = at.unwrap_or_else(|| {
            posts.push(NameEntry { hash, name: name.into(), zone: None, below: 0 });
            self.len += 1;
            posts.len() - 1
        });
        edit(&mut posts[at]);
        if posts[at].zone.is_none() && posts[at].below == 0 {
            posts.swap_remove(at);
            self.len -= 1;
        }
        self.entries.0.set(index, bucket);
        if self.len > self.entries.0.len() * ENTRIES_PER_BUCKET {
            self.grow();
        }
    }

    fn grow(&mut self) {
        let index = self.entries.next_split();
        let full = self.entries.0.get(index).cloned().unwrap_or_default();
        self.entries.0.push(Bucket::default());
        let last = self.entries.0.len() - 1;
        let (stay, go) =
            full.iter().cloned().partition(|post| self.entries.index(post.hash) == index);
        self.entries.0.set(index, Arc::new(stay));
        self.entries.0.set(last, Arc::new(go));
    }
}

/// An absolute name in lower case, without its root label.
fn path(name: Name<'_>) -> Vec<u8> {
    let bytes = name.as_bytes();
    bytes[..bytes.len() - 1].to_ascii_lowercase()
}

impl ZoneTable for Image {
    #[inline]
    fn key(&self) -> &HashKey {
        &self.key
    }

    #[inline]
    fn map(&self) -> u32 {
        self.map
    }

    #[inline]
    fn hosts(&self, _: View, number: usize) -> Option<&dyn image::Zone> {
        // All views have the names of hosts files.
        self.hosts.get(number).map(|zone| &**zone as &dyn image::Zone)
    }

    #[inline]
    fn step(&self, view: View, hash: u64, name: &[u8]) -> Option<LabelStep<'_>> {
        let entry = if name.is_empty() { &self.root } else { self.entry(hash, name)? };
        let zone = entry.zone.as_deref().map(|zone| zone.in_view(view));
        Some(LabelStep { zone, has_below: entry.below > 0 })
    }
}
