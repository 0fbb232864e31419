//! Formats numbers, times and tables.
use jiff::Timestamp;

/// `1,234,567`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A rate as a whole number, or with one decimal below 10.
pub fn rate(number: f64) -> String {
    if number < 9.95 && number > 0.0 {
        return format!("{number:.1}");
    }
    count(number.round() as u64)
}

/// `0 %`, `0.3 %`, `12 %`.
pub fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    if percent > 0.0 && percent < 9.95 {
        format!("{percent:.1} %")
    } else {
        format!("{percent:.0} %")
    }
}

/// `512 B`, `48.2 MiB`.
pub fn format_bytes(number: u64) -> String {
    let (mut value, mut unit) = (number as f64, "B");
    for larger in ["KiB", "MiB", "GiB", "TiB"] {
        if value < 1_024.0 {
            break;
        }
        (value, unit) = (value / 1_024.0, larger);
    }
    if unit == "B" || value >= 99.95 {
        format!("{value:.0} {unit}")
    } else {
        format!("{value:.1} {unit}")
    }
}

/// A duration in its two largest units: `12 s`, `3 min`, `2 h 13 min`, `4 d 2 h`.
pub fn span(seconds: f64) -> String {
    let seconds = seconds.max(0.0) as u64;
    let (minutes, hours, days) = (seconds / 60, seconds / 3_600, seconds / 86_400);
    let two = |large: u64, unit: &str, small: u64, smaller: &str| match small {
        0 => format!("{large} {unit}"),
        _ => format!("{large} {unit} {small} {smaller}"),
    };
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{minutes} min"),
        3_600..86_400 => two(hours, "h", minutes % 60, "min"),
        _ => two(days, "d", hours % 24, "h"),
    }
}

/// A duration below a minute in one unit: `820 ns`, `20 µs`, `1.5 ms`, `2 s`.
pub fn short(seconds: f64) -> String {
    let (value, unit) = match seconds {
        ..0.999_5e-6 => (seconds * 1e9, "ns"),
        ..0.999_5e-3 => (seconds * 1e6, "µs"),
        ..0.999_5 => (seconds * 1e3, "ms"),
        _ => (seconds, "s"),
    };
    let digits = usize::from(value < 9.95 && (value - value.round()).abs() > 0.05);
    format!("{value:.digits$} {unit}")
}

/// `2026-11-21 14:00:03 UTC`, from seconds since 1970.
pub fn utc(seconds: f64) -> String {
    let time = Timestamp::from_second(seconds.max(0.0) as i64).unwrap_or(Timestamp::MAX);
    time.strftime("%F %T UTC").to_string()
}

/// `1 zone`, `2 zones`.
pub fn plural(number: usize, what: &str) -> String {
    let s = if number == 1 { "" } else { "s" };
    format!("{} {what}{s}", count(number as u64))
}

/// Text from another program, with control characters replaced, also those that change the order
/// of letters or end a line: it cannot control the terminal.
pub fn plain(text: &str) -> String {
    text.chars().map(|letter| if model::is_control(letter) { '\u{fffd}' } else { letter }).collect()
}

/// The alignment of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Left-aligned.
    Left,
    /// Right-aligned.
    Right,
}

/// The widest that a column becomes. A longer cell is whole and moves the rest of its line: text of
/// other servers and clients makes neither all lines long nor a width that cannot be formatted.
pub const COLUMN_WIDTH_MAX: usize = 200;

/// Formats rows as lines with aligned columns, two blanks apart, without trailing blanks. Long text
/// belongs in the last column.
pub fn align<const N: usize>(sides: [Side; N], rows: &[[String; N]]) -> Vec<String> {
    let width = |column: usize| {
        let widest = rows.iter().map(|row| row[column].chars().count()).max();
        widest.unwrap_or_default().min(COLUMN_WIDTH_MAX)
    };
    let widths: [usize; N] = std::array::from_fn(width);
    let line = |row: &[String; N]| {
        let cells =
            row.iter().zip(sides.iter().zip(widths)).map(|(cell, (side, width))| match side {
                Side::Left => format!("{cell:<width$}"),
                Side::Right => format!("{cell:>width$}"),
            });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_separators_and_units() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([0.0, 0.25, 9.94, 9.96, 1234.5].map(rate), ["0", "0.2", "9.9", "10", "1,235"]);
        assert_eq!([0.0, 0.003, 0.123, 1.0].map(percent), ["0 %", "0.3 %", "12 %", "100 %"]);
        let sizes = [0, 1_023, 1_024, 50_541_363, 200 << 20, 3 << 40];
        assert_eq!(
            sizes.map(format_bytes),
            ["0 B", "1023 B", "1.0 KiB", "48.2 MiB", "200 MiB", "3.0 TiB"]
        );
        assert_eq!([plural(1, "zone"), plural(0, "zone")], ["1 zone", "0 zones"]);
    }

    #[test]
    fn durations_have_one_or_two_units() {
        let spans = [-1.0, 0.9, 59.9, 60.0, 3_600.0, 7_980.0, 86_400.0, 360_000.0];
        let expected = ["0 s", "0 s", "59 s", "1 min", "1 h", "2 h 13 min", "1 d", "4 d 4 h"];
        assert_eq!(spans.map(span), expected);
        let shorts = [5e-8, 1e-6, 2.5e-6, 0.999_9e-3, 0.0123, 0.25, 1.0, 2.5];
        let expected = ["50 ns", "1 µs", "2.5 µs", "1 ms", "12 ms", "250 ms", "1 s", "2.5 s"];
        assert_eq!(shorts.map(short), expected);
    }

    #[test]
    fn utc_follows_the_calendar() {
        for (seconds, expected) in [
            (0.0, "1970-01-01 00:00:00 UTC"),
            (951_782_399.0, "2000-02-28 23:59:59 UTC"),
            (951_782_400.9, "2000-02-29 00:00:00 UTC"),
            (1_795_269_603.0, "2026-11-21 14:00:03 UTC"),
            (4_107_542_400.0, "2100-03-01 00:00:00 UTC"),
            (f64::INFINITY, "9999-12-30 22:00:00 UTC"),
        ] {
            assert_eq!(utc(seconds), expected);
        }
    }

    #[test]
    fn columns_are_aligned() {
        let rows = [["A", "B", "C"], ["longer", "1", "x"], ["µ", "100", ""]]
            .map(|row| row.map(str::to_owned));
        let lines = align([Side::Left, Side::Right, Side::Left], &rows);
        assert_eq!(lines, ["A         B  C", "longer    1  x", "µ       100"]);
    }

    #[test]
    fn long_cell_is_whole_and_widens_no_other_line() {
        let long = "x".repeat(100_000);
        let rows = [["A".to_owned(), "B".to_owned()], [long.clone(), "1".to_owned()]];
        let lines = align([Side::Left, Side::Right], &rows);
        assert_eq!(lines[0].len(), COLUMN_WIDTH_MAX + "  B".len());
        assert_eq!(lines[1], long + "  1");
    }

    #[test]
    fn control_characters_are_replaced() {
        assert_eq!(plain("a\u{1b}[2Jb\nc\u{9b}"), "a\u{fffd}[2Jb\u{fffd}c\u{fffd}");
        assert_eq!(plain("a\u{202e}b\u{2028}c\u{2069}é"), "a\u{fffd}b\u{fffd}c\u{fffd}é");
    }
}
