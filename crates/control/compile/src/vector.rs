//! A persistent vector: after a change, old and new share all but one path.
use std::array;
use std::sync::Arc;

const BITS: u32 = 5;
const FAN: usize = 1 << BITS;

#[derive(Clone)]
#[allow(clippy::large_enum_variant, reason = "a box more would be a cache miss more")]
enum Branch<T> {
    Inner([Option<Arc<Branch<T>>>; FAN]),
    Last([Option<T>; FAN]),
}

impl<T: Clone> Branch<T> {
    fn empty(height: u32) -> Self {
        match height {
            0 => Self::Last(array::from_fn(|_| None)),
            _ => Self::Inner(array::from_fn(|_| None)),
        }
    }

    fn set(&mut self, height: u32, index: usize, item: Option<T>) {
        let slot = index >> (BITS * height) & (FAN - 1);
        match self {
            Self::Last(items) => items[slot] = item,
            Self::Inner(branches) => {
                let branch =
                    branches[slot].get_or_insert_with(|| Arc::new(Self::empty(height - 1)));
                Arc::make_mut(branch).set(height - 1, index, item);
            }
        }
    }
}

/// A vector whose clone copies one reference, and whose change copies one path from the root.
#[derive(Clone)]
pub struct Vector<T> {
    root: Arc<Branch<T>>,
    height: u32,
    len: usize,
    /// The smallest 2^n - 1 that is at least the largest index.
    mask: usize,
}

impl<T: Clone> Vector<T> {
    pub fn new() -> Self {
        Self { root: Arc::new(Branch::empty(0)), height: 0, len: 0, mask: 0 }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// The item at an index.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&T> {
        if index < self.len { self.walk(index) } else { None }
    }

    /// The item at an index below the length.
    #[inline(always)]
    fn walk(&self, index: usize) -> Option<&T> {
        let mut branch = &*self.root;
        let mut shift = BITS * self.height;
        while let Branch::Inner(branches) = branch {
            branch = branches[index >> (shift & 63) & (FAN - 1)].as_deref()?;
            shift -= BITS;
        }
        let Branch::Last(items) = branch else { return None };
        items[index & (FAN - 1)].as_ref()
    }

    /// Replaces the item at an existing index.
    pub fn set(&mut self, index: usize, item: T) {
        assert!(index < self.len, "an item that is not there cannot be replaced");
        Arc::make_mut(&mut self.root).set(self.height, index, Some(item));
    }

    /// Appends an item.
    pub fn push(&mut self, item: T) {
        if self.len == FAN << (BITS * self.height) {
            self.height += 1;
            let mut root = Branch::empty(self.height);
            if let Branch::Inner(branches) = &mut root {
                branches[0] = Some(Arc::clone(&self.root));
            }
            self.root = Arc::new(root);
        }
        self.resize(self.len + 1);
        self.set(self.len - 1, item);
    }

    /// Removes the last item.
    pub fn pop(&mut self) -> Option<T> {
        let last = self.get(self.len.checked_sub(1)?).cloned();
        self.resize(self.len - 1);
        Arc::make_mut(&mut self.root).set(self.height, self.len, None);
        if self.height > 0
            && self.len <= FAN << (BITS * (self.height - 1))
            && let Branch::Inner(branches) = &*self.root
            && let Some(only) = branches[0].clone()
        {
            self.root = only;
            self.height -= 1;
        }
        last
    }

    fn resize(&mut self, len: usize) {
        self.len = len;
        self.mask = mask_of(len);
    }

    /// The indexes whose items differ from those of an older vector or are new. What both share is
    /// passed over, so this costs what has changed.
    pub fn changed_since(&self, old: &Self, is_same: impl Fn(&T, &T) -> bool) -> Vec<usize> {
        let mut changed = Vec::new();
        if self.height != old.height {
            let differs = |index: &usize| match (self.get(*index), old.get(*index)) {
                (Some(new), Some(old)) => !is_same(new, old),
                _ => true,
            };
            changed.extend((0..self.len).filter(differs));
            return changed;
        }
        compare((&self.root, &old.root), (self.height, 0), &is_same, &mut changed);
        changed
    }

    pub fn iter(&self) -> impl Iterator<Item = &T> {
        (0..self.len).filter_map(|index| self.get(index))
    }
}

/// Notes what differs below two branches; the first item has the index `start`.
fn compare<T>(
    (new, old): (&Arc<Branch<T>>, &Arc<Branch<T>>),
    (height, start): (u32, usize),
    is_same: &impl Fn(&T, &T) -> bool,
    changed: &mut Vec<usize>,
) {
    if Arc::ptr_eq(new, old) {
        return;
    }
    match (&**new, &**old) {
        (Branch::Inner(new), Branch::Inner(old)) => {
            for (slot, (new, old)) in new.iter().zip(old).enumerate() {
                let start = start + (slot << (BITS * height));
                match (new, old) {
                    (Some(new), Some(old)) => {
                        compare((new, old), (height - 1, start), is_same, changed);
                    }
                    (Some(new), None) => all(new, (height - 1, start), changed),
                    (None, _) => {}
                }
            }
        }
        (Branch::Last(new), Branch::Last(old)) => {
            let differs = |(new, old): (&Option<T>, &Option<T>)| match (new, old) {
                (Some(new), Some(old)) => !is_same(new, old),
                (new, _) => new.is_some(),
            };
            let slots = (0..FAN).filter(|slot| differs((&new[*slot], &old[*slot])));
            changed.extend(slots.map(|slot| start + slot));
        }
        _ => all(new, (height, start), changed),
    }
}

/// Notes all items below a branch.
fn all<T>(branch: &Branch<T>, (height, start): (u32, usize), changed: &mut Vec<usize>) {
    match branch {
        Branch::Inner(branches) => {
            for (slot, branch) in branches.iter().enumerate() {
                if let Some(branch) = branch {
                    all(branch, (height - 1, start + (slot << (BITS * height))), changed);
                }
            }
        }
        Branch::Last(items) => {
            let slots = (0..FAN).filter(|slot| items[*slot].is_some());
            changed.extend(slots.map(|slot| start + slot));
        }
    }
}

impl<T: Clone> FromIterator<T> for Vector<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        let mut vector = Self::new();
        items.into_iter().for_each(|item| vector.push(item));
        vector
    }
}

/// A vector indexed by hash that grows or shrinks one item at a time (linear hashing, Litwin 1980).
#[derive(Clone)]
pub struct Buckets<T>(pub Vector<T>);

impl<T: Clone> Buckets<T> {
    /// The index for a hash. The vector is not empty.
    #[inline]
    pub fn index(&self, hash: u64) -> usize {
        choose(hash, self.0.mask, self.0.len)
    }

    /// The item for a hash.
    #[inline]
    pub fn get(&self, hash: u64) -> Option<&T> {
        self.0.walk(self.index(hash))
    }

    /// The index of the item that the next new item splits.
    pub fn next_split(&self) -> usize {
        let len = self.0.len();
        len & !(usize::MAX << (usize::BITS - 1 - len.leading_zeros()))
    }
}

/// The index for a hash among `len` items; 0 if there are none.
#[inline]
pub fn index_among(hash: u64, len: usize) -> usize {
    choose(hash, mask_of(len), len)
}

/// The smallest 2^n - 1 that is at least the largest index of `len` items.
fn mask_of(len: usize) -> usize {
    len.next_power_of_two() - 1
}

#[inline(always)]
fn choose(hash: u64, mask: usize, len: usize) -> usize {
    let (index, half) = (hash as usize & mask, hash as usize & mask >> 1);
    if index < len { index } else { half }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_leaves_the_old_vector_alone() {
        let old: Vector<u32> = (0..5000).collect();
        let mut new = old.clone();
        new.set(4097, 7);
        new.push(8);
        assert_eq!((old.get(4097), new.get(4097)), (Some(&4097), Some(&7)));
        assert_eq!((old.get(5000), new.get(5000)), (None, Some(&8)));
        assert!(old.iter().copied().eq(0..5000));
    }

    #[test]
    fn vector_grows_and_shrinks_through_every_height() {
        let mut vector = Vector::new();
        for n in 0..33_000 {
            vector.push(n);
            assert_eq!(vector.get(n), Some(&n));
        }
        for n in (0..33_000).rev() {
            assert_eq!(vector.pop(), Some(n));
            assert_eq!(vector.get(n), None);
            if n > 0 {
                assert_eq!(vector.get(n - 1), Some(&(n - 1)));
            }
        }
        assert_eq!((vector.pop(), vector.height), (None, 0));
    }

    #[test]
    fn changes_since_an_older_vector_are_found() {
        let mut rng = fastrand::Rng::with_seed(5);
        for len in [1, 31, 32, 33, 1023, 1024, 1025, 5000] {
            let old: Vector<u32> = (0..len).collect();
            let mut new = old.clone();
            let mut wanted = std::collections::BTreeSet::new();
            for _ in 0..rng.usize(..8) {
                let at = rng.usize(..len as usize);
                new.set(at, 9_999);
                wanted.insert(at);
            }
            for _ in 0..rng.usize(..40) {
                wanted.insert(new.len());
                new.push(8_888);
            }
            for _ in 0..rng.usize(..40) {
                new.pop();
                wanted.remove(&new.len());
            }
            let changed = new.changed_since(&old, |a, b| a == b);
            assert_eq!(changed, wanted.into_iter().collect::<Vec<_>>(), "{len}");
        }
    }

    #[test]
    fn linear_hashing_splits_one_item_at_a_time() {
        for len in 1..200 {
            for hash in 0..2000u64 {
                let (before, after) = (index_among(hash, len), index_among(hash, len + 1));
                assert!(before < len);
                if before != after {
                    assert_eq!(after, len, "only the new item takes hashes");
                    let split = Buckets((0..len).collect::<Vector<_>>()).next_split();
                    assert_eq!(before, split, "and only from the one that is split");
                }
            }
        }
    }
}
