//! LOC data (RFC 1876): a geographic location, `d [m [s]] N
//! S d [m [s]] E
//! W altitude [size [h [v]]]`.
use std::ops::RangeInclusive;

use crate::fields::Fields;
use crate::report::{EntryError, quote};

/// The equator and the zero meridian, in thousandths of a second of arc (§2).
const MERIDIAN: i64 = 1 << 31;
/// The zero of altitudes, in centimetres below the geoid.
const BASE: i64 = 10_000_000;
const THOUSANDTHS_A_DEGREE: i64 = 3_600_000;
/// 9e9 cm, the largest size or precision (§2).
const SIZE_MAX: i64 = 9_000_000_000;

/// Reads the fields of a LOC record.
pub(crate) fn read(fields: &mut Fields<'_>, out: &mut Vec<u8>) -> Result<(), EntryError> {
    let latitude = angle(fields, "a latitude such as 52 22 23.000 N", 90, b"NS")?;
    let longitude = angle(fields, "a longitude such as 4 53 32.000 E", 180, b"EW")?;
    let altitudes = -BASE..=i64::from(u32::MAX) - BASE;
    let altitude = metres(fields, "an altitude in metres", altitudes)?;
    out.push(0);
    // One metre, ten kilometres, ten metres (§3).
    for default in [100, 1_000_000, 1_000] {
        let size = match fields.peek() {
            Some(_) => metres(fields, "a size or precision in metres", 0..=SIZE_MAX)?,
            None => default,
        };
        out.push(power(size));
    }
    for number in [latitude, longitude, altitude + BASE] {
        // The limits above keep each value within 32 bits.
        out.extend((number as u32).to_be_bytes());
    }
    Ok(())
}

/// Takes degrees, optional minutes and seconds, and the hemisphere.
fn angle(
    fields: &mut Fields<'_>,
    what: &str,
    degrees_max: i64,
    sides: &[u8; 2],
) -> Result<i64, EntryError> {
    let mut sum = 0;
    let units = [(THOUSANDTHS_A_DEGREE, 0, degrees_max), (60_000, 0, 59), (1, 3, 59_999)];
    let mut units = units.into_iter();
    loop {
        let token = fields.token(what)?;
        let raw = fields.raw(token);
        let fault = || {
            EntryError::new(token.start as usize, format!("{} is not part of {what}", quote(raw)))
        };
        let side = sides.iter().position(|side| raw.eq_ignore_ascii_case(&[*side]));
        match (side, units.len()) {
            (Some(_), 3) => return Err(fault()),
            (Some(_), _) if sum > degrees_max * THOUSANDTHS_A_DEGREE => return Err(fault()),
            (Some(0), _) => return Ok(MERIDIAN + sum),
            (Some(_), _) => return Ok(MERIDIAN - sum),
            (None, _) => {}
        }
        let (unit, decimals, max) = units.next().ok_or_else(fault)?;
        let part = fixed(raw, decimals).filter(|part| (0..=max).contains(part));
        sum += part.ok_or_else(fault)? * unit;
    }
}

/// Takes metres; returns centimetres.
fn metres(
    fields: &mut Fields<'_>,
    what: &str,
    range: RangeInclusive<i64>,
) -> Result<i64, EntryError> {
    let token = fields.token(what)?;
    let raw = fields.raw(token);
    let number = raw.strip_suffix(b"m").unwrap_or(raw);
    fixed(number, 2).filter(|value| range.contains(value)).ok_or_else(|| {
        EntryError::new(token.start as usize, format!("{} is not {what}", quote(raw)))
    })
}

/// A decimal number times ten to the power of `decimals`.
fn fixed(text: &[u8], decimals: usize) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?;
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || part.len() > decimals || !is_number(whole) || !is_number(part) {
        return None;
    }
    let value: i64 = format!("{whole}{part:0<decimals$}").parse().ok()?;
    Some(if negative { -value } else { value })
}

/// A size as one digit and the number of zeros after it, rounded down (§2).
fn power(mut centimetres: i64) -> u8 {
    let mut zeros = 0;
    while centimetres > 9 {
        (centimetres, zeros) = (centimetres / 10, zeros + 1);
    }
    (centimetres as u8) << 4 | zeros
}
