//! Numbers in sentences.

/// `18211` as `18,211`.
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A share as per cent: `0.0512` as `5.1 %`; 0 and 1 only where it is exactly that.
pub fn percent(share: f64) -> String {
    match share {
        s if s > 0.0 && s < 0.001 => "< 0.1 %".into(),
        s if s < 1.0 && s > 0.999 => "> 99.9 %".into(),
        s if s < 0.1 => format!("{:.1} %", s * 100.0),
        s => format!("{:.0} %", s * 100.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_formatted_with_separators() {
        for (number, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (12_345_678, "12,345,678")]
        {
            assert_eq!(thousands(number), text);
        }
        for (share, text) in
            [(0.0, "0.0 %"), (0.000_1, "< 0.1 %"), (0.051, "5.1 %"), (0.5, "50 %"), (1.0, "100 %")]
        {
            assert_eq!(percent(share), text);
        }
        assert_eq!(percent(0.9999), "> 99.9 %");
    }
}
