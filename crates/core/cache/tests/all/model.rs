//! Whatever is done to a cache, it tells what was put last, or nothing.

use crate::common::Owned;
use cache::limits::MEMORY_MIN;
use cache::{CacheKey, Insertion, QueryKind};
use proptest::prelude::*;
use std::collections::HashMap;

/// A hash that is no good: a few names share it, and lines are full early.
fn hash(name: u16) -> u64 {
    u64::from(name / 3).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn key(name: u16, kind: u8, bytes: &[u8; 2]) -> CacheKey<'_> {
    CacheKey {
        hash: hash(name),
        kind: QueryKind::new(1, 1, kind & 1 != 0, kind & 2 != 0),
        name: bytes,
    }
}

#[derive(Clone, Debug)]
enum Step {
    Put {
        name: u16,
        kind: u8,
        len: usize,
        ttl: u32,
    },
    Find {
        name: u16,
        kind: u8,
    },
    Hold {
        name: u16,
        kind: u8,
        seconds: u32,
    },
    Forget {
        name: u16,
        kind: u8,
        before: u32,
    },
    Pass(u32),
    /// Removes every n-th name, in pieces of this many lines.
    Flush {
        every: u16,
        lines: usize,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let name = || (0..600u16, 0..4u8);
    let len = prop_oneof![8 => 0..300usize, 2 => 300..5000usize, 1 => 5000..20_000usize];
    let step = prop_oneof![
        6 => (name(), len, 0..100u32)
            .prop_map(|((name, kind), len, ttl)| Step::Put { name, kind, len, ttl }),
        4 => name().prop_map(|(name, kind)| Step::Find { name, kind }),
        1 => (name(), 0..100u32)
            .prop_map(|((name, kind), seconds)| Step::Hold { name, kind, seconds }),
        1 => (name(), 0..20u32)
            .prop_map(|((name, kind), before)| Step::Forget { name, kind, before }),
        1 => (0..10u32).prop_map(Step::Pass),
        1 => (1..40u16, 1..500usize).prop_map(|(every, lines)| Step::Flush { every, lines }),
    ];
    prop::collection::vec(step, 1..3000)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn found_value_is_the_last_inserted(steps in steps()) {
        let mut owned = Owned::new(MEMORY_MIN);
        let mut last = HashMap::new();
        let (mut now, mut filler) = (0, 0u8);
        for step in steps {
            let mut cache = owned.lend();
            match step {
                Step::Put { name, kind, len, ttl } => {
                    filler = filler.wrapping_add(1);
                    let value = vec![filler; len];
                    let bytes = name.to_be_bytes();
                    let key = key(name, kind, &bytes);
                    match cache.put(&key, now, ttl, &value) {
                        Insertion::Done => {
                            let found = cache.find(&key, now).expect("what was just put is there");
                            prop_assert_eq!(&found.message[12..14], &bytes);
                            prop_assert_eq!(&found.message[14..], &value[..]);
                            last.insert((name, kind), (value, now, ttl, now));
                        }
                        Insertion::TooLarge => {
                            prop_assert!(len > 5800, "{}", len);
                            prop_assert!(cache.find(&key, now).is_none());
                            last.remove(&(name, kind));
                        }
                    }
                }
                Step::Find { name, kind } => {
                    let bytes = name.to_be_bytes();
                    let key = key(name, kind, &bytes);
                    if let Some(found) = cache.find(&key, now) {
                        let (value, made, ttl, retry) = &last[&(name, kind)];
                        prop_assert_eq!(&found.message[14..], &value[..]);
                        prop_assert_eq!((found.age, found.ttl), (now - made, *ttl));
                        prop_assert_eq!(found.is_fresh(), now < made + ttl);
                        prop_assert_eq!(found.may_renew, now >= *retry);
                    }
                }
                Step::Hold { name, kind, seconds } => {
                    let bytes = name.to_be_bytes();
                    let key = key(name, kind, &bytes);
                    if cache.hold(&key, now + seconds) {
                        last.get_mut(&(name, kind)).expect("only what was put").3 = now + seconds;
                    }
                }
                Step::Forget { name, kind, before } => {
                    let bytes = name.to_be_bytes();
                    let made = now.saturating_sub(before);
                    if cache.forget(&key(name, kind, &bytes), made) {
                        let (_, put_at, ..) = last.remove(&(name, kind)).expect("it was put");
                        prop_assert!(put_at <= made);
                        prop_assert!(cache.find(&key(name, kind, &bytes), now).is_none());
                    }
                }
                Step::Pass(seconds) => now += seconds,
                Step::Flush { every, lines } => {
                    let before = owned.state.entries();
                    let is_doomed = |name: u16| name.is_multiple_of(every);
                    let mut went = 0;
                    for begin in (0..owned.lines.len()).step_by(lines) {
                        went += owned.lend().retain(begin..begin + lines, now, |met| {
                            assert_eq!(&met.message[12..12 + met.name.len()], met.name);
                            !is_doomed(u16::from_be_bytes([met.name[0], met.name[1]]))
                        });
                    }
                    prop_assert_eq!(owned.state.entries(), before - went);
                    last.retain(|(name, _), _| !is_doomed(*name));
                    prop_assert!(every > 1 || owned.state.used() == 0);
                }
            }
            prop_assert!(owned.state.used() <= owned.bytes.len());
        }
        let mut cache = owned.lend();
        let found = last.keys().filter(|(name, kind)| {
            let bytes = name.to_be_bytes();
            cache.find(&key(*name, *kind, &bytes), now).is_some()
        });
        let found = found.count();
        prop_assert_eq!(found, owned.state.entries());
    }
}

#[test]
fn answer_for_all_types_is_found_without_one_of_the_type() {
    let mut owned = Owned::new(MEMORY_MIN);
    let mut cache = owned.lend();
    let bytes = 7u16.to_be_bytes();
    let (one, other) = (key(7, 0, &bytes), key(7, 1, &bytes));
    let found =
        |cache: cache::Cache<'_>, key, now| cache.into_found(key, now).map(|f| f.message[14]);
    assert_eq!(cache.put(&one.for_all_types(), 0, 20, &[1]), Insertion::Done);
    assert_eq!(found(owned.lend(), &one, 0), Some(1));
    assert_eq!(found(owned.lend(), &other, 0), None, "DO is another matter");
    assert_eq!(owned.lend().put(&one, 0, 10, &[2]), Insertion::Done);
    assert_eq!(found(owned.lend(), &one, 9), Some(2));
    assert_eq!(found(owned.lend(), &one, 10), Some(1), "of what is too old");
    assert_eq!(found(owned.lend(), &one, 20), Some(2), "neither is good");
    assert_eq!(owned.lend().put(&one.for_all_types(), 30, 5, &[3]), Insertion::Done);
    assert_eq!(found(owned.lend(), &one, 40), Some(3), "the newer of two that are too old");
    assert!(!owned.lend().forget(&one.for_all_types(), 29), "it is newer");
    assert!(owned.lend().forget(&one.for_all_types(), 30));
    assert_eq!(found(owned.lend(), &one, 40), Some(2));
}
