//! TSIG keys of principals: made, found by their names, and written as clients read them.
use super::{CredentialError, Credentials, now_seconds};
use crate::principal::Principal;
use std::sync::Arc;
use tokio::sync::watch;
use tsig::{Algorithm, Key};
use wire::{Name, NameBuf};

/// A key, and who has it.
#[derive(Clone)]
pub struct PrincipalKey {
    /// The key.
    pub key: Arc<Key>,
    /// Its principal.
    pub principal: Arc<Principal>,
}

impl Credentials {
    /// The key of a name.
    ///
    /// # Errors
    /// No principal has one of this name, or it expired.
    pub fn of_key(&self, name: Name<'_>) -> Result<PrincipalKey, CredentialError> {
        let index = self.read();
        let name = name.as_bytes().to_ascii_lowercase();
        let (holder, key) = index.keys.get(&name[..]).ok_or(CredentialError::Unknown)?;
        let principal = holder.at(now_seconds())?;
        Ok(PrincipalKey { key: Arc::clone(key), principal })
    }

    /// The names of all keys, in lower case.
    pub fn key_names(&self) -> Vec<NameBuf> {
        self.read().keys.values().map(|(_, key)| key.name().into()).collect()
    }

    /// Marked as changed when the credentials are others.
    pub fn changes(&self) -> watch::Receiver<Arc<documents::Content>> {
        self.content.clone()
    }
}

/// The name of the key of a principal.
pub fn key_name(principal: &str) -> Result<NameBuf, String> {
    let name = NameBuf::from_text(principal.as_bytes(), Name::ROOT);
    let name = name.map_err(|_| {
        format!("{principal:?} is not a domain name, which the name of a TSIG key is")
    })?;
    Ok(name)
}

/// The key of a principal as it is stored.
pub fn read_key(principal: &str, algorithm: &str, secret: &str) -> Result<Key, String> {
    let known = Algorithm::from_word(algorithm);
    let known = known.ok_or_else(|| unknown_algorithm(algorithm))?;
    Key::from_base64(key_name(principal)?, known, secret)
        .map_err(|why| format!("the key of {principal}: {why}"))
}

fn unknown_algorithm(word: &str) -> String {
    let words = Algorithm::ALL.map(Algorithm::word).join(", ");
    format!("{word:?} is not an algorithm of TSIG keys: there are {words}")
}

/// A new secret in Base64.
pub fn make_secret(algorithm: &str) -> Result<String, String> {
    let known = Algorithm::from_word(algorithm).ok_or_else(|| unknown_algorithm(algorithm))?;
    let mut bytes = vec![0; known.mac_len()];
    getrandom::fill(&mut bytes)
        .map_err(|why| format!("the kernel gives no random bytes for a key: {why}"))?;
    Ok(Key::to_base64(&bytes))
}

/// A key in the form of `named.conf`, which `nsupdate -k` reads.
pub fn key_text(principal: &str, algorithm: &str, secret: &str) -> String {
    format!("key \"{principal}\" {{\n\talgorithm {algorithm};\n\tsecret \"{secret}\";\n}};")
}
