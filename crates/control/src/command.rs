//! What a running server may be told, by whichever door.
use serde::{Deserialize, Serialize};
use std::fmt;

/// What the threads that answer are told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Command {
    /// To forget what is kept of others' names.
    Flush(Scope),
    /// To show what is kept of a name.
    Show {
        /// The name.
        name: String,
        /// The type; nothing: all.
        rtype: Option<String>,
    },
    /// To ask a server no more, or again.
    Drain {
        /// The server, as the status names it.
        server: String,
        /// Whether it is to be asked no more.
        drained: bool,
    },
}

/// Which names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// This one.
    Name(String),
    /// This one and all below it.
    Subtree(String),
    /// All.
    All,
}

/// What the threads did. Every thread has done it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// So much went.
    Flushed(Vec<ThreadFlushed>),
    /// This is kept.
    Shown(Vec<ThreadKept>),
    /// The server is asked no more, or again, for names below these suffixes.
    Drained(Vec<String>),
}

/// What went out of the cache of one thread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadFlushed {
    /// Its name.
    pub thread: String,
    /// Answers that went.
    pub answers: u64,
    /// Questions that were under way, whose answers are not kept.
    pub under_way: u64,
}

/// What one thread keeps of a name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadKept {
    /// Its name.
    pub thread: String,
    /// How many answers it keeps.
    pub count: u64,
    /// The first of them.
    pub answers: Vec<Kept>,
}

/// An answer of another server's, as it is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// The type that was asked for.
    pub rtype: String,
    /// Whether the question had DO set: its answers are kept apart.
    pub dnssec_ok: bool,
    /// The same of CD.
    pub checking_disabled: bool,
    /// What it says.
    pub rcode: String,
    /// Records in its answer section.
    pub records: u16,
    /// Whether its last record is an alias that leads to names of other servers.
    pub is_unfinished: bool,
    /// Seconds since it came.
    pub age: u32,
    /// Seconds it is good for, from then on.
    pub ttl: u32,
    /// How often it was given lately, 3 at most.
    pub uses: u8,
    /// How much it takes.
    pub octets: u64,
}

/// What is to be done with credentials of the API.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TokenRequest {
    /// A new principal, with one credential.
    Create {
        /// Its name.
        principal: String,
        /// What it may: `VERBS [ZONE [NAMES [TYPES]]]` each.
        grants: Vec<String>,
        /// The name of its certificate; nothing: it has a token.
        subject: Option<String>,
    },
    /// All there are.
    List,
    /// A principal is nobody from now on.
    Revoke {
        /// Its name.
        principal: String,
    },
}

/// What was done with credentials.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TokenDone {
    /// It is there.
    Created {
        /// The token, which is told this once; nothing: it has a certificate.
        token: Option<String>,
    },
    /// These are there.
    Listed(Vec<Credential>),
    /// It is gone.
    Revoked,
}

/// Without the token.
impl fmt::Debug for TokenDone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Created { token } => {
                f.debug_struct("Created").field("has_token", &token.is_some()).finish()
            }
            Self::Listed(all) => f.debug_tuple("Listed").field(all).finish(),
            Self::Revoked => f.write_str("Revoked"),
        }
    }
}

/// A principal and how it is known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credential {
    /// Its name.
    pub principal: String,
    /// What it may.
    pub grants: Vec<String>,
    /// When it was made, in seconds since 1970.
    pub created_seconds: u64,
    /// How it is known.
    pub kind: CredentialKind,
}

/// How a principal is known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "by")]
pub enum CredentialKind {
    /// By a token.
    Token,
    /// By a certificate.
    Certificate {
        /// One of its alternative names.
        subject: String,
    },
}
