//! Writes that hide a wildcard from names beyond a grant.
use super::*;

/// May write all names of which each label begins with `_`, and A records below `own`.
#[derive(Debug)]
struct Rights(Hiding);

impl WriteRights for Rights {
    fn may_write(&self, set: &SetKey) -> bool {
        self.covers(set)
    }

    fn covers(&self, SetKey { name: found, rtype, .. }: &SetKey) -> bool {
        let (found, rtype) = (found.as_name(), *rtype);
        found.is_within(name("own.example.org.").as_name()) && rtype == Rtype::A
    }

    fn hiding(&self, _: &SetKey) -> Hiding {
        self.0
    }
}

#[test]
fn new_name_hides_a_wildcard_only_with_the_right_to_it() {
    let scene = with_zone();
    scene.write(vec![put("*.example.org.", Rtype::A, "10.0.0.9")]).unwrap();
    let write_as = |hiding, edits: Vec<Edit>| {
        let mut batch = batch("example.org.", edits);
        batch.context.rights = Some(Arc::new(Rights(hiding)));
        scene.service.write(batch).wait().map(|written| written.warnings)
    };
    let text = |at: &str| put(at, Rtype::TXT, "proof");
    let refused = write_as(Hiding::Refused, vec![text("_acme.shop.EXAMPLE.org.")]);
    let expected = Refused::HidesWildcard {
        edit: 0,
        name: name("shop.example.org.").into(),
        rtype: Rtype::A,
        wildcard: name("*.example.org.").into(),
    };
    assert_eq!(refused, Err(expected));
    // Names that are covered, of no host, or with another wildcard beside them; and deletions.
    for at in ["own.example.org.", "a.own.example.org.", "_acme.example.org."] {
        assert_eq!(write_as(Hiding::Refused, vec![text(at)]), Ok(Vec::new()), "{at}");
    }
    let gone = vec![remove("*.example.org.", Rtype::A), text("_acme.api.example.org.")];
    assert_eq!(write_as(Hiding::Refused, gone), Ok(Vec::new()), "nothing is hidden any more");
    scene.write(vec![put("*.example.org.", Rtype::A, "10.0.0.9")]).unwrap();
    let warned = write_as(Hiding::Warned, vec![text("_acme.shop.example.org.")]).unwrap();
    let [SetWarning { rule, what, help, .. }] = &warned[..] else { panic!("{warned:?}") };
    assert_eq!(rule.id, "hides-wildcard");
    assert!(what.contains("from shop.example.org. and the names below it"), "{what}");
    assert!(help.contains("`hide-wildcard`"), "{help}");
    assert_eq!(write_as(Hiding::Refused, vec![text("_b.shop.example.org.")]), Ok(Vec::new()));
    let app = || vec![text("app.example.org.")];
    assert!(write_as(Hiding::Refused, app()).is_err());
    assert_eq!(write_as(Hiding::Allowed, app()), Ok(Vec::new()));
}
