//! Small zone files with expected records or errors. A case is one file: the text, a line `;;
//! expect`, and the outcome: `owner TTL type data` for each record and `line:column: what (help)
//! [rule]` for each error. `BLESS=1` writes the outcome into the case; review the difference.
use std::fmt::Write;
use std::fs;
use std::path::Path;

use domain::base::iana::Rtype;
use domain::base::name::ParsedName;
use domain::base::rdata::ParseAnyRecordData;
use domain::dep::octseq::parse::Parser;
use domain::rdata::AllRecordData;
use wire::{Name, NameBuf};
use zonefile::Record;

const MARK: &str = ";; expect\n";

/// A record in presentation form, with data formatted by another library.
fn show(record: &Record<'_>) -> String {
    let mut parser = Parser::from_ref(record.rdata);
    let number = Rtype::from_int(record.rtype.0);
    let data = AllRecordData::<&[u8], ParsedName<&[u8]>>::parse_any_rdata(number, &mut parser)
        .expect("data is valid for its type");
    assert_eq!(parser.remaining(), 0, "{record:?}");
    format!("{} {} {} {data}", record.owner, record.ttl, record.rtype)
}

/// The outcome of a text.
fn outcome(mut text: &[u8]) -> String {
    let origin = NameBuf::from_text(b"example.", Name::ROOT).unwrap();
    let mut out = String::new();
    let result = zonefile::read_stream(&mut text, origin.as_name(), &mut |record| {
        writeln!(out, "{}", show(&record)).map_err(|error| error.to_string())
    });
    if let Err(failure) = result {
        for error in &failure.errors {
            let messages = error.to_string();
            writeln!(out, "{} [{}]", messages.trim_start_matches("-:"), error.rule.id).unwrap();
        }
    }
    out
}

#[test]
fn cases_match_their_outcome() {
    let mut seen = 0;
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "case") {
            continue;
        }
        seen += 1;
        let case = fs::read_to_string(&path).unwrap();
        let (text, expect) = case.split_once(MARK).expect("a line `;; expect`");
        let found = outcome(text.as_bytes());
        if std::env::var_os("BLESS").is_some() {
            fs::write(&path, format!("{text}{MARK}{found}")).unwrap();
        } else {
            assert_eq!(found, expect, "{}", path.display());
        }
        // Also with CR LF line ends, and without the last line end.
        assert_eq!(outcome(text.replace('\n', "\r\n").as_bytes()), found, "{}", path.display());
        assert_eq!(outcome(text.trim_end().as_bytes()), found, "{}", path.display());
    }
    assert!(seen > 5, "the cases are missing");
}
