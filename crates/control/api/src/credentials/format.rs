//! A credential as it is stored, and the file of all credentials.
use super::holder;
use super::keys::read_key;
use crate::limits::CREDENTIALS_LEN_MAX;
use crate::principal::Grant;
use documents::{Document, FileDocuments, FileFormat, Value};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// The format of the file. Versions before 2 know no expiry, those before 3 not the verb
/// `hide-wildcard`, those before 4 no TSIG keys. A file is written in the oldest format that has
/// all of it: older versions can still read it.
const FORMAT: u32 = 4;

/// A credential. The name of its document is that of its principal.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stored {
    pub grants: Vec<String>,
    pub created_seconds: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_seconds: Option<u64>,
    /// Whether it may hide wildcards from names beyond its grants only if they have the verb
    /// `hide-wildcard`. Absent: it is of a version without that verb, or its grants have no limits.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keeps_wildcards: bool,
    #[serde(flatten)]
    pub proof: Proof,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Proof {
    /// SHA-256 of the token, in hexadecimal digits. A token has 256 random bits, so a slow hash
    /// would add nothing.
    TokenSha256(String),
    /// A DNS name or URI among the alternative names of a certificate.
    Subject(String),
    /// A key that signs DNS messages. Its name is that of the principal. To verify a signature
    /// takes the secret itself.
    Tsig {
        /// The algorithm, such as `hmac-sha256`.
        algorithm: String,
        /// The secret in Base64.
        secret: String,
    },
}

impl Proof {
    pub fn of_token(token: &str) -> Self {
        Self::TokenSha256(hex::encode(Sha256::digest(token)))
    }
}

impl Stored {
    /// Parses the value of a document.
    pub fn read(value: &Value) -> Result<Self, String> {
        Self::deserialize(value).map_err(|why| why.to_string())
    }

    /// Whether it may hide wildcards from names beyond its grants because of its age.
    pub fn may_hide_with_warning(&self) -> bool {
        let limits_writes =
            |text: &String| text.parse().is_ok_and(|one: Grant| one.limits_writes());
        !self.keeps_wildcards && self.grants.iter().any(limits_writes)
    }

    /// The value of a document.
    pub fn write(&self) -> Value {
        match serde_json::to_value(self) {
            Ok(serde_json::Value::Object(value)) => value,
            // Its fields have names.
            _ => Value::new(),
        }
    }

    /// What no two credentials have: the hash of the token, or the subject. Two keys may have one
    /// secret.
    fn proof_text(&self) -> Option<String> {
        match &self.proof {
            Proof::TokenSha256(text) | Proof::Subject(text) => Some(text.to_ascii_lowercase()),
            Proof::Tsig { .. } => None,
        }
    }
}

/// Refuses a subject that another principal has.
pub fn check_subject_is_free(
    documents: &BTreeMap<String, Document>,
    new: &Stored,
) -> Result<(), String> {
    let others = documents.iter().filter_map(|(name, document)| {
        let other = Stored::read(&document.value).ok()?;
        (other.proof_text()? == new.proof_text()?).then_some(name)
    });
    others.take(1).try_for_each(|name| Err(taken(name)))
}

fn taken(name: &str) -> String {
    format!("the token or subject of {name} is another principal's too")
}

/// Refuses a document that is no credential.
///
/// # Errors
/// Its fault.
pub fn check_document(name: &str, value: &Value) -> Result<(), String> {
    let (_, proof) = holder(name, value)?;
    match proof {
        Proof::TokenSha256(digits) if hex::decode_to_slice(&digits, &mut [0; 32]).is_err() => {
            Err(format!("the hash of {name}'s token is not SHA-256"))
        }
        Proof::Tsig { algorithm, secret } => read_key(name, &algorithm, &secret).map(drop),
        _ => Ok(()),
    }
}

/// The form of the file of credentials. Only its owner can read it.
pub struct CredentialFile;

impl CredentialFile {
    /// The set of credentials in a file; `None`: there is no folder for it.
    pub fn at(path: Option<PathBuf>) -> Arc<FileDocuments> {
        Arc::new(FileDocuments::new(path, Self))
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct AllCredentials {
    format: u32,
    credentials: Vec<Entry>,
}

/// One credential in the file.
#[derive(Serialize, Deserialize)]
struct Entry {
    principal: String,
    #[serde(flatten)]
    stored: Stored,
}

impl FileFormat for CredentialFile {
    fn mode(&self) -> u32 {
        0o600
    }

    fn len_max(&self) -> u64 {
        CREDENTIALS_LEN_MAX
    }

    fn advice(&self) -> String {
        String::new()
    }

    fn encode(&self, documents: &BTreeMap<String, Value>) -> io::Result<Vec<u8>> {
        let entry = |(name, value): (&String, &Value)| {
            let stored = Stored::read(value).map_err(io::Error::other)?;
            Ok(Entry { principal: name.clone(), stored })
        };
        let credentials = documents.iter().map(entry).collect::<io::Result<Vec<_>>>()?;
        let format_of = |Entry { stored, .. }: &Entry| match stored {
            Stored { proof: Proof::Tsig { .. }, .. } => FORMAT,
            Stored { keeps_wildcards: true, .. } => 3,
            Stored { expires_seconds: Some(_), .. } => 2,
            _ => 1,
        };
        let format = credentials.iter().map(format_of).max().unwrap_or(1);
        Ok(serde_json::to_vec_pretty(&AllCredentials { format, credentials })?)
    }

    fn decode(&self, bytes: &[u8]) -> Result<BTreeMap<String, Value>, String> {
        let read: AllCredentials = serde_json::from_slice(bytes).map_err(|error| {
            format!("is not a file of credentials: {error}; put a good copy there")
        })?;
        if !(1..=FORMAT).contains(&read.format) {
            return Err(format!(
                "has format {}, this version reads 1 to {FORMAT}: start the version that wrote it",
                read.format
            ));
        }
        let (mut documents, mut proofs) = (BTreeMap::new(), BTreeSet::new());
        for Entry { principal, stored } in read.credentials {
            let value = stored.write();
            check_document(&principal, &value)?;
            if let Some(proof) = stored.proof_text()
                && !proofs.insert(proof)
            {
                return Err(taken(&principal));
            }
            documents.insert(principal, value);
        }
        Ok(documents)
    }
}
