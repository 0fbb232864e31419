//! `[forward]` and `[cache]`: whose names others are asked about, and what is kept of what they
//! say.
use super::section::Section;
use super::units;
use super::upstream::ServerAddress;
use super::values::{Wrong, describe};
use crate::limits::{CACHE_MEMORY, CACHE_TTL, FORWARDS_MAX};
use forward::limits::GROUP_LEN_MAX;
use std::time::Duration;
use toml::de::DeValue;
use wire::{Name, NameBuf};

/// `[forward]`: a rule for each key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forward {
    /// Names at and below it, the longest deciding.
    pub suffix: NameBuf,
    /// Whom to ask.
    pub servers: Vec<ServerAddress>,
}

/// `[cache]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    /// Octets that all threads together may take; 0: nothing is kept.
    pub memory: u64,
    /// The shortest and the longest time that an answer is kept.
    pub ttl_min: Duration,
    pub ttl_max: Duration,
    /// The longest time that it is kept what there is not.
    pub negative_ttl_max: Duration,
    /// How long an answer that nobody could renew is given after its end.
    pub stale: Duration,
}

impl Forward {
    pub(super) fn read_all(mut section: Section<'_, '_>) -> Vec<Self> {
        let mut rules: Vec<Self> = Vec::new();
        section.each(FORWARDS_MAX, |key, value| {
            let suffix = suffix(key)?;
            if rules.iter().any(|rule| rule.suffix.as_name() == suffix.as_name()) {
                return Err(format!("names below `{key}` are already forwarded").into());
            }
            rules.push(Self { suffix, servers: servers(key, value)? });
            Ok(())
        });
        rules
    }
}

fn suffix(key: &str) -> Result<NameBuf, Wrong> {
    let mut name = NameBuf::from_text(key.as_bytes(), Name::ROOT)
        .map_err(|error| Wrong::from(format!("{key:?} is not a name: {error}")))?;
    name.make_lowercase();
    Ok(name)
}

fn servers(key: &str, value: &DeValue<'_>) -> Result<Vec<ServerAddress>, Wrong> {
    let DeValue::Array(array) = value else {
        let message = format!("expected an array of addresses, found {}", describe(value));
        let help = match value {
            DeValue::Table(_) => format!("a name with dots has quotes: \"{key}.…\" = [\"…\"]"),
            _ => format!("put it in brackets: {key:?} = [\"192.0.2.1\"]"),
        };
        return Err(Wrong { message, help: Some(help) });
    };
    if array.is_empty() || array.len() > GROUP_LEN_MAX {
        return Err(format!("1 to {GROUP_LEN_MAX} servers, not {}", array.len()).into());
    }
    array.iter().map(|server| ServerAddress::read(server.get_ref())).collect()
}

impl Cache {
    pub(super) fn read(mut section: Section<'_, '_>) -> Self {
        let hour = Duration::from_secs(3600);
        let cache = Self {
            memory: section.read("memory", 64 << 20, units::octets(CACHE_MEMORY)),
            ttl_min: section.read("ttl_min", Duration::ZERO, units::duration(CACHE_TTL)),
            ttl_max: section.read("ttl_max", 24 * hour, units::duration(CACHE_TTL)),
            negative_ttl_max: section.read("negative_ttl_max", hour, units::duration(CACHE_TTL)),
            stale: section.read("stale", 24 * hour, units::duration(CACHE_TTL)),
        };
        if cache.ttl_min > cache.ttl_max {
            section.wrong("ttl_min", "is more than `ttl_max`", "make it less");
        }
        section.close();
        cache
    }
}
