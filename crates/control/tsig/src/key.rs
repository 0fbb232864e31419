//! Keys and their algorithms.
use domain::utils::base64;
use ring::hmac;
use std::fmt;
use wire::{Name, NameBuf};

/// An algorithm of signatures (RFC 8945 §6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// HMAC with SHA-1, which old clients use.
    Sha1,
    /// HMAC with SHA-256, the usual one.
    Sha256,
    /// HMAC with SHA-384.
    Sha384,
    /// HMAC with SHA-512.
    Sha512,
}

impl Algorithm {
    /// Every algorithm.
    pub const ALL: [Self; 4] = [Self::Sha1, Self::Sha256, Self::Sha384, Self::Sha512];

    /// Its name without the final dot, such as `hmac-sha256`.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Sha1 => "hmac-sha1",
            Self::Sha256 => "hmac-sha256",
            Self::Sha384 => "hmac-sha384",
            Self::Sha512 => "hmac-sha512",
        }
    }

    /// The algorithm of a name; `None` for unknown ones.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.word() == word)
    }

    /// Its name in a TSIG record.
    pub fn name(self) -> Name<'static> {
        let bytes: &'static [u8] = match self {
            Self::Sha1 => b"\x09hmac-sha1\0",
            Self::Sha256 => b"\x0bhmac-sha256\0",
            Self::Sha384 => b"\x0bhmac-sha384\0",
            Self::Sha512 => b"\x0bhmac-sha512\0",
        };
        Name::parse(bytes).unwrap_or(Name::ROOT)
    }

    /// Bytes of its MACs, and of the keys that are made for it.
    pub const fn mac_len(self) -> usize {
        match self {
            Self::Sha1 => 20,
            Self::Sha256 => 32,
            Self::Sha384 => 48,
            Self::Sha512 => 64,
        }
    }

    fn hmac(self) -> hmac::Algorithm {
        match self {
            Self::Sha1 => hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
            Self::Sha256 => hmac::HMAC_SHA256,
            Self::Sha384 => hmac::HMAC_SHA384,
            Self::Sha512 => hmac::HMAC_SHA512,
        }
    }
}

/// A key that a client and this server share.
pub struct Key {
    name: NameBuf,
    algorithm: Algorithm,
    hmac: hmac::Key,
}

/// Omits the secret.
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({}, {})", self.name, self.algorithm.word())
    }
}

impl Key {
    /// A key of a name, which becomes lower case.
    pub fn new(mut name: NameBuf, algorithm: Algorithm, secret: &[u8]) -> Self {
        name.make_lowercase();
        Self { name, algorithm, hmac: hmac::Key::new(algorithm.hmac(), secret) }
    }

    /// A key whose secret is in Base64.
    ///
    /// # Errors
    /// What is wrong with the secret.
    pub fn from_base64(name: NameBuf, algorithm: Algorithm, secret: &str) -> Result<Self, String> {
        let secret = base64::decode::<Vec<u8>>(secret);
        let secret = secret.map_err(|why| format!("the secret is not Base64: {why}"))?;
        if secret.is_empty() {
            return Err("the secret is empty".into());
        }
        Ok(Self::new(name, algorithm, &secret))
    }

    /// A secret in Base64.
    pub fn to_base64(secret: &[u8]) -> String {
        base64::encode_string(secret)
    }

    /// The name, in lower case.
    pub fn name(&self) -> Name<'_> {
        self.name.as_name()
    }

    /// The algorithm.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// A context that begins with the MAC of the message before (RFC 8945 §5.3.1).
    pub(crate) fn context_behind(&self, mac: &[u8]) -> hmac::Context {
        let mut context = hmac::Context::with_key(&self.hmac);
        context.update(&(mac.len() as u16).to_be_bytes());
        context.update(mac);
        context
    }

    /// The MAC of consecutive parts.
    pub(crate) fn mac(&self, parts: &[&[u8]]) -> Vec<u8> {
        let mut context = hmac::Context::with_key(&self.hmac);
        parts.iter().for_each(|part| context.update(part));
        context.sign().as_ref().to_vec()
    }
}
