//! The data of one record in presentation form (RFC 1035 §5.1), without a file.
use crate::BrokenRule;
use domain::base::ParsedName;
use domain::base::iana::Rtype as DomainRtype;
use domain::base::rdata::ParseAnyRecordData;
use domain::base::zonefile_fmt::{DisplayKind, ZonefileFmt};
use domain::dep::octseq::parse::Parser;
use domain::rdata::AllRecordData;
use std::fmt::{self, Write};
use wire::Rtype;

use crate::fields::Fields;
use crate::form;
use crate::lex::{Token, lex};
use crate::limits::STRING_BYTES_MAX;
use crate::rdata;
use crate::report::EntryError;

/// Why a text is not record data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidData {
    /// The fault.
    pub what: String,
    /// How to fix it, if known.
    pub help: Option<String>,
    /// Which rule is broken.
    pub rule: BrokenRule,
}

impl From<EntryError> for InvalidData {
    fn from(fault: EntryError) -> Self {
        let EntryError { what, help, rule, .. } = fault;
        Self { what: what.into_owned(), help, rule: rule.unwrap_or(BrokenRule::SYNTAX) }
    }
}

/// `what (help)`.
impl fmt::Display for InvalidData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.help {
            Some(help) => write!(f, "{} ({help})", self.what),
            None => f.write_str(&self.what),
        }
    }
}

/// Converts the data of one record to wire form. Names are absolute, with or without the final dot;
/// they stay uncompressed and keep their case. TXT and SPF data that does not begin with a quote is
/// one text. The generic form of RFC 3597 is accepted too.
///
/// # Errors
/// The text is not the data of a record of this type, or has more than that, such as a comment.
pub fn read_data(rtype: Rtype, text: &str) -> Result<Vec<u8>, InvalidData> {
    let is_text = matches!(rtype, Rtype::TXT | Rtype::SPF);
    let first = text.trim_start();
    let is_generic = first.split_ascii_whitespace().next() == Some("\\#");
    if is_text && !is_generic && !first.starts_with('"') {
        return Ok(one_text(text)?);
    }
    let mut tokens = Vec::new();
    let text = text.as_bytes();
    let entry = lex(text, true, &mut tokens);
    if let Some(fault) = entry.as_ref().and_then(|entry| entry.fault.clone()) {
        return Err(fault.into());
    }
    if let Some(at) = entry.as_ref().and_then(|entry| entry.comment) {
        let help = "there are no comments here: put what has a `;` into quotes";
        return Err(EntryError::new(at, "a `;` is outside of quotes").help(help).into());
    }
    if text.contains(&b'\n') || entry.is_some_and(|entry| entry.len < text.len()) {
        return Err(EntryError::new(0, "record data must be one line").into());
    }
    let bare = tokens.iter().find(|token| is_text && !is_generic && !token.quoted);
    if let Some(bare) = bare {
        let fault = EntryError::new(bare.start as usize, "there is text next to a quoted string");
        return Err(fault.help(QUOTE_ALL).rule(BrokenRule::TEXT).into());
    }
    let mut data = Vec::new();
    rdata::read(rtype, &mut Fields::absolute(text, &tokens), &mut data)?;
    Ok(data)
}

const QUOTE_ALL: &str = "put each string into quotes, or none and write a quote as `\\\"`";

/// Converts a text without quotes to strings of up to 255 bytes. Blanks, `;` and parentheses belong
/// to the text. Only backslashes have their usual meaning.
fn one_text(text: &str) -> Result<Vec<u8>, EntryError> {
    if text.trim().is_empty() {
        let fault = EntryError::new(0, "the text is empty").help("write an empty one as `\"\"`");
        return Err(fault.rule(BrokenRule::TEXT));
    }
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let wrong = |what: &'static str, help: &str| EntryError::new(at, what).help(help);
        match (byte, bytes.get(at + 1)) {
            (b'\\', None) => {
                let what = "the text ends in a backslash";
                return Err(wrong(what, "for a backslash, write `\\\\`"));
            }
            (b'\\', Some(b' '..)) => at += 1,
            (b'"', _) => {
                return Err(
                    wrong("there is a quote within the text", QUOTE_ALL).rule(BrokenRule::TEXT)
                );
            }
            (b'\t' | b' '.., _) if byte != 0x7f => {}
            _ => {
                let what = "this is a control character";
                return Err(wrong(what, "write it as `\\DDD`, in decimal"));
            }
        }
        at += 1;
    }
    let whole = Token { start: 0, end: at as u32, quoted: false, escaped: true, spaced: true };
    let mut plain = Vec::with_capacity(at);
    Fields::absolute(bytes, &[]).unescape(whole, &mut plain)?;
    let data: Vec<u8> = plain
        .chunks(STRING_BYTES_MAX)
        .flat_map(|string| [&[string.len() as u8], string].concat())
        .collect();
    rdata::check_len(0, &data)?;
    Ok(data)
}

/// Appends the data of one record in presentation form, with absolute names. Falls back to RFC 3597
/// §5 if that form is missing or does not convert back to the same bytes.
pub fn write_data(rtype: Rtype, data: &[u8], out: &mut String) {
    let start = out.len();
    let written = match form::form(rtype) {
        [] => write_known(rtype, data, out),
        _ => form::write(rtype, data, out),
    };
    if written.is_some() && read_data(rtype, &out[start..]).is_ok_and(|again| again == data) {
        return;
    }
    out.truncate(start);
    write_generic(data, out).expect("a String takes all");
}

/// Writes a type that `domain` knows.
fn write_known(rtype: Rtype, data: &[u8], out: &mut String) -> Option<()> {
    let mut parser = Parser::from_ref(data);
    let number = DomainRtype::from_int(rtype.0);
    let parsed = AllRecordData::<&[u8], ParsedName<&[u8]>>::parse_any_rdata(number, &mut parser);
    let parsed = parsed
        .ok()
        .filter(|parsed| !matches!(parsed, AllRecordData::Unknown(_) | AllRecordData::Null(_)))?;
    write!(out, "{}", parsed.display_zonefile(DisplayKind::Simple)).ok()
}

/// As [`write_data`], in a new `String`.
pub fn data_text(rtype: Rtype, data: &[u8]) -> String {
    let mut text = String::new();
    write_data(rtype, data, &mut text);
    text
}

fn write_generic(data: &[u8], out: &mut String) -> fmt::Result {
    write!(out, "\\# {}", data.len())?;
    if !data.is_empty() {
        out.push(' ');
    }
    data.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rtype(text: &str) -> Rtype {
        text.parse().expect("a type")
    }

    #[test]
    fn data_is_written_as_it_is_read() {
        for (kind, text) in [
            ("A", "192.0.2.1"),
            ("AAAA", "2001:db8::1"),
            ("NS", "ns1.example.org."),
            ("CNAME", "a\\.b.example.org."),
            ("MX", "10 mail.example.org."),
            ("SRV", "0 5 5060 sip.example.org."),
            ("SOA", "ns1.example.org. hostmaster.example.org. 1 7200 900 1209600 300"),
            ("TXT", "\"a b\" \"c\\\"d\\\\e\""),
            ("CAA", "0 issue \"ca.example\""),
            ("TYPE65280", "\\# 3 01ff00"),
            ("TYPE65280", "\\# 0"),
        ] {
            let data = read_data(rtype(kind), text).expect(text);
            let mut again = String::new();
            write_data(rtype(kind), &data, &mut again);
            assert_eq!(again, text, "{kind}");
        }
    }

    #[test]
    fn every_form_round_trips() {
        for (kind, text) in [
            ("HTTPS", "1 . alpn=h2,h3 ipv4hint=192.0.2.1"),
            ("SVCB", "0 svc.example.org."),
            ("NAPTR", "100 10 \"u\" \"E2U+sip\" \"!^.*$!sip:a@example.org!\" ."),
            ("LOC", "52 22 23.000 N 4 53 32.000 E -2.00m 0.00m 10000m 10m"),
            ("TLSA", "3 1 1 00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"),
            ("TXT", "\\000\\255\\;"),
            ("TXT", "\"\\000\\255\\;\" \"\""),
            ("URI", "10 1 \"https://example.org/\""),
            ("EUI48", "00-00-5e-00-53-2a"),
            ("DS", "1 8 2 00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"),
        ] {
            let data = read_data(rtype(kind), text).expect(text);
            let mut written = String::new();
            write_data(rtype(kind), &data, &mut written);
            let again = read_data(rtype(kind), &written).expect(&written);
            assert_eq!(again, data, "{kind}: {written}");
        }
    }

    #[test]
    fn invalid_data_is_refused_with_its_rule() {
        for (kind, text, rule) in [
            ("A", "192.0.2", BrokenRule::DATA),
            ("A", "", BrokenRule::DATA),
            ("A", "192.0.2.1 192.0.2.2", BrokenRule::DATA),
            ("A", "192.0.2.1\nwww A 192.0.2.2", BrokenRule::SYNTAX),
            ("NS", "a..b", BrokenRule::NAME),
            ("CNAME", "@", BrokenRule::NAME),
            ("MX", "10 \"a b.example\"", BrokenRule::NAME),
            ("CNAME", "a.example ; b.example", BrokenRule::SYNTAX),
            ("CAA", "0 issue ca.example; policy=x", BrokenRule::SYNTAX),
            ("TXT", "", BrokenRule::TEXT),
            ("TXT", "  ", BrokenRule::TEXT),
            ("TXT", "\"a\" b", BrokenRule::TEXT),
            ("TXT", "a \"b\"", BrokenRule::TEXT),
            ("TXT", "a\nb", BrokenRule::SYNTAX),
            ("TXT", "a\\", BrokenRule::SYNTAX),
            ("TXT", "a\\256", BrokenRule::SYNTAX),
            ("TXT", "\"never closed", BrokenRule::SYNTAX),
            ("TYPE65280", "\\# 2 01", BrokenRule::GENERIC_DATA),
        ] {
            let fault = read_data(rtype(kind), text).expect_err(text);
            assert_eq!(fault.rule, rule, "{text}: {fault}");
        }
    }

    #[test]
    fn name_in_data_is_absolute_with_and_without_the_final_dot() {
        for (kind, text, written) in [
            ("CNAME", "www.example.org", "www.example.org."),
            ("CNAME", "www.example.org.", "www.example.org."),
            ("MX", "10 mail.example.org", "10 mail.example.org."),
            ("SRV", "0 5 5060 sip.example.org", "0 5 5060 sip.example.org."),
            ("PTR", "bücher.example.org", "xn--bcher-kva.example.org."),
            ("SOA", "ns.a admin.a 1 2 3 4 5", "ns.a. admin.a. 1 2 3 4 5"),
            ("HTTPS", "1 svc.example.org alpn=h2", "1 svc.example.org. alpn=h2"),
            ("RP", "admin.a txt.a", "admin.a. txt.a."),
        ] {
            let data = read_data(rtype(kind), text).expect(text);
            assert_eq!(data_text(rtype(kind), &data), written, "{text}");
        }
    }

    #[test]
    fn unquoted_text_is_one_text_and_round_trips() {
        let long = "x".repeat(256);
        let long_written = format!("\"{}\" \"x\"", "x".repeat(255));
        for (text, written) in [
            ("v=spf1 -all", "\"v=spf1 -all\""),
            ("v=DKIM1; k=rsa; p=MII(=)", "\"v=DKIM1; k=rsa; p=MII(=)\""),
            (" two  blanks ", "\" two  blanks \""),
            ("say \\\"hi\\\"", "\"say \\\"hi\\\"\""),
            ("\"a b\"", "\"a b\""),
            ("\"a\" \"b\"", "\"a\" \"b\""),
            ("\"a\"\"b\"", "\"a\" \"b\""),
            ("\"\"", "\"\""),
            ("\\# 2 0161", "\"a\""),
            ("\\#1", "\"#1\""),
            (&*long, &*long_written),
        ] {
            let data = read_data(Rtype::TXT, text).expect(text);
            assert_eq!(data_text(Rtype::TXT, &data), written, "{text}");
            assert_eq!(read_data(Rtype::TXT, written).expect(written), data, "{text}");
        }
        let data = read_data(Rtype::TXT, "ü").expect("UTF-8");
        assert_eq!(data, [2, 0xc3, 0xbc], "bytes are kept as they are");
    }
}
