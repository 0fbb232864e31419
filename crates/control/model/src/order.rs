//! The canonical order of names (RFC 4034 §6.1) as bytes that can be compared.
use wire::Name;

/// Writes bytes that sort as names in canonical order: labels from the right, each with a final 0.
/// Escapes a 0 or 1 within a label so that it sorts after the end.
pub fn sort_key(into: &mut Vec<u8>, name: &[u8]) {
    let mut starts = [0u8; Name::LABELS_MAX];
    let (mut at, mut labels) = (0, 0);
    while at < name.len() {
        starts[labels] = at as u8;
        labels += 1;
        at += 1 + usize::from(name[at]);
    }
    for start in starts[..labels].iter().rev() {
        let start = usize::from(*start);
        for &byte in &name[start + 1..][..name[start].into()] {
            match byte {
                0 | 1 => into.extend_from_slice(&[1, byte + 1]),
                _ => into.push(byte),
            }
        }
        into.push(0);
    }
}
