//! Signatures as a client makes them, and what changes them.
use super::*;
use crate::signer::put_record;
use wire::{Class, Flags, Rcode, Rtype};

const NOW: u64 = 1_795_269_603;
const KEY: &[u8] = b"\x04acme\x00";
/// A query for `z.` of type SOA.
const QUERY: &[u8] = b"\xab\xcd\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x01z\x00\x00\x06\x00\x01";

fn name(bytes: &[u8]) -> NameBuf {
    Name::parse(bytes).expect("a name").into()
}

fn key(algorithm: Algorithm) -> Arc<Key> {
    Arc::new(Key::new(name(KEY), algorithm, b"a secret of any length"))
}

/// The query as a client signs it.
fn signed(key: &Key, time: u64, mac_len: usize) -> Vec<u8> {
    let names = (key.name(), key.algorithm().name());
    let time = signer::time_field(time, 300);
    let mac = key.mac(&[QUERY, &variables(names, &time, 0, &[])]);
    let mut message = QUERY.to_vec();
    put_record(&mut message, names, &time, &mac[..mac_len], (0, &[]));
    message
}

fn verify_by(message: &[u8], known: &Arc<Key>) -> Result<Verified, Box<Refusal>> {
    verify(message, NOW, |name| (name == known.name()).then(|| Arc::clone(known)))
}

/// The code and the data of the TSIG record of a response.
fn error(response: &[u8]) -> (u8, Option<(u16, usize, Vec<u8>)>) {
    let signature = Signature::read(response);
    let told = signature.map(|it| (it.tsig.error, it.tsig.mac.len(), it.tsig.other.to_vec()));
    (response[3] & 0xf, told)
}

#[test]
fn signed_message_is_accepted_without_its_signature_and_its_responses_follow_from_it() {
    for algorithm in Algorithm::ALL {
        let key = key(algorithm);
        let message = signed(&key, NOW - 300, algorithm.mac_len());
        let Verified { message, mut signer, .. } = verify_by(&message, &key).expect("signed");
        assert_eq!(message, QUERY);
        let request_mac = signer_mac(&signer);
        let mut before = request_mac;
        for number in 0..3 {
            let mut response = response_head(&message, Rcode::NoError);
            let plain = response.clone();
            signer.sign(&mut response, NOW);
            assert_eq!(response.len(), plain.len() + signer.record_len());
            let it = Signature::read(&response).expect("a signature");
            let variables = match number {
                0 => it.variables(),
                _ => it.tsig.time.to_vec(),
            };
            let len = (before.len() as u16).to_be_bytes();
            let expected = key.mac(&[&len, &before, &it.unsigned(&response), &variables]);
            assert_eq!((it.tsig.mac, it.time()), (&expected[..], NOW));
            assert_eq!(it.unsigned(&response), plain);
            before = expected;
        }
    }
}

fn signer_mac(signer: &Signer) -> Vec<u8> {
    format!("{signer:?}")
        .split_once("mac: [")
        .and_then(|(_, rest)| rest.split_once(']'))
        .map(|(bytes, _)| bytes.split(", ").map(|byte| byte.parse().expect("a byte")).collect())
        .expect("a MAC")
}

#[test]
fn any_changed_byte_of_a_signed_message_refuses_it() {
    let key = key(Algorithm::Sha256);
    let message = signed(&key, NOW, 32);
    for at in 0..message.len() {
        for bit in 0..8 {
            let mut changed = message.clone();
            changed[at] ^= 1 << bit;
            // The ID may change on the way, and the case of names does not matter.
            let is_same = at < 2
                || at > 18
                    && message[at].is_ascii_alphabetic()
                    && bit == 5
                    && is_name(&message, at);
            assert_eq!(verify_by(&changed, &key).is_ok(), is_same, "byte {at}, bit {bit}");
        }
    }
    for len in 12..message.len() {
        assert!(verify_by(&message[..len], &key).is_err(), "{len}");
    }
}

/// Whether a byte is in the owner or the algorithm of the signature.
fn is_name(message: &[u8], at: usize) -> bool {
    let start = signature_at(message).expect("a signature");
    let algorithm_at = start + KEY.len() + 10;
    (start..start + KEY.len()).contains(&at)
        || (algorithm_at..algorithm_at + Algorithm::Sha256.name().len()).contains(&at)
}

#[test]
fn refusal_names_key_algorithm_mac_or_time_and_is_signed_if_the_client_has_the_key() {
    let (key, other) = (key(Algorithm::Sha256), key(Algorithm::Sha512));
    let message = signed(&key, NOW, 32);
    let refused =
        |message: &[u8], known: &Arc<Key>| verify_by(message, known).expect_err("refused");
    let unknown = verify(&message, NOW, |_| None).expect_err("refused");
    assert_eq!(
        (unknown.fault, error(&unknown.into_response())),
        (Fault::Key, (9, Some((17, 0, vec![]))))
    );
    let refusal = refused(&message, &other);
    assert!(refusal.to_string().contains("another algorithm than hmac-sha256."), "{refusal}");
    assert_eq!(error(&refusal.into_response()), (9, Some((17, 0, vec![]))));
    let secret = Arc::new(Key::new(name(KEY), Algorithm::Sha256, b"another"));
    let refusal = refused(&message, &secret);
    assert_eq!(
        (refusal.fault, error(&refusal.into_response())),
        (Fault::Mac, (9, Some((16, 0, vec![]))))
    );
    let refusal = refused(&signed(&key, NOW - 301, 32), &key);
    assert!(refusal.to_string().contains("differ by 301 s"), "{refusal}");
    let here = NOW.to_be_bytes()[2..].to_vec();
    assert_eq!(error(&refusal.into_response()), (9, Some((18, 32, here))));
    let refusal = refused(&signed(&key, NOW, 16), &key);
    assert_eq!(
        (refusal.fault, error(&refusal.into_response())),
        (Fault::Truncated, (9, Some((22, 32, vec![]))))
    );
    // RFC 8945 §5.2.2.1: shorter than half is malformed.
    let refusal = refused(&signed(&key, NOW, 15), &key);
    assert_eq!((refusal.fault, error(&refusal.into_response())), (Fault::Form, (1, None)));
}

/// The messages of a response to a signed request of this client.
fn exchange(key: &Arc<Key>, count: usize) -> (Exchange, Vec<Vec<u8>>) {
    let mut request = QUERY.to_vec();
    let exchange = Exchange::sign(Arc::clone(key), &mut request, NOW);
    let Verified { message, mut signer, .. } = verify_by(&request, key).expect("signed");
    let messages = (0..count).map(|_| {
        let mut next = response_head(&message, Rcode::NoError);
        signer.sign(&mut next, NOW + 300);
        next
    });
    (exchange, messages.collect())
}

#[test]
fn client_verifies_every_message_of_a_response_in_order() {
    for algorithm in Algorithm::ALL {
        let key = key(algorithm);
        let (mut client, messages) = exchange(&key, 3);
        assert!(!client.is_settled());
        for message in &messages {
            let plain = client.verify(message, NOW).expect("signed");
            assert_eq!(plain, response_head(QUERY, Rcode::NoError));
        }
        assert!(client.is_settled());
        let (mut client, messages) = exchange(&key, 3);
        client.verify(&messages[0], NOW).expect("signed");
        assert_eq!(client.verify(&messages[2], NOW), Err(Unverified::Mac), "one is missing");
        let (mut client, mut messages) = exchange(&key, 1);
        messages[0][3] ^= 1;
        assert_eq!(client.verify(&messages[0], NOW), Err(Unverified::Mac), "one is changed");
    }
}

#[test]
fn client_accepts_messages_without_a_signature_only_behind_and_before_signed_ones() {
    let key = key(Algorithm::Sha256);
    let (mut client, messages) = exchange(&key, 1);
    let plain = response_head(QUERY, Rcode::NoError);
    assert_eq!(client.verify(&plain, NOW), Err(Unverified::Missing), "the first one");
    let (mut client, _) = exchange(&key, 0);
    client.verify(&messages[0], NOW).expect("the same request");
    let mac = Signature::read(&messages[0]).expect("a signature").tsig.mac.to_vec();
    for _ in 0..99 {
        client.verify(&plain, NOW).expect("between two signed ones");
        assert!(!client.is_settled());
    }
    let time = signer::time_field(NOW, 300);
    let len = (mac.len() as u16).to_be_bytes();
    let all = plain.repeat(100);
    let mac = key.mac(&[&len, &mac, &all, &time]);
    let mut last = plain.clone();
    put_record(&mut last, (key.name(), key.algorithm().name()), &time, &mac, (0, &[]));
    client.verify(&last, NOW).expect("signed with those before");
    assert!(client.is_settled());
    for _ in 0..99 {
        client.verify(&plain, NOW).expect("between two signed ones");
    }
    assert_eq!(client.verify(&plain, NOW), Err(Unverified::Missing), "too many");
}

#[test]
fn client_says_what_the_server_refuses_and_that_clocks_differ() {
    let (key, other) = (key(Algorithm::Sha256), key(Algorithm::Sha512));
    let mut request = QUERY.to_vec();
    let mut client = Exchange::sign(Arc::clone(&key), &mut request, NOW);
    let unknown = verify(&request, NOW, |_| None).expect_err("refused").into_response();
    assert_eq!(client.verify(&unknown, NOW), Err(Unverified::Reported(Tsig::BAD_KEY)));
    let late = verify(&request, NOW + 400, |_| Some(Arc::clone(&key))).expect_err("refused");
    let late = late.into_response();
    assert_eq!(client.verify(&late, NOW), Err(Unverified::Reported(Tsig::BAD_TIME)));
    let (mut client, messages) = exchange(&key, 1);
    assert_eq!(client.verify(&messages[0], NOW - 1), Err(Unverified::Time(301)));
    let (_, of_another) = exchange(&other, 1);
    let (mut client, _) = exchange(&key, 1);
    assert_eq!(client.verify(&of_another[0], NOW), Err(Unverified::Form));
}

#[test]
fn md5_is_refused_by_name() {
    let key = key(Algorithm::Sha256);
    let mut message = QUERY.to_vec();
    let md5 = name(b"\x08hmac-md5\x07sig-alg\x03reg\x03int\x00");
    let time = signer::time_field(NOW, 300);
    put_record(&mut message, (key.name(), md5.as_name()), &time, &[7; 16], (0, &[]));
    let refusal = verify_by(&message, &key).expect_err("refused");
    assert_eq!(refusal.fault, Fault::Algorithm);
    assert!(refusal.to_string().contains("MD5 is broken"), "{refusal}");
}

#[test]
fn response_has_id_opcode_and_query_of_the_message() {
    let response = response_head(QUERY, Rcode::Refused);
    assert_eq!((&response[..2], &response[12..]), (&QUERY[..2], &QUERY[12..]));
    assert_eq!(u16::from_be_bytes([response[2], response[3]]), Flags::QR | Flags::RD | 5);
    assert_eq!(response_head(&QUERY[..15], Rcode::FormErr).len(), HEADER_LEN);
    assert_eq!((Rtype::TSIG.0, Class::ANY.0), (250, 255));
}

#[test]
fn secrets_are_base64() {
    let key = |secret: &str| Key::from_base64(name(KEY), Algorithm::Sha1, secret);
    assert_eq!(key(&Key::to_base64(b"secret")).expect("Base64").mac(&[b"x"]).len(), 20);
    for wrong in ["", "c2VjcmV", "not base64!"] {
        assert!(key(wrong).is_err(), "{wrong}");
    }
    assert!(!format!("{:?}", key("c2VjcmV0")).contains("c2VjcmV0"));
}

#[path = "../../../../testing/fuzz/checks/corpus.rs"]
mod corpus;
#[path = "../../../../testing/fuzz/checks/tsig.rs"]
mod fuzz;

#[test]
fn fuzz_corpus_of_signed_messages_passes() {
    corpus::replay("tsig", fuzz::check);
    corpus::search("tsig", fuzz::check);
}
