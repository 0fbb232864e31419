//! What is seen most, in fixed memory: Space-Saving (Metwally, Agrawal, El Abbadi 2005), with what
//! was seen counting less as it grows old.
//!
//! Where there is no room for a new key it takes the place, and the count, of the one seen least;
//! what it took over is noted as its error. So every key whose share is over one in as many as
//! there are entries is among them, and its count less its error is what it was seen at least.
//!
//! Instead of all counts shrinking with time, what is added grows (forward decay: Cormode et al.
//! 2009): only the ratio tells anything. Now and then all is divided, so that it stays finite.
use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

/// Half-lives after which counts are divided.
const HALF_LIVES_MAX: f64 = 64.0;
/// What was seen less than this often, measured as of now, is forgotten.
const FORGOTTEN: f64 = 0.5;

/// Counts keys that are borrowed as `Q`.
pub struct Sketch<Q: ?Sized + ToOwned> {
    half_life: Duration,
    entries_max: usize,
    /// Where each key is in the heap.
    places: HashMap<Q::Owned, usize>,
    /// A heap: the entry with the least count is first.
    heap: Vec<Entry<Q::Owned>>,
    /// All that was added.
    total: f64,
    /// When what is added weighs 1.
    origin: Duration,
}

struct Entry<K> {
    key: K,
    count: f64,
    /// How much of the count may be other keys'.
    error: f64,
}

impl<Q> Sketch<Q>
where
    Q: ?Sized + ToOwned + Hash + Eq,
    Q::Owned: Hash + Eq + Clone + Borrow<Q>,
{
    /// An empty sketch of at most `entries_max` keys, at least 1.
    pub fn new(entries_max: usize, half_life: Duration) -> Self {
        Self {
            half_life,
            entries_max: entries_max.max(1),
            places: HashMap::with_capacity(entries_max),
            heap: Vec::with_capacity(entries_max),
            total: 0.0,
            origin: Duration::ZERO,
        }
    }

    /// Counts `key` as seen `times`, now. `now` is of a clock that does not go back.
    pub fn add(&mut self, key: &Q, times: f64, now: Duration) {
        let mut half_lives = self.half_lives(now);
        if half_lives > HALF_LIVES_MAX {
            self.divide(half_lives.exp2());
            (self.origin, half_lives) = (now, 0.0);
        }
        let weight = times * half_lives.exp2();
        self.total += weight;
        if let Some(&place) = self.places.get(key) {
            self.heap[place].count += weight;
            self.sink(place);
        } else if self.heap.len() < self.entries_max {
            let place = self.heap.len();
            self.heap.push(Entry { key: key.to_owned(), count: weight, error: 0.0 });
            self.places.insert(key.to_owned(), place);
            self.rise(place);
        } else {
            let least = &mut self.heap[0];
            self.places.remove(least.key.borrow());
            *least = Entry { key: key.to_owned(), count: least.count + weight, error: least.count };
            self.places.insert(key.to_owned(), 0);
            self.sink(0);
        }
    }

    /// The keys that were seen most of late, and the least share of all that they have had, 0 to 1;
    /// the greatest first. What has long not been seen is left out.
    pub fn top(&self, ranks: usize, now: Duration) -> Vec<(Q::Owned, f64)> {
        let forgotten = FORGOTTEN * self.half_lives(now).exp2();
        let certain = |entry: &Entry<Q::Owned>| entry.count - entry.error;
        let mut seen: Vec<&Entry<_>> =
            self.heap.iter().filter(|entry| certain(entry) >= forgotten).collect();
        seen.sort_by(|a, b| certain(b).total_cmp(&certain(a)));
        let ranks = seen.into_iter().take(ranks);
        ranks.map(|entry| (entry.key.clone(), certain(entry) / self.total)).collect()
    }

    fn half_lives(&self, now: Duration) -> f64 {
        now.saturating_sub(self.origin).as_secs_f64() / self.half_life.as_secs_f64()
    }

    /// Dividing all counts by the same leaves the heap in order.
    fn divide(&mut self, by: f64) {
        self.total /= by;
        for entry in &mut self.heap {
            entry.count /= by;
            entry.error /= by;
        }
    }

    /// Moves an entry whose count grew to where it belongs.
    fn sink(&mut self, mut place: usize) {
        loop {
            let children = (2 * place + 1..=2 * place + 2).filter(|child| *child < self.heap.len());
            let least = children.min_by(|a, b| self.heap[*a].count.total_cmp(&self.heap[*b].count));
            let Some(child) = least.filter(|c| self.heap[*c].count < self.heap[place].count) else {
                return;
            };
            self.swap(place, child);
            place = child;
        }
    }

    /// Moves a new entry to where it belongs.
    fn rise(&mut self, mut place: usize) {
        while place > 0 {
            let parent = (place - 1) / 2;
            if self.heap[parent].count <= self.heap[place].count {
                return;
            }
            self.swap(place, parent);
            place = parent;
        }
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        for place in [a, b] {
            let known = self.places.get_mut(self.heap[place].key.borrow());
            *known.expect("every entry has its place") = place;
        }
    }
}

#[cfg(test)]
mod tests;
