//! Pages of record sets and of zones.
use super::*;

#[test]
fn prefix_finds_only_names_of_its_depth() {
    let scene = with_zone();
    let names = ["a", "ya.a", "z.a", "Z1.a", "b.z1.a", "zz.a", "~.a", "z", "z9", "x.z9", "zo"];
    let edits = names.iter().map(|at| put(&format!("{at}.example.org."), Rtype::A, "10.0.0.1"));
    scene.write(edits.collect()).unwrap();
    let origin = name("example.org.");
    for (prefix, expected) in [
        ("z.a", &["z.a", "z1.a", "zz.a"][..]),
        ("Z1.A", &["z1.a"]),
        ("z", &["z", "z9", "zo"]),
        ("q", &[]),
        ("z.q", &[]),
        ("", &["", ""]),
    ] {
        let whole = format!("{prefix}.example.org.");
        let prefix = Some(name(whole.trim_start_matches('.')));
        let filter = SetFilter { prefix, ..SetFilter::default() };
        // Pages of one set each continue where the last one ended.
        let (mut after, mut found) = (None, Vec::new());
        loop {
            let page = scene.service.page(origin.as_name(), after.as_ref(), &filter, 1).unwrap();
            found.extend(page.sets.iter().map(|set| set.key.name.as_name().to_string()));
            match page.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        let suffix = |at: &&str| format!("{at}.example.org.").trim_start_matches('.').to_owned();
        assert_eq!(found, expected.iter().map(suffix).collect::<Vec<_>>(), "{whole}");
    }
}

/// A scan would need a page for each 10,000 sets that do not pass.
#[test]
fn prefix_seeks_in_a_large_zone() {
    let scene = with_zone();
    for part in 0..4 {
        let edits = (0..10_000).map(|at| {
            put(&format!("h{:05}.example.org.", part * 10_000 + at), Rtype::A, "10.0.0.1")
        });
        scene.write(edits.collect()).unwrap();
    }
    let filter = SetFilter { prefix: Some(name("h39999.example.org.")), ..SetFilter::default() };
    let page = scene.service.page(name("example.org.").as_name(), None, &filter, 100).unwrap();
    assert_eq!((page.sets.len(), page.next), (1, None));
}

#[test]
fn zone_pages_resume() {
    let scene = with_zone();
    for origin in ["b.example.", "a.example.", "c.example."] {
        scene.create(origin).unwrap();
    }
    let page = |after: Option<&str>, limit| {
        let after = after.map(name);
        let after = after.as_ref().map(NameBuf::as_name);
        let (zones, more) = scene.service.zones(after, limit, false, |_| true).unwrap();
        let names: Vec<_> = zones.iter().map(|zone| zone.origin.to_string()).collect();
        (names, more)
    };
    assert_eq!(page(None, 2), (vec!["a.example.".into(), "b.example.".into()], true));
    assert_eq!(
        page(Some("B.example."), 2),
        (vec!["c.example.".into(), "example.org.".into()], false)
    );
    assert_eq!(page(Some("c.example."), 9), (vec!["example.org.".into()], false));
}

#[test]
fn pages_are_in_canonical_order_and_resume() {
    let scene = with_zone();
    let names =
        ["b.a", "a", "*.a", "z", "\\001.a", "yljkjljk.a", "Z.a", "zABC.a", "\\200.z", "*.z"];
    let edits = names.iter().map(|at| put(&format!("{at}.example.org."), Rtype::A, "10.0.0.1"));
    scene.write(edits.collect()).unwrap();
    let whole = scene.sets();
    // RFC 4034 §6.1.
    let mut sorted: Vec<NameBuf> =
        names.iter().map(|at| name(&format!("{at}.example.org."))).collect();
    sorted.sort_by(|a, b| a.as_name().canonical_cmp(b.as_name()));
    let lower = |name: &NameBuf| format!("{} A", name.as_name().to_string().to_lowercase());
    assert_eq!(whole[2..], sorted.iter().map(lower).collect::<Vec<_>>());
    let origin = name("example.org.");
    let (mut after, mut found) = (None, Vec::new());
    loop {
        let page =
            scene.service.page(origin.as_name(), after.as_ref(), &SetFilter::default(), 3).unwrap();
        found.extend(
            page.sets.iter().map(|set| format!("{} {}", set.key.name.as_name(), set.key.rtype)),
        );
        match page.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    assert_eq!(found, whole);
}
