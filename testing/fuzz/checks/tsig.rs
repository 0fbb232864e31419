//! What must hold for any signed message.
use std::sync::Arc;

use tsig::{Algorithm, Key, Verified, verify};
use wire::{Flags, HEADER_LEN, signature_at};

/// When the messages of the corpus were signed, in seconds since 1970.
const NOW: u64 = 1_795_269_603;

/// Verifies a message as if its key were known, and as if it were not.
pub fn check(message: &[u8]) {
    if message.len() < HEADER_LEN {
        return;
    }
    let refusal = verify(message, NOW, |_| None).expect_err("no key is known");
    responds(message, &refusal.into_response());
    let key = |name: wire::Name<'_>| Some(Arc::new(Key::new(name.into(), Algorithm::Sha256, b"s")));
    match verify(message, NOW, key) {
        Err(refusal) => {
            let (text, response) = (refusal.to_string(), refusal.into_response());
            assert!(!text.is_empty());
            responds(message, &response);
        }
        Ok(Verified { message: unsigned, mut signer, .. }) => {
            let at = signature_at(message).expect("a signature");
            assert_eq!(unsigned[HEADER_LEN..], message[HEADER_LEN..at]);
            let mut response = tsig::response_head(&unsigned, wire::Rcode::NoError);
            let len = response.len();
            signer.sign(&mut response, NOW);
            assert_eq!(
                (signature_at(&response), response.len()),
                (Some(len), len + signer.record_len())
            );
        }
    }
}

/// A response is one to the message, and never longer than it and the longest error.
fn responds(message: &[u8], response: &[u8]) {
    assert_eq!(response[..2], message[..2]);
    assert!(Flags(u16::from_be_bytes([response[2], response[3]])).has(Flags::QR));
    assert!(response.len() <= message.len() + 128, "it amplifies");
}
