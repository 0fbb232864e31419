//! Shares of something bounded. Each owner gets as much as it needs, and if that is too much for
//! all of them, as much as any other owner: one owner with many items takes nothing from the rest.
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::Hash;

/// Owners whose first waiting item is tried when there is room again.
const TRIES_MAX: usize = 16;

/// The items of several owners, of which some have a part of what is bounded, and others wait.
///
/// An item can have several owners. It counts for the one that has least. An item that waits gets
/// its part as soon as there is room, or an owner has more than its own with it would have.
pub struct FairShares<O, I> {
    capacity: u64,
    used: u64,
    items: HashMap<I, Entry<O>>,
    owners: HashMap<O, Share<I>>,
    /// Owners of admitted items, by what they use.
    users: BTreeSet<(u64, O)>,
    /// Owners of waiting items, by what they use.
    waiters: BTreeSet<(u64, O)>,
    waiting: usize,
    /// The next number of an item.
    number: u64,
    /// Items that were admitted or not, with whether they were before.
    touched: HashMap<I, bool>,
}

struct Entry<O> {
    cost: u64,
    /// Earlier ones come first.
    number: u64,
    owners: Vec<O>,
    /// The owner that it counts for; `None`: it waits.
    admitted: Option<O>,
}

struct Share<I> {
    used: u64,
    admitted: BTreeMap<u64, I>,
    waiting: BTreeMap<u64, I>,
}

impl<I> Default for Share<I> {
    fn default() -> Self {
        Self { used: 0, admitted: BTreeMap::new(), waiting: BTreeMap::new() }
    }
}

impl<O: Clone + Ord + Hash, I: Clone + Eq + Hash> FairShares<O, I> {
    /// Shares of so much.
    pub fn new(capacity: u64) -> Self {
        Self {
            capacity,
            used: 0,
            items: HashMap::new(),
            owners: HashMap::new(),
            users: BTreeSet::new(),
            waiters: BTreeSet::new(),
            waiting: 0,
            number: 0,
            touched: HashMap::new(),
        }
    }

    /// Adds an item, or changes its cost and its owners, of which there is at least one.
    pub fn put(&mut self, item: &I, cost: u64, owners: Vec<O>) {
        let number = match self.items.get(item) {
            Some(entry) if entry.cost == cost && entry.owners == owners => return,
            Some(entry) => entry.number,
            None => {
                self.number += 1;
                self.number
            }
        };
        let was_admitted = self.is_admitted(item);
        self.touched.entry(item.clone()).or_insert(was_admitted);
        self.detach(item);
        self.items.insert(item.clone(), Entry { cost, number, owners, admitted: None });
        self.wait(item);
        // Room that it had belongs to the owner that has least.
        self.fill();
        let mut items = vec![item.clone()];
        while let Some(item) = items.pop() {
            items.extend(self.admit_or_reclaim(&item));
        }
        self.fill();
    }

    /// Removes an item. Its part goes to others.
    pub fn remove(&mut self, item: &I) {
        self.touched.remove(item);
        self.detach(item);
        self.fill();
    }

    /// Whether an item has its part.
    pub fn is_admitted(&self, item: &I) -> bool {
        self.items.get(item).is_some_and(|entry| entry.admitted.is_some())
    }

    /// The owners of an item; empty: it is not there.
    pub fn owners(&self, item: &I) -> &[O] {
        self.items.get(item).map_or(&[], |entry| &entry.owners)
    }

    /// How many items wait.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// The items that got their part since the last call, or with `false` lost it.
    pub fn take_changes(&mut self) -> Vec<(I, bool)> {
        let touched = std::mem::take(&mut self.touched);
        let now = |item: I, before| {
            let is_admitted = self.is_admitted(&item);
            (is_admitted != before).then_some((item, is_admitted))
        };
        touched.into_iter().filter_map(|(item, before)| now(item, before)).collect()
    }

    /// Takes an item out, without use of its part.
    fn detach(&mut self, item: &I) {
        let Some(entry) = self.items.remove(item) else { return };
        if let Some(owner) = &entry.admitted {
            self.change(owner, |share| {
                share.used -= entry.cost;
                share.admitted.remove(&entry.number);
            });
            self.used -= entry.cost;
            return;
        }
        self.waiting -= 1;
        for owner in &entry.owners {
            self.change(owner, |share| drop(share.waiting.remove(&entry.number)));
        }
    }

    /// Changes the share of an owner, and its place among the others.
    fn change(&mut self, owner: &O, change: impl FnOnce(&mut Share<I>)) {
        let share = self.owners.entry(owner.clone()).or_default();
        let place = (share.used, owner.clone());
        self.users.remove(&place);
        self.waiters.remove(&place);
        change(share);
        let place = (share.used, owner.clone());
        if !share.waiting.is_empty() {
            self.waiters.insert(place.clone());
        }
        if !share.admitted.is_empty() {
            self.users.insert(place);
        } else if share.waiting.is_empty() {
            self.owners.remove(owner);
        }
    }

    fn used_by(&self, owner: &O) -> u64 {
        self.owners.get(owner).map_or(0, |share| share.used)
    }

    /// Lets an item wait that has no part.
    fn wait(&mut self, item: &I) {
        let Some(entry) = self.items.get(item) else { return };
        let (number, owners) = (entry.number, entry.owners.clone());
        self.waiting += 1;
        for owner in &owners {
            self.change(owner, |share| drop(share.waiting.insert(number, item.clone())));
        }
    }

    /// Gives a waiting item its part, if there is room.
    fn admit(&mut self, item: &I) -> bool {
        let Some(entry) = self.items.get(item).filter(|entry| entry.admitted.is_none()) else {
            return false;
        };
        let (cost, number, owners) = (entry.cost, entry.number, entry.owners.clone());
        if self.used + cost > self.capacity {
            return false;
        }
        let Some(least) = owners.iter().min_by_key(|owner| self.used_by(owner)).cloned() else {
            return false;
        };
        self.touched.entry(item.clone()).or_insert(false);
        self.waiting -= 1;
        for owner in &owners {
            self.change(owner, |share| drop(share.waiting.remove(&number)));
        }
        self.change(&least, |share| {
            share.used += cost;
            share.admitted.insert(number, item.clone());
        });
        self.used += cost;
        if let Some(entry) = self.items.get_mut(item) {
            entry.admitted = Some(least);
        }
        true
    }

    /// Gives an item its part, if need be that of the newest items of owners that have more.
    /// Returns those of them that have another owner.
    fn admit_or_reclaim(&mut self, item: &I) -> Vec<I> {
        let mut evicted = Vec::new();
        let Some(entry) = self.items.get(item).filter(|entry| entry.admitted.is_none()) else {
            return evicted;
        };
        let least = entry.owners.iter().map(|owner| self.used_by(owner)).min().unwrap_or_default();
        let with_it = least + entry.cost;
        while !self.admit(item) {
            let Some((most, owner)) = self.users.last().cloned() else { break };
            let Some(newest) = (most > with_it).then(|| self.evict_newest(&owner)).flatten() else {
                break;
            };
            if self.owners(&newest).len() > 1 {
                evicted.push(newest);
            }
        }
        evicted
    }

    fn evict_newest(&mut self, owner: &O) -> Option<I> {
        let (number, item) = self.owners.get(owner)?.admitted.last_key_value()?;
        let (number, item) = (*number, item.clone());
        let entry = self.items.get_mut(&item)?;
        entry.admitted = None;
        let cost = entry.cost;
        self.touched.entry(item.clone()).or_insert(true);
        self.used -= cost;
        self.change(owner, |share| {
            share.used -= cost;
            share.admitted.remove(&number);
        });
        self.wait(&item);
        Some(item)
    }

    /// Gives room to waiting items, first to those of owners that use least.
    fn fill(&mut self) {
        while self.used < self.capacity {
            let first = |(_, owner): &(u64, O)| {
                let (_, item) = self.owners.get(owner)?.waiting.first_key_value()?;
                Some(item.clone())
            };
            let next: Vec<I> = self.waiters.iter().take(TRIES_MAX).filter_map(first).collect();
            if !next.iter().any(|item| self.admit(item)) {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fastrand::Rng;

    #[test]
    fn owner_with_many_items_leaves_others_their_share() {
        let mut shares = FairShares::new(100);
        (0..1_000).for_each(|item| shares.put(&item, 1, vec!["large"]));
        assert_eq!((shares.take_changes().len(), shares.waiting()), (100, 900));
        (1_000..1_030).for_each(|item| shares.put(&item, 1, vec!["small"]));
        assert!((1_000..1_030).all(|item| shares.is_admitted(&item)));
        (2_000..2_100).for_each(|item| shares.put(&item, 1, vec!["other"]));
        let count = |shares: &FairShares<_, _>, range: std::ops::Range<i32>| {
            range.filter(|item| shares.is_admitted(item)).count()
        };
        let counts = [0..1_000, 1_000..1_030, 2_000..2_100].map(|range| count(&shares, range));
        assert_eq!(counts, [35, 30, 35]);
        // What one does not need any more goes to those that wait.
        (1_000..1_030).for_each(|item| shares.remove(&item));
        assert_eq!([0..1_000, 2_000..2_100].map(|range| count(&shares, range)), [50, 50]);
        (0..1_000).for_each(|item| shares.remove(&item));
        assert_eq!((count(&shares, 2_000..2_100), shares.waiting()), (100, 0));
        assert!(shares.owners.len() == 1 && shares.items.len() == 100);
    }

    #[test]
    fn item_of_two_owners_counts_for_the_one_that_has_less() {
        let mut shares = FairShares::new(4);
        (0..9).for_each(|item| shares.put(&item, 1, vec!["large"]));
        shares.put(&8, 1, vec!["large", "small"]);
        assert!(shares.is_admitted(&8));
        shares.put(&8, 1, vec!["large"]);
        assert!(shares.is_admitted(&3) && !shares.is_admitted(&8), "earlier items come first");
    }

    /// Whatever comes and goes: the bound holds, and nothing waits beside an owner with more.
    #[test]
    fn random_items_are_shared_fairly() {
        let mut rng = Rng::with_seed(36);
        let (mut shares, mut known) = (FairShares::new(50), HashMap::<u32, bool>::new());
        for round in 0..5_000 {
            let item = rng.u32(..200);
            if rng.u8(..3) == 0 {
                shares.remove(&item);
                known.remove(&item);
            } else {
                let owners = (0..=rng.u8(..2)).map(|_| rng.u8(..6)).collect::<BTreeSet<_>>();
                shares.put(&item, 1, owners.into_iter().collect());
                known.entry(item).or_insert(false);
            }
            for (item, is_admitted) in shares.take_changes() {
                assert_eq!(known.insert(item, is_admitted), Some(!is_admitted), "{round}");
            }
            let admitted = known.iter().filter(|(_, is_admitted)| **is_admitted).count();
            assert_eq!((shares.used, known.len()), (admitted as u64, shares.items.len()));
            assert!(known.iter().all(|(item, known)| shares.is_admitted(item) == *known));
            assert_eq!(shares.waiting(), known.len() - admitted);
            assert!(shares.waiting() == 0 || shares.used == 50, "{round}: room is used");
            let most = shares.users.last().map_or(0, |(used, _)| *used);
            let least = shares.waiters.first().map_or(u64::MAX, |(used, _)| *used);
            assert!(most <= least.saturating_add(2), "{round}: {most} beside {least}");
        }
    }
}
