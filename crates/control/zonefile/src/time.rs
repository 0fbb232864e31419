//! The times of signatures (RFC 4034 §3.2): `YYYYMMDDHHmmSS` in UTC, or seconds since 1970. Both
//! count modulo 2^32.
use std::fmt::Write;

use crate::fields::Fields;
use crate::report::{EntryError, quote};

const DAY_SECONDS: i64 = 86_400;

/// Takes a time.
pub(crate) fn read(fields: &mut Fields<'_>, what: &str) -> Result<u32, EntryError> {
    let token = fields.token(what)?;
    let raw = fields.raw(token);
    let seconds = match raw.len() {
        14 => calendar(raw),
        1..=10 => number(raw).and_then(|seconds| u32::try_from(seconds).ok()),
        _ => None,
    };
    seconds.ok_or_else(|| {
        EntryError::new(token.start as usize, format!("{} is not {what}", quote(raw)))
            .help("write YYYYMMDDHHmmSS, or seconds since 1970")
    })
}

fn number(digits: &[u8]) -> Option<i64> {
    let is_number = digits.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(digits).ok().filter(|_| is_number)?.parse().ok()
}

fn calendar(raw: &[u8]) -> Option<u32> {
    let part = |start: usize, len: usize| number(&raw[start..start + len]);
    let (year, month, day) = (part(0, 4)?, part(4, 2)?, part(6, 2)?);
    let (hour, minute, second) = (part(8, 2)?, part(10, 2)?, part(12, 2)?);
    let is_valid = year >= 1970
        && (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && hour < 24
        && minute < 60
        && second <= 60;
    let seconds = days_before(year, month, day) * DAY_SECONDS + hour * 3600 + minute * 60 + second;
    // The day exists in its month.
    (is_valid && date(seconds.div_euclid(DAY_SECONDS)).1 == month).then_some(seconds as u32)
}

/// Days from 1970 to a date of the Gregorian calendar. Years begin in March, so that the leap day
/// is the last one.
fn days_before(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// The year, month and day of a number of days since 1970.
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + i64::from(month <= 2), month, day)
}

/// Writes seconds as a date.
pub(crate) fn write(seconds: u64, out: &mut String) -> Option<()> {
    let seconds = i64::try_from(seconds).ok()?;
    let (year, month, day) = date(seconds.div_euclid(DAY_SECONDS));
    let (hour, minute) = (seconds / 3600 % 24, seconds / 60 % 60);
    write!(out, "{year:04}{month:02}{day:02}{hour:02}{minute:02}{:02}", seconds % 60).ok()
}

/// Seconds since 1970 as `YYYYMMDDHHmmSS`, in UTC.
pub fn date_text(seconds: u64) -> String {
    let mut text = String::new();
    let written = write(seconds.min(i64::MAX as u64), &mut text);
    debug_assert!(written.is_some());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_seconds_since_1970() {
        for (text, seconds) in [
            ("19700101000000", Some(0)),
            ("20030322173103", Some(1_048_354_263)),
            ("20240229235959", Some(1_709_251_199)),
            ("20380119031408", Some(1 << 31)),
            ("21060207062815", Some(u32::MAX)),
            ("20230229000000", None),
            ("20241301000000", None),
            ("20240100000000", None),
            ("20240431000000", None),
            ("20240101240000", None),
            ("2024010100000x", None),
        ] {
            assert_eq!(calendar(text.as_bytes()), seconds, "{text}");
            if let Some(seconds) = seconds {
                let mut written = String::new();
                write(seconds.into(), &mut written).expect("a date");
                assert_eq!(written, text);
            }
        }
    }
}
