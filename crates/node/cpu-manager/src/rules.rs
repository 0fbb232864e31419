//! The rule file.
use crate::Failure;
use crate::limits::{RULES_BYTES_MAX, RULES_MAX};
use cpu::CpuList;
use serde::{Deserialize, Deserializer};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The rules.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rules {
    /// Whether the rules are applied.
    #[serde(default)]
    pub policy: Policy,
    /// Whether interrupts leave CPUs that a group has for itself.
    #[serde(default)]
    pub interrupts: Interrupts,
    /// CPUs that no group has exclusively.
    #[serde(default, deserialize_with = "list")]
    pub reserved: CpuList,
    /// Groups with CPUs of their own.
    #[serde(default, rename = "group")]
    pub groups: Vec<Rule>,
}

/// Whether CPUs are assigned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    /// The group of each rule has exclusive CPUs.
    #[default]
    Exclusive,
    /// All previous settings are restored.
    None,
}

/// Whether interrupts are moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Interrupts {
    /// They leave CPUs that a group has for itself, unless it claims them.
    #[default]
    Move,
    /// They stay where they are.
    Keep,
}

/// A group with CPUs of its own.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// The group's path below the root of the hierarchy: `system.slice/db.service`.
    pub path: String,
    /// Whole CPUs.
    #[serde(deserialize_with = "whole")]
    pub cpus: usize,
    /// The device to be near.
    pub near: Option<String>,
    /// Whole cores only.
    #[serde(default)]
    pub full_cores: bool,
    /// Whether the interrupts of the device `near` go to its CPUs.
    #[serde(default)]
    pub interrupts: bool,
}

fn list<'de, D: Deserializer<'de>>(deserializer: D) -> Result<CpuList, D::Error> {
    let text = String::deserialize(deserializer)?;
    CpuList::from_kernel(&text).map_err(serde::de::Error::custom)
}

/// An integer number of CPUs.
fn whole<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Number {
        Whole(i64),
        Other(serde::de::IgnoredAny),
    }
    let number = Number::deserialize(deserializer)?;
    let whole = match number {
        Number::Whole(number) => usize::try_from(number).ok().filter(|&number| number > 0),
        Number::Other(_) => None,
    };
    whole.ok_or_else(|| {
        serde::de::Error::custom(
            "expected whole CPUs, 1 or more: a group that needs part of a CPU shares, and has no \
             rule",
        )
    })
}

impl Rules {
    /// Reads and checks a rule file.
    ///
    /// # Errors
    /// It cannot be read, or a rule is wrong; the text names the place.
    pub fn load(path: &Path) -> Result<Self, Failure> {
        let mut text = String::new();
        let read =
            File::open(path).and_then(|file| file.take(RULES_BYTES_MAX).read_to_string(&mut text));
        read.map_err(|error| Failure::of("read", path.display(), &error))?;
        Self::parse(&text).map_err(|error| Failure(format!("{}: {error}", path.display())))
    }

    /// Reads and checks the text of a rule file.
    ///
    /// # Errors
    /// A rule is wrong.
    pub fn parse(text: &str) -> Result<Self, Failure> {
        let rules: Self =
            toml::from_str(text).map_err(|error| Failure(error.to_string().trim().to_owned()))?;
        if rules.groups.len() > RULES_MAX {
            return Err(Failure(format!("more than {RULES_MAX} groups")));
        }
        for (index, rule) in rules.groups.iter().enumerate() {
            let path = &rule.path;
            let is_name = |name: &str| !name.is_empty() && name != "." && name != "..";
            if rule.interrupts && rule.near.is_none() {
                return Err(Failure(format!(
                    "group `{path}`: `interrupts = true` needs `near`, the device whose interrupts \
                     come"
                )));
            }
            if !path.split('/').all(is_name) {
                return Err(Failure(format!(
                    "group `{path}`: expected a path below the root of the hierarchy, such as \
                     system.slice/db.service"
                )));
            }
            for other in &rules.groups[..index] {
                let is_inside = |outer: &str, inner: &str| {
                    inner.strip_prefix(outer).is_some_and(|rest| rest.starts_with('/'))
                };
                let other = &other.path;
                if path == other {
                    return Err(Failure(format!("group `{path}` has two rules: keep one")));
                }
                if is_inside(path, other) || is_inside(other, path) {
                    return Err(Failure(format!(
                        "the rules of `{other}` and `{path}` overlap: one group is in the other; \
                         keep one of them"
                    )));
                }
            }
        }
        Ok(rules)
    }

    /// Whether a group has a rule.
    pub fn has(&self, path: &str) -> bool {
        self.groups.iter().any(|rule| rule.path == path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read() {
        let rules = Rules::parse(
            "reserved = \"0\"\n[[group]]\npath = \"a.slice/b.service\"\ncpus = 2\nnear = \"eth0\"\n\
             [[group]]\npath = \"a.slice/bb\"\ncpus = 1\nfull_cores = true\n",
        )
        .expect("rules");
        assert_eq!(rules.policy, Policy::Exclusive);
        assert_eq!(rules.reserved, CpuList::from_iter([0]));
        assert_eq!(rules.groups.len(), 2);
        assert_eq!(rules.groups[0].near.as_deref(), Some("eth0"));
        assert!(rules.groups[1].full_cores && rules.has("a.slice/bb") && !rules.has("a.slice"));
        assert_eq!(Rules::parse("policy = \"none\"").expect("rules").policy, Policy::None);
    }

    #[test]
    fn a_wrong_rule_is_an_error_that_says_what_to_do() {
        let group =
            |path: &str, cpus: &str| format!("[[group]]\npath = \"{path}\"\ncpus = {cpus}\n");
        for (text, what) in [
            (group("a", "1.5"), "expected whole CPUs"),
            (group("a", "0"), "expected whole CPUs"),
            (group("a", "\"2\""), "expected whole CPUs"),
            (group("../a", "1"), "below the root"),
            (group("/a", "1"), "below the root"),
            (group("a", "1") + &group("a", "2"), "two rules"),
            (group("a", "1") + &group("a/b", "2"), "overlap"),
            (group("a/b", "1") + &group("a", "2"), "overlap"),
            (group("a", "1") + "interrupts = true", "needs `near`"),
            ("interrupts = \"drop\"".into(), "keep"),
            ("reserved = \"5-2\"".into(), "ends before it begins"),
            ("policy = \"static\"".into(), "exclusive"),
            ("cpu = 1".into(), "unknown field"),
            ("[[group".into(), "line 1"),
        ] {
            let error = Rules::parse(&text).expect_err(&text).to_string();
            assert!(error.contains(what), "{text}\n{error}");
        }
    }
}
