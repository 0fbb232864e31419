//! Weights that change over time are published as steps, without a write.
use super::*;
use image::Order;
use model::{Choice, Policy, SetRules, WeightRamp};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;
use test_support::wait;

const WWW: &str = "www.example.org.";
/// When the change begins, and how long it takes.
const START: u64 = 1_000_000;
const OVER: u32 = 200;

/// A clock that tests set.
#[derive(Clone)]
struct SetClock(Arc<AtomicU64>);

impl SetClock {
    fn at(seconds: u64) -> Self {
        Self(Arc::new(AtomicU64::new(seconds)))
    }

    fn set(&self, seconds: u64) {
        self.0.store(seconds, SeqCst);
    }

    /// A zone manager with this clock.
    fn start(&self) -> Fixture {
        let clock = self.clone();
        let of_clock: WallClock = Arc::new(move || Duration::from_secs(clock.0.load(SeqCst)));
        start_with(|image| ZonePublisher::start_with_clock(image, of_clock))
    }
}

/// A set with a weight that grows from 0 to 100 beside one of 100.
fn growing() -> Change {
    let ramp = WeightRamp { from: Some(0), start: Some(START), over: OVER };
    let rules = SetRules {
        choice: Choice::Weighted,
        weights: [100, 100].into(),
        ramps: [Some(ramp), None].into(),
        ..SetRules::default()
    };
    let data = [[10, 0, 0, 1], [10, 0, 0, 2]].map(|data| Box::from(&data[..]));
    let value = SetValue { ttl: 30, policy: Policy::new(rules), data: data.into() };
    Edit::put(name(WWW), Rtype::A, value).into()
}

impl Fixture {
    /// The weights that workers choose by; empty: all are equal, or one address is left.
    fn weights(&self) -> (usize, Vec<u16>) {
        let image = self.publisher.image();
        let zone = image.zone(name("example.org.").as_name()).unwrap();
        let set = zone.set(name(WWW).as_name(), Rtype::A).unwrap();
        let selection = set.selection().filter(|selection| selection.order == Order::Weighted);
        let weight = |selection: image::Selection<'_>| {
            (0..set.count()).map(|member| selection.weight(member)).collect()
        };
        (set.count(), selection.map(weight).unwrap_or_default())
    }

    fn wait_for(&self, count: usize, weights: &[u16]) {
        wait::until_true("the weights of the time", || self.weights() == (count, weights.into()));
    }
}

#[test]
fn weight_follows_the_clock_without_a_write() {
    let clock = SetClock::at(START - 5);
    let fixture = clock.start();
    assert_eq!(fixture.apply(of_zone(), vec![growing()]), [Ok(())]);
    fixture.wait_for(1, &[]);
    for (seconds, count, weights) in [
        (2, 2, &[1, 100][..]),
        (3, 2, &[1, 100]),
        (50, 2, &[25, 100]),
        (199, 2, &[99, 100]),
        // All are equal.
        (200, 2, &[]),
        (999_999, 2, &[]),
        // The clock is set back.
        (20, 2, &[10, 100]),
        (0, 1, &[]),
    ] {
        clock.set(START + seconds);
        fixture.wait_for(count, weights);
    }
}

/// A server that was restarted, and another one of the fleet.
#[test]
fn servers_that_begin_at_another_time_have_the_same_weight() {
    let clock = SetClock::at(START);
    let first = clock.start();
    first.apply(of_zone(), vec![growing()]);
    for seconds in [7, 60, 61, 150] {
        clock.set(START + seconds);
        let later = clock.start();
        later.apply(of_zone(), vec![growing()]);
        first.wait_for(2, &later.weights().1);
        assert_eq!(later.weights().1, [seconds as u16 / 2, 100]);
    }
}

#[test]
fn set_is_shown_with_its_weight_of_now_and_forgotten_with_its_zone() {
    let clock = SetClock::at(START + 100);
    let fixture = clock.start();
    fixture.apply(of_zone(), vec![growing()]);
    let judged = || {
        let (zone, at) = (name("example.org."), name(WWW));
        let at = (View::DEFAULT, at.as_name());
        let judged = fixture.publisher.judged(zone.as_name(), at, Rtype::A);
        judged.wait().unwrap()
    };
    let member = judged().unwrap().members.remove(0);
    assert_eq!((member.rules.weight, member.stored.weight), (50, 100));
    assert_eq!(member.stored.ramp.map(|ramp| ramp.end()), Some(START + u64::from(OVER)));
    fixture.publisher.wait(fixture.updates.remove(of_zone())).unwrap();
    clock.set(START + 150);
    assert_eq!(judged(), None);
}
