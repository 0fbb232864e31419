//! States that operators set: an address is drained, or forced up or down.
use crate::limits::{OVERRIDES_MAX, WHY_MAX};
use documents::{ChangeError, Content, DocumentSet, Lines, Value, change};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use zone_manager::{HealthTarget, MemberClass};

/// A state that an operator sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OperatorState {
    /// Not answered, unless nothing else is left.
    Drain,
    /// As if its check failed.
    ForceDown,
    /// As if its check passed.
    ForceUp,
}

impl OperatorState {
    /// Its name in JSON and texts.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Drain => "drain",
            Self::ForceDown => "force-down",
            Self::ForceUp => "force-up",
        }
    }

    /// The state of a name.
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Drain, Self::ForceDown, Self::ForceUp].into_iter().find(|state| state.word() == word)
    }

    /// The class of the address in answers.
    pub const fn class(self) -> MemberClass {
        match self {
            Self::Drain => MemberClass::Drained,
            Self::ForceDown => MemberClass::Down,
            Self::ForceUp => MemberClass::Up,
        }
    }
}

/// The checks that a set state applies to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct OverrideKey {
    /// The address.
    pub address: IpAddr,
    /// The check; `None`: all.
    pub check: Option<Box<str>>,
}

/// A state that an operator has set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Override {
    /// The state.
    pub state: OperatorState,
    /// The operator who set it.
    pub by: Box<str>,
    /// Why.
    pub why: Box<str>,
    /// When, in seconds since 1970.
    pub since: u64,
}

/// All states that operators have set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overrides(pub BTreeMap<OverrideKey, Override>);

impl Overrides {
    /// The one that applies to a target: that of its check before that of all.
    pub fn of(&self, target: &HealthTarget) -> Option<&Override> {
        let key = |check: Option<&str>| OverrideKey {
            address: target.address,
            check: check.map(Box::from),
        };
        self.0.get(&key(Some(&target.check))).or_else(|| self.0.get(&key(None)))
    }
}

/// The set state of one address.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct EndpointDocument {
    /// For all checks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    all: Option<Override>,
    /// For single checks.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    checks: BTreeMap<Box<str>, Override>,
}

impl EndpointDocument {
    fn read(value: &Value) -> Result<Self, String> {
        Self::deserialize(value).map_err(|why| why.to_string())
    }
}

/// Refuses a document that does not say what is set for the address that is its name.
///
/// # Errors
/// Its fault.
pub fn check_endpoint(name: &str, value: &Value) -> Result<(), String> {
    match name.parse::<IpAddr>() {
        Ok(address) if address.to_string() == name => EndpointDocument::read(value).map(drop),
        _ => Err("its name is not an address in its shortest form".into()),
    }
}

impl Overrides {
    /// Those of a set of documents.
    pub fn of_content(content: &Content) -> Self {
        let mut all = BTreeMap::new();
        for (name, document) in &content.documents {
            let (Ok(address), Ok(found)) = (name.parse(), EndpointDocument::read(&document.value))
            else {
                continue;
            };
            let of_all = found.all.into_iter().map(|set| (None, set));
            let of_checks = found.checks.into_iter().map(|(check, set)| (Some(check), set));
            let key = |(check, set)| (OverrideKey { address, check }, set);
            all.extend(of_all.chain(of_checks).map(key));
        }
        Self(all)
    }

    /// The addresses with another state than in these.
    pub fn changed(&self, other: &Self) -> BTreeSet<IpAddr> {
        let differs = |key: &&OverrideKey| self.0.get(*key) != other.0.get(*key);
        self.0.keys().chain(other.0.keys()).filter(differs).map(|key| key.address).collect()
    }
}

/// Sets a state, or with `None` takes it back. Durable when it returns. Blocks.
pub fn set(
    documents: &dyn DocumentSet,
    key: &OverrideKey,
    set: Option<&Override>,
) -> Result<(), ChangeError<String>> {
    // `None`: nothing has to be changed.
    let changed: Result<(), ChangeError<Option<String>>> = change(documents, |content| {
        let name = key.address.to_string();
        let known = content.documents.get(&name);
        let mut found = match known {
            Some(document) => EndpointDocument::read(&document.value).map_err(Some)?,
            None if set.is_none() && !content.unusable.contains_key(&name) => return Err(None),
            None => EndpointDocument::default(),
        };
        match (set, &key.check) {
            (Some(set), _) if set.why.len() > WHY_MAX => {
                return Err(Some(format!("the reason has more than {WHY_MAX} bytes")));
            }
            (Some(_), _) if known.is_none() && content.count() >= OVERRIDES_MAX => {
                return Err(Some(format!(
                    "too many addresses have a set state: the maximum is {OVERRIDES_MAX}"
                )));
            }
            (Some(set), None) => found.all = Some(set.clone()),
            (Some(set), Some(check)) => drop(found.checks.insert(check.clone(), set.clone())),
            (None, Some(check)) => drop(found.checks.remove(check)),
            // Without a check, all of the address.
            (None, None) => found = EndpointDocument::default(),
        }
        let is_empty = found.all.is_none() && found.checks.is_empty();
        let value = match serde_json::to_value(&found) {
            Ok(serde_json::Value::Object(value)) if !is_empty => Some(value),
            _ => None,
        };
        Ok((name, value))
    });
    match changed {
        Ok(()) | Err(ChangeError::Refused(None)) => Ok(()),
        Err(ChangeError::Refused(Some(why))) => Err(ChangeError::Refused(why)),
        Err(ChangeError::NotSaved(why)) => Err(ChangeError::NotSaved(why)),
        Err(ChangeError::NoSpace(why)) => Err(ChangeError::NoSpace(why)),
        Err(ChangeError::Unknown(why)) => Err(ChangeError::Unknown(why)),
    }
}

/// The file in `[server] data_dir`.
pub(crate) const FILE: Lines = Lines {
    file: "health.endpoints",
    head: "dunlin_health_endpoints",
    format: 1,
    what: "states of endpoints",
    mode: 0o640,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::saved::{self, endpoints_in};
    use documents::FileDocuments;
    use test_support::folder::Folder;

    const ADDRESS: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 7));

    fn key(check: Option<&str>) -> OverrideKey {
        OverrideKey { address: ADDRESS, check: check.map(Box::from) }
    }

    fn with(state: OperatorState) -> Option<Override> {
        Some(Override { state, by: "ann".into(), why: "".into(), since: 0 })
    }

    fn drain() -> Option<Override> {
        with(OperatorState::Drain)
    }

    #[test]
    fn state_for_one_check_comes_before_that_for_all() {
        let all = endpoints_in(None);
        let folder = Folder::new("operator");
        let refused = super::set(&*all, &key(None), drain().as_ref());
        assert!(matches!(refused, Err(ChangeError::NotSaved(_))), "no folder: {refused:?}");
        let all = endpoints_in(Some(&folder));
        super::set(&*all, &key(None), drain().as_ref()).unwrap();
        super::set(&*all, &key(Some("web")), with(OperatorState::ForceUp).as_ref()).unwrap();
        let state = |check: &str| {
            let target = HealthTarget { check: check.into(), address: ADDRESS };
            let all = endpoints_in(Some(&folder));
            let all = Overrides::of_content(&all.content().borrow());
            all.of(&target).map(|set| set.state)
        };
        assert_eq!(state("web"), Some(OperatorState::ForceUp));
        assert_eq!(state("dns"), Some(OperatorState::Drain));
        super::set(&*all, &key(Some("web")), None).unwrap();
        assert_eq!(state("web"), Some(OperatorState::Drain));
        super::set(&*all, &key(None), None).unwrap();
        assert_eq!((state("web"), state("dns")), (None, None), "restored");
        let long = Override { why: "x".repeat(WHY_MAX + 1).into(), ..drain().unwrap() };
        let refused = super::set(&*all, &key(None), Some(&long));
        assert!(matches!(refused, Err(ChangeError::Refused(_))), "{refused:?}");
    }

    #[test]
    fn state_of_an_older_version_is_taken_over_once() {
        let folder = Folder::new("older");
        // A line as an older version wrote it.
        saved::save_override(&folder, &key(Some("web")), &drain().unwrap());
        let count = |set: &FileDocuments| set.content().borrow().documents.len();
        let all = endpoints_in(Some(&folder));
        assert_eq!(count(&all), 1);
        let states = Overrides::of_content(&all.content().borrow());
        assert_eq!(states.0.get(&key(Some("web"))), drain().as_ref());
        super::set(&*all, &key(Some("web")), None).unwrap();
        assert_eq!(count(&endpoints_in(Some(&folder))), 0, "what was restored stays restored");
    }

    #[test]
    fn document_of_an_endpoint_has_an_address_and_known_states() {
        for (name, text, is_good) in [
            ("10.0.0.7", r#"{"all":{"state":"drain","by":"a","why":"","since":1}}"#, true),
            ("10.0.0.7", "{}", true),
            ("2001:db8::1", "{}", true),
            ("2001:DB8::1", "{}", false),
            ("web", "{}", false),
            ("10.0.0.7", r#"{"all":{"state":"gone","by":"a","why":"","since":1}}"#, false),
            ("10.0.0.7", r#"{"some":1}"#, false),
        ] {
            let value = serde_json::from_str(text).unwrap();
            assert_eq!(check_endpoint(name, &value).is_ok(), is_good, "{name} {text}");
        }
    }
}
