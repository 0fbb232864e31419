use super::*;
use crate::Loader;
use image::HashKey;
use std::sync::Arc;

fn name(text: &str) -> NameBuf {
    NameBuf::from_text(text.as_bytes(), Name::ROOT).expect("a name")
}

/// `example.org` with these record sets: owner, type and target, or an address for type A.
fn zone(records: &[(&str, Rtype, &str)]) -> Zone {
    let origin = name("example.org.");
    let key = Arc::new(HashKey::new([7; image::HASH_KEY_WORDS]));
    let mut loader = Loader::new(key, origin.as_name(), None);
    let soa = [name("ns.example.org."), name("root.example.org.")];
    let soa: Vec<u8> =
        soa.iter().flat_map(|name| name.as_name().as_bytes()).copied().chain([0; 20]).collect();
    loader.add(origin.as_name(), Rtype::SOA, 60, &soa, 0).expect("an SOA");
    for (owner, rtype, text) in records {
        let before: &[u8] = match *rtype {
            Rtype::SRV => &[0, 0, 0, 0, 0x13, 0xc4],
            Rtype::MX => &[0, 10],
            _ => &[],
        };
        let data = match *rtype {
            Rtype::A => vec![192, 0, 2, 1],
            _ => [before, name(text).as_name().as_bytes()].concat(),
        };
        loader.add(name(owner).as_name(), *rtype, 60, &data, 0).expect("a record");
    }
    loader.finish().unwrap_or_else(|_| panic!("a zone"))
}

const BASE: [(&str, Rtype, &str); 2] =
    [("example.org.", Rtype::NS, "ns.example.org."), ("ns.example.org.", Rtype::A, "")];

/// The warnings about changed sets of `example.org`, as `rule: name`.
fn check(records: &[(&str, Rtype, &str)], changed: &[(&str, Rtype)], expected: &[&str]) {
    let zone = zone(&[&BASE, records].concat());
    let changed: Vec<_> = changed
        .iter()
        .map(|(owner, rtype)| (zone.relative(name(owner).as_name()).expect("in the zone"), *rtype))
        .collect();
    let found = zone.lint_sets(changed.iter().map(|(name, rtype)| (&name[..], *rtype)), 100);
    let found: Vec<String> = found
        .iter()
        .map(|one| {
            let name = NameBuf::joined(&one.name, zone.origin()).expect("a name");
            format!("{}: {name} {}", one.rule.id, one.rtype)
        })
        .collect();
    assert_eq!(found, expected, "{records:?}");
}

#[test]
fn each_mistake_in_a_changed_set_is_found() {
    let one = |owner: &'static str, rtype, target: &'static str, expected: &str| {
        check(&[(owner, rtype, target)], &[(owner, rtype)], &[expected]);
    };
    let www = "www.example.org.";
    one(
        "www.example.org.example.org.",
        Rtype::A,
        "",
        "doubled-name: www.example.org.example.org. A",
    );
    one(www, Rtype::CNAME, "192.0.2.1.", "address-as-name: www.example.org. CNAME");
    one(www, Rtype::CNAME, "192.0.2.1.example.org.", "address-as-name: www.example.org. CNAME");
    one(www, Rtype::MX, "ns.example.org.example.org.", "doubled-name: www.example.org. MX");
    one(www, Rtype::SRV, "sip.", "target-top-level: www.example.org. SRV");
    one(www, Rtype::CNAME, "web.", "target-top-level: www.example.org. CNAME");
    one(www, Rtype::SRV, "sip.example.org.", "target-missing: www.example.org. SRV");
    one("sub.example.org.", Rtype::NS, "ns.sub.example.org.", "glue: sub.example.org. NS");
    one("sub.example.org.", Rtype::NS, "ns9.example.org.", "lame: sub.example.org. NS");
}

#[test]
fn right_sets_and_sets_of_others_have_no_warning() {
    let (www, sub) = ("www.example.org.", "sub.example.org.");
    for (rtype, target) in [
        (Rtype::CNAME, "ns.example.org."),
        (Rtype::CNAME, "localhost."),
        (Rtype::CNAME, "a.example.com."),
        (Rtype::MX, "."),
        (Rtype::PTR, "router."),
        (Rtype::A, ""),
    ] {
        check(&[(www, rtype, target)], &[(www, rtype)], &[]);
    }
    let lame = (sub, Rtype::NS, "ns9.example.org.");
    check(&[(www, Rtype::A, ""), lame], &[(www, Rtype::A)], &[]);
    check(&[lame], &[(www, Rtype::A)], &[]);
}

#[test]
fn change_of_a_servers_address_is_seen_at_the_ns_sets_that_name_it() {
    let (sub, glue) = ("sub.example.org.", "ns.sub.example.org.");
    let delegation = (sub, Rtype::NS, glue);
    check(&[delegation], &[(glue, Rtype::A)], &["glue: sub.example.org. NS"]);
    check(&[delegation, (glue, Rtype::A, "")], &[(glue, Rtype::A)], &[]);
    let second = ("example.org.", Rtype::NS, "ns2.example.org.");
    let changed = [("ns2.example.org.", Rtype::A), ("ns2.example.org.", Rtype::AAAA)];
    check(&[second], &changed, &["lame: example.org. NS"]);
}

#[test]
fn warnings_of_many_sets_are_limited() {
    let names: Vec<String> = (0..50).map(|n| format!("n{n}.example.org.")).collect();
    let records: Vec<_> = names.iter().map(|name| (&**name, Rtype::CNAME, "web.")).collect();
    let zone = zone(&[&BASE, &records[..]].concat());
    let relative: Vec<_> = names
        .iter()
        .map(|text| zone.relative(name(text).as_name()).expect("in the zone"))
        .collect();
    let found = zone.lint_sets(relative.iter().map(|name| (&name[..], Rtype::CNAME)), 20);
    assert_eq!(found.len(), 20);
}

#[test]
fn mail_address_with_at_sign_is_reported() {
    let soa = b"\x02ns\0\x0dadmin@example\x03org\0";
    assert!(soa_mail(soa).is_some_and(|(rule, ..)| rule == BrokenRule::MAILBOX));
    assert!(soa_mail(b"\x02ns\0\x04root\0").is_none());
}
