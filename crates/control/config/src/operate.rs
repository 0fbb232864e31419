//! The sections about operation: access lists, limits, streams, and monitoring.
use crate::limits::{
    LIMIT_MEMORY, OPS_HOSTS_MAX, PATH_LEN_MAX, PREFIXES_MAX, RATE_MAX, STREAM_IDLE, STREAM_MEMORY,
    STREAM_THREADS_MAX, STREAMS_MAX,
};
use crate::section::Section;
use crate::units;
use crate::values;
use crate::{Format, Level, StoreKind};
use limit::{AclRule, Networks, Prefix, RateError};
use listen::Certificates;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use worker::StreamLimits;

/// `[acl]`: access lists. The longest prefix decides.
#[derive(Debug, PartialEq)]
pub struct Acl {
    /// Clients that may send queries.
    pub query: Vec<AclRule>,
    /// Clients whose queries may be forwarded.
    pub recursion: Vec<AclRule>,
    /// Clients whose NOTIFY is obeyed (RFC 1996).
    pub notify_from: Vec<AclRule>,
    /// Clients that may read metrics.
    pub metrics: Vec<AclRule>,
    /// The treatment of denied clients.
    pub denied: Denied,
}

/// The treatment of a query of a denied client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denied {
    /// The response REFUSED.
    Refuse,
    /// No response at all.
    Drop,
}

/// `[limits]`: rate limits of queries and of equal responses.
#[derive(Debug, PartialEq)]
pub struct Limits {
    /// Networks without limits.
    pub exempt: Vec<Prefix>,
    /// Bytes of the tables of all limits.
    pub memory: u64,
    /// The limit of queries.
    pub rate: Rate,
    /// The limit of responses to clients that have not proven their address.
    pub responses: Rate,
}

/// `[limits.rate]` and `[limits.responses]`
#[derive(Debug, PartialEq)]
pub struct Rate {
    /// 0: without limit.
    pub per_second: u32,
    /// The burst size; 0: the rate of one second.
    pub burst: u32,
    /// One in this many queries above the limit gets a truncated response; 0: none does.
    pub slip: u8,
    /// Bits of the IPv4 prefix that counts as one client.
    pub ipv4_prefix: u8,
    /// Bits of the IPv6 prefix that counts as one client.
    pub ipv6_prefix: u8,
}

/// `[streams]`: TCP.
#[derive(Clone, Debug, PartialEq)]
pub struct Streams {
    /// Stream threads.
    pub threads: usize,
    /// Open connections of all clients.
    pub connections: usize,
    /// Open connections of one client.
    pub per_client: usize,
    /// The idle timeout: how long a connection may be without a complete query.
    pub idle: Duration,
    /// Bytes of the buffers of all connections.
    pub memory: u64,
}

/// `[proxy]`: proxies that name the client (PROXY protocol, version 2).
#[derive(Debug, PartialEq)]
pub struct Proxy {
    /// Addresses of the proxies.
    pub from: Vec<Prefix>,
}

/// `[ops]`: metrics and health over HTTP.
#[derive(Debug, PartialEq)]
pub struct Ops {
    /// `None`: not served.
    pub listen: Option<SocketAddr>,
    /// Names that requests to a loopback address may have in their Host, besides `localhost` and
    /// addresses.
    pub hosts: Vec<String>,
}

/// `[api]`: zones and record sets over HTTP.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Api {
    /// `None`: not served.
    pub listen: Option<SocketAddr>,
    /// Requests a second of each principal.
    pub requests_per_second: u32,
    /// Whether the API of `PowerDNS` is served, too.
    pub powerdns: bool,
    /// `None`: no TLS, on a loopback address only.
    pub tls: Option<Certificates>,
    /// When an UPDATE message is answered; `Off`: it is refused.
    pub update: UpdateWait,
}

/// What the response to an UPDATE message (RFC 2136) waits for, once the change is on the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UpdateWait {
    /// UPDATE is not taken.
    #[default]
    Off,
    /// Every worker of this server serves the change.
    Live,
    /// Every living server of the fleet serves it.
    Fleet,
}

/// `[admin]`: the local socket of `dunlin status`, `top`, `reload` and `serve --hot-restart`.
#[derive(Debug, PartialEq)]
pub struct Admin {
    /// `None`: no admin socket.
    pub socket: Option<PathBuf>,
}

/// `[log.queries]`
#[derive(Debug, PartialEq)]
pub struct Queries {
    /// One in this many queries is logged; 0: none.
    pub sample: u32,
    /// A separate file; `None`: the log.
    pub file: Option<PathBuf>,
}

/// `[dnstap]`
#[derive(Debug, PartialEq)]
pub struct Dnstap {
    /// The socket of the reader; `None`: off.
    pub socket: Option<PathBuf>,
    /// One in this many queries is sent.
    pub sample: u32,
}

impl Acl {
    /// Whether no client is denied.
    pub fn allows_all_queries(&self) -> bool {
        self.query == units::anybody(true)
    }

    pub(super) fn read(mut section: Section<'_, '_>) -> Self {
        let denied = [("refuse", Denied::Refuse), ("drop", Denied::Drop)];
        let acl = Self {
            query: read_rules(&mut section, "query", units::anybody(true)),
            recursion: read_rules(&mut section, "recursion", units::private()),
            notify_from: read_rules(&mut section, "notify_from", units::loopback()),
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
        section.wrong(key, "allows no client", "name prefixes to allow, or begin with \"any\"");
    }
    rules
}

impl Limits {
    pub(super) fn read(mut section: Section<'_, '_>) -> Self {
        let limits = Self {
            exempt: section.list("exempt", Vec::new(), PREFIXES_MAX, units::prefix),
            memory: section.read("memory", 16 << 20, units::bytes(LIMIT_MEMORY)),
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

    /// The rate, and the prefixes that count as one client; `None`: no limit.
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
            memory: section.read("memory", 32 << 20, units::bytes(STREAM_MEMORY)),
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
        let hosts = section.list("hosts", Vec::new(), OPS_HOSTS_MAX, |value| {
            let name = values::zone_name(value)?.to_string();
            Ok(name.trim_end_matches('.').to_owned())
        });
        section.close();
        Self { listen, hosts }
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
        let powerdns = section.read("powerdns", false, values::boolean);
        let tls = read_certificates(section.section("tls", "[api.tls]"));
        if tls.is_none() && listen.is_some_and(|address| !address.ip().is_loopback()) {
            let help = "name a certificate in [api.tls], or listen on 127.0.0.1";
            section.wrong(
                "listen",
                "is reachable for other hosts, and tokens would be sent in clear",
                help,
            );
        }
        let words =
            [("off", UpdateWait::Off), ("live", UpdateWait::Live), ("fleet", UpdateWait::Fleet)];
        let update = section.read("update", UpdateWait::Off, values::word(words));
        if update != UpdateWait::Off && store == StoreKind::None {
            let help = "set `kind = \"redb\"` in [store]";
            section.wrong("update", "needs a store to write to", help);
        }
        section.close();
        Self { listen, requests_per_second, powerdns, tls, update }
    }
}

/// `[api.tls]` or `[transfer.tls]`; `None`: absent.
pub fn read_certificates(mut section: Section<'_, '_>) -> Option<Certificates> {
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
    /// The default path.
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

/// `[log.levels]`: the levels of single crates.
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
    pub(super) const PARTS: [&'static str; 26] = [
        "admin",
        "announcer",
        "api",
        "control-messages",
        "data-plane",
        "durable",
        "etcd-link",
        "fleet-members",
        "fleet-state",
        "health",
        "keyspace",
        "kube-api",
        "listen",
        "process",
        "query-samples",
        "records",
        "server",
        "source-file",
        "source-kube",
        "source-parts",
        "source-transfer",
        "store",
        "store-etcd",
        "store-redb",
        "transfer",
        "zone-manager",
    ];
}

/// A path; empty: none.
pub fn path(value: &toml::de::DeValue<'_>) -> Result<Option<PathBuf>, values::Wrong> {
    let text = values::text(PATH_LEN_MAX)(value)?;
    Ok((!text.is_empty()).then(|| text.into()))
}
