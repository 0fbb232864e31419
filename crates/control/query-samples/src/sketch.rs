//! The most frequent keys in fixed memory: Space-Saving (Metwally, Agrawal, El Abbadi 2005), with
//! exponential decay.
//!
//! When full, a new key replaces the least frequent one and inherits its count, which is noted as
//! its error. So every key with a share above one in the number of entries is present, and its
//! count minus its error is a lower bound.
//!
//! Instead of reducing all counts over time, new counts weigh more (forward decay: Cormode et al.
//! 2009); only ratios matter. From time to time all are divided, so that they stay finite.
use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

/// Half-lives after which counts are divided.
const HALF_LIVES_MAX: f64 = 64.0;
/// Keys with a lower decayed count are left out.
const FORGOTTEN: f64 = 0.5;

/// Counts keys, borrowed as `Q`.
pub struct Sketch<Q: ?Sized + ToOwned> {
    half_life: Duration,
    entries_max: usize,
    /// The entry of each key.
    numbers: HashMap<Q::Owned, usize>,
    entries: Vec<Entry<Q::Owned>>,
    /// A heap with the least count first. Separate from the entries, because each new key touches
    /// many counts.
    heap: Vec<Count>,
    /// The place of each entry's count in the heap.
    places: Vec<usize>,
    /// The sum of all counts.
    total: f64,
    /// When an added count weighs 1.
    origin: Duration,
}

struct Entry<K> {
    key: K,
    /// The part of its count that may belong to other keys.
    error: f64,
}

#[derive(Clone, Copy)]
struct Count {
    count: f64,
    /// Its entry.
    number: usize,
}

impl<Q> Sketch<Q>
where
    Q: ?Sized + ToOwned + Hash + Eq,
    Q::Owned: Hash + Eq + Clone + Borrow<Q>,
{
    /// A sketch of at most `entries_max` keys, at least 1.
    pub fn new(entries_max: usize, half_life: Duration) -> Self {
        Self {
            half_life,
            entries_max: entries_max.max(1),
            numbers: HashMap::with_capacity(entries_max),
            entries: Vec::with_capacity(entries_max),
            heap: Vec::with_capacity(entries_max),
            places: Vec::with_capacity(entries_max),
            total: 0.0,
            origin: Duration::ZERO,
        }
    }

    /// Adds `times` to the count of `key`. `now` is from a monotonic clock.
    pub fn add(&mut self, key: &Q, times: f64, now: Duration) {
        let mut half_lives = self.half_lives(now);
        if half_lives > HALF_LIVES_MAX {
            self.divide(half_lives.exp2());
            (self.origin, half_lives) = (now, 0.0);
        }
        let weight = times * half_lives.exp2();
        self.total += weight;
        if let Some(&number) = self.numbers.get(key) {
            let place = self.places[number];
            self.heap[place].count += weight;
            self.sink(place);
        } else if self.entries.len() < self.entries_max {
            let (number, key) = (self.entries.len(), key.to_owned());
            self.numbers.insert(key.clone(), number);
            self.entries.push(Entry { key, error: 0.0 });
            self.heap.push(Count { count: weight, number });
            self.places.push(number);
            self.rise(number);
        } else {
            let Count { count, number } = self.heap[0];
            let least = &mut self.entries[number];
            self.numbers.remove(least.key.borrow());
            *least = Entry { key: key.to_owned(), error: count };
            self.numbers.insert(key.to_owned(), number);
            self.heap[0].count += weight;
            self.sink(0);
        }
    }

    /// The most frequent keys with a lower bound of their share, 0 to 1, in descending order. Omits
    /// keys not seen for long.
    pub fn top(&self, ranks: usize, now: Duration) -> Vec<(Q::Owned, f64)> {
        let forgotten = FORGOTTEN * self.half_lives(now).exp2();
        let certain = self.heap.iter().map(|Count { count, number }| {
            let Entry { key, error } = &self.entries[*number];
            (key, count - error)
        });
        let mut seen: Vec<_> = certain.filter(|(_, count)| *count >= forgotten).collect();
        seen.sort_by(|(_, a), (_, b)| b.total_cmp(a));
        let ranks = seen.into_iter().take(ranks);
        ranks.map(|(key, count)| (key.clone(), count / self.total)).collect()
    }

    fn half_lives(&self, now: Duration) -> f64 {
        now.saturating_sub(self.origin).as_secs_f64() / self.half_life.as_secs_f64()
    }

    /// Dividing all counts by the same number keeps the heap in order.
    fn divide(&mut self, by: f64) {
        self.total /= by;
        self.heap.iter_mut().for_each(|count| count.count /= by);
        self.entries.iter_mut().for_each(|entry| entry.error /= by);
    }

    /// Moves an increased count down the heap.
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

    /// Moves a new count up the heap.
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
            self.places[self.heap[place].number] = place;
        }
    }
}

#[cfg(test)]
mod tests;
