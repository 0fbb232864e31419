//! The sections about running a server: who may ask and how much, streams, and eyes.
use crate::limits::{
    LIMIT_MEMORY, PATH_LEN_MAX, PREFIXES_MAX, RATE_MAX, STREAM_IDLE, STREAM_MEMORY,
    STREAM_THREADS_MAX, STREAMS_MAX,
};
use crate::section::Section;
use crate::units;
use crate::values;
use crate::{Format, Level, StoreKind};
use api::Certificates;
use limit::{AclRule, Networks, Prefix, RateError};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use worker::StreamLimits;

/// `[acl]`: who may ask what. The longest prefix decides.
#[derive(Debug, PartialEq)]
pub struct Acl {
    /// Who may send queries.
    pub query: Vec<AclRule>,
    /// Whose questions for others' names are passed on.
    pub recursion: Vec<AclRule>,
    /// Who may read metrics.
    pub metrics: Vec<AclRule>,
    /// What denied clients get.
    pub denied: Denied,
}

/// What happens to the query of a client that may not ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denied {
    /// The response REFUSED.
    Refuse,
    /// No response.
    Drop,
}

/// `[limits]`: how much a client may ask, and how often be told the same.
#[derive(Debug, PartialEq)]
pub struct Limits {
    /// Networks without limits.
    pub exempt: Vec<Prefix>,
    /// Bytes of the tables of all limits together.
    pub memory: u64,
    /// The limit of queries.
    pub rate: Rate,
    /// The limit of responses to unproven addresses.
    pub responses: Rate,
}

/// `[limits.rate]` and `[limits.responses]`
#[derive(Debug, PartialEq)]
pub struct Rate {
    /// 0: without limit.
    pub per_second: u32,
    /// How many may come at once; 0: as many as in a second.
    pub burst: u32,
    /// Every how many that are too many gets a truncated answer instead of none; 0: none does.
    pub slip: u8,
    /// Bits of the network that counts as one client.
    pub ipv4_prefix: u8,
    /// Bits of an IPv6 address that clients share one debt by.
    pub ipv6_prefix: u8,
}

/// `[streams]`: TCP.
#[derive(Clone, Debug, PartialEq)]
pub struct Streams {
    /// Stream threads.
    pub threads: usize,
    /// Connections open at a time, in all and of one client.
    pub connections: usize,
    /// Connections of one client, at most.
    pub per_client: usize,
    /// How long a connection lives on without a whole query.
    pub idle: Duration,
    /// Bytes that the buffers of all connections may take.
    pub memory: u64,
}

/// `[proxy]`: who tells whom it asks for (PROXY protocol, version 2).
#[derive(Debug, PartialEq)]
pub struct Proxy {
    /// Addresses of the proxies.
    pub from: Vec<Prefix>,
}

/// `[ops]`: metrics and health over HTTP.
#[derive(Debug, PartialEq)]
pub struct Ops {
    /// Nothing: not served.
    pub listen: Option<SocketAddr>,
}

/// `[api]`: zones and record sets over HTTP.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Api {
    /// Nothing: not served.
    pub listen: Option<SocketAddr>,
    /// Requests that each principal may make a second.
    pub requests_per_second: u32,
    /// Nothing: without TLS, on a loopback address.
    pub tls: Option<Certificates>,
}

/// `[admin]`: the local socket of `dunlin status`, `top`, `reload` and `serve --hot-restart`.
#[derive(Debug, PartialEq)]
pub struct Admin {
    /// Nothing: none.
    pub socket: Option<PathBuf>,
}

/// `[log.queries]`
#[derive(Debug, PartialEq)]
pub struct Queries {
    /// Every how many is logged; 0: none.
    pub sample: u32,
    /// A file of its own; nothing: the log.
    pub file: Option<PathBuf>,
}

/// `[dnstap]`
#[derive(Debug, PartialEq)]
pub struct Dnstap {
    /// Where its reader listens; nothing: off.
    pub socket: Option<PathBuf>,
    /// Every how many is sent.
    pub sample: u32,
}

impl Acl {
    /// Whether nobody is kept from asking.
    pub fn lets_everybody_ask(&self) -> bool {
        self.query == units::anybody(true)
    }

    pub(super) fn read(mut section: Section<'_, '_>) -> Self {
        let denied = [("refuse", Denied::Refuse), ("drop", Denied::Drop)];
        let acl = Self {
            query: read_rules(&mut section, "query", units::anybody(true)),
            recursion: read_rules(&mut section, "recursion", units::private()),
            metrics: read_rules(&mut section, "metrics", units::anybody(true)),
            denied: section.read("denied", Denied::Refuse, values::word(denied)),
        };
        section.close();
        acl
    }
}

/// An access list.
fn read_rules(
    section: &mut Section<'_, '_>,
    key: &'static str,
    default: Vec<AclRule>,
) -> Vec<AclRule> {
    let rules = section.list(key, vec![default], PREFIXES_MAX, units::rules).concat();
    if !rules.is_empty() && !rules.iter().any(|rule| rule.listed) {
        section.wrong(key, "lets nobody in", "name prefixes to let in, or begin with \"any\"");
    }
    rules
}

impl Limits {
    pub(super) fn read(mut section: Section<'_, '_>) -> Self {
        let limits = Self {
            exempt: section.list("exempt", Vec::new(), PREFIXES_MAX, units::prefix),
            memory: section.read("memory", 16 << 20, units::octets(LIMIT_MEMORY)),
            rate: Rate::read(section.section("rate", "[limits.rate]"), 32),
            responses: Rate::read(section.section("responses", "[limits.responses]"), 24),
        };
        section.close();
        limits
    }
}

impl Rate {
    fn read(mut section: Section<'_, '_>, ipv4_prefix: u8) -> Self {
        let rate = Self {
            per_second: section.read("per_second", 0, values::number(0..=RATE_MAX)),
            burst: section.read("burst", 0, values::number(0..=RATE_MAX)),
            slip: section.read("slip", 2, values::number(0..=10)),
            ipv4_prefix: section.read("ipv4_prefix", ipv4_prefix, values::number(8..=32)),
            ipv6_prefix: section.read("ipv6_prefix", 56, values::number(16..=64)),
        };
        if let Err(error) = rate.rate() {
            section.wrong("burst", "cannot be", &error.to_string());
        }
        section.close();
        rate
    }

    fn rate(&self) -> Result<Option<limit::Rate>, RateError> {
        let burst = if self.burst == 0 { self.per_second } else { self.burst };
        let rate =
            (self.per_second > 0).then(|| limit::Rate::new(self.per_second, burst, self.slip));
        rate.transpose()
    }

    /// The rate, and who counts as one; nothing: without limit.
    pub fn parts(&self) -> Option<(limit::Rate, Networks)> {
        let rate = self.rate().ok().flatten()?;
        Some((rate, Networks::new(self.ipv4_prefix, self.ipv6_prefix).ok()?))
    }
}

impl Streams {
    pub(super) fn read(mut section: Section<'_, '_>) -> Self {
        let seconds = Duration::from_secs;
        let streams = Self {
            threads: section.read("threads", 1, values::number(1..=STREAM_THREADS_MAX)),
            connections: section.read("connections", 4_096, values::number(1..=STREAMS_MAX)),
            per_client: section.read("per_client", 128, values::number(1..=STREAMS_MAX)),
            idle: section.read("idle", seconds(10), units::duration(STREAM_IDLE)),
            memory: section.read("memory", 32 << 20, units::octets(STREAM_MEMORY)),
        };
        let least = StreamLimits::memory_min(streams.threads) as u64;
        if streams.memory < least {
            let kibibytes = least.div_ceil(1 << 10);
            let help = format!("set it to \"{kibibytes}KiB\" or more, or `threads` to fewer");
            section.wrong("memory", "is too little for so many threads", &help);
        }
        section.close();
        streams
    }
}

impl Proxy {
    pub(super) fn read(mut section: Section<'_, '_>) -> Self {
        let from = section.list("from", Vec::new(), PREFIXES_MAX, units::prefix);
        section.close();
        Self { from }
    }
}

impl Ops {
    pub(super) fn read(mut section: Section<'_, '_>) -> Self {
        let listen = section.read("listen", None, |value| match value.as_str() {
            Some("") => Ok(None),
            _ => values::address(value).map(Some),
        });
        section.close();
        Self { listen }
    }
}

impl Api {
    pub(super) fn read(mut section: Section<'_, '_>, store: StoreKind) -> Self {
        let listen = section.read("listen", None, |value| match value.as_str() {
            Some("") => Ok(None),
            _ => values::address(value).map(Some),
        });
        if listen.is_some() && store == StoreKind::None {
            let help = "set `kind = \"redb\"` in [store]";
            section.wrong("listen", "needs a store to write to", help);
        }
        let rate = values::number(1..=1_000_000);
        let requests_per_second = section.read("requests_per_second", 20_000, rate);
        let tls = read_certificates(section.section("tls", "[api.tls]"));
        if tls.is_none() && listen.is_some_and(|address| !address.ip().is_loopback()) {
            let help = "name a certificate in [api.tls], or listen on 127.0.0.1";
            section.wrong("listen", "is for others too, who would send tokens in clear", help);
        }
        section.close();
        Self { listen, requests_per_second, tls }
    }
}

/// `[api.tls]`; nothing: none.
fn read_certificates(mut section: Section<'_, '_>) -> Option<Certificates> {
    let cert = section.read("cert", None, path);
    let key = section.read("key", None, path);
    let client_ca = section.read("client_ca", None, path);
    match (&cert, &key) {
        (Some(_), None) => section.missing("key"),
        (None, Some(_)) => section.missing("cert"),
        (None, None) if client_ca.is_some() => {
            section.wrong("client_ca", "needs `cert` and `key`", "clients come over TLS");
        }
        _ => {}
    }
    section.close();
    Some(Certificates { cert: cert?, key: key?, client_ca })
}

impl Admin {
    /// Where it is unless the config says otherwise.
    pub const SOCKET: &'static str = "/run/dunlin/dunlin.sock";

    pub(super) fn read(mut section: Section<'_, '_>) -> Self {
        let socket = section.read("socket", Some(Self::SOCKET.into()), path);
        section.close();
        Self { socket }
    }
}

impl Queries {
    pub(super) fn read(mut section: Section<'_, '_>) -> Self {
        let queries = Self {
            sample: section.read("sample", 0, values::number(0..=1_000_000)),
            file: section.read("file", None, path),
        };
        section.close();
        queries
    }
}

impl Dnstap {
    pub(super) fn read(mut section: Section<'_, '_>) -> Self {
        let dnstap = Self {
            socket: section.read("socket", None, path),
            sample: section.read("sample", 1, values::number(1..=1_000_000)),
        };
        section.close();
        dnstap
    }
}

/// `[log.levels]`: the level of each part that has its own.
pub(super) fn read_levels(mut section: Section<'_, '_>) -> Vec<(&'static str, Level)> {
    let read = |part: &&'static str| {
        let level = section.read(part, None, |value| values::word(Level::WORDS)(value).map(Some));
        Some((*part, level?))
    };
    let levels = Level::PARTS.iter().filter_map(read).collect();
    section.close();
    levels
}

impl Format {
    pub(super) const WORDS: [(&'static str, Self); 2] =
        [("text", Self::Text), ("json", Self::Json)];
}

impl Level {
    pub(super) const WORDS: [(&'static str, Self); 4] = [
        ("error", Self::Error),
        ("warn", Self::Warn),
        ("info", Self::Info),
        ("debug", Self::Debug),
    ];

    /// The crates that log.
    pub(super) const PARTS: [&'static str; 9] = [
        "admin",
        "api",
        "ops",
        "query-samples",
        "records",
        "server",
        "source-file",
        "store-redb",
        "zone-manager",
    ];
}

/// A path; empty: none.
pub fn path(value: &toml::de::DeValue<'_>) -> Result<Option<PathBuf>, values::Wrong> {
    let text = values::text(PATH_LEN_MAX)(value)?;
    Ok((!text.is_empty()).then(|| text.into()))
}
