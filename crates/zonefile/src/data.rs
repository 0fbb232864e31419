//! The data of a single record in presentation form (RFC 1035 §5.1), apart from any file.
use domain::base::ParsedName;
use domain::base::iana::Rtype as DomainRtype;
use domain::base::rdata::ParseAnyRecordData;
use domain::base::zonefile_fmt::{DisplayKind, ZonefileFmt};
use domain::dep::octseq::parse::Parser;
use domain::rdata::AllRecordData;
use model::Rule;
use std::fmt::{self, Write};
use wire::{Name, Rtype};

use crate::fields::Fields;
use crate::lex::lex;
use crate::rdata;
use crate::report::Fault;

/// Why a text is not the data of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataFault {
    /// What is wrong.
    pub what: String,
    /// What to do about it, where that is known.
    pub help: Option<String>,
    /// Which rule is broken.
    pub rule: Rule,
}

impl From<Fault> for DataFault {
    fn from(fault: Fault) -> Self {
        let Fault { what, help, rule, .. } = fault;
        Self { what: what.into_owned(), help, rule: rule.unwrap_or(Rule::SYNTAX) }
    }
}

/// `what (help)`.
impl fmt::Display for DataFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.help {
            Some(help) => write!(f, "{} ({help})", self.what),
            None => f.write_str(&self.what),
        }
    }
}

/// Reads the data of one record into wire form, names uncompressed and in the case of the text.
/// Names without a final dot are relative to `origin`. The generic form of RFC 3597 is taken too.
///
/// # Errors
/// When the text is not the data of a record of the type, or more than that.
pub fn read_data(rtype: Rtype, text: &str, origin: Name<'_>) -> Result<Vec<u8>, DataFault> {
    let mut tokens = Vec::new();
    let text = text.as_bytes();
    let entry = lex(text, true, &mut tokens);
    if let Some(fault) = entry.as_ref().and_then(|entry| entry.fault.clone()) {
        return Err(fault.into());
    }
    if text.contains(&b'\n') || entry.is_some_and(|entry| entry.len < text.len()) {
        return Err(Fault::new(0, "the data of one record is one line").into());
    }
    let mut data = Vec::new();
    rdata::read(rtype, &mut Fields::new(text, &tokens, origin), &mut data)?;
    Ok(data)
}

/// Appends the data of one record in presentation form, names absolute. Where that form would not
/// give the same octets again, or there is none, it is that of RFC 3597 §5.
pub fn write_data(rtype: Rtype, data: &[u8], out: &mut String) {
    let start = out.len();
    let mut parser = Parser::from_ref(data);
    let number = DomainRtype::from_int(rtype.0);
    let parsed = AllRecordData::<&[u8], ParsedName<&[u8]>>::parse_any_rdata(number, &mut parser);
    if let Ok(parsed) = parsed
        && !matches!(parsed, AllRecordData::Unknown(_) | AllRecordData::Null(_))
        && write!(out, "{}", parsed.display_zonefile(DisplayKind::Simple)).is_ok()
        && read_data(rtype, &out[start..], Name::ROOT).is_ok_and(|again| again == data)
    {
        return;
    }
    out.truncate(start);
    write_generic(data, out).expect("a String takes all");
}

/// The same by itself.
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
    data.iter().try_for_each(|octet| write!(out, "{octet:02x}"))
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
            let data = read_data(rtype(kind), text, Name::ROOT).expect(text);
            let mut again = String::new();
            write_data(rtype(kind), &data, &mut again);
            assert_eq!(again, text, "{kind}");
        }
    }

    #[test]
    fn every_form_comes_back_to_the_same_octets() {
        for (kind, text) in [
            ("HTTPS", "1 . alpn=h2,h3 ipv4hint=192.0.2.1"),
            ("SVCB", "0 svc.example.org."),
            ("NAPTR", "100 10 \"u\" \"E2U+sip\" \"!^.*$!sip:a@example.org!\" ."),
            ("LOC", "52 22 23.000 N 4 53 32.000 E -2.00m 0.00m 10000m 10m"),
            ("TLSA", "3 1 1 00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"),
            ("TXT", "\\000\\255\\; \"\""),
            ("URI", "10 1 \"https://example.org/\""),
            ("EUI48", "00-00-5e-00-53-2a"),
            ("DS", "1 8 2 00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"),
        ] {
            let data = read_data(rtype(kind), text, Name::ROOT).expect(text);
            let mut written = String::new();
            write_data(rtype(kind), &data, &mut written);
            let again = read_data(rtype(kind), &written, Name::ROOT).expect(&written);
            assert_eq!(again, data, "{kind}: {written}");
        }
    }

    #[test]
    fn what_is_not_the_data_of_one_record_is_told_with_its_rule() {
        for (kind, text, rule) in [
            ("A", "192.0.2", Rule::DATA),
            ("A", "", Rule::DATA),
            ("A", "192.0.2.1 192.0.2.2", Rule::DATA),
            ("A", "192.0.2.1\nwww A 192.0.2.2", Rule::SYNTAX),
            ("NS", "a..b", Rule::NAME),
            ("TXT", "\"never closed", Rule::SYNTAX),
            ("TYPE65280", "\\# 2 01", Rule::GENERIC_DATA),
        ] {
            let fault = read_data(rtype(kind), text, Name::ROOT).expect_err(text);
            assert_eq!(fault.rule, rule, "{text}: {fault}");
        }
    }
}
