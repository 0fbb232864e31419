//! `[forward]` and `[cache]`: forward rules, and the cache of responses.
use super::section::{Section, Value};
use super::units;
use super::upstream::ServerAddress;
use super::values::{self, Wrong, describe};
use crate::limits::{CACHE_MEMORY, CACHE_TTL, FAILURE_TTLS, FORWARDS_MAX};
use forward::limits::{GROUP_LEN_MAX, UPSTREAMS_MAX};
use std::path::{Path, PathBuf};
use std::time::Duration;
use toml::de::DeValue;
use upstream::limits::SOCKETS_PER_SERVER;
use wire::NameBuf;

/// The word for the file of the system's resolver.
const RESOLV_CONF: &str = "resolv.conf";

/// `[forward]`: one rule for each key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forward {
    /// The names at and below this suffix; the longest suffix decides.
    pub suffix: NameBuf,
    /// Whether responses are cached.
    pub mode: Mode,
    /// The upstreams; empty if the mode sends no query.
    pub servers: Vec<ServerAddress>,
    /// The file that names the upstreams instead, in the format of resolv.conf(5).
    pub file: Option<PathBuf>,
    /// Whether the case of letters in queries is random.
    pub mix_case: bool,
    /// Source ports that never change, for benchmarks; `None`: many that change.
    pub fixed_ports: Option<u8>,
    /// The maximum TTL of a cached answer, also of a negative one; `None`: that of `[cache]`.
    pub ttl_max: Option<Duration>,
}

/// How a rule treats its names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Queries upstreams and caches responses.
    Cache,
    /// Queries upstreams each time.
    Direct,
    /// Ignores the rule: names are treated as without it.
    Off,
    /// Answers NXDOMAIN: no query leaves this server.
    Local,
}

impl Mode {
    const WORDS: [(&'static str, Self); 4] = [
        ("cache", Self::Cache),
        ("direct", Self::Direct),
        ("off", Self::Off),
        ("local", Self::Local),
    ];

    /// Whether the mode queries upstreams.
    pub const fn asks(self) -> bool {
        matches!(self, Self::Cache | Self::Direct)
    }
}

/// `[cache]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    /// Bytes of the caches of all threads; 0: no cache.
    pub memory: u64,
    /// The minimum TTL of a cached answer.
    pub ttl_min: Duration,
    /// The maximum TTL of a cached answer.
    pub ttl_max: Duration,
    /// The maximum TTL of a cached negative answer.
    pub negative_ttl_max: Duration,
    /// How long after its end an answer is still given if no upstream answers.
    pub stale: Duration,
    /// How long a failure is cached at first.
    pub failure_ttl: Duration,
}

impl Forward {
    pub(super) fn read_all(mut section: Section<'_, '_>) -> Vec<Self> {
        let mut rules: Vec<Self> = Vec::new();
        section.each(FORWARDS_MAX, "a rule of [forward]", |key, value, mut section| {
            let suffix = values::name(key)?;
            if rules.iter().any(|rule| rule.suffix.as_name() == suffix.as_name()) {
                return Err(format!("names below `{key}` are already forwarded").into());
            }
            let rule = match value.get_ref() {
                DeValue::Table(_) => Self::read(key, suffix, section)?,
                _ => {
                    let (servers, file) = read_servers(key, value, &mut section);
                    let (mode, mix_case, fixed_ports, ttl_max) = (Mode::Cache, true, None, None);
                    Self { suffix, mode, servers, file, mix_case, fixed_ports, ttl_max }
                }
            };
            let before: usize = rules.iter().map(|rule| rule.servers.len()).sum();
            let count = before + rule.servers.len();
            if before <= UPSTREAMS_MAX && count > UPSTREAMS_MAX {
                let message = format!("all rules together have {UPSTREAMS_MAX} servers at most");
                rules.push(rule);
                return Err(message.into());
            }
            rules.push(rule);
            Ok(())
        });
        rules
    }

    /// Reads a rule that is a table.
    fn read(key: &str, suffix: NameBuf, mut section: Section<'_, '_>) -> Result<Self, Wrong> {
        const KEYS: [&str; 5] = ["servers", "mode", "mix_case", "fixed_ports", "ttl_max"];
        if !KEYS.into_iter().any(|key| section.has(key)) {
            let message = "expected an array of addresses, or a table with `servers`".to_owned();
            let help = format!("a name with dots has quotes: \"{key}.…\" = [\"…\"]");
            return Err(Wrong { message, help: Some(help) });
        }
        let mode = section.read("mode", Mode::Cache, values::word(Mode::WORDS));
        let (servers, file) = match section.take("servers") {
            Some(value) => read_servers(key, value, &mut section),
            None => (Vec::new(), None),
        };
        let mix_case = section.read("mix_case", true, values::boolean);
        let ports = values::number(1..=SOCKETS_PER_SERVER as u8);
        let fixed_ports = section.read("fixed_ports", None, |value| ports(value).map(Some));
        let ttl = units::duration(CACHE_TTL);
        let ttl_max = section.read("ttl_max", None, |value| ttl(value).map(Some));
        if mode != Mode::Cache {
            section.wrong("ttl_max", "is of a rule that caches", "take it out");
        }
        match mode.asks() {
            true if !section.has("servers") => section.missing("servers"),
            true => {}
            false => section.wrong("servers", "is not asked in this mode", "take it out"),
        }
        section.close();
        Ok(Self { suffix, mode, servers, file, mix_case, fixed_ports, ttl_max })
    }
}

/// The servers of a rule, or the file that names them.
fn read_servers<'t>(
    key: &str,
    value: &'t Value<'t>,
    section: &mut Section<'t, '_>,
) -> (Vec<ServerAddress>, Option<PathBuf>) {
    match value.get_ref().as_str() {
        Some(RESOLV_CONF) => (Vec::new(), Some(Path::new("/etc").join(RESOLV_CONF))),
        Some(path) if path.starts_with('/') => (Vec::new(), Some(path.into())),
        _ => (servers(key, value, section), None),
    }
}

fn servers<'t>(
    key: &str,
    value: &'t Value<'t>,
    section: &mut Section<'t, '_>,
) -> Vec<ServerAddress> {
    let DeValue::Array(array) = value.get_ref() else {
        let found = describe(value.get_ref());
        let message = format!("expected an array of addresses, found {found}");
        let help = Some(format!("put it in brackets: {key:?} = [\"192.0.2.1\"]"));
        section.add(value, Wrong { message, help });
        return Vec::new();
    };
    if array.is_empty() || array.len() > GROUP_LEN_MAX {
        section.add(value, format!("1 to {GROUP_LEN_MAX} servers, not {}", array.len()));
        return Vec::new();
    }
    section.elements(array, ServerAddress::read)
}

impl Cache {
    pub(super) fn read(mut section: Section<'_, '_>) -> Self {
        let (second, hour) = (Duration::from_secs(1), Duration::from_secs(3600));
        let cache = Self {
            memory: section.read("memory", 64 << 20, units::bytes(CACHE_MEMORY)),
            ttl_min: section.read("ttl_min", Duration::ZERO, units::duration(CACHE_TTL)),
            ttl_max: section.read("ttl_max", 24 * hour, units::duration(CACHE_TTL)),
            negative_ttl_max: section.read("negative_ttl_max", hour, units::duration(CACHE_TTL)),
            stale: section.read("stale", 24 * hour, units::duration(CACHE_TTL)),
            failure_ttl: section.read("failure_ttl", 5 * second, units::duration(FAILURE_TTLS)),
        };
        if cache.ttl_min > cache.ttl_max {
            section.wrong("ttl_min", "is more than `ttl_max`", "make it less");
        }
        section.close();
        cache
    }
}
