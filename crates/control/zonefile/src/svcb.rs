//! SVCB and HTTPS data (RFC 9460 §2).
//!
//! `domain` parses the values of the keys it knows. This module parses the keys, because `domain`
//! 0.12.3 refuses a `9` in a key (its character ranges exclude their ends), accepts `key00667`, and
//! reads `key1=\002h2` as the text of `alpn` instead of its wire form. Remove it once a release of
//! `domain` passes its tests.
use std::collections::BTreeMap;

use domain::base::iana::SvcParamKey;
use domain::base::scan::{Scanner, ScannerError};
use domain::dep::octseq::parse::Parser;
use domain::rdata::svcb::value::AllValues;
use domain::rdata::svcb::{ComposeSvcParamValue, ParseSvcParamValue, ScanSvcParamValue};

use crate::fields::Fields;
use crate::report::EntryError;

/// The parameters by key. A `BTreeMap` keeps the order of the wire form.
type Params = BTreeMap<u16, Vec<u8>>;

/// Reads the remaining fields as priority, target and parameters.
pub(crate) fn read(fields: &mut Fields<'_>, out: &mut Vec<u8>) -> Result<(), EntryError> {
    out.extend(fields.parse::<u16>("a priority (0 to 65535)")?.to_be_bytes());
    out.extend_from_slice(fields.name("a name")?.as_name().as_bytes());
    let mut params = Params::new();
    let mut mandatory = None;
    while fields.peek().is_some() {
        let (key, value) = param(fields).map_err(|fault| fields.locate(fault))?;
        if key == SvcParamKey::MANDATORY.to_int() {
            mandatory = Some(fields.locate(EntryError::custom(MANDATORY_ABSENT)));
        }
        if params.insert(key, value).is_some() {
            return Err(fields.locate(EntryError::custom("duplicate SvcParamKey")));
        }
    }
    if let Some(fault) = mandatory
        && !has_mandatory(&params)
    {
        return Err(fault);
    }
    for (key, value) in &params {
        let len = u16::try_from(value.len()).map_err(|_| EntryError::short_buf())?;
        out.extend([key.to_be_bytes(), len.to_be_bytes()].as_flattened());
        out.extend_from_slice(value);
    }
    Ok(())
}

const MANDATORY_ABSENT: &str =
    "keys listed in mandatory MUST appear in the parameters, once and in ascending order";

/// Whether `mandatory` lists present keys in ascending order (RFC 9460 §8).
fn has_mandatory(params: &Params) -> bool {
    let Some(list) = params.get(&SvcParamKey::MANDATORY.to_int()) else { return true };
    let (keys, rest) = list.as_chunks::<2>();
    let keys: Vec<u16> = keys.iter().map(|key| u16::from_be_bytes(*key)).collect();
    let is_itself = keys.contains(&SvcParamKey::MANDATORY.to_int());
    !keys.is_empty()
        && rest.is_empty()
        && !is_itself
        && keys.is_sorted_by(|left, right| left < right)
        && keys.iter().all(|key| params.contains_key(key))
}

/// Reads one parameter: its key, and its value in wire form.
fn param(fields: &mut Fields<'_>) -> Result<(u16, Vec<u8>), EntryError> {
    let bytes = fields.scan_svcb_octets()?;
    let (name, value) = match bytes.iter().position(|&byte| byte == b'=') {
        Some(end) => (&bytes[..end], &bytes[end + 1..]),
        None => (&bytes[..], &[][..]),
    };
    let key = key(name)?;
    let number = SvcParamKey::from_int(key.number);
    if key.is_generic {
        return match has_form(number, value) {
            true => Ok((key.number, value.to_vec())),
            false => Err(EntryError::custom("these bytes are not a value of this key")),
        };
    }
    check_items(number, value)?;
    if number == SvcParamKey::MANDATORY && !value.is_empty() {
        value.split(|&byte| byte == b',').try_for_each(|name| self::key(name).map(drop))?;
    }
    let value = AllValues::<Vec<u8>>::value_from_scan_octets(fields, number, value)?;
    let mut wire = Vec::new();
    match value.map(|value| value.compose_value(&mut wire)) {
        Some(Ok(())) => Ok((key.number, wire)),
        None => Err(EntryError::custom("could not parse SvcParamValue")),
    }
}

/// Checks that a list has no empty item, also none after its last comma (RFC 9460 appendix A.1).
fn check_items(key: SvcParamKey, value: &[u8]) -> Result<(), EntryError> {
    let is_list = matches!(
        key,
        SvcParamKey::MANDATORY
            | SvcParamKey::ALPN
            | SvcParamKey::IPV4HINT
            | SvcParamKey::IPV6HINT
            | SvcParamKey::TLS_SUPPORTED_GROUPS
    );
    if is_list && !value.is_empty() && value.split(|&byte| byte == b',').any(<[u8]>::is_empty) {
        let what = "the list has an empty item";
        return Err(EntryError::custom(what).help("write its items with one comma between two"));
    }
    Ok(())
}

/// Whether bytes are a valid value. Values of unknown keys are always valid.
fn has_form(key: SvcParamKey, value: &[u8]) -> bool {
    let mut parser = Parser::from_ref(value);
    let read = AllValues::<&[u8]>::parse_value(key, &mut parser);
    matches!(read, Ok(Some(_))) && parser.remaining() == 0 && is_sound(key, value)
}

/// Whether a well-formed value follows the rules of its key: clients may refuse a whole message
/// with an empty protocol or an empty list of hints (RFC 9460 §7.1 and §7.3).
fn is_sound(key: SvcParamKey, value: &[u8]) -> bool {
    match key {
        SvcParamKey::ALPN => has_protocols(value),
        SvcParamKey::IPV4HINT | SvcParamKey::IPV6HINT => !value.is_empty(),
        _ => true,
    }
}

/// Whether a value has at least one protocol, and none is empty.
fn has_protocols(value: &[u8]) -> bool {
    let mut rest = value;
    while let [len @ 1..=255, behind @ ..] = rest {
        match behind.get(usize::from(*len)..) {
            Some(behind) => rest = behind,
            None => return false,
        }
    }
    rest.is_empty() && !value.is_empty()
}

/// Whether the values of well-formed data follow the rules of their keys.
pub(crate) fn is_valid(data: &[u8]) -> bool {
    let name = data.get(2..).and_then(|rest| wire::Name::parse(rest).ok());
    let Some(mut rest) = name.and_then(|name| data.get(2 + name.len()..)) else { return false };
    while let Some(([high, low, len_high, len_low], behind)) = rest.split_first_chunk() {
        let key = SvcParamKey::from_int(u16::from_be_bytes([*high, *low]));
        let len = usize::from(u16::from_be_bytes([*len_high, *len_low]));
        let Some((value, behind)) = behind.split_at_checked(len) else { return false };
        if !is_sound(key, value) {
            return false;
        }
        rest = behind;
    }
    rest.is_empty()
}

/// A parsed key.
#[derive(Debug)]
struct Key {
    number: u16,
    /// Written `keyNNNNN`: its value's bytes are the wire form (RFC 9460 §2.1).
    is_generic: bool,
}

/// Parses a registered name, or `key` and a number without leading zeros (RFC 9460 §2.1).
fn key(name: &[u8]) -> Result<Key, EntryError> {
    let is_letter = |byte: &u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
    if name.is_empty() || !name.iter().all(is_letter) {
        return Err(EntryError::custom("invalid SvcParamKey")
            .help("a key has lower-case letters, digits and `-`, as in alpn or key667"));
    }
    if let Some(known) = SvcParamKey::from_mnemonic(name) {
        return Ok(Key { number: known.to_int(), is_generic: false });
    }
    let digits = name.strip_prefix(b"key").filter(|digits| digits.iter().all(u8::is_ascii_digit));
    let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
    let Some(digits) = digits.filter(|digits| !digits.is_empty()) else {
        return Err(
            EntryError::custom("unknown SvcParamKey").help("write its number: key0 to key65535")
        );
    };
    if digits.starts_with('0') && digits != "0" {
        return Err(EntryError::custom("the number of the SvcParamKey has a leading zero")
            .help("write it without one (RFC 9460 §2.1)"));
    }
    match digits.parse() {
        Ok(number) => Ok(Key { number, is_generic: true }),
        Err(_) => Err(EntryError::custom("a SvcParamKey number is at most 65535")),
    }
}

#[cfg(test)]
mod tests {
    use crate::{data_text, read_data};
    use wire::Rtype;

    fn read(text: &str) -> Result<Vec<u8>, String> {
        read_data(Rtype::SVCB, text).map_err(|fault| fault.to_string())
    }

    /// The wire form of `1 .` with these parameters.
    fn wire(params: &[(u16, &[u8])]) -> Vec<u8> {
        let mut data = vec![0, 1, 0];
        for (key, value) in params {
            data.extend(key.to_be_bytes());
            data.extend((value.len() as u16).to_be_bytes());
            data.extend_from_slice(value);
        }
        data
    }

    /// A valid escaped value of a key that `domain` knows. Other keys accept any value.
    fn value_of(key: u16) -> (&'static str, &'static [u8]) {
        match key {
            1 => (r"\002h2", b"\x02h2"),
            2 | 8 => ("", b""),
            3 => (r"\001\187", b"\x01\xbb"),
            4 => (r"\192\000\002\001", &[192, 0, 2, 1]),
            6 => (r"\032\001\013\184\0000000000000\001", b"\x20\x01\x0d\xb8\x000000000000\x01"),
            7 => ("/q{?dns}", b"/q{?dns}"),
            9 => (r"\000\029", &[0, 29]),
            12 => ("", b""),
            _ => ("a9z", b"a9z"),
        }
    }

    #[test]
    fn every_key_number_is_read_and_written_again() {
        // A list of mandatory keys needs one beside it.
        let data = wire(&[(0, &[0x03, 0xe5]), (997, b"x")]);
        assert_eq!(read(r"1 . key997=x key0=\003\229"), Ok(data.clone()));
        assert_eq!(read("1 . mandatory=key997 key997=x"), Ok(data));
        for key in 1..=u16::MAX {
            let (text, bytes) = value_of(key);
            let text = format!("1 . key{key}={text}");
            let data = read(&text).unwrap_or_else(|why| panic!("{text}: {why}"));
            assert_eq!(data, wire(&[(key, bytes)]), "{text}");
            assert_eq!(read(&data_text(Rtype::SVCB, &data)), Ok(data), "{text}");
        }
    }

    #[test]
    fn the_digit_nine_is_written_as_a_key() {
        let data = wire(&[(997, b"abc"), (65529, b"x")]);
        assert_eq!(data_text(Rtype::SVCB, &data), "1 . key997=abc key65529=x");
    }

    #[test]
    fn invalid_keys_are_refused() {
        for (text, why) in [
            ("key0997=x", "leading zero"),
            ("key00=x", "leading zero"),
            ("mandatory=key0997 key997=x", "leading zero"),
            ("key65536=x", "at most 65535"),
            ("key99999999999999999999=x", "at most 65535"),
            ("key=x", "unknown SvcParamKey (write its number: key0 to key65535)"),
            ("key-1=x", "unknown SvcParamKey"),
            ("key+1=x", "invalid SvcParamKey"),
            ("KEY997=x", "invalid SvcParamKey"),
            ("=x", "invalid SvcParamKey"),
            ("\"\"", "invalid SvcParamKey"),
            ("zebra=x", "unknown SvcParamKey"),
            ("alpn=h2 key1=x", "not a value"),
            ("alpn=h2 key1=\\002h2", "duplicate"),
            ("key997 key997=", "duplicate"),
            ("key3=x", "not a value"),
            ("key0=\\003\\229", "MUST appear"),
            ("key0=\\000\\000", "MUST appear"),
            ("key0= key997=x", "MUST appear"),
            ("key0=\\003\\229\\003\\229 key997=x", "MUST appear"),
        ] {
            let messages = read(&format!("1 . {text}")).expect_err(text);
            assert!(messages.contains(why), "{text}: {messages}");
        }
    }

    #[test]
    fn list_with_an_empty_item_is_refused() {
        for text in [
            "alpn=h2,,h3",
            "alpn=h2,",
            "alpn=,h2",
            "alpn=\"\\,h2\"",
            "alpn=",
            "alpn",
            "mandatory=alpn, alpn=h2",
            "ipv4hint=192.0.2.1,",
            "ipv4hint=,192.0.2.1",
            "ipv6hint=2001:db8::1,,2001:db8::2",
            "ipv6hint=2001:db8::1,",
            "key1=\\000",
            "key1=\\002h2\\000",
            "key1=",
            "key4=",
        ] {
            assert!(read(&format!("1 . {text}")).is_err(), "{text}");
        }
        let data = wire(&[(1, b"\x02h2\0")]);
        let hex: String = data.iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(read(&format!("\\# {} {hex}", data.len())).is_err());
        assert_eq!(read("1 . alpn=h2,h3"), Ok(wire(&[(1, b"\x02h2\x02h3")])));
    }

    #[test]
    fn a_key_without_a_value_has_an_empty_one() {
        for text in ["1 . key997", "1 . key997=", "1 . key997=\"\""] {
            assert_eq!(read(text), Ok(wire(&[(997, b"")])), "{text}");
        }
    }
}
