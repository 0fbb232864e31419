//! Messages of replicas as bytes, each with a MAC.
use crate::replica::Message;
use ring::hmac;

/// Bytes of a MAC: HMAC-SHA-256.
const MAC_BYTES: usize = 32;
/// Bytes of a frame's length.
const LEN_BYTES: usize = 4;
/// Bytes of a request, which the primary's message carries.
const REQUEST_BYTES: usize = 64;

/// Appends a frame: its length, a message, and its MAC.
pub fn append(frames: &mut Vec<u8>, body: &[u8], key: &hmac::Key) {
    let len = (body.len() + MAC_BYTES) as u32;
    frames.extend_from_slice(&len.to_le_bytes());
    frames.extend_from_slice(body);
    frames.extend_from_slice(hmac::sign(key, body).as_ref());
}

/// The first frame, and what follows it.
pub fn split_frame(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = bytes.split_first_chunk::<LEN_BYTES>()?;
    rest.split_at_checked(u32::from_le_bytes(*len) as usize)
}

/// A message as bytes.
pub fn encode(from: usize, message: &Message) -> Vec<u8> {
    let mut words = vec![from as u64, message.view()];
    let kind = match message {
        Message::PrePrepare { place, request, .. } => (0, vec![*place, *request]),
        Message::Prepare { place, request, .. } => (1, vec![*place, *request]),
        Message::Commit { place, request, .. } => (2, vec![*place, *request]),
        Message::ViewChange { prepared, .. } => {
            (3, prepared.iter().flat_map(|one| [one.0, one.1, one.2]).collect())
        }
        Message::NewView { places, .. } => (4, places.iter().flat_map(|o| [o.0, o.1]).collect()),
    };
    words.extend(kind.1);
    let mut bytes = vec![kind.0];
    bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    if kind.0 == 0 {
        bytes.resize(bytes.len() + REQUEST_BYTES, 7);
    }
    bytes
}

/// A frame's sender and message; none if it is not what that sender made.
pub fn open(frame: &[u8], keys: &[hmac::Key]) -> Option<(usize, Message)> {
    let (body, mac) = frame.split_at_checked(frame.len().checked_sub(MAC_BYTES)?)?;
    let (kind, rest) = body.split_first()?;
    let rest = if *kind == 0 { rest.get(..rest.len().checked_sub(REQUEST_BYTES)?)? } else { rest };
    let words: Vec<u64> =
        rest.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
    let [from, view, values @ ..] = &words[..] else { return None };
    let from = *from as usize;
    hmac::verify(keys.get(from)?, body, mac).ok()?;
    let (view, values) = (*view, values);
    let two = || Some((*values.first()?, *values.get(1)?));
    let message = match kind {
        0 => two().map(|(place, request)| Message::PrePrepare { view, place, request })?,
        1 => two().map(|(place, request)| Message::Prepare { view, place, request })?,
        2 => two().map(|(place, request)| Message::Commit { view, place, request })?,
        3 => {
            let prepared = values.as_chunks::<3>().0.iter().map(|o| (o[0], o[1], o[2])).collect();
            Message::ViewChange { view, prepared }
        }
        4 => {
            let places = values.as_chunks::<2>().0.iter().map(|o| (o[0], o[1])).collect();
            Message::NewView { view, places }
        }
        _ => return None,
    };
    Some((from, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_with_another_replicas_key_is_refused() {
        let key = |secret: u8| hmac::Key::new(hmac::HMAC_SHA256, &[secret; 8]);
        let message = Message::ViewChange { view: 3, prepared: vec![(1, 2, 3), (4, 5, 6)] };
        let mut frame = encode(1, &message);
        let mac = hmac::sign(&key(1), &frame);
        frame.extend_from_slice(mac.as_ref());
        assert_eq!(open(&frame, &[key(0), key(1)]), Some((1, message)));
        assert_eq!(open(&frame, &[key(1), key(0)]), None);
        frame[9] ^= 1;
        assert_eq!(open(&frame, &[key(0), key(1)]), None);
        assert_eq!(open(&frame[..20], &[key(0), key(1)]), None);
    }
}
