use super::*;
use std::collections::HashMap;
use std::collections::HashSet;

const FORM: QueryFormat = QueryFormat { recursion: true, edns: true, dnssec: false, option: None };

fn what(order: Order) -> QuestionSpec {
    let set = QuestionSet::from_pattern("s-{i}.n-{i%10}.example", 100, Rtype::A, FORM).unwrap();
    QuestionSpec { set: Arc::new(set), order, unique: 0.0, nxdomain: 0.0, under: None }
}

/// This many names, written as text.
fn take(what: &QuestionSpec, index: usize, of: usize, count: usize) -> Vec<String> {
    what.check().unwrap();
    let mut names = Names::new(what.clone(), index, of, 1);
    let mut one = || {
        let mut out = vec![0xff];
        let asked = names.write(&mut out);
        assert_eq!(out.len(), 1 + usize::from(asked.len));
        let query = &out[1..];
        let question = &query[HEADER..HEADER + usize::from(asked.question_len)];
        assert_eq!(asked.identity, identity(question));
        Name::parse(question).unwrap().to_string()
    };
    (0..count).map(|_| one()).collect()
}

fn file(text: &str) -> Result<QuestionSet, String> {
    let folder = test_support::folder::Folder::new("names");
    let path = folder.join("names");
    std::fs::write(&path, text).unwrap();
    QuestionSet::read(&path, FORM)
}

#[test]
fn data_files_are_read() {
    let set = file("; queries\nwww.example.org A\n\n  a\\.b.example. TYPE65 # why\n. NS").unwrap();
    assert_eq!(set.len(), 3);
    let (query, asked) = set.asked(1);
    assert_eq!(name_of(query, FORM.tail()), b"\x03a.b\x07example\x00");
    assert_eq!(usize::from(asked.len), query.len());
    let (root, _) = set.asked(2);
    assert_eq!(root[HEADER..HEADER + 5], [0, 0, 2, 0, 1]);
}

#[test]
fn wrong_lines_are_refused_with_their_position() {
    for (text, told) in [
        ("a A\nb\n", ":2: `b` lacks a type"),
        ("a A A", ":1: `A` follows"),
        ("a..b A", ":1: `a..b` is not a name"),
        ("a BOGUS", ":1: `BOGUS` is not a type"),
        ("; nothing\n", ": there is no query in it"),
    ] {
        let error = file(text).unwrap_err();
        assert!(error.contains(told), "{error}");
    }
    let error = file(&"x".repeat(LINE_MAX + 1)).unwrap_err();
    assert!(error.contains(":1: the line is longer"), "{error}");
}

#[test]
fn patterns_number_names() {
    assert_eq!(fill("svc-{i}.ns-{i%100}.x", 1_234).unwrap(), "svc-1234.ns-34.x");
    for wrong in ["{", "{m}", "{i%0}", "{i%}", "{i+1}"] {
        assert!(fill(wrong, 1).is_err(), "{wrong}");
    }
}

#[test]
fn threads_share_the_given_order() {
    let given = what(Order::Given);
    assert_eq!(take(&given, 0, 1, 101)[100], "s-0.n-0.example.");
    assert_eq!(take(&given, 1, 3, 2), ["s-1.n-1.example.", "s-4.n-4.example."]);
}

#[test]
fn uniform_and_zipf_draws_follow_their_distributions() {
    let counts = |order| {
        let mut counts: HashMap<String, u32> = HashMap::new();
        take(&what(order), 0, 1, 20_000)
            .into_iter()
            .for_each(|n| *counts.entry(n).or_default() += 1);
        counts
    };
    let uniform = counts(Order::Uniform);
    assert!(uniform.len() == 100 && uniform.values().all(|count| (120..=290).contains(count)));
    let zipf = counts(Order::Zipf(1.0));
    let first = f64::from(zipf["s-0.n-0.example."]);
    assert!((first / f64::from(zipf["s-9.n-9.example."]) / 10.0 - 1.0).abs() < 0.2);
}

#[test]
fn shares_of_fresh_names_are_met_and_no_name_comes_twice() {
    let mixed = QuestionSpec { unique: 0.3, nxdomain: 0.1, ..what(Order::Uniform) };
    let names: Vec<String> = (0..2).flat_map(|index| take(&mixed, index, 2, 10_000)).collect();
    let of = |kind: &str| names.iter().filter(|name| name.starts_with(kind)).collect::<Vec<_>>();
    for (kind, due) in [("u--", 6_000_f64), ("nx-", 2_000.0)] {
        let fresh = of(kind);
        assert!((fresh.len() as f64 - due).abs() < 5.0 * due.sqrt(), "{} {kind}", fresh.len());
        assert_eq!(fresh.iter().collect::<HashSet<_>>().len(), fresh.len());
        assert!(fresh.iter().all(|name| name.ends_with(".example.")));
    }
    let under = Some(NameBuf::from_text(b"wild.test", Name::ROOT).unwrap());
    let all = QuestionSpec { unique: 1.0, under, ..what(Order::Given) };
    assert!(take(&all, 0, 1, 100).iter().all(|name| name.ends_with(".wild.test.")));
}

#[test]
fn invalid_query_options_are_refused() {
    let empty = QuestionSpec { set: Arc::new(QuestionSet::new(FORM)), ..what(Order::Given) };
    assert!(empty.check().is_err());
    assert!(QuestionSpec { unique: 0.7, nxdomain: 0.4, ..what(Order::Given) }.check().is_err());
    assert!(QuestionSpec { unique: -0.1, ..what(Order::Given) }.check().is_err());
    assert!(what(Order::Zipf(0.0)).check().is_err());
    let mut long = QuestionSet::new(FORM);
    let label = "a".repeat(59);
    let name = NameBuf::from_text([label.as_str(); 4].join(".").as_bytes(), Name::ROOT).unwrap();
    long.push(name.as_name(), Rtype::A).unwrap();
    let long = QuestionSpec { set: Arc::new(long), unique: 0.1, ..what(Order::Given) };
    assert!(long.check().unwrap_err().contains("too many"));
}
