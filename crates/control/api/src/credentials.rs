//! Credentials: the principal of a token or a certificate. The file keeps only a hash of each
//! token, and only its owner can read it.
use crate::limits::{CREDENTIALS_LEN_MAX, CREDENTIALS_MAX, SUBJECT_LEN_MAX};
use crate::principal::{Grant, Principal};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, SystemTime};
use zone_manager::command::{Credential, CredentialKind, TokenOutcome, TokenRequest};
use zone_manager::files::Folder;

/// The first characters of every token, so that scanners for leaked secrets can find them.
pub const TOKEN_PREFIX: &str = "dunlin_";
/// Random bytes in a token.
const TOKEN_LEN: usize = 32;
/// The format of the file. Versions before 2 know no expiry, so a file in which no credential
/// expires is written as 1: they can still read it.
const FORMAT: u32 = 2;

/// All credentials.
pub struct Credentials {
    /// Their file; `None`: there is no folder for it, and none can be created.
    file: Option<PathBuf>,
    /// Held by the thread that changes them.
    changing: Mutex<()>,
    index: RwLock<CredentialIndex>,
}

#[derive(Default)]
struct CredentialIndex {
    entries: Vec<Entry>,
    /// By the hash of the token.
    tokens: HashMap<[u8; 32], Holder>,
    /// By the subject of the certificate, in lower case.
    subjects: HashMap<String, Holder>,
    /// Why there are none.
    fault: Option<Fault>,
}

/// Why there are no credentials.
#[derive(Clone)]
enum Fault {
    /// The file was not read yet.
    Unread,
    /// The file cannot be read or is not trusted.
    Bad(String),
}

/// A principal, and when its credential expires, in seconds since 1970.
#[derive(Clone)]
struct Holder(Arc<Principal>, Option<u64>);

/// Why a credential is refused.
#[derive(Debug, PartialEq, Eq)]
pub enum CredentialError {
    /// No principal has it.
    Unknown,
    /// It expired.
    Expired {
        /// The name of its principal.
        principal: String,
        /// When it expired, in seconds since 1970.
        expired_seconds: u64,
    },
}

/// A principal to be created.
#[derive(Clone, Debug, Default)]
pub struct NewCredential {
    /// Its name.
    pub principal: String,
    /// Its grants: `VERBS [ZONE [NAMES [TYPES]]]` each.
    pub grants: Vec<String>,
    /// The name in its certificate; `None`: it gets a token.
    pub subject: Option<String>,
    /// The lifetime of the credential; `None`: until it is revoked.
    pub lifetime: Option<Duration>,
}

/// The file as it is written.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CredentialFile {
    format: u32,
    credentials: Vec<Entry>,
}

/// One credential in the file.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    principal: String,
    grants: Vec<String>,
    created_seconds: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires_seconds: Option<u64>,
    #[serde(flatten)]
    proof: Proof,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Proof {
    /// SHA-256 of the token, in hexadecimal digits. A token has 256 random bits, so a slow hash
    /// would add nothing.
    TokenSha256(String),
    /// A DNS name or URI among the alternative names of a certificate.
    Subject(String),
}

impl Credentials {
    /// Reads a file; one that does not exist holds no credentials. A file that cannot be read or
    /// is not trusted is a [`fault`](Self::fault): the API then lets no client in, and the server
    /// still answers queries.
    pub fn open(file: Option<PathBuf>) -> Self {
        let index = match &file {
            Some(file) => read_file(file).unwrap_or_else(|why| {
                tracing::error!("[api] lets no client in: {why}");
                CredentialIndex { fault: Some(Fault::Bad(why)), ..CredentialIndex::default() }
            }),
            None => CredentialIndex::default(),
        };
        Self { file, changing: Mutex::new(()), index: RwLock::new(index) }
    }

    /// The credentials of a file that is read when the first request needs it: a server without
    /// `[api]` does not need to be able to read it.
    pub fn unread(file: Option<PathBuf>) -> Self {
        let fault = file.as_ref().map(|_| Fault::Unread);
        let index = CredentialIndex { fault, ..CredentialIndex::default() };
        Self { file, changing: Mutex::new(()), index: RwLock::new(index) }
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, CredentialIndex> {
        self.index.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why the API lets no client in; `None`: it does.
    pub fn fault(&self) -> Option<String> {
        match &self.read().fault {
            Some(Fault::Bad(why)) => Some(why.clone()),
            Some(Fault::Unread) => Some("the file of credentials was not read yet".into()),
            None => None,
        }
    }

    /// Reads the file again, if it could not be read.
    ///
    /// # Errors
    /// It still cannot be read.
    pub fn mend(&self) -> Result<(), String> {
        if !matches!(self.read().fault, Some(Fault::Bad(_))) {
            return Ok(());
        }
        self.reload()?;
        tracing::info!("[api] lets clients in again: the file of credentials is good");
        Ok(())
    }

    /// Reads the file, if that was not needed or not possible before.
    fn ensure_read(&self) -> Result<(), String> {
        let is_unread = matches!(self.read().fault, Some(Fault::Unread));
        if is_unread { self.reload() } else { self.mend() }
    }

    /// Reads the file again after a hot restart, if it was read before: the old process may have
    /// changed it.
    ///
    /// # Errors
    /// The file cannot be read or is not trusted, and what to do; the credentials in memory hold.
    pub fn read_again(&self) -> Result<(), String> {
        let is_unread = matches!(self.read().fault, Some(Fault::Unread));
        if is_unread { Ok(()) } else { self.reload() }
    }

    fn reload(&self) -> Result<(), String> {
        let Some(file) = &self.file else { return Ok(()) };
        let _guard = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let read = read_file(file)?;
        *self.index.write().unwrap_or_else(PoisonError::into_inner) = read;
        Ok(())
    }

    /// The principal of a token, at a time in seconds since 1970.
    ///
    /// # Errors
    /// No principal has it, or it expired.
    pub fn of_token(&self, token: &str, now: u64) -> Result<Arc<Principal>, CredentialError> {
        let index = self.read();
        let holder = index.tokens.get(&<[u8; 32]>::from(Sha256::digest(token)));
        holder.ok_or(CredentialError::Unknown)?.at(now)
    }

    /// The principal of a certificate: that of its first name which a principal has.
    ///
    /// # Errors
    /// No principal has any of them, or the first expired.
    pub fn of_subjects<'s>(
        &self,
        subjects: impl IntoIterator<Item = &'s str>,
        now: u64,
    ) -> Result<Arc<Principal>, CredentialError> {
        let index = self.read();
        let mut found =
            subjects.into_iter().filter_map(|name| index.subjects.get(&name.to_ascii_lowercase()));
        found.next().ok_or(CredentialError::Unknown)?.at(now)
    }

    /// Carries out a request of an operator. It may wait for the disk.
    ///
    /// # Errors
    /// Why it is not done, and what to do. Then nothing has changed.
    pub fn handle(&self, request: TokenRequest) -> Result<TokenOutcome, String> {
        match request {
            TokenRequest::List => self.list().map(TokenOutcome::Listed),
            TokenRequest::Create { principal, grants, subject, lifetime_seconds } => {
                let lifetime = lifetime_seconds.map(|seconds| Duration::from_secs(seconds.into()));
                let new = NewCredential { principal, grants, subject, lifetime };
                self.create(new).map(|token| TokenOutcome::Created { token })
            }
            TokenRequest::Rotate { principal } => {
                self.rotate(&principal).map(|token| TokenOutcome::Created { token: Some(token) })
            }
            TokenRequest::Revoke { principal } => {
                self.revoke(&principal).map(|()| TokenOutcome::Revoked)
            }
        }
    }

    /// All credentials.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn list(&self) -> Result<Vec<Credential>, String> {
        self.ensure_read()?;
        let shown = |entry: &Entry| Credential {
            principal: entry.principal.clone(),
            grants: entry.grants.clone(),
            created_seconds: entry.created_seconds,
            expires_seconds: entry.expires_seconds,
            kind: match &entry.proof {
                Proof::TokenSha256(_) => CredentialKind::Token,
                Proof::Subject(subject) => CredentialKind::Certificate { subject: subject.clone() },
            },
        };
        Ok(self.read().entries.iter().map(shown).collect())
    }

    /// Creates a principal with one credential, and returns its token, if it has one. The file is
    /// on the disk before this returns; so below.
    ///
    /// # Errors
    /// The name, a grant or the subject is invalid, or the file cannot be written. Then nothing
    /// has changed; the same holds for the functions below.
    pub fn create(&self, new: NewCredential) -> Result<Option<String>, String> {
        let NewCredential { principal: name, grants, subject, lifetime } = new;
        let grants = grants.iter().map(|text| text.parse()).collect::<Result<Vec<Grant>, _>>()?;
        grants.iter().try_for_each(Grant::check_matchable)?;
        let principal = Principal::new(&name, grants)?;
        let (proof, token) = match subject {
            Some(subject) => (Proof::Subject(check_subject(subject)?), None),
            None => {
                let token = make_token()?;
                (Proof::of_token(&token), Some(token))
            }
        };
        let created_seconds = now_seconds();
        let expires_seconds = lifetime.map(|lifetime| created_seconds + lifetime.as_secs());
        let grants = principal.grants.iter().map(ToString::to_string).collect();
        let entry =
            Entry { principal: name.clone(), grants, created_seconds, expires_seconds, proof };
        self.change(|entries| {
            if entries.iter().any(|other| other.principal == name) {
                return Err(format!(
                    "there is a principal {name} already: `dunlin token rotate {name}` gives it a \
                     new token, `dunlin token revoke {name}` removes it"
                ));
            }
            if entries.len() >= CREDENTIALS_MAX {
                return Err(format!("there are {CREDENTIALS_MAX} credentials: revoke some first"));
            }
            entries.push(entry);
            Ok(())
        })?;
        tracing::info!(target: "api::audit", principal = name, "audit: credential created");
        Ok(token)
    }

    /// Gives a principal a new token in place of its old one, with the same grants. A token that
    /// expires gets the lifetime of the old one again.
    pub fn rotate(&self, name: &str) -> Result<String, String> {
        let token = make_token()?;
        let now = now_seconds();
        self.change(|entries| {
            let entry = entries.iter_mut().find(|entry| entry.principal == name);
            let entry = entry.ok_or_else(|| no_principal(name))?;
            if let Proof::Subject(subject) = &entry.proof {
                return Err(format!(
                    "{name} has the certificate of {subject}, not a token: sign a new certificate"
                ));
            }
            let lifetime =
                entry.expires_seconds.map(|until| until.saturating_sub(entry.created_seconds));
            entry.proof = Proof::of_token(&token);
            entry.created_seconds = now;
            entry.expires_seconds = lifetime.map(|lifetime| now + lifetime);
            Ok(())
        })?;
        tracing::info!(target: "api::audit", principal = name, "audit: token rotated");
        Ok(token)
    }

    /// Removes a principal with its credentials.
    pub fn revoke(&self, name: &str) -> Result<(), String> {
        self.change(|entries| {
            let before = entries.len();
            entries.retain(|entry| entry.principal != name);
            if entries.len() < before { Ok(()) } else { Err(no_principal(name)) }
        })?;
        tracing::info!(target: "api::audit", principal = name, "audit: credential revoked");
        Ok(())
    }

    /// Changes a copy, writes it to the disk, and only then uses it.
    fn change(
        &self,
        change: impl FnOnce(&mut Vec<Entry>) -> Result<(), String>,
    ) -> Result<(), String> {
        self.ensure_read()?;
        let file = self.file.as_ref().ok_or(
            "[server] data_dir is empty, so there is no file for credentials: set it and restart",
        )?;
        let _guard = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut entries = self.read().entries.clone();
        change(&mut entries)?;
        let index = CredentialIndex::new(entries)?;
        write_file(file, &index.entries).map_err(|why| {
            format!("{}: {why}; nothing has changed: is the disk full?", file.display())
        })?;
        *self.index.write().unwrap_or_else(PoisonError::into_inner) = index;
        Ok(())
    }
}

impl CredentialIndex {
    fn new(entries: Vec<Entry>) -> Result<Self, String> {
        let (mut tokens, mut subjects) = (HashMap::new(), HashMap::new());
        for entry in &entries {
            let grants = entry.grants.iter().map(|text| text.parse());
            let grants = grants.collect::<Result<Vec<Grant>, _>>()?;
            let principal = Arc::new(Principal::new(&entry.principal, grants)?);
            let holder = Holder(principal, entry.expires_seconds);
            let is_new = match &entry.proof {
                Proof::TokenSha256(digits) => {
                    let mut hash = [0; 32];
                    hex::decode_to_slice(digits, &mut hash).map_err(|_| {
                        format!("the hash of {}'s token is not SHA-256", entry.principal)
                    })?;
                    tokens.insert(hash, holder).is_none()
                }
                Proof::Subject(subject) => {
                    subjects.insert(subject.to_ascii_lowercase(), holder).is_none()
                }
            };
            if !is_new {
                let name = &entry.principal;
                return Err(format!("the token or subject of {name} is another principal's too"));
            }
        }
        Ok(Self { entries, tokens, subjects, fault: None })
    }
}

impl Holder {
    fn at(&self, now: u64) -> Result<Arc<Principal>, CredentialError> {
        match self.1 {
            Some(expired_seconds) if expired_seconds <= now => {
                Err(CredentialError::Expired { principal: self.0.name.clone(), expired_seconds })
            }
            _ => Ok(Arc::clone(&self.0)),
        }
    }
}

impl Proof {
    fn of_token(token: &str) -> Self {
        Self::TokenSha256(hex::encode(Sha256::digest(token)))
    }
}

/// The seconds since 1970.
pub fn now_seconds() -> u64 {
    SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs())
}

fn no_principal(name: &str) -> String {
    format!("there is no principal {name:?}: `dunlin token list` shows all")
}

fn check_subject(subject: String) -> Result<String, String> {
    let is_plain = subject.bytes().all(|byte| byte.is_ascii_graphic());
    match !subject.is_empty() && subject.len() <= SUBJECT_LEN_MAX && is_plain {
        true => Ok(subject),
        false => Err("a subject is a DNS name or URI among the alternative names of a \
                      certificate, such as ci.example.org or spiffe://example.org/ci"
            .into()),
    }
}

fn make_token() -> Result<String, String> {
    let mut bytes = [0; TOKEN_LEN];
    getrandom::fill(&mut bytes)
        .map_err(|why| format!("the kernel gives no random bytes for a token: {why}"))?;
    Ok(format!("{TOKEN_PREFIX}{}", hex::encode(bytes)))
}

/// The folder of a file, and the name of the file.
fn split(file: &Path) -> (&Path, &Path) {
    let name = file.file_name().map_or(Path::new(""), Path::new);
    (file.parent().unwrap_or(Path::new(".")), name)
}

fn read_file(file: &Path) -> Result<CredentialIndex, String> {
    let fault = |why: String| format!("{}: {why}", file.display());
    let (folder, name) = split(file);
    let mut text = String::new();
    match Folder::open(folder).and_then(|folder| folder.read(name)) {
        Ok(opened) => opened.take(CREDENTIALS_LEN_MAX).read_to_string(&mut text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(CredentialIndex::default());
        }
        Err(error) => Err(error),
    }
    .map_err(|error| fault(format!("cannot be read: {error}")))?;
    let read: CredentialFile = serde_json::from_str(&text).map_err(|error| {
        fault(format!("is not a file of credentials: {error}; put a good copy there"))
    })?;
    if !(1..=FORMAT).contains(&read.format) {
        return Err(fault(format!(
            "has format {}, this version reads 1 to {FORMAT}: start the version that wrote it",
            read.format
        )));
    }
    CredentialIndex::new(read.credentials).map_err(fault)
}

/// Writes a new file beside the old one, and replaces that by one rename.
fn write_file(file: &Path, entries: &[Entry]) -> io::Result<()> {
    let expires = entries.iter().any(|entry| entry.expires_seconds.is_some());
    let format = if expires { FORMAT } else { 1 };
    let text =
        serde_json::to_vec_pretty(&CredentialFile { format, credentials: entries.to_vec() })?;
    let (folder, name) = split(file);
    Folder::create(folder)?.replace(name, 0o600, |file| file.write_all(&text))
}

#[cfg(test)]
mod tests;
