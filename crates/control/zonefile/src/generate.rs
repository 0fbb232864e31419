//! $GENERATE with BIND's syntax: `$GENERATE start-stop[/step] owner [ttl] [class] type data`. In
//! owner and data `$` is the number, `${offset,width,base}` the formatted number, and `$$` a dollar
//! sign.
use crate::BrokenRule;

use crate::fields::Fields;
use crate::lex::{Token, lex};
use crate::limits::{GENERATE_BYTES_MAX, GENERATE_MAX, GENERATE_WIDTH_MAX};
use crate::reader::{EntryPosition, ZoneParser};
use crate::report::{EntryError, quote};

/// Makes the records of one directive. The first error ends it. The inherited owner stays.
pub(crate) fn run(
    reader: &mut ZoneParser<'_>,
    at: EntryPosition<'_>,
    fields: Fields<'_>,
) -> Result<(), EntryError> {
    generate(reader, at, fields).map_err(|fault| fault.rule(BrokenRule::GENERATE))
}

fn generate(
    reader: &mut ZoneParser<'_>,
    at: EntryPosition<'_>,
    mut fields: Fields<'_>,
) -> Result<(), EntryError> {
    let directive = at.tokens[0].start as usize;
    let token = fields.token("the range, as in 1-10 or 0-100/2,")?;
    let range = NumberRange::parse(fields.raw(token)).map_err(|what| {
        EntryError::new(token.start as usize, format!("{}: {what}", quote(fields.raw(token))))
    })?;
    count(reader, range.count())
        .map_err(|fault| EntryError { at: Some(token.start as usize), ..fault })?;
    let owner = fields.token("the owner")?;
    let template = template(&fields, owner)?;
    let before = reader.defaults.owner.clone();
    let (mut text, mut tokens) = (Vec::new(), Vec::new());
    for number in range.numbers() {
        text.clear();
        expand(&template, number, &mut text).map_err(|what| EntryError::new(directive, what))?;
        reader.generated_bytes += text.len();
        if reader.generated_bytes > GENERATE_BYTES_MAX {
            reader.defaults.owner = before;
            let what =
                format!("the records of this $GENERATE are too long from number {number} on");
            return Err(EntryError::new(directive, what).rule(BrokenRule::LIMIT).help(format!(
                "the $GENERATE lines of a zone make at most {} MiB of text",
                GENERATE_BYTES_MAX >> 20
            )));
        }
        let result = match lex(&text, true, &mut tokens).and_then(|entry| entry.fault) {
            Some(fault) => Err(fault),
            None => {
                reader.record(EntryPosition { text: &text, tokens: &tokens, generated: true, ..at })
            }
        };
        if let Err(EntryError { what, help, rule, .. }) = result {
            reader.defaults.owner = before;
            let what = format!("{what}, where `$` is {number}");
            return Err(EntryError { at: Some(directive), what: what.into(), help, rule });
        }
    }
    reader.defaults.owner = before;
    Ok(())
}

/// Counts the records of a directive before they are made. Above the zone's limit none are made.
fn count(reader: &mut ZoneParser<'_>, count: u64) -> Result<(), EntryError> {
    let left = GENERATE_MAX - reader.generated;
    if count > left {
        let what =
            format!("this $GENERATE makes {count} records, but only {left} more are allowed");
        return Err(EntryError::new(0, what)
            .help(format!("the $GENERATE lines of a zone make at most {GENERATE_MAX} records"))
            .rule(BrokenRule::LIMIT));
    }
    reader.generated += count;
    Ok(())
}

/// The entry without its numbers. If the data is one quoted field, its quotes are removed.
fn template(fields: &Fields<'_>, owner: Token) -> Result<Vec<u8>, EntryError> {
    let rest = fields.rest();
    let is_before_type = |token: &Token| {
        let raw = fields.raw(*token);
        raw.first().is_some_and(u8::is_ascii_digit) || raw.eq_ignore_ascii_case(b"IN")
    };
    let rtype = rest.iter().position(|token| !is_before_type(token)).unwrap_or(rest.len());
    let data = rest.get(rtype + 1..).unwrap_or_default();
    if data.is_empty() {
        return Err(EntryError::new(fields.end_at(), "the type and its data are missing"));
    }
    let mut template = fields.raw(owner).to_vec();
    for token in rest {
        if token.spaced {
            template.push(b' ');
        }
        match (token.quoted, data.len()) {
            (true, 1) => unquote(fields.raw(*token), &mut template),
            (true, _) => template.extend([b"\"", fields.raw(*token), b"\""].concat()),
            (false, _) => template.extend_from_slice(fields.raw(*token)),
        }
    }
    Ok(template)
}

/// Appends the text inside quotes. Only escaped quotes lose their backslash.
fn unquote(raw: &[u8], out: &mut Vec<u8>) {
    let mut rest = raw;
    loop {
        rest = match *rest {
            [b'\\', b'"', ref after @ ..] => {
                out.push(b'"');
                after
            }
            [b'\\', byte, ref after @ ..] => {
                out.extend([b'\\', byte]);
                after
            }
            [byte, ref after @ ..] => {
                out.push(byte);
                after
            }
            [] => return,
        }
    }
}

/// The numbers of a directive.
#[derive(Debug, PartialEq)]
struct NumberRange {
    start: u32,
    stop: u32,
    step: u32,
}

impl NumberRange {
    fn parse(raw: &[u8]) -> Result<Self, String> {
        let text = std::str::from_utf8(raw).map_err(|_| NO_RANGE)?;
        let (start, rest) = text.split_once('-').ok_or(NO_RANGE)?;
        let (stop, step) = rest.split_once('/').unwrap_or((rest, "1"));
        let number = |text: &str| {
            let value: i32 = text.parse().ok().filter(|_| is_digits(text))?;
            u32::try_from(value).ok()
        };
        let [Some(start), Some(stop), Some(step)] = [start, stop, step].map(number) else {
            return Err(NO_RANGE.into());
        };
        if start > stop || step == 0 {
            return Err("the range has no number".into());
        }
        Ok(Self { start, stop, step })
    }

    /// How many numbers the range has; at least one.
    fn count(&self) -> u64 {
        u64::from((self.stop - self.start) / self.step) + 1
    }

    fn numbers(&self) -> impl Iterator<Item = u32> {
        (self.start..=self.stop).step_by(self.step as usize)
    }
}

const NO_RANGE: &str = "the range is not start-stop or start-stop/step";
const NO_NUMBER: &str =
    "`${` is not followed by `offset}`, `offset,width}` or `offset,width,base}`";

fn is_digits(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Writes the template with its numbers.
fn expand(template: &[u8], number: u32, out: &mut Vec<u8>) -> Result<(), String> {
    let mut rest = template;
    loop {
        rest = match *rest {
            [b'\\', byte, ref after @ ..] => {
                out.extend([b'\\', byte]);
                after
            }
            [b'$', b'$', ref after @ ..] => {
                out.extend(br"\$");
                after
            }
            [b'$', b'{', ref after @ ..] => {
                let end = after.iter().position(|&byte| byte == b'}').ok_or(NO_NUMBER)?;
                let form = std::str::from_utf8(&after[..end]).map_err(|_| NO_NUMBER)?;
                out.extend(NumberFormat::parse(form).ok_or(NO_NUMBER)?.write(number)?.into_bytes());
                &after[end + 1..]
            }
            [b'$', ref after @ ..] => {
                out.extend(number.to_string().into_bytes());
                after
            }
            [byte, ref after @ ..] => {
                out.push(byte);
                after
            }
            [] => return Ok(()),
        }
    }
}

/// The format of a number.
struct NumberFormat {
    offset: i32,
    width: usize,
    base: char,
}

impl NumberFormat {
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(',');
        let offset = parts.next()?;
        let sign_less = offset.strip_prefix(['-', '+']).unwrap_or(offset);
        let width = parts.next().unwrap_or("0");
        let base = parts.next().unwrap_or("d");
        if parts.next().is_some() || !is_digits(sign_less) || !is_digits(width) {
            return None;
        }
        let base = base.parse().ok().filter(|base| "doxXnN".contains(*base))?;
        Some(Self { offset: offset.parse().ok()?, width: width.parse().ok()?, base })
    }

    fn write(&self, number: u32) -> Result<String, String> {
        let Self { offset, width, base } = *self;
        if width > GENERATE_WIDTH_MAX {
            return Err(format!("a width of {width} is above {GENERATE_WIDTH_MAX}"));
        }
        let value = i64::from(number) + i64::from(offset);
        if value < 0 || value > i64::from(i32::MAX) {
            return Err(format!("{number} with offset {offset} is below 0 or above {}", i32::MAX));
        }
        Ok(match base {
            'o' => format!("{value:0width$o}"),
            'x' => format!("{value:0width$x}"),
            'X' => format!("{value:0width$X}"),
            'n' => nibbles(&format!("{value:x}"), width),
            'N' => nibbles(&format!("{value:X}"), width),
            _ => format!("{value:0width$}"),
        })
    }
}

/// Hexadecimal digits in reverse order separated by dots, at least `width` characters including the
/// dots (names below ip6.arpa).
fn nibbles(digits: &str, width: usize) -> String {
    let zeros = width.div_ceil(2).saturating_sub(digits.len());
    let mut out = String::new();
    for digit in digits.chars().rev().chain(std::iter::repeat_n('0', zeros)) {
        if !out.is_empty() {
            out.push('.');
        }
        out.push(digit);
    }
    // An even width ends in a dot.
    if out.len() < width {
        out.push('.');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_formatted_in_every_base() {
        for (template, number, text) in [
            ("host-$", 7, "host-7"),
            (r"a\$b$$c", 7, r"a\$b\$c"),
            ("${0}", 7, "7"),
            ("${-2,3}", 7, "005"),
            ("${10,4,x}", 7, "0011"),
            ("${0,2,o}", 8, "10"),
            ("${0,0,X}", 171, "AB"),
            ("${0,3,n}", 0x12, "2.1"),
            ("${0,5,N}", 0xab, "B.A.0"),
            ("${0,4,n}", 1, "1.0."),
            ("${0,0,n}", 0x123, "3.2.1"),
        ] {
            let mut out = Vec::new();
            expand(template.as_bytes(), number, &mut out).unwrap();
            assert_eq!(String::from_utf8(out).unwrap(), text, "{template}");
        }
    }

    #[test]
    fn unrepresentable_numbers_are_refused() {
        for template in
            ["${0", "${}", "${0,1,z}", "${0,1,dd}", "${0,1,d,1}", "${-8}", "${0,128}", "${x}"]
        {
            assert!(expand(template.as_bytes(), 7, &mut Vec::new()).is_err(), "{template}");
        }
    }

    #[test]
    fn ranges_are_read_and_counted() {
        let range = NumberRange::parse(b"1-9/3").unwrap();
        assert_eq!((range.count(), &range), (3, &NumberRange { start: 1, stop: 9, step: 3 }));
        assert_eq!(NumberRange::parse(b"0-2147483647").unwrap().count(), 1 << 31);
        for bad in ["", "1", "1-", "-1-2", "2-1", "1-2/0", "1-2147483648", "+1-2"] {
            assert!(NumberRange::parse(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
