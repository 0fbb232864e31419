//! A health check: its kind, schedule and thresholds.
mod keys;

use crate::limits::EXPIRY_WARNING;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;
use wire::{NameBuf, Rcode, Rtype};

/// A check: how addresses are probed, and when they are up or down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// Its name.
    pub name: String,
    /// The kind of probe.
    pub kind: CheckKind,
    /// The port; 0: the kind has none.
    pub port: u16,
    /// The time between two probes of a target.
    pub interval: Duration,
    /// The longest time of a probe, at most the interval.
    pub timeout: Duration,
    /// Passed probes in a row after which a target that is down is up.
    pub rise: u8,
    /// Failed probes in a row after which a target is down.
    pub fall: u8,
    /// How much later than planned a probe may be, in percent of the interval.
    pub jitter: u8,
}

/// A kind of probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckKind {
    /// A TCP connection can be opened.
    Tcp,
    /// An HTTP request gets the expected response.
    Http(HttpCheck),
    /// A request of `grpc.health.v1` says that a service serves.
    Grpc(GrpcCheck),
    /// A DNS query over UDP gets the expected response.
    Dns(DnsCheck),
    /// An ICMP echo request gets its reply.
    Icmp,
    /// A program ends with status 0.
    Script(ScriptCheck),
}

/// What an HTTP check requests and expects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpCheck {
    /// The path with its query.
    pub path: String,
    /// The Host field; empty: the address.
    pub host: String,
    /// The accepted status codes.
    pub status: Vec<RangeInclusive<u16>>,
    /// A text that the begin of the body contains; empty: any body.
    pub body: String,
    /// TLS; `None`: plain HTTP.
    pub tls: Option<TlsCheck>,
}

/// What a check of `grpc.health.v1` asks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GrpcCheck {
    /// The service; empty: the server as a whole.
    pub service: String,
    /// The authority that is sent; empty: the address.
    pub host: String,
    /// TLS; `None`: HTTP/2 without it.
    pub tls: Option<TlsCheck>,
}

/// What a DNS check asks and expects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DnsCheck {
    /// The name.
    pub name: NameBuf,
    /// The type. A response without an error has to have a record of it.
    pub rtype: Rtype,
    /// The expected response code.
    pub rcode: Rcode,
}

/// The program of a check. It is run without a shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptCheck {
    /// Its absolute path.
    pub program: PathBuf,
    /// Its arguments, in which `{address}` and `{port}` stand for those of the target.
    pub arguments: Vec<String>,
    /// The user that it runs as: a name or a number.
    pub user: String,
}

/// How a check verifies the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsCheck {
    /// The name that is sent and verified; empty: the Host field, or else the address.
    pub sni: String,
    /// The CA certificates; `None`: those of the system.
    pub ca: Option<PathBuf>,
    /// How long before the end of the certificate operators are warned.
    pub expiry_warning: Duration,
}

impl Default for TlsCheck {
    fn default() -> Self {
        Self { sni: String::new(), ca: None, expiry_warning: EXPIRY_WARNING }
    }
}

impl Check {
    /// The name of its kind, as in the config.
    pub fn kind_word(&self) -> &'static str {
        match &self.kind {
            CheckKind::Tcp => "tcp",
            CheckKind::Http(http) if http.tls.is_some() => "https",
            CheckKind::Http(_) => "http",
            CheckKind::Grpc(_) => "grpc",
            CheckKind::Dns(_) => "dns",
            CheckKind::Icmp => "icmp",
            CheckKind::Script(_) => "script",
        }
    }

    /// How it verifies the server, and the Host field that it sends; `None`: it uses no TLS.
    pub fn tls(&self) -> Option<(&TlsCheck, &str)> {
        let (tls, host) = match &self.kind {
            CheckKind::Http(http) => (&http.tls, &http.host),
            CheckKind::Grpc(grpc) => (&grpc.tls, &grpc.host),
            _ => return None,
        };
        tls.as_ref().map(|tls| (tls, &**host))
    }

    /// How long a server that probes may be silent until what it said does not count: as long as it
    /// takes to find that a target is down. One probe alone may come late.
    pub(crate) fn silence_max(&self) -> Duration {
        let probes = u32::from(self.fall.max(2));
        probes * (self.interval + self.jitter_max()) + self.timeout
    }

    pub(crate) fn jitter_max(&self) -> Duration {
        self.interval * u32::from(self.jitter) / 100
    }
}
