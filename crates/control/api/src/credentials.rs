//! Credentials: the principal of a token or a certificate. Only a hash of each token is kept.
mod format;
mod keys;

use crate::limits::{CREDENTIALS_MAX, SUBJECT_LEN_MAX};
use crate::principal::{Grant, Principal};
use documents::{ChangeError, Content, DocumentSet, Value, change};
pub use format::{CredentialFile, check_document};
use format::{Proof, Stored};
pub use keys::PrincipalKey;
use keys::{key_name, key_text, make_secret, read_key};
use server_status::command::{Credential, CredentialKind, TokenOutcome, TokenRequest};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, SystemTime};
use tokio::sync::watch;

/// The first characters of every token, so that scanners for leaked secrets can find them.
pub const TOKEN_PREFIX: &str = "dunlin_";
/// Random bytes in a token.
const TOKEN_LEN: usize = 32;

/// All credentials.
pub struct Credentials {
    set: Arc<dyn DocumentSet>,
    content: watch::Receiver<Arc<Content>>,
    index: RwLock<CredentialIndex>,
}

struct CredentialIndex {
    /// What it is made of.
    content: Arc<Content>,
    /// By the hash of the token.
    tokens: HashMap<[u8; 32], Holder>,
    /// By the subject of the certificate, in lower case.
    subjects: HashMap<String, Holder>,
    /// By the name of the key, in lower case.
    keys: HashMap<Box<[u8]>, (Holder, Arc<tsig::Key>)>,
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

/// Why a request of an operator is not carried out. Each says what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenRefused {
    /// The request is wrong.
    NotDone(String),
    /// It cannot be stored now. Nothing has changed.
    NotSaved(String),
    /// It is not stored: etcd is out of space.
    NoSpace(String),
    /// It may be stored.
    Unknown(String),
}

impl fmt::Display for TokenRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::NotDone(why) | Self::NotSaved(why) | Self::NoSpace(why) | Self::Unknown(why)) =
            self;
        f.write_str(why)
    }
}

impl From<String> for TokenRefused {
    fn from(why: String) -> Self {
        Self::NotDone(why)
    }
}

impl From<ChangeError<String>> for TokenRefused {
    fn from(error: ChangeError<String>) -> Self {
        match error {
            ChangeError::Refused(why) => Self::NotDone(why),
            ChangeError::NotSaved(why) => Self::NotSaved(why),
            ChangeError::NoSpace(why) => Self::NoSpace(why),
            ChangeError::Unknown(why) => Self::Unknown(why),
        }
    }
}

/// A principal to be created.
#[derive(Clone, Debug, Default)]
pub struct NewCredential {
    /// Its name.
    pub principal: String,
    /// Its grants: `VERBS [ZONE [NAMES [TYPES]]]` each.
    pub grants: Vec<String>,
    /// The name in its certificate; `None`: it gets a token or a key.
    pub subject: Option<String>,
    /// The algorithm of its TSIG key; `None`: it gets a token.
    pub tsig: Option<String>,
    /// The lifetime of the credential; `None`: until it is revoked.
    pub lifetime: Option<Duration>,
}

impl Credentials {
    /// The credentials of a set. If its content is not known, there is a [`fault`](Self::fault):
    /// the API then lets no client in, and the server still answers queries.
    pub fn new(set: Arc<dyn DocumentSet>) -> Self {
        let content = set.content();
        let index = RwLock::new(CredentialIndex::new(Arc::clone(&content.borrow())));
        Self { set, content, index }
    }

    /// As [`Credentials::new`], of a set whose content is needed from now on.
    pub fn open(set: Arc<dyn DocumentSet>) -> Self {
        if let Err(why) = set.load() {
            tracing::error!("[api] lets no client in: {why}");
        }
        Self::new(set)
    }

    /// The index of the newest content.
    fn read(&self) -> RwLockReadGuard<'_, CredentialIndex> {
        let newest = Arc::clone(&self.content.borrow());
        let index = self.index.read().unwrap_or_else(PoisonError::into_inner);
        if Arc::ptr_eq(&index.content, &newest) {
            return index;
        }
        drop(index);
        let mut index = self.index.write().unwrap_or_else(PoisonError::into_inner);
        // It may be newer by now, and an older one must not replace it.
        let newest = Arc::clone(&self.content.borrow());
        *index = CredentialIndex::new(newest);
        drop(index);
        self.index.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why the API lets no client in; `None`: it does.
    pub fn fault(&self) -> Option<String> {
        self.content.borrow().fault.clone()
    }

    /// Tries again to make the credentials known, if that was tried in vain.
    ///
    /// # Errors
    /// They are still not known.
    pub fn mend(&self) -> Result<(), String> {
        if self.fault().is_none() {
            return Ok(());
        }
        self.set.reload()?;
        if self.fault().is_none() {
            tracing::info!("[api] lets clients in again: the credentials are known");
        }
        Ok(())
    }

    /// Reads the file again after a hot restart, if it was read before: the old process may have
    /// changed it.
    ///
    /// # Errors
    /// The file cannot be read or is not trusted, and what to do; the credentials in memory hold.
    pub fn read_again(&self) -> Result<(), String> {
        self.set.reload()
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

    /// Carries out a request of an operator. It may wait for the disk or the network.
    ///
    /// # Errors
    /// Why it is not done, and what to do.
    pub fn handle(&self, request: TokenRequest) -> Result<TokenOutcome, TokenRefused> {
        match request {
            TokenRequest::List => self.list().map(TokenOutcome::Listed),
            TokenRequest::Create { principal, grants, subject, tsig, lifetime_seconds } => {
                let lifetime = lifetime_seconds.map(|seconds| Duration::from_secs(seconds.into()));
                let new = NewCredential { principal, grants, subject, tsig, lifetime };
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

    /// All credentials, by the names of their principals.
    ///
    /// # Errors
    /// They are not known.
    pub fn list(&self) -> Result<Vec<Credential>, TokenRefused> {
        self.set.load().map_err(TokenRefused::NotSaved)?;
        let content = Arc::clone(&self.content.borrow());
        let shown = |(name, document): (&String, &documents::Document)| {
            let stored = Stored::read(&document.value).ok()?;
            let may_hide_with_warning = stored.may_hide_with_warning();
            Some(Credential {
                principal: name.clone(),
                grants: stored.grants,
                created_seconds: stored.created_seconds,
                expires_seconds: stored.expires_seconds,
                may_hide_with_warning,
                kind: match stored.proof {
                    Proof::TokenSha256(_) => CredentialKind::Token,
                    Proof::Subject(subject) => CredentialKind::Certificate { subject },
                    Proof::Tsig { algorithm, .. } => CredentialKind::Tsig { algorithm },
                },
            })
        };
        Ok(content.documents.iter().filter_map(shown).collect())
    }

    /// Creates a principal with one credential, and returns its token or its key, if it has one.
    /// Durable when it returns; so below.
    ///
    /// # Errors
    /// The name, a grant or the subject is invalid, or it cannot be stored; so below.
    pub fn create(&self, new: NewCredential) -> Result<Option<String>, TokenRefused> {
        let NewCredential { principal: name, grants, subject, tsig, lifetime } = new;
        let grants = grants.iter().map(|text| text.parse()).collect::<Result<Vec<Grant>, _>>()?;
        grants.iter().try_for_each(Grant::check_matchable)?;
        let principal = Principal::new(&name, grants)?;
        let (proof, token) = make_proof(&name, subject, tsig)?;
        let created_seconds = now_seconds();
        let expires_seconds = lifetime.map(|lifetime| created_seconds + lifetime.as_secs());
        let keeps_wildcards = principal.grants.iter().any(Grant::limits_writes);
        let grants = principal.grants.iter().map(ToString::to_string).collect();
        let stored = Stored { grants, created_seconds, expires_seconds, keeps_wildcards, proof };
        self.change(|content| {
            if let Some(unusable) = content.unusable.get(&name) {
                let why = &unusable.why;
                return Err(format!(
                    "there is a principal {name} that cannot be used: {why}; `dunlin token revoke \
                     {name}` removes it"
                ));
            }
            if content.documents.contains_key(&name) {
                return Err(format!(
                    "there is a principal {name} already: `dunlin token rotate {name}` gives it a \
                     new token, `dunlin token revoke {name}` removes it"
                ));
            }
            if content.count() >= CREDENTIALS_MAX {
                return Err(format!("there are {CREDENTIALS_MAX} credentials: revoke some first"));
            }
            format::check_subject_is_free(&content.documents, &stored)?;
            check_key_is_free(&content.documents, &name, &stored)?;
            Ok((name.clone(), Some(stored.write())))
        })?;
        tracing::info!(target: "api::audit", principal = name, "audit: credential created");
        Ok(token)
    }

    /// Gives a principal a new token in place of its old one, with the same grants. A token that
    /// expires gets the lifetime of the old one again.
    pub fn rotate(&self, name: &str) -> Result<String, TokenRefused> {
        let mut token = String::new();
        let now = now_seconds();
        self.change(|content| {
            let document = content.documents.get(name).ok_or_else(|| no_principal(name))?;
            let mut stored = Stored::read(&document.value)?;
            let algorithm = match &stored.proof {
                Proof::Subject(subject) => {
                    return Err(format!(
                        "{name} has the certificate of {subject}, not a token: sign a new \
                         certificate"
                    ));
                }
                Proof::TokenSha256(_) => None,
                Proof::Tsig { algorithm, .. } => Some(algorithm.clone()),
            };
            let (proof, made) = make_proof(name, None, algorithm)?;
            token = made.unwrap_or_default();
            let lifetime =
                stored.expires_seconds.map(|until| until.saturating_sub(stored.created_seconds));
            stored.proof = proof;
            stored.created_seconds = now;
            stored.expires_seconds = lifetime.map(|lifetime| now + lifetime);
            Ok((name.to_owned(), Some(stored.write())))
        })?;
        tracing::info!(target: "api::audit", principal = name, "audit: token rotated");
        Ok(token)
    }

    /// Removes a principal with its credentials.
    pub fn revoke(&self, name: &str) -> Result<(), TokenRefused> {
        self.change(|content| {
            let is_there =
                content.documents.contains_key(name) || content.unusable.contains_key(name);
            if is_there { Ok((name.to_owned(), None)) } else { Err(no_principal(name)) }
        })?;
        tracing::info!(target: "api::audit", principal = name, "audit: credential revoked");
        Ok(())
    }

    fn change(
        &self,
        plan: impl FnMut(&Content) -> Result<(String, Option<Value>), String>,
    ) -> Result<(), TokenRefused> {
        Ok(change(&*self.set, plan)?)
    }
}

impl CredentialIndex {
    fn new(content: Arc<Content>) -> Self {
        let (mut tokens, mut subjects) = (HashMap::new(), HashMap::new());
        let mut keys = HashMap::new();
        for (name, document) in &content.documents {
            // The set has only documents that can be used.
            let Ok((holder, proof)) = holder(name, &document.value) else { continue };
            match proof {
                Proof::TokenSha256(digits) => {
                    let mut hash = [0; 32];
                    if hex::decode_to_slice(digits, &mut hash).is_ok() {
                        tokens.insert(hash, holder);
                    }
                }
                // No server of ours stores one twice.
                Proof::Subject(subject) => {
                    subjects.entry(subject.to_ascii_lowercase()).or_insert(holder);
                }
                Proof::Tsig { algorithm, secret } => {
                    if let Ok(key) = read_key(name, &algorithm, &secret) {
                        let at = key.name().as_bytes().into();
                        keys.entry(at).or_insert((holder, Arc::new(key)));
                    }
                }
            }
        }
        Self { content, tokens, subjects, keys }
    }
}

fn holder(name: &str, value: &Value) -> Result<(Holder, Proof), String> {
    let stored = Stored::read(value)?;
    let grants = stored.grants.iter().map(|text| text.parse());
    let grants = grants.collect::<Result<Vec<Grant>, _>>()?;
    let mut principal = Principal::new(name, grants)?;
    principal.may_hide_with_warning = stored.may_hide_with_warning();
    Ok((Holder(Arc::new(principal), stored.expires_seconds), stored.proof))
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

/// The proof of a new credential, and what its principal has to keep: a token or a key.
fn make_proof(
    name: &str,
    subject: Option<String>,
    tsig: Option<String>,
) -> Result<(Proof, Option<String>), String> {
    match (subject, tsig) {
        (Some(_), Some(_)) => Err("a principal has a certificate or a TSIG key, not both".into()),
        (Some(subject), None) => Ok((Proof::Subject(check_subject(subject)?), None)),
        (None, Some(algorithm)) => {
            key_name(name)?;
            let secret = make_secret(&algorithm)?;
            let text = key_text(name, &algorithm, &secret);
            Ok((Proof::Tsig { algorithm, secret }, Some(text)))
        }
        (None, None) => {
            let token = make_token()?;
            Ok((Proof::of_token(&token), Some(token)))
        }
    }
}

/// Refuses a key whose name differs from another's only in case.
fn check_key_is_free(
    documents: &std::collections::BTreeMap<String, documents::Document>,
    new: &str,
    stored: &Stored,
) -> Result<(), String> {
    if !matches!(stored.proof, Proof::Tsig { .. }) {
        return Ok(());
    }
    match documents.keys().find(|name| name.trim_end_matches('.').eq_ignore_ascii_case(new)) {
        Some(name) => Err(format!("the key would have the name of the principal {name}")),
        None => Ok(()),
    }
}

fn make_token() -> Result<String, String> {
    let mut bytes = [0; TOKEN_LEN];
    getrandom::fill(&mut bytes)
        .map_err(|why| format!("the kernel gives no random bytes for a token: {why}"))?;
    Ok(format!("{TOKEN_PREFIX}{}", hex::encode(bytes)))
}

#[cfg(test)]
mod tests;
