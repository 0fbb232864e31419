//! The DNSKEY records of a zone, and what they verify.
use compile::Zone;
use ring::signature::{self, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm};
use wire::Rtype;

/// The flag of a key of a zone, and its protocol (RFC 4034 §2.1).
const ZONE_FLAG: u16 = 0x100;
const PROTOCOL: u8 = 3;
/// The shortest RSA modulus that is verified, in bytes.
const MODULUS_LEN_MIN: usize = 128;
/// The longest exponent that is verified, in bytes.
const EXPONENT_LEN_MAX: usize = 4;

/// The result of verifying by a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyVerdict {
    Valid,
    Wrong,
    /// The zone has no such key.
    NoKey,
    /// The algorithm or the size of the key is not known here.
    Unknown,
}

struct Key {
    tag: u16,
    algorithm: u8,
    public: Box<[u8]>,
}

/// All keys of a zone.
pub struct Keys(Vec<Key>);

impl Keys {
    pub fn of(zone: &Zone) -> Self {
        let set = zone.names().get(&[]).and_then(|apex| apex.set(Rtype::DNSKEY));
        Self(set.into_iter().flat_map(|set| set.records()).filter_map(Key::parse).collect())
    }

    /// Whether the zone has a key with this tag.
    pub fn has(&self, tag: u16, algorithm: u8) -> bool {
        self.with(tag, algorithm).next().is_some()
    }

    fn with(&self, tag: u16, algorithm: u8) -> impl Iterator<Item = &Key> {
        self.0.iter().filter(move |key| key.tag == tag && key.algorithm == algorithm)
    }

    /// Verifies a signature by the keys with this tag; there may be several (RFC 4034 §8).
    pub fn verify(&self, tag: u16, algorithm: u8, message: &[u8], signature: &[u8]) -> KeyVerdict {
        let mut verdict = KeyVerdict::NoKey;
        for key in self.with(tag, algorithm) {
            verdict = key.verify(message, signature);
            if verdict == KeyVerdict::Valid {
                break;
            }
        }
        verdict
    }
}

impl Key {
    fn parse(data: &[u8]) -> Option<Self> {
        let ([high, low, protocol, algorithm], public) = data.split_first_chunk()?;
        let is_of_zone = u16::from_be_bytes([*high, *low]) & ZONE_FLAG != 0;
        let (tag, algorithm) = (tag(data), *algorithm);
        (is_of_zone && *protocol == PROTOCOL).then(|| Self {
            tag,
            algorithm,
            public: public.into(),
        })
    }

    fn verify(&self, message: &[u8], signed: &[u8]) -> KeyVerdict {
        let public = &*self.public;
        match self.algorithm {
            5 | 7 => rsa(
                &signature::RSA_PKCS1_1024_8192_SHA1_FOR_LEGACY_USE_ONLY,
                public,
                message,
                signed,
            ),
            8 => rsa(
                &signature::RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY,
                public,
                message,
                signed,
            ),
            10 => rsa(
                &signature::RSA_PKCS1_1024_8192_SHA512_FOR_LEGACY_USE_ONLY,
                public,
                message,
                signed,
            ),
            13 => curve(&signature::ECDSA_P256_SHA256_FIXED, public, message, signed),
            14 => curve(&signature::ECDSA_P384_SHA384_FIXED, public, message, signed),
            15 => {
                verdict(UnparsedPublicKey::new(&signature::ED25519, public).verify(message, signed))
            }
            _ => KeyVerdict::Unknown,
        }
    }
}

fn verdict(verified: Result<(), ring::error::Unspecified>) -> KeyVerdict {
    if verified.is_ok() { KeyVerdict::Valid } else { KeyVerdict::Wrong }
}

/// ECDSA: a key is a point without the byte that says that it is not compressed (RFC 6605 §4).
fn curve(
    algorithm: &'static dyn VerificationAlgorithm,
    public: &[u8],
    message: &[u8],
    signed: &[u8],
) -> KeyVerdict {
    let point = [&[4], public].concat();
    verdict(UnparsedPublicKey::new(algorithm, point).verify(message, signed))
}

/// RSA: a key is an exponent after its length, and the modulus (RFC 3110 §2).
fn rsa(
    parameters: &'static signature::RsaParameters,
    public: &[u8],
    message: &[u8],
    signed: &[u8],
) -> KeyVerdict {
    let split = match public {
        [0, high, low, rest @ ..] => {
            rest.split_at_checked(usize::from(u16::from_be_bytes([*high, *low])))
        }
        [len, rest @ ..] => rest.split_at_checked(usize::from(*len)),
        [] => None,
    };
    let Some((e, n)) = split else { return KeyVerdict::Wrong };
    if n.len() < MODULUS_LEN_MIN || e.len() > EXPONENT_LEN_MAX {
        return KeyVerdict::Unknown;
    }
    verdict(RsaPublicKeyComponents { n, e }.verify(parameters, message, signed))
}

/// The tag of a key (RFC 4034 appendix B).
fn tag(data: &[u8]) -> u16 {
    let mut sum: u32 = 0;
    for (at, byte) in data.iter().enumerate() {
        sum += if at % 2 == 0 { u32::from(*byte) << 8 } else { u32::from(*byte) };
    }
    (sum + (sum >> 16)) as u16
}
