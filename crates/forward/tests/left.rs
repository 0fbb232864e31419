//! Questions that somebody else sees to.
use cache::{Key, Kind};
use forward::limits::{ASKS_MAX, WHEEL_MICROS};
use forward::{Ask, Asked, Event, Forwarder, Group, State};

const GROUP: Group = Group { first: 0, len: 1, mixes_case: false };
const KEY: Key<'_> = Key { hash: 7, kind: Kind::new(1, 1, false, false), name: b"\x01a\0" };
/// When that somebody is late.
const UNTIL: u64 = 50_000;
/// A time that the wheel tells from another.
const BIT: u64 = 2 * WHEEL_MICROS;

struct Thread {
    state: Box<State>,
    asks: Vec<Ask>,
    thrown: u64,
}

impl Thread {
    fn new() -> Self {
        let mut asks = vec![Ask::FREE; ASKS_MAX];
        Self { state: Box::new(State::new(&mut asks)), asks, thrown: 0 }
    }

    fn call<T>(&mut self, act: impl FnOnce(&mut Forwarder<'_>, forward::Dice<'_>) -> T) -> T {
        let Self { state, asks, thrown } = self;
        act(&mut Forwarder { state, asks }, &mut || {
            *thrown += 1;
            *thrown
        })
    }
}

/// What time brings that is something.
fn expire(forwarder: &mut Forwarder<'_>, now: u64, dice: forward::Dice<'_>) -> Vec<Event> {
    let events = std::iter::from_fn(|| forwarder.expire(now, dice));
    events.filter(|event| *event != Event::Nothing).collect()
}

#[test]
fn what_is_left_to_somebody_is_asked_of_nobody_until_it_is_urged() {
    let mut thread = Thread::new();
    thread.call(|forwarder, dice| {
        assert!(!forwarder.is_asked(&KEY, GROUP));
        let ticket = forwarder.leave(&KEY, GROUP, Some(1), UNTIL, 0).expect("room");
        assert!(forwarder.is_asked(&KEY, GROUP));
        assert!(forwarder.get(ticket).is_some_and(Ask::is_left));
        // Who asks the same waits for the same.
        assert_eq!(forwarder.ask(&KEY, GROUP, Some(2), 1, dice), Asked::Waits);
        assert_eq!((forwarder.len(), forwarder.order()), (1, None));
        assert_eq!(expire(forwarder, UNTIL - BIT, dice), []);
        assert_eq!(expire(forwarder, UNTIL + BIT, dice), [Event::Late(ticket)]);
        forwarder.wait(ticket, 2 * UNTIL);
        assert_eq!(expire(forwarder, 2 * UNTIL - BIT, dice), []);
        assert_eq!(expire(forwarder, 2 * UNTIL + BIT, dice), [Event::Late(ticket)]);
        assert_eq!(forwarder.order(), None);
        assert_eq!(forwarder.urge(ticket, 3 * UNTIL, dice), Event::Nothing);
        assert_eq!(forwarder.order().map(|order| order.upstream), Some(0));
        assert!(forwarder.get(ticket).is_some_and(|ask| !ask.is_left() && ask.was_left()));
        assert_eq!(forwarder.urge(ticket, 3 * UNTIL, dice), Event::Nothing);
        assert_eq!(forwarder.order(), None, "once is enough");
        let mut waiters: Vec<_> = std::iter::from_fn(|| forwarder.take_waiter(ticket)).collect();
        waiters.sort_unstable();
        assert_eq!(waiters, [1, 2]);
        forwarder.end(ticket);
        assert!(forwarder.is_empty());
        assert_eq!(forwarder.urge(ticket, 3 * UNTIL, dice), Event::Nothing, "it has ended");
    });
}

#[test]
fn what_nobody_could_be_asked_about_is_not_left_to_anybody() {
    Thread::new().call(|forwarder, _| {
        assert_eq!(forwarder.leave(&KEY, Group { len: 0, ..GROUP }, Some(1), UNTIL, 0), None);
        assert!(forwarder.is_empty() && forwarder.next_micros().is_none());
    });
}

#[test]
fn what_ends_before_is_never_late() {
    let mut thread = Thread::new();
    thread.call(|forwarder, dice| {
        let ticket = forwarder.leave(&KEY, GROUP, None, UNTIL, 0).expect("room");
        assert_eq!(forward::Ticket::from_bits(ticket.to_bits()), ticket);
        forwarder.end(ticket);
        assert!(forwarder.is_empty() && forwarder.get(ticket).is_none());
        assert_eq!(expire(forwarder, 2 * UNTIL, dice), []);
        // Nobody waits for what was cut off: servers are not asked about it.
        let ticket = forwarder.leave(&KEY, GROUP, None, 3 * UNTIL, 2 * UNTIL).expect("room");
        assert_eq!(forwarder.cut_off(|_| true), 1);
        assert!(!forwarder.is_asked(&KEY, GROUP));
        assert_eq!(forwarder.urge(ticket, 3 * UNTIL, dice), Event::Failure(ticket));
        forwarder.end(ticket);
        for hash in 0..ASKS_MAX as u64 {
            let left = forwarder.leave(&Key { hash, ..KEY }, GROUP, None, UNTIL, 0);
            assert!(left.is_some(), "{hash}");
        }
        assert_eq!(forwarder.leave(&KEY, GROUP, None, UNTIL, 0), None);
    });
}
