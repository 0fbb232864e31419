use super::*;
use compile::Loader;
use image::HashKey;
use std::sync::Arc;
use wire::{Name, NameBuf};

/// 15 January 2026; the signatures are valid from 1 to 31 January.
const NOW: i64 = 1_768_435_200;
const DAY: i64 = 86_400;

/// Zones signed by BIND's dnssec-signzone, with one key each.
const ZONES: [(&str, &str); 8] = [
    ("RSASHA1", include_str!("zones/nsec-005.zone")),
    ("RSASHA256", include_str!("zones/nsec-008.zone")),
    ("RSASHA512", include_str!("zones/nsec-010.zone")),
    ("ECDSAP256SHA256", include_str!("zones/nsec-013.zone")),
    ("ECDSAP384SHA384", include_str!("zones/nsec-014.zone")),
    ("ED25519", include_str!("zones/nsec-015.zone")),
    ("NSEC3", include_str!("zones/nsec3.zone")),
    ("opt-out", include_str!("zones/nsec3-optout.zone")),
];
const NSEC: &str = include_str!("zones/nsec-013.zone");
const NSEC3: &str = include_str!("zones/nsec3.zone");

fn zone(text: &str) -> Zone {
    let origin = NameBuf::from_text(b"example.", Name::ROOT).expect("a name");
    let key = Arc::new(HashKey::new([7; image::HASH_KEY_WORDS]));
    let mut loader = Loader::new(key, origin.as_name(), None);
    zonefile::read_stream(&mut text.as_bytes(), origin.as_name(), &mut |record| {
        loader.add(record.owner, record.rtype, record.ttl, record.rdata, 0)
    })
    .expect("a zone file");
    loader.finish().expect("a zone")
}

fn report(text: &str, now: i64, verified_max: usize) -> SignatureReport {
    let found = check_signatures(Path::new("/nonexistent"), &zone(text), now, verified_max);
    found.expect("the zone is signed")
}

/// The warnings about a zone, without their positions and help.
fn warnings(text: &str, now: i64) -> Vec<String> {
    let mut found: Vec<_> =
        report(text, now, usize::MAX).warnings.into_iter().map(|one| one.what).collect();
    found.sort();
    found
}

/// The text with the first occurrence of `from` replaced, which must be there.
fn changed(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "{from}");
    text.replacen(from, to, 1)
}

/// The text without the lines that contain one of these.
fn without(text: &str, lines: &[&str]) -> String {
    let keep = |line: &&str| !lines.iter().any(|part| line.contains(part));
    text.lines().filter(keep).map(|line| format!("{line}\n")).collect()
}

#[test]
fn zone_of_each_algorithm_is_verified() {
    for (name, text) in ZONES {
        let found = report(text, NOW, usize::MAX);
        assert_eq!(found.warnings, [], "{name}");
        assert!(found.sets > 20 && found.verified == found.sets, "{name}: {found:?}");
        let (expires_seconds, validity_seconds) = (NOW + 16 * DAY, 30 * DAY);
        assert_eq!(found.span, Some(SignatureSpan { expires_seconds, validity_seconds }));
    }
}

#[test]
fn unsigned_zone_is_not_checked() {
    let text = without(NSEC, &["RRSIG"]);
    assert!(check_signatures(Path::new("f"), &zone(&text), NOW, 1).is_none());
    assert_eq!(signature_span(&zone(&text), NOW), None);
}

#[test]
fn expiration_is_reported_before_and_after() {
    let at = |days: i64| warnings(NSEC, NOW + days * DAY);
    assert_eq!(at(8), Vec::<String>::new());
    let soon = at(10);
    assert!(soon.len() == 1 && soon[0].contains("expires on 20260131000000"), "{soon:?}");
    assert!(soon[0].ends_with("more such record sets"), "{soon:?}");
    let past = at(17);
    assert!(past.len() == 1 && past[0].contains("expired on 20260131000000"), "{past:?}");
    let early = at(-20);
    assert!(early.len() == 1 && early[0].contains("is valid from 20260101000000"), "{early:?}");
}

#[test]
fn record_changed_after_signing_is_reported() {
    let text = changed(NSEC, "192.0.2.2", "192.0.2.99");
    assert_eq!(
        warnings(&text, NOW),
        ["the signature of mail.example. A does not match its records"]
    );
    // Without the signature's key.
    let text = changed(NSEC, "DNSKEY 257 3 13 ", "DNSKEY 256 3 13 ");
    let found = warnings(&text, NOW);
    assert!(found[0].contains("which the zone does not have"), "{found:?}");
}

#[test]
fn record_added_after_signing_is_reported() {
    let added = format!("{NSEC}added.example. 60 A 192.0.2.9\n");
    assert_eq!(
        warnings(&added, NOW),
        [
            "added.example. A has no signature",
            "the NSEC record does not name the next name",
            "the name has no NSEC record",
        ]
    );
    let added = format!("{NSEC3}added.example. 60 A 192.0.2.9\n");
    assert_eq!(
        warnings(&added, NOW),
        ["added.example. A has no signature", "the name has no NSEC3 record"]
    );
    for text in [NSEC, NSEC3] {
        let found = warnings(&format!("{text}www.example. 300 KEY 512 3 13 AAAA\n"), NOW);
        assert!(found.iter().any(|one| one.contains("lists other types")), "{found:?}");
        assert!(found.iter().any(|one| one == "www.example. KEY has no signature"), "{found:?}");
    }
}

#[test]
fn record_removed_after_signing_is_reported() {
    let found = warnings(&without(NSEC, &["300 IN TXT \"a wildcard\""]), NOW);
    assert!(found.iter().any(|one| one == "there is a signature of TXT, but no TXT"), "{found:?}");
    let found = warnings(&without(NSEC3, &["af.example."]), NOW);
    assert_eq!(found, ["the NSEC3 record belongs to no name"]);
}

#[test]
fn zone_without_its_chain_is_reported() {
    let found = warnings(&without(NSEC, &[" NSEC "]), NOW);
    assert!(found.len() == 1 && found[0].starts_with("the name has no NSEC record"), "{found:?}");
    let found = warnings(&without(NSEC3, &[" NSEC3 "]), NOW);
    assert!(found.len() == 1 && found[0].starts_with("the name has no NSEC3 record"), "{found:?}");
    let one = NSEC3.lines().find(|line| line.contains(" IN NSEC3 ")).expect("an NSEC3 record");
    let owner = one.split(' ').next().expect("its owner");
    let found = warnings(&without(NSEC3, &[&format!("{owner} ")]), NOW);
    assert!(found.iter().any(|one| one.contains("does not name the next name")), "{found:?}");
}

#[test]
fn large_zone_is_verified_by_a_sample() {
    let found = report(NSEC, NOW, 10);
    assert!((5..=10).contains(&found.verified) && found.sets > 20, "{found:?}");
}
