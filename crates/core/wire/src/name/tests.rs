extern crate std;
use super::*;
use std::string::ToString;
use std::vec;
use std::vec::Vec;

fn name(text: &str) -> NameBuf {
    NameBuf::from_text(text.as_bytes(), Name::ROOT).unwrap()
}

#[test]
fn text_goes_in_and_comes_out() {
    let origin = name("example.org.");
    for (text, out) in [
        ("www", "www.example.org."),
        ("www.", "www."),
        ("@", "example.org."),
        (".", "."),
        (r"a\.b", r"a\.b.example.org."),
        (r"a\046b.", r"a\.b."),
        (r"\000\255.", r"\000\255."),
        ("a.b.c.", "a.b.c."),
    ] {
        let read = NameBuf::from_text(text.as_bytes(), origin.as_name()).unwrap();
        assert_eq!(read.to_string(), out, "{text}");
    }
}

#[test]
fn bad_text_says_why() {
    let long = "a".repeat(64);
    for (text, why) in [
        ("", NameError::EmptyLabel),
        ("..", NameError::EmptyLabel),
        ("a..b", NameError::EmptyLabel),
        (".a", NameError::EmptyLabel),
        (r"a\", NameError::Escape),
        (r"a\25", NameError::Escape),
        (r"a\256", NameError::Escape),
        (long.as_str(), NameError::LabelLength),
    ] {
        assert_eq!(NameBuf::from_text(text.as_bytes(), Name::ROOT), Err(why), "{text}");
    }
}

#[test]
fn the_longest_name_has_255_octets() {
    let label = "a".repeat(63);
    let tail = "b".repeat(61);
    let longest = [label.as_str(), &label, &label, &tail].join(".");
    assert_eq!(name(&longest).as_name().len(), 255);
    let over = NameBuf::from_text((longest + "b").as_bytes(), Name::ROOT);
    assert_eq!(over, Err(NameError::NameLength));
    assert_eq!(name(&"a.".repeat(127)).as_name().labels().count(), 127);
    let over = NameBuf::from_text("a.".repeat(128).as_bytes(), Name::ROOT);
    assert_eq!(over, Err(NameError::NameLength));
}

#[test]
fn octets_are_checked() {
    assert_eq!(Name::parse(&[]).unwrap_err(), NameError::Short);
    assert_eq!(Name::parse(&[1, b'a']).unwrap_err(), NameError::Short);
    assert_eq!(Name::parse(&[0xc0, 12]).unwrap_err(), NameError::LabelLength);
    assert_eq!(Name::parse(&[64; 80]).unwrap_err(), NameError::LabelLength);
    let mut long: Vec<u8> = [1, b'a'].repeat(127);
    long.push(0);
    assert_eq!(Name::parse(&long).unwrap().len(), 255);
    let mut over = [1, b'a'].repeat(126);
    over.extend([2, b'a', b'a', 0]);
    assert_eq!(Name::parse(&over).unwrap_err(), NameError::NameLength);
    assert_eq!(Name::parse(&vec![1; 300]).unwrap_err(), NameError::NameLength);
}

#[test]
fn canonical_order_is_that_of_rfc_4034() {
    // The list of RFC 4034 §6.1.
    let sorted = [
        "example.",
        "a.example.",
        "yljkjljk.a.example.",
        "Z.a.example.",
        "zABC.a.EXAMPLE.",
        "z.example.",
        r"\001.z.example.",
        "*.z.example.",
        r"\200.z.example.",
    ];
    for (i, a) in sorted.iter().enumerate() {
        for (j, b) in sorted.iter().enumerate() {
            assert_eq!(name(a).as_name().canonical_cmp(name(b).as_name()), i.cmp(&j), "{a} {b}");
        }
    }
}

#[test]
fn within_respects_label_borders() {
    let within = |a: &str, b: &str| name(a).as_name().is_within(name(b).as_name());
    assert!(within("a.B.", "b.") && within("b.", "b.") && within("b.", "."));
    assert!(!within("ab.", "b.") && !within("b.", "a.b.") && !within(r"a\001b.", "b."));
}
