//! Credentials: which principal stands behind a token or a certificate. Of a token only a hash is
//! kept, in a file that its owner alone can read.
use crate::hex;
use crate::limits::{CREDENTIALS_LEN_MAX, CREDENTIALS_MAX, SUBJECT_LEN_MAX};
use crate::principal::{Grant, Principal};
use control::command::{Credential, CredentialKind, TokenDone, TokenRequest};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::SystemTime;

/// What every token begins with, so that scanners for leaked secrets know one when they see it.
pub const TOKEN_PREFIX: &str = "dunlin_";
/// Octets of randomness in a token.
const TOKEN_LEN: usize = 32;
/// The form of the file.
const FORMAT: u32 = 1;

/// All credentials there are.
pub struct Credentials {
    /// Where they are kept; nothing: nowhere, and none can be made.
    file: Option<PathBuf>,
    /// Held by who changes them.
    changing: Mutex<()>,
    known: RwLock<Known>,
}

#[derive(Default)]
struct Known {
    entries: Vec<Entry>,
    /// By the hash of the token.
    tokens: HashMap<[u8; 32], Arc<Principal>>,
    /// By the subject of the certificate, in lower case.
    subjects: HashMap<String, Arc<Principal>>,
}

/// The file as it is written.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    format: u32,
    credentials: Vec<Entry>,
}

/// One credential as it is kept.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    principal: String,
    grants: Vec<String>,
    created_seconds: u64,
    #[serde(flatten)]
    proof: Proof,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Proof {
    /// SHA-256 of the token, in hexadecimal digits. A token is as random as a key: a hash that is
    /// slow on purpose would add nothing.
    TokenSha256(String),
    /// A DNS name or URI among the alternative names of a certificate.
    Subject(String),
}

impl Credentials {
    /// Those of a file; none where it is not there yet.
    ///
    /// # Errors
    /// The file cannot be read, or is not what it should be.
    pub fn open(file: Option<PathBuf>) -> Result<Self, String> {
        let known = match &file {
            Some(file) => read(file).map_err(|why| format!("{}: {why}", file.display()))?,
            None => Known::default(),
        };
        Ok(Self { file, changing: Mutex::new(()), known: RwLock::new(known) })
    }

    /// Reads the file again: a predecessor had it.
    ///
    /// # Errors
    /// As [`Credentials::open`]; those of before still hold.
    pub fn read_again(&self) -> Result<(), String> {
        let Some(file) = &self.file else { return Ok(()) };
        let _turn = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let known = read(file).map_err(|why| format!("{}: {why}", file.display()))?;
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = known;
        Ok(())
    }

    /// Whose token it is.
    pub fn of_token(&self, token: &str) -> Option<Arc<Principal>> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.tokens.get(&<[u8; 32]>::from(Sha256::digest(token))).cloned()
    }

    /// Whose certificate it is, by the first of its names that is known.
    pub fn of_subjects<'s>(
        &self,
        subjects: impl IntoIterator<Item = &'s str>,
    ) -> Option<Arc<Principal>> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let find = |subject: &str| known.subjects.get(&subject.to_ascii_lowercase()).cloned();
        subjects.into_iter().find_map(find)
    }

    /// Makes, lists or revokes credentials; what it did is on the disk before it is said. It may
    /// wait for the disk.
    ///
    /// # Errors
    /// Why it is not done, and what to do. Nothing has changed then.
    pub fn handle(&self, request: TokenRequest) -> Result<TokenDone, String> {
        match request {
            TokenRequest::List => Ok(TokenDone::Listed(self.list())),
            TokenRequest::Create { principal, grants, subject } => {
                self.create(&principal, &grants, subject)
            }
            TokenRequest::Revoke { principal } => self.revoke(&principal),
        }
    }

    fn list(&self) -> Vec<Credential> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let shown = |entry: &Entry| Credential {
            principal: entry.principal.clone(),
            grants: entry.grants.clone(),
            created_seconds: entry.created_seconds,
            kind: match &entry.proof {
                Proof::TokenSha256(_) => CredentialKind::Token,
                Proof::Subject(subject) => CredentialKind::Certificate { subject: subject.clone() },
            },
        };
        known.entries.iter().map(shown).collect()
    }

    fn create(
        &self,
        name: &str,
        grants: &[String],
        subject: Option<String>,
    ) -> Result<TokenDone, String> {
        let grants = grants.iter().map(|text| text.parse()).collect::<Result<Vec<Grant>, _>>()?;
        let principal = Principal::new(name, grants)?;
        let (proof, token) = match subject {
            Some(subject) => (Proof::Subject(check_subject(subject)?), None),
            None => {
                let token = make_token().map_err(|why| format!("no randomness: {why}"))?;
                (Proof::TokenSha256(hex::write(&Sha256::digest(&token))), Some(token))
            }
        };
        let created_seconds = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs());
        let grants = principal.grants.iter().map(ToString::to_string).collect();
        let entry = Entry { principal: name.to_owned(), grants, created_seconds, proof };
        self.change(|entries| {
            if entries.iter().any(|other| other.principal == name) {
                return Err(format!(
                    "there is a principal {name} already: revoke it first, or choose another name"
                ));
            }
            if entries.len() >= CREDENTIALS_MAX {
                return Err(format!("there are {CREDENTIALS_MAX} credentials: revoke some first"));
            }
            entries.push(entry);
            Ok(())
        })?;
        tracing::info!(target: "api::audit", principal = name, "audit: credential created");
        Ok(TokenDone::Created { token })
    }

    fn revoke(&self, name: &str) -> Result<TokenDone, String> {
        self.change(|entries| {
            let before = entries.len();
            entries.retain(|entry| entry.principal != name);
            match entries.len() < before {
                true => Ok(()),
                false => {
                    Err(format!("there is no principal {name:?}: `dunlin token list` shows all"))
                }
            }
        })?;
        tracing::info!(target: "api::audit", principal = name, "audit: credential revoked");
        Ok(TokenDone::Revoked)
    }

    /// Changes a copy, writes it, and takes it over.
    fn change(
        &self,
        change: impl FnOnce(&mut Vec<Entry>) -> Result<(), String>,
    ) -> Result<(), String> {
        let file = self.file.as_ref().ok_or(
            "[server] data_dir is empty: there is nowhere to keep credentials; set it and restart",
        )?;
        let _turn = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut entries = self.known.read().unwrap_or_else(PoisonError::into_inner).entries.clone();
        change(&mut entries)?;
        let known = Known::new(entries)?;
        write(file, &known.entries).map_err(|why| {
            format!("{}: {why}; nothing has changed: is the disk full?", file.display())
        })?;
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = known;
        Ok(())
    }
}

impl Known {
    fn new(entries: Vec<Entry>) -> Result<Self, String> {
        let (mut tokens, mut subjects) = (HashMap::new(), HashMap::new());
        for entry in &entries {
            let grants = entry.grants.iter().map(|text| text.parse());
            let grants = grants.collect::<Result<Vec<Grant>, _>>()?;
            let principal = Arc::new(Principal::new(&entry.principal, grants)?);
            let is_new = match &entry.proof {
                Proof::TokenSha256(digits) => {
                    let hash = hex::read(digits).and_then(|hash| hash.try_into().ok());
                    let hash: [u8; 32] = hash.ok_or_else(|| {
                        format!("the hash of {}'s token is not SHA-256", entry.principal)
                    })?;
                    tokens.insert(hash, principal).is_none()
                }
                Proof::Subject(subject) => {
                    subjects.insert(subject.to_ascii_lowercase(), principal).is_none()
                }
            };
            if !is_new {
                let name = &entry.principal;
                return Err(format!("the token or subject of {name} is another principal's too"));
            }
        }
        Ok(Self { entries, tokens, subjects })
    }
}

fn check_subject(subject: String) -> Result<String, String> {
    let is_plain = subject.bytes().all(|octet| octet.is_ascii_graphic());
    match !subject.is_empty() && subject.len() <= SUBJECT_LEN_MAX && is_plain {
        true => Ok(subject),
        false => Err("a subject is a DNS name or URI among the alternative names of a \
                      certificate, such as ci.example.org or spiffe://example.org/ci"
            .into()),
    }
}

fn make_token() -> Result<String, getrandom::Error> {
    let mut octets = [0; TOKEN_LEN];
    getrandom::fill(&mut octets)?;
    Ok(format!("{TOKEN_PREFIX}{}", hex::write(&octets)))
}

fn read(file: &Path) -> Result<Known, String> {
    let mut text = String::new();
    match File::open(file) {
        Ok(opened) => opened.take(CREDENTIALS_LEN_MAX).read_to_string(&mut text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Known::default()),
        Err(error) => Err(error),
    }
    .map_err(|error| format!("cannot be read: {error}"))?;
    let kept: Kept = serde_json::from_str(&text)
        .map_err(|error| format!("is no file of credentials: {error}; put a good copy there"))?;
    if kept.format != FORMAT {
        return Err(format!(
            "has format {}, this version knows {FORMAT}: start the version that wrote it",
            kept.format
        ));
    }
    Known::new(kept.credentials)
}

/// Beside the old file, to the disk, and in its place by one rename.
fn write(file: &Path, entries: &[Entry]) -> io::Result<()> {
    let kept = Kept { format: FORMAT, credentials: entries.to_vec() };
    let text = serde_json::to_vec_pretty(&kept)?;
    let folder = file.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let beside = file.with_extension("new");
    // One that a crash left may be of another mode.
    match fs::remove_file(&beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut written = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
    written.write_all(&text)?;
    written.sync_all()?;
    fs::rename(&beside, file)?;
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests;
