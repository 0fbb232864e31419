//! `[health]` and `[check]`: which addresses are probed, and how.
mod kinds;
#[cfg(test)]
mod tests;

use super::section::{Problems, Section};
use super::{units, values};
use crate::feature::{FEATURE_HELP, Feature};
use crate::limits::{
    CHECK_INTERVAL, CHECK_JITTER, CHECK_ROUNDS, HEALTH_TTL, PATH_LEN_MAX, PREFIXES_MAX, VANTAGES,
};
use ::health::limits::CHECKS_MAX;
use ::health::{Check, WebhookSettings};
use limit::Prefix;
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;
use toml::de::{DeTable, DeValue};
use values::Wrong;

/// `[health]` and `[check]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// The prefixes that may be probed; empty: all addresses that are not special.
    pub allow: Vec<Prefix>,
    /// The longest TTL of sets with a check.
    pub ttl_max: Duration,
    /// How many servers of a fleet probe each address.
    pub vantage: u8,
    /// Receives transitions; `None`: there is no receiver.
    pub webhook: Option<WebhookSettings>,
    /// The checks, by name.
    pub checks: Vec<Check>,
}

impl Health {
    /// Reads `[health]` and `[check]`.
    pub(super) fn read_all(root: &mut Section<'_, '_>, config: &Path) -> Self {
        let mut health = Self::read(root.section("health", "[health]"), config);
        health.read_checks(root.section("check", "[check]"), config);
        health
    }

    fn read(mut section: Section<'_, '_>, config: &Path) -> Self {
        let health = Self {
            webhook: read_webhook(&mut section, config),
            allow: section.list("allow", Vec::new(), PREFIXES_MAX, units::prefix),
            ttl_max: section.read("ttl_max", Duration::from_secs(30), units::duration(HEALTH_TTL)),
            vantage: section.read("vantage", 2, values::number(VANTAGES)),
            checks: Vec::new(),
        };
        section.close();
        health
    }

    /// Whether everything but the checks is the same.
    pub fn has_same_settings(&self, other: &Self) -> bool {
        let settings = |health: &Self| (health.ttl_max, health.vantage);
        (&self.allow, &self.webhook) == (&other.allow, &other.webhook)
            && settings(self) == settings(other)
    }

    /// Reads the checks of `[check]`.
    fn read_checks(&mut self, mut section: Section<'_, '_>, config: &Path) {
        section.each(CHECKS_MAX, "a check of [check]", |name, _, section| {
            if name == model::CHECK_OFF {
                let message = format!("{name:?} is not a name of a check");
                let help = "a set says so to have none";
                return Err(Wrong { message, help: Some(help.into()) });
            }
            if !model::is_check_name(name) {
                let message = format!("{:?} is not a name of a check", values::shorten(name));
                let help = Some("up to 63 letters, digits, `-` and `_`".into());
                return Err(Wrong { message, help });
            }
            self.checks.extend(read_check(name, section, config));
            Ok(())
        });
    }
}

/// The checks that a config can name.
pub(super) struct KnownChecks {
    /// Those of `[check]`.
    names: BTreeSet<String>,
    /// Whether the API can define others.
    can_be_defined: bool,
}

impl KnownChecks {
    /// Those of the config, and if so others that may be defined later.
    pub fn new(health: &Health, can_be_defined: bool) -> Self {
        Self {
            names: health.checks.iter().map(|check| check.name.clone()).collect(),
            can_be_defined,
        }
    }

    /// The name of a check, which exists or may be defined later.
    pub fn read(&self, value: &DeValue<'_>) -> Result<String, Wrong> {
        let name = values::text(model::CHECK_NAME_MAX)(value)?;
        if !Feature::Health.is_built() {
            let message = Feature::Health.absence("a check");
            return Err(Wrong { message, help: Some(FEATURE_HELP.into()) });
        }
        if self.names.contains(&name) || (self.can_be_defined && is_definable(&name)) {
            return Ok(name);
        }
        let message = format!("there is no check {:?}", values::shorten(&name));
        let help = match self.names.is_empty() {
            true => "define it in [check]".to_owned(),
            false => {
                let known: Vec<_> = self.names.iter().map(String::as_str).collect();
                format!("known: {}", known.join(", "))
            }
        };
        Err(Wrong { message, help: Some(help) })
    }
}

/// Whether a check may have this name.
fn is_definable(name: &str) -> bool {
    model::is_check_name(name) && name != model::CHECK_OFF
}

fn read_webhook(section: &mut Section<'_, '_>, config: &Path) -> Option<WebhookSettings> {
    let mut text = |key| {
        let text = section.read(key, String::new(), values::text(PATH_LEN_MAX));
        (!text.is_empty()).then_some(text)
    };
    let (url, secret) = (text("webhook"), text("webhook_secret"));
    if url.is_some() && secret.is_none() {
        section.missing("webhook_secret");
    }
    if url.is_none() && secret.is_some() {
        section.wrong("webhook_secret", "has no effect without `webhook`", "add the URL");
    }
    let folder = config.parent().unwrap_or(Path::new(""));
    Some(WebhookSettings { url: url?, secret: folder.join(secret?) })
}

/// Reads a check of the API from its keys, which are those of `[check]`.
///
/// # Errors
/// The name or a key is wrong; all errors.
pub fn read_check_keys(name: &str, keys: &Map<String, Value>) -> Result<Check, String> {
    if !Feature::Health.is_built() {
        return Err(format!("{} ({FEATURE_HELP})", Feature::Health.absence("a check")));
    }
    if !is_definable(name) {
        let name = values::shorten(name);
        return Err(format!(
            "{name:?} is not a name of a check: it has up to 63 letters, digits, `-` and `_`, \
             and is not `off`"
        ));
    }
    if keys.get("kind").and_then(Value::as_str) == Some("script") {
        return Err("a check that runs a program is defined in the config only".into());
    }
    if keys.contains_key("ca") {
        return Err("`ca` names a file of the server: define the check in the config".into());
    }
    let is_plain =
        |key: &&String| key.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    if let Some(key) = keys.keys().find(|key| key.is_empty() || !is_plain(key)) {
        return Err(format!("{:?} is not a key of a check", values::shorten(key)));
    }
    // JSON values of these kinds are TOML values.
    let lines = keys.iter().map(|(key, value)| format!("{key} = {value}\n"));
    let text: String = lines.collect::<String>().replace('\u{7f}', "\\u007F");
    let mut problems = Problems::new(Path::new(""), &text);
    let table = DeTable::parse(&text).map_err(|_| {
        "the values of a check are texts, numbers, true, false and arrays of texts".to_owned()
    })?;
    let section = Section::of_table("a check", table.get_ref(), &mut problems);
    let check = read_check(name, section, Path::new(""));
    let wrong = problems.finish();
    match check.filter(|_| wrong.is_empty()) {
        Some(check) => Ok(check),
        None => {
            let told = wrong.iter().map(|problem| match &problem.help {
                Some(help) => format!("{} ({help})", problem.message),
                None => problem.message.clone(),
            });
            Err(told.collect::<Vec<_>>().join("; "))
        }
    }
}

/// Reads one check. `None`: it has errors, which are reported.
fn read_check(name: &str, mut section: Section<'_, '_>, config: &Path) -> Option<Check> {
    let kind = kinds::Kind::read(&mut section);
    let port = kinds::read_port(kind, &mut section);
    let interval =
        section.read("interval", Duration::from_secs(10), units::duration(CHECK_INTERVAL));
    let timeout = Duration::from_secs(2).min(interval);
    let timeout = section.read("timeout", timeout, units::duration(CHECK_INTERVAL));
    if timeout > interval {
        section.wrong("timeout", "is longer than `interval`", "choose a shorter one");
    }
    let rise = section.read("rise", 2, values::number(CHECK_ROUNDS));
    let fall = section.read("fall", 3, values::number(CHECK_ROUNDS));
    let jitter = section.read("jitter", 10, values::number(CHECK_JITTER));
    let folder = config.parent().unwrap_or(Path::new(""));
    let kind = kind.and_then(|kind| kinds::read(kind, &mut section, folder));
    section.close();
    Some(Check {
        name: name.into(),
        kind: kind?,
        port: port?,
        interval,
        timeout,
        rise,
        fall,
        jitter,
    })
}
