//! Commands to a running server.
use serde::{Deserialize, Serialize};
use std::fmt;

/// A command to the threads that answer queries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Command {
    /// Remove answers of forwarded names from the caches.
    Flush(FlushScope),
    /// Show cached answers of a name.
    Show {
        /// The name.
        name: String,
        /// The type; `None`: all types.
        rtype: Option<String>,
    },
    /// Stop sending queries to an upstream, or send them again.
    Drain {
        /// The upstream, as the status names it.
        server: String,
        /// Whether to stop.
        drained: bool,
    },
}

/// Names to flush.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FlushScope {
    /// This name.
    Name(String),
    /// This name and all below it.
    Subtree(String),
    /// All names.
    All,
}

/// The result of a command, from every thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CommandOutcome {
    /// The removed answers.
    Flushed(Vec<ThreadFlushed>),
    /// The cached answers.
    Shown(Vec<ThreadCacheEntry>),
    /// The suffixes of the upstream's rules.
    Drained(Vec<String>),
}

/// Answers removed from one thread's cache.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadFlushed {
    /// The thread's name.
    pub thread: String,
    /// Removed answers.
    pub answers: u64,
    /// Queries in flight, whose answers will not be cached.
    pub under_way: u64,
}

/// One thread's cached answers of a name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadCacheEntry {
    /// The thread's name.
    pub thread: String,
    /// The number of its answers.
    pub count: u64,
    /// The first of its answers.
    pub answers: Vec<CachedAnswer>,
}

/// A cached answer of an upstream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CachedAnswer {
    /// The query type.
    pub rtype: String,
    /// Whether the query had DO set; such answers are cached separately.
    pub dnssec_ok: bool,
    /// Whether the query had CD set.
    pub checking_disabled: bool,
    /// The response code.
    pub rcode: String,
    /// Records in its answer section.
    pub records: u16,
    /// Whether its last record is an alias to a name of other servers.
    pub is_unfinished: bool,
    /// Seconds since it was received.
    pub age: u32,
    /// Its lifetime in seconds.
    pub ttl: u32,
    /// How often it was used lately, up to 3.
    pub uses: u8,
    /// Its size in bytes.
    #[serde(alias = "octets")]
    pub bytes: u64,
}

/// The result of a reload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReloadOutcome {
    /// The config was loaded.
    Applied {
        /// Keys with a new value.
        changed: Vec<String>,
        /// Changes of zones.
        zones: Vec<ZoneChange>,
        /// Keys whose new value needs a restart.
        restart_needed: Vec<String>,
    },
    /// The config was refused; the old one stays.
    Refused {
        /// The errors, a line each, with their positions.
        errors: Vec<String>,
    },
    /// The config removes most of the zones, and is used only once it is accepted.
    Held {
        /// Zones of the config in use.
        had: u64,
        /// Those of them that the new config names.
        has: u64,
        /// Why, and what to do.
        reason: String,
    },
    /// The server does not reload now: it starts, ends, or is being replaced.
    NotNow {
        /// Why, and what to do.
        reason: String,
    },
}

/// A zone whose held content was accepted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcceptedZone {
    /// Its name.
    pub zone: String,
    /// Names served before.
    pub had: u64,
    /// Names in the held content.
    pub has: u64,
    /// The serial served now.
    pub serial: Option<u32>,
    /// Why its file is not served yet; `None`: it is.
    pub waits: Option<String>,
}

/// The change of a zone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "change")]
pub enum ZoneChange {
    /// New in the config.
    Added {
        /// The zone's name.
        zone: String,
    },
    /// Removed from the config.
    Removed {
        /// The zone's name.
        zone: String,
    },
    /// Its content changed.
    Changed {
        /// The zone's name.
        zone: String,
        /// The serials before and now; `None`: not loaded.
        serials: (Option<u32>, Option<u32>),
        /// The numbers of records before and now.
        records: (u64, u64),
    },
}

/// A request about the API's credentials.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TokenRequest {
    /// Create a principal with one credential.
    Create {
        /// The principal's name.
        principal: String,
        /// Grants, each `VERBS [ZONE [NAMES [TYPES]]]`.
        grants: Vec<String>,
        /// The name in its certificate; `None`: create a token.
        subject: Option<String>,
        /// The algorithm of its TSIG key; `None`: it has none.
        #[serde(default)]
        tsig: Option<String>,
        /// Seconds until the credential expires; `None`: it does not.
        #[serde(default)]
        lifetime_seconds: Option<u32>,
    },
    /// Give a principal a new token; its grants stay.
    Rotate {
        /// The principal's name.
        principal: String,
    },
    /// List all principals.
    List,
    /// Revoke a principal's credentials.
    Revoke {
        /// The principal's name.
        principal: String,
    },
}

/// The result of a [`TokenRequest`].
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TokenOutcome {
    /// The principal was created.
    Created {
        /// The token or the TSIG key, shown only now; `None`: it has a certificate.
        token: Option<String>,
    },
    /// All principals.
    Listed(Vec<Credential>),
    /// The credentials were revoked.
    Revoked,
}

/// Omits the token.
impl fmt::Debug for TokenOutcome {
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

/// A principal and its credential.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credential {
    /// Its name.
    pub principal: String,
    /// Its grants.
    pub grants: Vec<String>,
    /// When it was created, in seconds since 1970.
    pub created_seconds: u64,
    /// When it expires, in seconds since 1970; `None`: it does not.
    #[serde(default)]
    pub expires_seconds: Option<u64>,
    /// It is older than the verb `hide-wildcard`: it may hide wildcards from names beyond its
    /// grants, with a warning, until the next release.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub may_hide_with_warning: bool,
    /// Its credential.
    pub kind: CredentialKind,
}

/// A kind of credential.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "by")]
pub enum CredentialKind {
    /// A token.
    Token,
    /// A client certificate.
    Certificate {
        /// One of its alternative names.
        subject: String,
    },
    /// A key that signs DNS messages, whose name is that of the principal.
    Tsig {
        /// Its algorithm, such as `hmac-sha256`.
        algorithm: String,
    },
}
