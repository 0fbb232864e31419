//! The fields of one entry, in order. Every error knows its position.
use std::str::FromStr;

use crate::BrokenRule;
use wire::{Name, NameBuf};

use crate::lex::Token;
use crate::limits::TTL_MAX;
use crate::name::{InvalidName, read_name};
use crate::report::{EntryError, quote};

/// A cursor over the tokens of an entry.
pub(crate) struct Fields<'e> {
    text: &'e [u8],
    tokens: &'e [Token],
    next: usize,
    /// The origin of relative names; `None`: all names are absolute.
    origin: Option<Name<'e>>,
    /// Generic data was valid when it was written, perhaps by the rules of an earlier version.
    pub(crate) is_trusted: bool,
    /// Where the rest of the entry begins, once the caller asked for it.
    pub(crate) rest_at: Option<usize>,
}

impl<'e> Fields<'e> {
    pub(crate) fn new(text: &'e [u8], tokens: &'e [Token], origin: Name<'e>) -> Self {
        Self { origin: Some(origin), ..Self::absolute(text, tokens) }
    }

    /// Fields whose names are absolute, with or without the final dot.
    pub(crate) fn absolute(text: &'e [u8], tokens: &'e [Token]) -> Self {
        Self { text, tokens, next: 0, origin: None, is_trusted: false, rest_at: None }
    }

    /// Skips the first `taken` fields.
    pub(crate) fn skip(self, taken: usize) -> Self {
        Self { next: taken, ..self }
    }

    /// The number of fields taken.
    pub(crate) fn taken(&self) -> usize {
        self.next
    }

    /// The next field, without taking it.
    pub(crate) fn peek(&self) -> Option<Token> {
        self.tokens.get(self.next).copied()
    }

    /// Takes the next field; `what` names it in errors.
    pub(crate) fn token(&mut self, what: &str) -> Result<Token, EntryError> {
        let missing = || EntryError::new(self.here(), format!("{what} is missing"));
        let token = self.peek().ok_or_else(missing)?;
        self.next += 1;
        Ok(token)
    }

    /// The remaining fields.
    pub(crate) fn rest(&self) -> &'e [Token] {
        &self.tokens[self.next..]
    }

    /// The taken fields from index `first` on.
    pub(crate) fn between(&self, first: usize) -> &'e [Token] {
        self.tokens.get(first..self.next).unwrap_or_default()
    }

    /// A field's text with its escapes.
    pub(crate) fn raw(&self, token: Token) -> &'e [u8] {
        &self.text[token.start as usize..token.end as usize]
    }

    /// Appends a field's bytes without escapes (RFC 1035 §5.1).
    pub(crate) fn unescape(&self, token: Token, out: &mut Vec<u8>) -> Result<(), EntryError> {
        let raw = self.raw(token);
        if !token.escaped {
            out.extend_from_slice(raw);
            return Ok(());
        }
        let mut at = 0;
        while at < raw.len() {
            let (byte, len) = match raw[at..] {
                [b'\\', digit, ..] if digit.is_ascii_digit() => (decimal(&raw[at + 1..]), 4),
                [b'\\', byte, ..] => (Some(byte), 2),
                _ => (Some(raw[at]), 1),
            };
            let fault = || {
                EntryError::new(
                    token.start as usize + at,
                    "this escape is not in the range \\000 to \\255",
                )
                .help("write a backslash before three digits or one other character")
            };
            out.push(byte.ok_or_else(fault)?);
            at += len;
        }
        Ok(())
    }

    /// Checks that no field is left.
    pub(crate) fn end(&self) -> Result<(), EntryError> {
        match self.peek() {
            None => Ok(()),
            Some(token) => Err(EntryError::new(
                token.start as usize,
                format!("{} is one field too many", quote(self.raw(token))),
            )
            .help("write one record a line; a comment begins with `;`")),
        }
    }

    /// The start of the next field, or the end of the last one.
    pub(crate) fn here(&self) -> usize {
        self.peek().map_or(self.end_at(), |token| token.start as usize)
    }

    /// The end of the last field.
    pub(crate) fn end_at(&self) -> usize {
        self.tokens.last().map_or(0, |token| token.end as usize)
    }

    /// The field taken last.
    pub(crate) fn last(&self) -> Option<Token> {
        self.tokens.get(self.next.checked_sub(1)?).copied()
    }

    /// Takes a name. It is relative to the origin unless it ends in a dot.
    pub(crate) fn name(&mut self, what: &str) -> Result<NameBuf, EntryError> {
        let token = self.token(what)?;
        let raw = self.raw(token);
        let read = match self.origin {
            Some(origin) => NameBuf::from_text(raw, origin).map_err(InvalidName::from),
            None => read_name(&String::from_utf8_lossy(raw)),
        };
        read.map_err(|InvalidName { what, help }| {
            let fault = EntryError::new(token.start as usize, format!("{} {what}", quote(raw)));
            let fault = help.into_iter().fold(fault, EntryError::help);
            fault.rule(BrokenRule::NAME)
        })
    }

    /// Takes a value that implements `FromStr`, such as a number or an address.
    pub(crate) fn parse<T: FromStr>(&mut self, what: &str) -> Result<T, EntryError> {
        let token = self.token(what)?;
        let raw = self.raw(token);
        // The standard library accepts a plus sign; zone files do not.
        let signed = raw.first() == Some(&b'+');
        let text = std::str::from_utf8(raw).ok().filter(|_| !signed);
        text.and_then(|text| text.parse().ok()).ok_or_else(|| {
            EntryError::new(token.start as usize, format!("{} is not {what}", quote(raw)))
        })
    }

    /// Takes a time in seconds or with units, up to 32 bits (the timers of SOA).
    pub(crate) fn seconds(&mut self, what: &str) -> Result<u32, EntryError> {
        let token = self.token(what)?;
        let raw = self.raw(token);
        let seconds = seconds(raw).and_then(|seconds| u32::try_from(seconds).ok());
        seconds.ok_or_else(|| {
            EntryError::new(token.start as usize, format!("{} is not {what}", quote(raw)))
                .help("write seconds, or parts such as 1w2d3h4m5s")
        })
    }

    /// Takes a TTL: as above, at most 2^31 - 1 (RFC 2181 §8).
    pub(crate) fn ttl(&mut self) -> Result<u32, EntryError> {
        let token = self.token("a TTL")?;
        let raw = self.raw(token);
        let at = token.start as usize;
        let seconds = seconds(raw).ok_or_else(|| {
            EntryError::new(at, format!("{} is not a TTL", quote(raw)))
                .help("write seconds, or parts such as 1w2d3h4m5s")
                .rule(BrokenRule::TTL)
        })?;
        u32::try_from(seconds).ok().filter(|&ttl| ttl <= TTL_MAX).ok_or_else(|| {
            let what = format!("a TTL of {seconds} s is above {TTL_MAX} s (RFC 2181 §8)");
            EntryError::new(at, what).rule(BrokenRule::TTL)
        })
    }
}

/// A value of three digits, up to 255.
fn decimal(digits: &[u8]) -> Option<u8> {
    let digits = digits.get(..3)?;
    let value = digits.iter().try_fold(0u16, |value, digit| {
        digit.is_ascii_digit().then(|| value * 10 + u16::from(digit - b'0'))
    })?;
    u8::try_from(value).ok()
}

/// Seconds from a number, or from numbers with units in any case; `None` above 64 bits.
fn seconds(text: &[u8]) -> Option<u64> {
    let (mut sum, mut part, mut digits, mut units) = (0u64, 0u64, 0, 0);
    for &byte in text {
        let unit: u64 = match byte.to_ascii_lowercase() {
            digit @ b'0'..=b'9' => {
                part = part.checked_mul(10)?.checked_add((digit - b'0').into())?;
                digits += 1;
                continue;
            }
            b's' => 1,
            b'm' => 60,
            b'h' => 3_600,
            b'd' => 86_400,
            b'w' => 604_800,
            _ => return None,
        };
        if digits == 0 {
            return None;
        }
        sum = sum.checked_add(part.checked_mul(unit)?)?;
        (part, digits, units) = (0, 0, units + 1);
    }
    match (digits, units) {
        (0, 0) => None,
        (0, _) => Some(sum),
        (_, 0) => Some(part),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_have_units_or_none() {
        for (text, value) in [
            ("0", Some(0)),
            ("3600", Some(3600)),
            ("1h30m", Some(5400)),
            ("1W2D3H4M5S", Some(788_645)),
            ("", None),
            ("h", None),
            ("1h30", None),
            ("1x", None),
            ("-1", None),
            ("99999999999999999999", None),
            ("99999999999999999999w", None),
        ] {
            assert_eq!(seconds(text.as_bytes()), value, "{text}");
        }
    }
}
