//! Batches of thousands of edits.
use super::*;
use image::Tree;

const MANY: usize = 5_000;

/// Edits in no order at all, of names some of which lie below others.
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
fn a_large_batch_is_done_as_a_whole_and_is_there_after_a_start() {
    let scene = with_zone();
    let before = (scene.sets(), scene.desk.revision().unwrap());
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
    assert_eq!((scene.sets(), scene.desk.revision().unwrap()), before);

    let revision = scene.write(edits()).unwrap();
    let origin = name("example.org.");
    let journal = scene.desk.journal(origin.as_name(), before.1, 10).unwrap();
    let [entry] = &journal.entries[..] else { panic!("{journal:?}") };
    assert_eq!((entry.revision, entry.count, entry.changes.len()), (revision, MANY as u64, 0));
    let dump = |scene: &Scene| {
        let zone = Arc::clone(scene.control.image().zone(origin.as_name()).unwrap());
        let names = zone.names();
        let nodes = (0..names.len()).map(|rank| names.at(rank).unwrap().octets().to_vec());
        nodes.collect::<Vec<_>>()
    };
    assert!(dump(&scene).len() > MANY, "empty non-terminals too");
    let again = self::scene(scene.store.clone());
    assert_eq!(dump(&again), dump(&scene));
    // What goes in bulk takes the empty names above it along.
    let gone = edits().into_iter().map(|edit| Edit { put: None, ..edit });
    scene.write(gone.collect()).unwrap();
    assert_eq!((scene.sets(), dump(&scene).len()), (before.0, 1));
}

#[test]
fn what_a_group_wrote_before_is_expected_after() {
    let scene = with_zone();
    let batches = (0..200).map(|n| {
        let expect = if n == 0 { Expect::Absent } else { Expect::At(Revision(n + 1)) };
        let edit = Edit { expect, ..put("www.example.org.", Rtype::A, &format!("10.0.0.{n}")) };
        scene.desk.write(batch("example.org.", vec![edit]))
    });
    for (n, pending) in batches.collect::<Vec<_>>().into_iter().enumerate() {
        assert_eq!(pending.wait().unwrap().revision, Revision(n as u64 + 2));
    }
}
