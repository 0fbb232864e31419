//! Scenarios: a zone, questions, and what must be answered, as text in `scenarios/`, each file
//! named after the law it holds. Replies are decoded by a library of other people.
//!
//! ```text
//! $ example.org.                  the zone that follows, up to the next line with `$` or `?`
//! ? www.example.org. A +do        a question: +do, +edns=SIZE, +tcp
//! NOERROR aa                      the expected response code and flags
//! answer www.example.org. 60 A 192.0.2.1
//! ```
//! Records of a section may come in any order; lines with `answer`, `authority` and `additional`
//! are all there are. An expected `authority ... RRSIG(A)` stands for a signature over that type.

use crate::common::{Burst, key, load, opt, query};
use answer::Policy;
use compile::Image;
use domain::base::{Message, Rtype as Type};
use domain::rdata::AllRecordData;
use packet::{Transport, Verdict};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use wire::Rtype;

#[test]
fn every_scenario_holds() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let mut files: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let (mut asked, mut wrong) = (0, String::new());
    for file in &files {
        let text = std::fs::read_to_string(file).unwrap();
        for (line, expected, got) in play(&text) {
            asked += 1;
            if expected != got {
                let name = file.file_name().unwrap().to_string_lossy();
                writeln!(wrong, "\n{name}:{line}\n--- expected\n{expected}\n--- got\n{got}")
                    .unwrap();
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(asked >= 40, "only {asked} questions were asked");
}

/// Plays a file: for each question its line, what was expected and what was answered.
fn play(text: &str) -> Vec<(usize, String, String)> {
    let mut image = Image::new(key());
    let mut lines = text.lines().enumerate().peekable();
    let mut played = Vec::new();
    while let Some((number, line)) = lines.next() {
        let mut block = String::new();
        let starts = |line: &str| ["$ ", "? ", "# "].iter().any(|mark| line.starts_with(mark));
        while let Some((_, next)) = lines.next_if(|(_, next)| !starts(next)) {
            block.push_str(next);
            block.push('\n');
        }
        if let Some(origin) = line.strip_prefix("$ ") {
            image.put_zone(Arc::new(load(&key(), origin.trim(), &block)));
        } else if let Some(question) = line.strip_prefix("? ") {
            let expected: Vec<String> =
                block.lines().filter(|line| !line.trim().is_empty()).map(squeeze).collect();
            played.push((number + 1, tidy(expected), request(&image, question)));
        }
    }
    played
}

fn squeeze(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The first line stays the first.
fn tidy(mut lines: Vec<String>) -> String {
    if let Some((_, records)) = lines.split_first_mut() {
        records.sort();
    }
    lines.join("\n")
}

fn request(image: &Image, question: &str) -> String {
    let mut words = question.split_whitespace();
    let qname = words.next().unwrap();
    let qtype: Rtype = words.next().unwrap().parse().unwrap();
    let (mut size, mut dnssec_ok, mut transport) = (None, false, Transport::Datagram);
    for word in words {
        match word.split_once('=') {
            None if word == "+do" => (dnssec_ok, size) = (true, Some(1232)),
            None if word == "+tcp" => transport = Transport::Stream,
            Some(("+edns", bytes)) => size = Some(bytes.parse::<u16>().unwrap()),
            _ => panic!("`{word}` is not an option"),
        }
    }
    let flags = if dnssec_ok { 0x80 } else { 0 };
    let opt = size.map(|size| opt(size, 0, flags, &[])).unwrap_or_default();
    let policy = Policy { version: b"Dunlin", ..Policy::default() };
    let burst = Burst { transport, room: 65_535, ..Burst::new(image, &policy) };
    let (verdict, bytes, _) = burst.send_one(&query(0, qname, qtype.0, &opt));
    assert_eq!(verdict, Verdict::Reply);
    show(&bytes)
}

fn show(bytes: &[u8]) -> String {
    let message = Message::from_octets(bytes).expect("a whole message");
    let header = message.header();
    assert!(header.qr() && header.id() == 0x1234 && message.sole_question().is_ok());
    let mut head = message.opt_rcode().to_string();
    for (set, flag) in [(header.aa(), " aa"), (header.tc(), " tc"), (header.ra(), " ra")] {
        head.push_str(if set { flag } else { "" });
    }
    let mut lines = vec![head];
    let (_, answer, authority, additional) = message.sections().expect("sections");
    for (label, section) in
        [("answer", answer), ("authority", authority), ("additional", additional)]
    {
        for record in section.limit_to::<AllRecordData<_, _>>() {
            let record = record.expect("a record");
            let text = match record.data() {
                AllRecordData::Opt(_) => continue,
                AllRecordData::Rrsig(sig) => {
                    format!("{} RRSIG({})", record.ttl().as_secs(), sig.type_covered())
                }
                data => {
                    let rtype: Type = record.rtype();
                    format!("{} {rtype} {data}", record.ttl().as_secs())
                }
            };
            let dot = if record.owner().to_string() == "." { "" } else { "." };
            lines.push(squeeze(&format!("{label} {}{dot} {text}", record.owner())));
        }
    }
    tidy(lines)
}
