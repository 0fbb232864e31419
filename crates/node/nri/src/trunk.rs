//! The bytes on the socket. Two logical connections share it: frames of a connection's number, a
//! length and that many bytes. Each connection carries messages of ttrpc: a header of ten bytes,
//! and the body.
use crate::NriError;
use crate::limits::{FRAME_BYTES_MAX, MESSAGE_BYTES_MAX};

/// The logical connection on which the runtime calls the plugin.
pub(crate) const PLUGIN: u32 = 1;

/// The logical connection on which the plugin calls the runtime.
pub(crate) const RUNTIME: u32 = 2;

/// A message that calls a method.
pub(crate) const REQUEST: u8 = 1;

/// A message that answers a call.
pub(crate) const RESPONSE: u8 = 2;

const FRAME_HEAD: usize = 8;
const MESSAGE_HEAD: usize = 10;

/// A message of ttrpc.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    /// Its logical connection.
    pub connection: u32,
    /// The call that it belongs to.
    pub stream: u32,
    /// Its kind.
    pub kind: u8,
    /// What it says.
    pub body: Vec<u8>,
}

/// Takes messages out of the bytes that arrive.
#[derive(Default)]
pub(crate) struct Decoder {
    bytes: Vec<u8>,
    /// Of each logical connection what has arrived of the next message.
    parts: [Vec<u8>; 2],
}

fn number(bytes: &[u8], at: usize) -> Option<usize> {
    let four = bytes.get(at..at + 4)?.try_into().ok()?;
    Some(u32::from_be_bytes(four) as usize)
}

impl Decoder {
    /// Adds bytes that have arrived.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole message; `None` until more bytes have arrived.
    ///
    /// # Errors
    /// A frame or a message is larger than allowed.
    pub fn next(&mut self) -> Result<Option<Message>, NriError> {
        loop {
            for (connection, part) in [PLUGIN, RUNTIME].into_iter().zip(&mut self.parts) {
                if let Some(message) = take_message(connection, part)? {
                    return Ok(Some(message));
                }
            }
            if !self.take_frame()? {
                return Ok(None);
            }
        }
    }

    /// Moves one frame to its connection; `false`: none is whole yet.
    fn take_frame(&mut self) -> Result<bool, NriError> {
        let (Some(connection), Some(length)) = (number(&self.bytes, 0), number(&self.bytes, 4))
        else {
            return Ok(false);
        };
        if length > MESSAGE_HEAD + MESSAGE_BYTES_MAX {
            return Err(NriError::TooLarge(length));
        }
        let Some(payload) = self.bytes.get(FRAME_HEAD..FRAME_HEAD + length) else {
            return Ok(false);
        };
        // Another connection than these two is not ours.
        match connection as u32 {
            PLUGIN => self.parts[0].extend_from_slice(payload),
            RUNTIME => self.parts[1].extend_from_slice(payload),
            _ => {}
        }
        self.bytes.drain(..FRAME_HEAD + length);
        Ok(true)
    }
}

fn take_message(connection: u32, part: &mut Vec<u8>) -> Result<Option<Message>, NriError> {
    let (Some(length), Some(stream)) = (number(part, 0), number(part, 4)) else { return Ok(None) };
    if length > MESSAGE_BYTES_MAX {
        return Err(NriError::TooLarge(length));
    }
    let Some(body) = part.get(MESSAGE_HEAD..MESSAGE_HEAD + length) else { return Ok(None) };
    let (kind, body) = (part[8], body.to_vec());
    part.drain(..MESSAGE_HEAD + length);
    Ok(Some(Message { connection, stream: stream as u32, kind, body }))
}

/// A message as bytes of the socket.
pub(crate) fn encode(message: &Message) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(MESSAGE_HEAD + message.body.len());
    bytes.extend_from_slice(&(message.body.len() as u32).to_be_bytes());
    bytes.extend_from_slice(&message.stream.to_be_bytes());
    bytes.extend_from_slice(&[message.kind, 0]);
    bytes.extend_from_slice(&message.body);
    let frames = bytes.chunks(FRAME_BYTES_MAX).flat_map(|chunk| {
        let head = [message.connection.to_be_bytes(), (chunk.len() as u32).to_be_bytes()];
        [head.concat(), chunk.to_vec()].concat()
    });
    frames.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(connection: u32, stream: u32, length: usize) -> Message {
        let body = (0..length).map(|index| index as u8).collect();
        Message { connection, stream, kind: REQUEST, body }
    }

    #[test]
    fn messages_arrive_complete_however_the_bytes_are_split() {
        let mut random = fastrand::Rng::with_seed(7);
        let sent: Vec<Message> = [0, 1, 4_085, 4_086, 4_087, 20_000, 3]
            .into_iter()
            .enumerate()
            .map(|(index, length)| message(1 + index as u32 % 2, index as u32, length))
            .collect();
        let bytes: Vec<u8> = sent.iter().flat_map(encode).collect();
        for _ in 0..50 {
            let (mut decoder, mut got, mut rest) = (Decoder::default(), Vec::new(), &bytes[..]);
            while !rest.is_empty() {
                let (now, later) = rest.split_at(random.usize(1..=rest.len().min(5_000)));
                decoder.push(now);
                rest = later;
                while let Some(message) = decoder.next().expect("well formed") {
                    got.push(message);
                }
            }
            assert_eq!(got, sent);
        }
    }

    #[test]
    fn a_message_that_two_frames_interleave_is_put_together() {
        let (one, other) = (message(PLUGIN, 1, 5_000), message(RUNTIME, 2, 10));
        let bytes = encode(&one);
        let mut decoder = Decoder::default();
        // The second connection's frame comes between the two of the first.
        decoder.push(&bytes[..FRAME_HEAD + FRAME_BYTES_MAX]);
        decoder.push(&encode(&other));
        decoder.push(&bytes[FRAME_HEAD + FRAME_BYTES_MAX..]);
        assert_eq!(decoder.next().expect("well formed"), Some(other));
        assert_eq!(decoder.next().expect("well formed"), Some(one));
        assert_eq!(decoder.next().expect("well formed"), None);
    }

    #[test]
    fn oversized_message_is_refused_before_it_is_read() {
        let mut decoder = Decoder::default();
        decoder.push(&[0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff]);
        assert!(matches!(decoder.next(), Err(NriError::TooLarge(_))));
        let mut decoder = Decoder::default();
        decoder.push(&[0, 0, 0, 1, 0, 0, 0, 10, 0xff, 0, 0, 0, 0, 0, 0, 1, 1, 0]);
        assert!(matches!(decoder.next(), Err(NriError::TooLarge(_))));
    }

    #[test]
    fn random_bytes_are_an_error_or_wait_for_more() {
        let mut random = fastrand::Rng::with_seed(9);
        for _ in 0..2_000 {
            let mut decoder = Decoder::default();
            let mut bytes = vec![0; random.usize(0..200)];
            random.fill(&mut bytes);
            // Lengths are small now and then, so that messages come out.
            for byte in bytes.iter_mut().step_by(2) {
                *byte = if random.bool() { 0 } else { *byte };
            }
            decoder.push(&bytes);
            while let Ok(Some(_)) = decoder.next() {}
        }
    }
}
