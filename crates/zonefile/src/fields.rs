//! The fields of one entry, taken one after the other; every fault knows where it is.
use std::str::FromStr;

use model::Rule;
use wire::{Name, NameBuf};

use crate::lex::Token;
use crate::limits::TTL_MAX;
use crate::report::{Fault, quote};

/// A cursor over the tokens of an entry.
pub(crate) struct Fields<'e> {
    text: &'e [u8],
    tokens: &'e [Token],
    next: usize,
    /// What relative names are relative to.
    origin: Name<'e>,
    /// The rest of the entry was asked for when there was none.
    pub(crate) lacks_rest: bool,
}

impl<'e> Fields<'e> {
    pub(crate) fn new(text: &'e [u8], tokens: &'e [Token], origin: Name<'e>) -> Self {
        Self { text, tokens, next: 0, origin, lacks_rest: false }
    }

    /// The same with the first `taken` fields taken.
    pub(crate) fn skip(self, taken: usize) -> Self {
        Self { next: taken, ..self }
    }

    /// How many fields are taken.
    pub(crate) fn taken(&self) -> usize {
        self.next
    }

    /// The next field, left in place.
    pub(crate) fn peek(&self) -> Option<Token> {
        self.tokens.get(self.next).copied()
    }

    /// The next field; `what` says what it should have been.
    pub(crate) fn token(&mut self, what: &str) -> Result<Token, Fault> {
        let missing = || Fault::new(self.here(), format!("{what} is missing here"));
        let token = self.peek().ok_or_else(missing)?;
        self.next += 1;
        Ok(token)
    }

    /// The fields that are left, as they are.
    pub(crate) fn rest(&self) -> &'e [Token] {
        &self.tokens[self.next..]
    }

    /// A field's text, escapes not undone.
    pub(crate) fn raw(&self, token: Token) -> &'e [u8] {
        &self.text[token.start as usize..token.end as usize]
    }

    /// Appends a field's octets, escapes undone (RFC 1035 §5.1).
    pub(crate) fn unescape(&self, token: Token, out: &mut Vec<u8>) -> Result<(), Fault> {
        let raw = self.raw(token);
        if !token.escaped {
            out.extend_from_slice(raw);
            return Ok(());
        }
        let mut at = 0;
        while at < raw.len() {
            let (octet, len) = match raw[at..] {
                [b'\\', digit, ..] if digit.is_ascii_digit() => (decimal(&raw[at + 1..]), 4),
                [b'\\', octet, ..] => (Some(octet), 2),
                _ => (Some(raw[at]), 1),
            };
            let fault = || {
                Fault::new(token.start as usize + at, "this escape is not \\000 to \\255")
                    .help("a backslash stands before three digits or one other character")
            };
            out.push(octet.ok_or_else(fault)?);
            at += len;
        }
        Ok(())
    }

    /// Says that all fields must have been taken.
    pub(crate) fn end(&self) -> Result<(), Fault> {
        match self.peek() {
            None => Ok(()),
            Some(token) => Err(Fault::new(
                token.start as usize,
                format!("{} is one field too many", quote(self.raw(token))),
            )
            .help("one record a line; a comment begins with `;`")),
        }
    }

    /// Where the next field is, or the last one ended.
    pub(crate) fn here(&self) -> usize {
        self.peek().map_or(self.end_at(), |token| token.start as usize)
    }

    /// Where the last field ends.
    pub(crate) fn end_at(&self) -> usize {
        self.tokens.last().map_or(0, |token| token.end as usize)
    }

    /// The field taken last.
    pub(crate) fn last(&self) -> Option<Token> {
        self.tokens.get(self.next.checked_sub(1)?).copied()
    }

    /// A name, relative to the origin unless it ends in a dot.
    pub(crate) fn name(&mut self, what: &str) -> Result<NameBuf, Fault> {
        let token = self.token(what)?;
        let raw = self.raw(token);
        NameBuf::from_text(raw, self.origin).map_err(|why| {
            Fault::new(token.start as usize, format!("{} is not a name: {why}", quote(raw)))
                .rule(Rule::NAME)
        })
    }

    /// What the standard library can read from text, such as a number or an address.
    pub(crate) fn parse<T: FromStr>(&mut self, what: &str) -> Result<T, Fault> {
        let token = self.token(what)?;
        let raw = self.raw(token);
        // The standard library takes a sign; master files do not.
        let signed = raw.first() == Some(&b'+');
        let text = std::str::from_utf8(raw).ok().filter(|_| !signed);
        text.and_then(|text| text.parse().ok()).ok_or_else(|| {
            Fault::new(token.start as usize, format!("{} is not {what}", quote(raw)))
        })
    }

    /// A time in seconds or with units, up to 32 bits (the timers of SOA).
    pub(crate) fn seconds(&mut self, what: &str) -> Result<u32, Fault> {
        let token = self.token(what)?;
        let raw = self.raw(token);
        let seconds = seconds(raw).and_then(|seconds| u32::try_from(seconds).ok());
        seconds.ok_or_else(|| {
            Fault::new(token.start as usize, format!("{} is not {what}", quote(raw)))
                .help("seconds, or parts such as 1w2d3h4m5s")
        })
    }

    /// A TTL: as above, at most 2^31 - 1 (RFC 2181 §8).
    pub(crate) fn ttl(&mut self) -> Result<u32, Fault> {
        let token = self.token("a TTL")?;
        let raw = self.raw(token);
        let at = token.start as usize;
        let seconds = seconds(raw).ok_or_else(|| {
            Fault::new(at, format!("{} is not a TTL", quote(raw)))
                .help("seconds, or parts such as 1w2d3h4m5s")
                .rule(Rule::TTL)
        })?;
        u32::try_from(seconds).ok().filter(|&ttl| ttl <= TTL_MAX).ok_or_else(|| {
            let what = format!("a TTL of {seconds} s is above {TTL_MAX} s (RFC 2181 §8)");
            Fault::new(at, what).rule(Rule::TTL)
        })
    }
}

/// Three digits up to 255.
fn decimal(digits: &[u8]) -> Option<u8> {
    let digits = digits.get(..3)?;
    let value = digits.iter().try_fold(0u16, |value, digit| {
        digit.is_ascii_digit().then(|| value * 10 + u16::from(digit - b'0'))
    })?;
    u8::try_from(value).ok()
}

/// Seconds as a number, or as numbers each with its unit, whatever the case; what does not fit 64
/// bits is nothing.
fn seconds(text: &[u8]) -> Option<u64> {
    let (mut sum, mut part, mut digits, mut units) = (0u64, 0u64, 0, 0);
    for &octet in text {
        let unit: u64 = match octet.to_ascii_lowercase() {
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
