//! Comments of record sets.
use super::*;

const WWW: &str = "www.example.org.";

fn commented(at: &str, rtype: Rtype, text: &str, comment: &str) -> Edit {
    let mut edit = put(at, rtype, text);
    let put = edit.put.as_mut().unwrap();
    put.policy = Policy::All.with_comment(comment);
    edit
}

impl TestService {
    fn comment(&self, at: &str, rtype: Rtype) -> String {
        let set = self.service.set(&key(at, rtype)).unwrap().unwrap();
        set.value.policy.comment().to_owned()
    }
}

#[test]
fn comment_is_stored_and_is_in_no_answer() {
    let scene = with_zone();
    scene.write(vec![commented(WWW, Rtype::A, "10.0.0.1", "rack 7")]).unwrap();
    assert_eq!(scene.comment(WWW, Rtype::A), "rack 7");
    let image = scene.publisher.image();
    let zone = image.zone(name("example.org.").as_name()).unwrap();
    let set = zone.set(name(WWW).as_name(), Rtype::A).unwrap();
    assert!(!set.has_rules(), "workers read a plain set");
    assert_eq!(scene.answered(WWW, Rtype::A), Some(vec![10, 0, 0, 1]));
    // Another comment alone is a change, and the same one is none.
    let second = scene.write(vec![commented(WWW, Rtype::A, "10.0.0.1", "rack 8")]).unwrap();
    let again = scene.write(vec![commented(WWW, Rtype::A, "10.0.0.1", "rack 8")]).unwrap();
    assert_eq!((scene.comment(WWW, Rtype::A), again), ("rack 8".into(), second));
    let journal = scene.service.journal(name("example.org.").as_name(), None, 9).unwrap();
    let before = journal.entries.last().unwrap().changes[0].before.as_ref();
    assert_eq!(before.map(|value| value.policy.comment()), Some("rack 7"));
    scene.write(vec![put(WWW, Rtype::A, "10.0.0.1")]).unwrap();
    assert_eq!(scene.comment(WWW, Rtype::A), "");
}

#[test]
fn members_come_and_go_and_the_comment_stays() {
    let scene = with_zone();
    scene.write(vec![commented(WWW, Rtype::A, "10.0.0.1", "rack 7")]).unwrap();
    let member = |kind, text| Edit { kind, ..put(WWW, Rtype::A, text) };
    scene.write(vec![member(EditKind::Add, "10.0.0.2")]).unwrap();
    scene.write(vec![member(EditKind::Take, "10.0.0.1")]).unwrap();
    assert_eq!(scene.comment(WWW, Rtype::A), "rack 7");
    assert_eq!(scene.answered(WWW, Rtype::A), Some(vec![10, 0, 0, 2]));
}

/// The serial of an SOA changes with each write, and its comment does not.
#[test]
fn comments_of_all_types_survive_writes_of_others_and_a_restart() {
    let scene = with_zone();
    let soa = scene.service.set(&key("example.org.", Rtype::SOA)).unwrap().unwrap().value;
    let soa = SetValue { policy: Policy::All.with_comment("hand-made"), ..soa };
    let soa = Edit::put(name("example.org."), Rtype::SOA, soa);
    let server = commented("example.org.", Rtype::NS, "ns.example.org.", "primary");
    scene.write(vec![soa, server]).unwrap();
    let others = |scene: &TestService| {
        for last in 1..4 {
            scene.write(vec![put(WWW, Rtype::A, &format!("10.0.0.{last}"))]).unwrap();
        }
        let comment = |rtype| scene.comment("example.org.", rtype);
        assert_eq!(
            (comment(Rtype::SOA), comment(Rtype::NS)),
            ("hand-made".into(), "primary".into())
        );
        let revision =
            scene.service.set(&key("example.org.", Rtype::NS)).unwrap().unwrap().revision;
        assert_eq!(revision, Revision(2), "they are not written again");
    };
    others(&scene);
    let TestService { store, .. } = scene;
    others(&self::scene(store));
}

#[test]
fn comment_that_breaks_a_rule_is_refused() {
    let scene = with_zone();
    for wrong in ["a\nb", &*"x".repeat(256)] {
        match scene.write(vec![commented(WWW, Rtype::A, "10.0.0.1", wrong)]) {
            Err(Refused::Invalid(why)) => assert_eq!(why.field, "comment"),
            other => panic!("{other:?}"),
        }
    }
    scene.write(vec![commented(WWW, Rtype::A, "10.0.0.1", &"x".repeat(255))]).unwrap();
}
