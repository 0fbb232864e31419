//! Patterns, grants and principals.
use super::*;

fn name(text: &str) -> NameBuf {
    NameBuf::from_text(text.as_bytes(), Name::ROOT).expect("a name")
}

#[test]
fn patterns_match_whole_labels() {
    for (pattern, found, expected) in [
        ("*", "a.example.org", true),
        ("example.org", "EXAMPLE.org", true),
        ("example.org", "evilexample.org", false),
        ("example.org", "a.example.org", false),
        ("*.example.org", "example.org", false),
        ("*.example.org", "a.example.org", true),
        ("*.example.org", "*.example.org", true),
        ("*.example.org", "a.b.example.org", true),
        ("*.example.org", "a.evilexample.org", false),
        ("_acme-challenge.*.example.org", "_acme-challenge.a.example.org", true),
        ("_acme-challenge.*.example.org", "_acme-challenge.a.b.example.org", false),
        ("_acme-challenge.*.example.org", "a.example.org", false),
    ] {
        let pattern: Pattern = pattern.parse().expect("a pattern");
        assert_eq!(pattern.matches(name(found).as_name()), expected, "{pattern} {found}");
    }
}

#[test]
fn patterns_cover_what_is_below_a_name() {
    for (pattern, above, expected) in [
        ("*", "a.example.org", true),
        ("example.org", "example.org", false),
        ("*.example.org", "example.org", true),
        ("*.example.org", "a.b.EXAMPLE.org", true),
        ("*.example.org", "org", false),
        ("*.example.org", "evilexample.org", false),
        ("*.*.example.org", "example.org", false),
        ("*.*.example.org", "a.example.org", true),
        ("_acme-challenge.*.example.org", "example.org", false),
    ] {
        let pattern: Pattern = pattern.parse().expect("a pattern");
        assert_eq!(pattern.matches_below(name(above).as_name()), expected, "{pattern} {above}");
    }
}

#[test]
fn grants_are_read_and_written() {
    for (text, written) in [
        ("read *", "read * * *"),
        ("operate", "operate"),
        ("operate * * *", "operate"),
        ("read,operate *", "read,operate * * *"),
        ("endpoints 192.0.2.0/24,2001:db8::7", "endpoints 192.0.2.0/24,2001:db8::7/128"),
        (
            "read,write example.org *.web.example.org a,AAAA",
            "read,write example.org. *.web.example.org. A,AAAA",
        ),
    ] {
        let grant: Grant = text.parse().expect("a grant");
        assert_eq!(grant.to_string(), written);
        assert_eq!(written.parse(), Ok(grant));
    }
    for (wrong, story) in [
        ("", "an empty grant"),
        ("read", "names no zone"),
        (
            "steal *",
            "\"steal\" is not a verb: there are read, write, hide-wildcard, zones, operate, \
             endpoints",
        ),
        ("read a..b", "neither a name nor a pattern"),
        ("read * * BOGUS", "\"BOGUS\" is not a type"),
        ("read * * * * *", "unexpected word"),
        ("endpoints", "stands alone before its addresses"),
        ("endpoints *", "expected an address or a prefix"),
        ("endpoints 10.0.0.1/8", "did you mean 10.0.0.0/8"),
        ("endpoints 10.0.0.0/8 *", "stands alone before its addresses"),
        ("read,endpoints 10.0.0.0/8", "stands alone before its addresses"),
    ] {
        let told = wrong.parse::<Grant>().expect_err(wrong);
        assert!(told.contains(story), "{wrong}: {told}");
    }
}

#[test]
fn grant_for_addresses_is_for_no_others_and_for_nothing_else() {
    let grants = vec!["endpoints 192.0.2.0/24,2001:db8::/32".parse().expect("a grant")];
    let rack = Principal::new("rack-7", grants).expect("a principal");
    let may_set = |address: &str| rack.may_set(address.parse().expect("an address"));
    assert!(may_set("192.0.2.255") && may_set("2001:db8::1"));
    assert!(!may_set("192.0.3.0") && !may_set("2001:db9::1") && !may_set("10.0.0.1"));
    let org = name("example.org");
    assert!(!rack.may_operate());
    assert!(Verb::ALL[..5].iter().all(|verb| !rack.may_in(*verb, org.as_name())));
    let grants = |text: &str| vec![text.parse().expect("a grant")];
    let writer = Principal::new("writer", grants("read,write,zones *")).expect("a principal");
    assert!(!writer.may_set([192, 0, 2, 1].into()));
    let operator = Principal::new("ops", grants("operate")).expect("a principal");
    assert!(operator.may_set([192, 0, 2, 1].into()));
    assert!(Principal::local(0).may_set([192, 0, 2, 1].into()));
}

#[test]
fn grants_that_can_never_match_are_refused() {
    for (text, expected) in [
        ("write example.org *.example.org A", None),
        ("write example.org example.org", None),
        ("write example.org *.org", None),
        ("write *.example.org a.b.example.org", None),
        ("write *.example.org *.*.example.org", None),
        ("write * www.example.org", None),
        ("operate", None),
        ("read,zones example.org *.example.org", None),
        ("write example.org www.example.net", Some("lies in a zone")),
        ("write example.org www", Some("lies in a zone")),
        ("write example.org *.example.net", Some("lies in a zone")),
        ("write *.example.org example.org", Some("lies in a zone")),
        ("write a.example.org b.*.org", Some("lies in a zone")),
        ("read example.org * ANY", Some("no record has the type")),
        ("zones example.org *.example.org", Some("whole zones")),
        ("zones example.org * A", Some("whole zones")),
        ("write,hide-wildcard example.org *.example.org TXT", None),
        ("hide-wildcard example.org", Some("add `write`")),
        ("operate example.org", Some("leave out zone")),
    ] {
        let grant: Grant = text.parse().expect("a grant");
        match (grant.check_matchable(), expected) {
            (Ok(()), None) => {}
            (Err(why), Some(story)) => assert!(why.contains(story), "{text}: {why}"),
            (found, _) => panic!("{text}: {found:?}"),
        }
    }
}

#[test]
fn a_principal_may_what_its_grants_say_and_no_more() {
    let grants = ["read,write example.org *.web.example.org A", "operate"];
    let grants = grants.map(|text| text.parse().expect("a grant")).to_vec();
    let ci = Principal::new("ci", grants).expect("a principal");
    let (org, net) = (name("example.org"), name("example.net"));
    let (web, apex) = (name("a.web.example.org"), name("example.org"));
    let may = |verb, zone: &NameBuf, owner: &NameBuf, rtype| {
        let (zone, name) = (zone.clone(), owner.clone());
        ci.may(verb, &SetKey { zone, name, rtype, view: View::DEFAULT })
    };
    assert!(may(Verb::Write, &org, &web, Rtype::A));
    assert!(!may(Verb::Write, &org, &web, Rtype::AAAA), "another type");
    assert!(!may(Verb::Write, &org, &apex, Rtype::A), "another name");
    assert!(!may(Verb::Write, &net, &web, Rtype::A), "another zone");
    assert!(!may(Verb::Zones, &org, &web, Rtype::A), "another verb");
    assert!(ci.may_in(Verb::Read, org.as_name()) && !ci.may_in(Verb::Read, net.as_name()));
    assert!(!ci.may_all_of(Verb::Read, org.as_name()), "not the zone as a whole");
    assert!(ci.may_operate() && !ci.may_everything(Verb::Read));
    let all = Principal::new("all", vec!["read *".parse().expect("a grant")]);
    let all = all.expect("a principal");
    assert!(all.may_everything(Verb::Read) && !all.may_everything(Verb::Write));
    let long = "x".repeat(PRINCIPAL_LEN_MAX + 1);
    for wrong in ["", "a b", "a\nb", &long] {
        assert!(Principal::new(wrong, ci.grants.clone()).is_err(), "{wrong:?}");
    }
    assert!(Principal::new("ci", Vec::new()).is_err(), "nothing may be done");
    let text = "write example.org. * A default,internal";
    let of_views: Grant = text.parse().expect("a grant");
    assert_eq!((of_views.to_string(), of_views.limits_writes()), (text.to_owned(), true));
    assert!("write example.org * A a/b".parse::<Grant>().is_err(), "no view");
}
