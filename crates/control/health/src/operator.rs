//! What operators set: an address that is drained, or forced up or down.
use crate::limits::{OVERRIDES_MAX, WHY_MAX};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
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

/// What a set state applies to.
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
    /// Who set it.
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

    /// Sets a state, or with `None` takes it back.
    ///
    /// # Errors
    /// There are too many, or the reason is too long.
    pub fn set(&mut self, key: OverrideKey, set: Option<Override>) -> Result<(), String> {
        let Some(set) = set else {
            // Without a check, all of the address.
            match key.check {
                Some(_) => drop(self.0.remove(&key)),
                None => self.0.retain(|other, _| other.address != key.address),
            }
            return Ok(());
        };
        if set.why.len() > WHY_MAX {
            return Err(format!("the reason has more than {WHY_MAX} bytes"));
        }
        if self.0.len() >= OVERRIDES_MAX && !self.0.contains_key(&key) {
            return Err(format!(
                "too many addresses have a set state: the maximum is {OVERRIDES_MAX}"
            ));
        }
        self.0.insert(key, set);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(state: OperatorState) -> Option<Override> {
        Some(Override { state, by: "ann".into(), why: "".into(), since: 0 })
    }

    #[test]
    fn state_for_one_check_comes_before_that_for_all() {
        let mut all = Overrides::default();
        let address = IpAddr::from([10, 0, 0, 7]);
        let key = |check: Option<&str>| OverrideKey { address, check: check.map(Box::from) };
        all.set(key(None), set(OperatorState::Drain)).unwrap();
        all.set(key(Some("web")), set(OperatorState::ForceUp)).unwrap();
        let state = |all: &Overrides, check: &str| {
            let target = HealthTarget { check: check.into(), address };
            all.of(&target).map(|set| set.state)
        };
        assert_eq!(state(&all, "web"), Some(OperatorState::ForceUp));
        assert_eq!(state(&all, "dns"), Some(OperatorState::Drain));
        all.set(key(None), None).unwrap();
        assert_eq!((state(&all, "web"), state(&all, "dns")), (None, None), "restored");
    }
}
