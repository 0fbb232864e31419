//! Octets in JSON: two hexadecimal digits each.
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serializer};
use std::fmt::Write;

pub fn serialize<S: Serializer>(octets: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    let mut text = String::with_capacity(octets.len() * 2);
    for octet in octets {
        write!(text, "{octet:02x}").expect("a String takes all");
    }
    serializer.serialize_str(&text)
}

pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    let text = String::deserialize(deserializer)?;
    decode(text.as_bytes()).ok_or_else(|| D::Error::custom("not pairs of hexadecimal digits"))
}

fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let digit = |octet: u8| char::from(octet).to_digit(16).map(|digit| digit as u8);
    let (pairs, rest) = text.as_chunks::<2>();
    let octet = |[high, low]: &[u8; 2]| Some(digit(*high)? << 4 | digit(*low)?);
    if rest.is_empty() { pairs.iter().map(octet).collect() } else { None }
}

#[cfg(test)]
mod tests {
    use super::decode;

    #[test]
    fn digits_come_in_pairs() {
        assert_eq!(decode(b""), Some(vec![]));
        assert_eq!(decode(b"00ffA5"), Some(vec![0, 255, 165]));
        for bad in [&b"0"[..], b"0g", b"+1", "é".as_bytes()] {
            assert_eq!(decode(bad), None, "{bad:?}");
        }
    }
}
