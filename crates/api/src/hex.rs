//! Octets as hexadecimal digits, two each.
use std::fmt::Write;

/// The digits of octets, in lower case.
pub fn write<'o>(octets: impl IntoIterator<Item = &'o u8>) -> String {
    let mut text = String::new();
    for octet in octets {
        write!(text, "{octet:02x}").expect("a String takes all");
    }
    text
}

/// Reads them back; nothing: those are no pairs of digits.
pub fn read(text: &str) -> Option<Vec<u8>> {
    let digit = |octet: u8| char::from(octet).to_digit(16).map(|digit| digit as u8);
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let octets = pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?));
    octets.collect::<Option<_>>().filter(|_| rest.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_come_in_pairs() {
        assert_eq!(write(&[0, 255, 165]), "00ffa5");
        assert_eq!((read("00ffA5"), read("")), (Some(vec![0, 255, 165]), Some(Vec::new())));
        for wrong in ["0", "0g", "+1", "\u{e9}"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
