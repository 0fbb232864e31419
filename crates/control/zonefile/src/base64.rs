//! Canonical base 64 (RFC 4648 §3.5): the unused bits of the last character are zero. This catches
//! mistyped last characters.
use crate::BrokenRule;

use crate::fields::Fields;
use crate::report::{EntryError, quote};

/// The alphabet (RFC 4648 §4).
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The last character of a text that is base 64 but not canonical, and the canonical one.
fn wrong_end(text: &[u8]) -> Option<(u8, u8)> {
    let last = text.iter().rposition(|byte| *byte != b'=')?;
    let unused = match text.len() - last - 1 {
        1 => 0b11,
        2 => 0b1111,
        _ => return None,
    };
    let value = ALPHABET.iter().position(|byte| *byte == text[last])?;
    (value & unused != 0).then(|| (text[last], ALPHABET[value & !unused]))
}

/// Checks that base 64 is canonical.
fn check(text: &[u8]) -> Result<(), EntryError> {
    let Some((last, canonical)) = wrong_end(text) else { return Ok(()) };
    let what = format!("base 64 ends in {}, whose unused bits are not zero", quote(&[last]));
    let help = format!("if nothing is mistyped, write {}", quote(&[canonical]));
    Err(EntryError { at: None, what: what.into(), help: Some(help), rule: None }
        .rule(BrokenRule::BASE64))
}

/// Checks the fields that were read as base 64 to the end of the entry.
pub(crate) fn check_rest(fields: &Fields<'_>) -> Result<(), EntryError> {
    let mut text = Vec::new();
    for token in fields.rest_at.into_iter().flat_map(|first| fields.between(first)) {
        fields.unescape(*token, &mut text)?;
    }
    check_at(fields, &text)
}

/// Checks a text from the field that was read last.
pub(crate) fn check_at(fields: &Fields<'_>, text: &[u8]) -> Result<(), EntryError> {
    let at = fields.last().map_or(fields.end_at(), |token| token.start as usize);
    check(text).map_err(|fault| EntryError { at: Some(at), ..fault })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonzero_unused_bits_are_refused() {
        for text in ["", "AAAA", "AwEAAQ==", "AwEAAc8=", "AA==", "AAA=", "////", "/w=="] {
            assert_eq!(wrong_end(text.as_bytes()), None, "{text}");
        }
        for (text, wrong) in
            [("AwEAAc==", (b'c', b'Q')), ("AB==", (b'B', b'A')), ("AAB=", (b'B', b'A'))]
        {
            assert_eq!(wrong_end(text.as_bytes()), Some(wrong), "{text}");
        }
    }
}
