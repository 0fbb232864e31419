//! A walk in pieces meets all that is there from its beginning to its end, whatever comes between.

use crate::common::Owned;
use cache::{CacheKey, Insertion, QueryKind};
use std::collections::HashMap;

const LEN: usize = 100;

fn put(owned: &mut Owned, number: u64, now: u32) {
    let name = number.to_be_bytes();
    let hash = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let key = CacheKey { hash, kind: QueryKind::new(1, 1, false, false), name: &name };
    assert_eq!(owned.lend().put(&key, now, 60, &[7; LEN]), Insertion::Done);
    // Used, so that it goes round and round.
    owned.lend().find(&key, now).expect("it was just put");
}

/// What is put meanwhile has everything else move through both queues.
#[test]
fn moving_entry_is_still_walked() {
    let mut owned = Owned::new(1 << 20);
    let all = 3_000;
    (0..all).for_each(|number| put(&mut owned, number, 1));
    let (mut met, mut next) = (HashMap::<u64, u32>::new(), all);
    for begin in (0..owned.lines.len()).step_by(16) {
        owned.lend().retain(begin..begin + 16, 3, |entry| {
            let number = u64::from_be_bytes(entry.name.try_into().unwrap());
            *met.entry(number).or_default() += 1;
            assert_eq!((entry.ttl, entry.kind.rtype()), (60, 1));
            true
        });
        for _ in 0..60 {
            put(&mut owned, next, 2);
            next += 1;
        }
    }
    assert!(next > 2 * all, "much was moved: {next}");
    assert!(met.values().all(|times| *times == 1), "each is met once");
    let mut left = 0;
    let lines = owned.lines.len();
    owned.lend().retain(0..lines, 3, |entry| {
        let number = u64::from_be_bytes(entry.name.try_into().unwrap());
        if number < all {
            left += 1;
            assert!(met.contains_key(&number), "{number} was there all the time");
        }
        true
    });
    assert!(left > 100, "some stayed: {left}");
}

#[test]
fn walk_does_not_count_as_use() {
    let mut owned = Owned::new(1 << 20);
    put(&mut owned, 1, 1);
    let mut uses = Vec::new();
    for _ in 0..5 {
        let lines = owned.lines.len();
        owned.lend().retain(0..lines, 11, |entry| {
            uses.push((entry.uses, entry.age));
            true
        });
    }
    assert_eq!(uses, [(1, 10); 5]);
}
