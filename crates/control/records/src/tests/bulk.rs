//! Batches of thousands of edits.
use super::*;
use image::Tree;

const MANY: usize = 5_000;

/// Unsorted edits; some names are below ownership.
fn edits() -> Vec<Edit> {
    let edit = |n: usize| {
        let n = n * 2_741 % MANY;
        let at = match n % 3 {
            0 => format!("n{n}.example.org."),
            _ => format!("n{n}.n{}.deep.example.org.", n % 7 * 3),
        };
        put(&at, Rtype::A, &format!("10.0.{}.{}", n >> 8, n & 255))
    };
    (0..MANY).map(edit).collect()
}

#[test]
fn large_batch_is_atomic_and_durable() {
    let scene = with_zone();
    let before = (scene.sets(), scene.service.revision().unwrap());
    let mut bad = edits();
    let at = bad[17].name.clone();
    bad[4_321] = Edit { name: at, ..put("x.", Rtype::CNAME, "www.example.org.") };
    match scene.write(bad) {
        Err(Refused::Invalid(wrong)) => {
            assert_eq!((wrong.edit, wrong.rule.id), (4_321, "cname-alone"), "{}", wrong.what);
        }
        other => panic!("{other:?}"),
    }
    let mut twice = edits();
    twice[4_000] = twice[100].clone();
    assert_eq!(rule(scene.write(twice)), "duplicate");
    assert_eq!((scene.sets(), scene.service.revision().unwrap()), before);

    let revision = scene.write(edits()).unwrap();
    let origin = name("example.org.");
    let journal = scene.service.journal(origin.as_name(), Some(before.1), 10).unwrap();
    let [entry] = &journal.entries[..] else { panic!("{journal:?}") };
    assert_eq!((entry.revision, entry.count, entry.changes.len()), (revision, MANY as u64, MANY));
    assert!(entry.changes.iter().all(|change| change.before.is_none()), "none was there");
    assert!(entry.changes.iter().all(|change| change.after == Some(SetValue::UNKEPT)));
    let dump = |scene: &TestService| {
        let zone = Arc::clone(scene.publisher.image().zone(origin.as_name()).unwrap());
        let names = zone.names();
        let nodes = (0..names.len()).map(|rank| names.at(rank).unwrap().as_bytes().to_vec());
        nodes.collect::<Vec<_>>()
    };
    assert!(dump(&scene).len() > MANY, "empty non-terminals too");
    let again = self::scene(scene.store.clone());
    assert_eq!(dump(&again), dump(&scene));
    // Removals in bulk also remove empty parent names.
    let gone = edits().into_iter().map(|edit| Edit { put: None, ..edit });
    scene.write(gone.collect()).unwrap();
    assert_eq!((scene.sets(), dump(&scene).len()), (before.0, 1));
}

#[test]
fn conditions_see_earlier_writes_of_the_group() {
    let scene = with_zone();
    let batches = (0..200).map(|n| {
        let expect = if n == 0 { Precondition::Absent } else { Precondition::At(Revision(n + 1)) };
        let edit = Edit { expect, ..put("www.example.org.", Rtype::A, &format!("10.0.0.{n}")) };
        scene.service.write(batch("example.org.", vec![edit]))
    });
    for (n, pending) in batches.collect::<Vec<_>>().into_iter().enumerate() {
        assert_eq!(pending.wait().unwrap().revision, Revision(n as u64 + 2));
    }
}
