use super::*;
use crate::limits::{HOT_RANKS, SKETCH_ENTRIES, SKETCH_HALF_LIFE};
use tap::SampleRng;

fn sketch(entries_max: usize) -> Sketch<[u8]> {
    Sketch::new(entries_max, SKETCH_HALF_LIFE)
}

fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

/// Asserts the order and the places of the heap.
fn check<Q>(sketch: &Sketch<Q>)
where
    Q: ?Sized + ToOwned + Hash + Eq,
    Q::Owned: Hash + Eq + Clone + Borrow<Q>,
{
    let Sketch { numbers, entries, heap, places, .. } = sketch;
    assert_eq!([numbers.len(), heap.len(), places.len()], [entries.len(); 3]);
    for (number, entry) in entries.iter().enumerate() {
        let place = places[number];
        assert_eq!((numbers[entry.key.borrow()], heap[place].number), (number, number));
        assert!(heap[place.saturating_sub(1) / 2].count <= heap[place].count);
    }
}

/// Draws from `names` names; the n-th with a probability proportional to 1/n (Zipf's law).
struct ZipfNames {
    sums: Vec<f64>,
    rng: SampleRng,
}

impl ZipfNames {
    fn new(names: u32) -> Self {
        let mut sum = 0.0;
        let sums = (1..=names).map(|rank| {
            sum += 1.0 / f64::from(rank);
            sum
        });
        Self { sums: sums.collect(), rng: SampleRng(7) }
    }

    fn all(&self) -> f64 {
        self.sums[self.sums.len() - 1]
    }

    fn draw(&mut self) -> u32 {
        let at = f64::from(self.rng.below(u32::MAX)) / f64::from(u32::MAX) * self.all();
        self.sums.partition_point(|sum| *sum < at) as u32
    }
}

#[test]
fn top_and_shares_of_a_zipf_trace_are_right() {
    let mut zipf = ZipfNames::new(1_000_000);
    let mut sketch = sketch(SKETCH_ENTRIES);
    for turn in 0..400_000u32 {
        // Five minutes: older counts decay.
        let now = seconds(f64::from(turn) * 300.0 / 400_000.0);
        sketch.add(&zipf.draw().to_be_bytes(), 1.0, now);
    }
    check(&sketch);
    let top = sketch.top(HOT_RANKS, seconds(300.0));
    assert_eq!(top.len(), HOT_RANKS);
    let names: Vec<u32> =
        top.iter().map(|(name, _)| u32::from_be_bytes(name[..].try_into().unwrap())).collect();
    let mut first: Vec<u32> = names[..10].to_vec();
    first.sort_unstable();
    assert_eq!(first, (0..10).collect::<Vec<_>>(), "of {names:?}");
    for (rank, (_, share)) in top.iter().take(10).enumerate() {
        let truth = 1.0 / (rank + 1) as f64 / zipf.all();
        // Within the error of an entry, and chance.
        assert!((share - truth).abs() < 0.002, "rank {rank}: {share} where {truth} is right");
    }
}

#[test]
fn frequent_names_survive_a_flood_of_unique_names() {
    let mut sketch = sketch(64);
    for n in 0..100_000u32 {
        sketch.add(&n.to_be_bytes(), 1.0, Duration::ZERO);
        if n % 20 == 0 {
            sketch.add(b"hot", 1.0, Duration::ZERO);
        }
    }
    check(&sketch);
    assert_eq!(sketch.heap.len(), 64, "memory is bounded");
    let top = sketch.top(2, Duration::ZERO);
    assert_eq!(top[0].0, b"hot");
    assert!((0.047..0.048).contains(&top[0].1), "{top:?}");
    assert!(top[1].1 < 0.0001, "what was seen once has no share to speak of: {top:?}");
}

#[test]
fn old_counts_decay() {
    let mut sketch = sketch(8);
    (0..100).for_each(|_| sketch.add(b"old", 1.0, Duration::ZERO));
    (0..100).for_each(|_| sketch.add(b"new", 1.0, SKETCH_HALF_LIFE));
    let top = sketch.top(2, SKETCH_HALF_LIFE);
    assert_eq!(top[0].0, b"new");
    assert!((top[0].1 - 2.0 / 3.0).abs() < 1e-9 && (top[1].1 - 1.0 / 3.0).abs() < 1e-9, "{top:?}");
    // A count of 100 decays to less than a half in eight half-lives.
    assert_eq!(sketch.top(2, SKETCH_HALF_LIFE * 9), []);
}

#[test]
fn counts_do_not_overflow_in_years() {
    let mut sketch = sketch(8);
    let days = |days: f64| seconds(days * 86_400.0);
    for day in 0..2_000 {
        sketch.add(b"daily", 1.0, days(f64::from(day)));
        sketch.add(b"hourly", 1.0, days(f64::from(day)));
        sketch.add(b"hourly", 1.0, days(f64::from(day) + 1.0 / 24.0 / 60.0));
        check(&sketch);
    }
    let top = sketch.top(1, days(1_999.001));
    assert_eq!(top[0].0, b"hourly");
    assert!((0.5..1.0).contains(&top[0].1), "{top:?}");
}
