use super::*;
use image::HashKey;
use std::sync::Arc;
use test_support::folder::Folder;
use wire::{Name, NameBuf};

/// Warnings about `example.org` with these lines after its SOA record, as `line: rule`.
fn messages(test: &str, lines: &str) -> Vec<String> {
    let folder = Folder::new(test);
    let file = folder.join("zone");
    let text = format!("$TTL 60\n@ SOA ns hostmaster 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\n{lines}");
    std::fs::write(&file, text).expect("a file");
    let origin = NameBuf::from_text(b"example.org.", Name::ROOT).expect("a name");
    let key = Arc::new(HashKey::new([7; image::HASH_KEY_WORDS]));
    let (zone, _) = crate::load(&file, origin.as_name(), &key, None).expect("a zone");
    let mut found = lint(&file, &zone);
    found.sort_by_key(|error| error.place().line);
    found.iter().map(|error| format!("{}: {}", error.place().line, error.rule.id)).collect()
}

#[test]
fn correct_zone_has_no_warnings() {
    let lines = "www CNAME ns\nmail MX 10 ns\n_s._tcp SRV 0 0 80 ns\nout CNAME a.example.com.\n\
        sub NS ns.sub\nns.sub A 192.0.2.2\nsub NS ns\nfar NS ns.example.com.\n\
        sub DS 1 8 2 2bb183af5f22588179a53b0a98631fad1a2921182bb183af5f22588179a53b0a\n\
        *.w A 192.0.2.3\nto CNAME any.w\nnone MX 0 .\nto-sub CNAME host.sub\np PTR x.y\n";
    assert_eq!(messages("well", lines), Vec::<String>::new());
}

#[test]
fn targets_without_address_are_reported() {
    let lines = "@ MX 10 mail\nwww CNAME web\nns2 CNAME ns\n@ NS ns2\n@ NS ns3\n\
        _s._tcp SRV 0 0 80 www\nt TXT text\nm MX 0 t\n";
    let expected = [
        "5: target-missing",
        "6: target-missing",
        "8: target-alias",
        "9: lame",
        "10: target-alias",
        "12: target-missing",
    ];
    assert_eq!(messages("targets", lines), expected);
}

#[test]
fn names_with_missing_dots_are_reported() {
    let lines = "www.example.org A 192.0.2.2\na CNAME ns.example.org\nb CNAME 192.0.2.1\n\
        c MX 10 192.0.2.1.\n@ TXT 0 x\n";
    let expected =
        ["5: doubled-name", "6: doubled-name", "7: address-as-name", "8: address-as-name"];
    assert_eq!(messages("names", lines)[..4], expected);
}

#[test]
fn missing_glue_and_hidden_records_are_reported() {
    let lines = "sub NS ns.sub\nsub TXT hidden\nx.sub CNAME ns\nns.sub AAAA 2001:db8::1\n\
        two NS ns.two\nzero 0 A 192.0.2.9\n";
    let expected = ["6: occluded", "7: occluded", "9: glue", "10: ttl-zero"];
    assert_eq!(messages("cuts", lines), expected);
}

#[test]
fn aliases_that_lead_back_to_themselves_are_reported() {
    let lines = "a CNAME b\nb CNAME c\nc CNAME a\nself CNAME self\nto CNAME a\n\
        *.w CNAME x.w\nfine CNAME end\nend CNAME ns\nout CNAME a.example.com.\n";
    let expected = [
        "5: alias-loop",
        "6: alias-loop",
        "7: alias-loop",
        "8: alias-loop",
        "9: alias-loop",
        "10: alias-loop",
    ];
    assert_eq!(messages("loops", lines), expected);
    let long: String = (0..100).map(|n| format!("c{n} CNAME c{}\n", n + 1)).collect();
    assert_eq!(messages("chain", &format!("{long}c100 A 192.0.2.1\n")), Vec::<String>::new());
}

#[test]
fn ttl_of_0_is_not_reported_for_nsec3param() {
    let lines = "@ 0 NSEC3PARAM 1 0 0 -\nns 0 AAAA 2001:db8::1\n";
    assert_eq!(messages("param", lines), ["6: ttl-zero"]);
}

#[test]
fn warnings_are_limited() {
    let lines: String = (0..2 * FINDINGS_MAX).map(|n| format!("n{n} 0 A 192.0.2.1\n")).collect();
    assert_eq!(messages("many", &lines).len(), FINDINGS_MAX);
}
