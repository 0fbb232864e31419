//! A table of what is known of objects, each in one block of bytes.
//!
//! A cluster has many objects that change rarely. As structures on the heap each endpoint would
//! take a hundred bytes; packed, one without a hostname takes seven.
use hashbrown::HashTable;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::hash::{BuildHasher, RandomState};
use std::marker::PhantomData;

/// The name of an object: whether it is imported from other clusters, its namespace, its name.
pub(crate) type KeyRef<'k> = (bool, &'k str, &'k str);

/// Values by the names of their objects, packed.
#[derive(Clone, Debug)]
pub(crate) struct Table<V> {
    hasher: RandomState,
    /// Each a packed key, then its packed value.
    blocks: HashTable<Box<[u8]>>,
    value: PhantomData<fn() -> V>,
}

impl<V: DeserializeOwned + Serialize> Table<V> {
    /// A table without values.
    pub fn new() -> Self {
        Self { hasher: RandomState::new(), blocks: HashTable::new(), value: PhantomData }
    }

    /// The number of values.
    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    /// The value of a key.
    pub fn get(&self, key: KeyRef<'_>) -> Option<V> {
        let hash = self.hasher.hash_one(key);
        let block = self.blocks.find(hash, |block| split(block).0 == key)?;
        Some(unpack(split(block).1).0)
    }

    /// Whether a key has a value.
    pub fn has(&self, key: KeyRef<'_>) -> bool {
        let hash = self.hasher.hash_one(key);
        self.blocks.find(hash, |block| split(block).0 == key).is_some()
    }

    /// Replaces the value of a key, or removes it (`None`).
    pub fn set(&mut self, key: KeyRef<'_>, value: Option<&V>) {
        let Self { hasher, blocks, .. } = self;
        let hash = hasher.hash_one(key);
        let Some(value) = value else {
            if let Ok(found) = blocks.find_entry(hash, |block| split(block).0 == key) {
                found.remove();
            }
            return;
        };
        let packed = postcard::to_stdvec(&(key, value)).expect("a value in memory can be packed");
        match blocks.find_mut(hash, |block| split(block).0 == key) {
            Some(old) => *old = packed.into(),
            None => {
                blocks.insert_unique(hash, packed.into(), |block| hasher.hash_one(split(block).0));
            }
        }
    }

    /// All keys.
    pub fn keys(&self) -> impl Iterator<Item = KeyRef<'_>> {
        self.blocks.iter().map(|block| split(block).0)
    }

    /// All values with their keys.
    pub fn iter(&self) -> impl Iterator<Item = (KeyRef<'_>, V)> {
        self.blocks.iter().map(|block| {
            let (key, rest) = split(block);
            (key, unpack(rest).0)
        })
    }
}

/// The key of a block, and its packed value.
fn split(block: &[u8]) -> (KeyRef<'_>, &[u8]) {
    unpack(block)
}

fn unpack<'p, T: Deserialize<'p>>(bytes: &'p [u8]) -> (T, &'p [u8]) {
    postcard::take_from_bytes(bytes).expect("this process has packed it")
}
