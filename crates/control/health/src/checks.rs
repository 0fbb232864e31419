//! The checks that exist: those of the config, and those that clients of the API define.
use crate::check::Check;
use crate::limits::CHECKS_MAX;
use documents::Lines;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

/// Reads a check from its keys, which are those of the config.
pub type ReadCheck = fn(&str, &Map<String, Value>) -> Result<Check, String>;

const FILE: Lines = Lines {
    file: "health.checks",
    head: "dunlin_health_checks",
    format: 1,
    what: "checks of the API",
    mode: 0o640,
};

/// A check, and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefinedCheck {
    /// The check.
    pub check: Arc<Check>,
    /// Whether it is in the config, which alone can change it.
    pub is_configured: bool,
}

/// Why a check is not set or deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckRefused {
    /// The config has a check of this name.
    Configured,
    /// A key is missing or wrong.
    Invalid(String),
    /// There are too many checks.
    TooMany,
    /// There is no such check.
    Missing,
    /// Record sets name it; the number of its targets.
    InUse(usize),
    /// It would not outlive a restart.
    NotSaved(String),
    /// The prober has ended.
    Ended,
}

impl fmt::Display for CheckRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Configured => f.write_str("the config has a check of this name: change it there"),
            Self::Invalid(why) | Self::NotSaved(why) => f.write_str(why),
            Self::TooMany => write!(f, "there are {CHECKS_MAX} checks, which is the maximum"),
            Self::Missing => f.write_str("there is no such check"),
            Self::InUse(targets) => write!(
                f,
                "record sets name it for {targets} addresses: take it from them first (`dunlin \
                 health --check` shows the addresses)"
            ),
            Self::Ended => f.write_str("the prober has ended: try again later"),
        }
    }
}

#[derive(Deserialize, Serialize)]
struct Line {
    name: String,
    keys: Map<String, Value>,
}

/// All checks; shared by the API and the prober.
pub struct Checks {
    defined: RwLock<BTreeMap<String, DefinedCheck>>,
    /// One change at a time.
    pub writer: tokio::sync::Mutex<()>,
    /// `Err`: why changes are not saved.
    folder: Result<PathBuf, String>,
    pub read: ReadCheck,
}

impl Checks {
    /// The checks of the config, and the saved ones. A damaged file is reported, and then no check
    /// can be changed.
    pub fn new(configured: &[Check], folder: Option<&Path>, read: ReadCheck) -> Self {
        let mut defined = BTreeMap::new();
        let loaded = match folder {
            Some(folder) => FILE.load::<Line>(folder).map(|lines| (folder.to_owned(), lines)),
            None => Err("[server] data_dir names no folder".to_owned()),
        };
        let folder = match loaded {
            Ok((folder, lines)) => {
                for Line { name, keys } in lines {
                    match read(&name, &keys) {
                        Ok(check) => {
                            let check = Arc::new(check);
                            defined.insert(name, DefinedCheck { check, is_configured: false });
                        }
                        Err(why) => {
                            tracing::error!("the check {name} of the API is left out: {why}")
                        }
                    }
                }
                Ok(folder)
            }
            Err(why) => {
                if folder.is_some() {
                    tracing::error!("checks of the API are unknown: {why}");
                }
                Err(why)
            }
        };
        for check in configured {
            let check = Arc::new(check.clone());
            let name = check.name.clone();
            let before = defined.insert(name, DefinedCheck { check, is_configured: true });
            if let Some(DefinedCheck { check, .. }) = before {
                let name = &check.name;
                tracing::warn!("the check {name} of the config replaces that of the API");
            }
        }
        Self { defined: RwLock::new(defined), writer: tokio::sync::Mutex::default(), folder, read }
    }

    /// The check of this name.
    pub fn get(&self, name: &str) -> Option<DefinedCheck> {
        self.defined.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// All checks, by name.
    pub fn all(&self) -> Vec<DefinedCheck> {
        self.defined.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// The names of all checks.
    pub fn names(&self) -> BTreeSet<String> {
        let defined = self.defined.read().unwrap_or_else(PoisonError::into_inner);
        defined.keys().cloned().collect()
    }

    /// Refuses a change of this name.
    pub fn may_change(&self, name: &str) -> Result<PathBuf, CheckRefused> {
        match self.get(name) {
            Some(found) if found.is_configured => return Err(CheckRefused::Configured),
            None if self.all().len() >= CHECKS_MAX => return Err(CheckRefused::TooMany),
            _ => {}
        }
        let told = |why: &String| format!("it would not outlive a restart: {why}");
        self.folder.clone().map_err(|why| CheckRefused::NotSaved(told(&why)))
    }

    /// Saves the checks of the API as they will be after a change. Blocks until that is durable.
    pub fn save(
        &self,
        folder: &Path,
        name: &str,
        change: Option<&Arc<Check>>,
    ) -> Result<(), CheckRefused> {
        let all = self.all().into_iter().filter(|one| !one.is_configured);
        let others = all.map(|one| one.check).filter(|check| check.name != name);
        let lines = others
            .chain(change.cloned())
            .map(|check| Line { name: check.name.clone(), keys: check.keys() });
        FILE.save(folder, lines).map_err(CheckRefused::NotSaved)
    }

    /// Takes in a change that is saved.
    pub fn apply(&self, name: &str, change: Option<Arc<Check>>) {
        let mut defined = self.defined.write().unwrap_or_else(PoisonError::into_inner);
        match change {
            Some(check) => {
                let one = DefinedCheck { check, is_configured: false };
                defined.insert(name.to_owned(), one);
            }
            None => drop(defined.remove(name)),
        }
    }
}
