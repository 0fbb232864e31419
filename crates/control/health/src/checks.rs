//! The checks that exist: those of the config, and those that clients of the API define.
use crate::check::Check;
use crate::limits::CHECKS_MAX;
use documents::{ChangeError, Content, DocumentSet, FileDocuments, Lines, change};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};
use tokio::sync::watch;

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
    /// It is not changed: etcd is out of space.
    NoSpace(String),
    /// It may be changed.
    Unknown(String),
    /// The prober has ended.
    Ended,
}

impl fmt::Display for CheckRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Configured => f.write_str("the config has a check of this name: change it there"),
            Self::Invalid(why) | Self::NotSaved(why) | Self::NoSpace(why) | Self::Unknown(why) => {
                f.write_str(why)
            }
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

/// The checks of the API in a file of this folder; `None`: there is no folder for it. A damaged
/// file is reported, and then no check can be changed.
pub fn checks_in(folder: Option<&Path>) -> Arc<FileDocuments> {
    let set = FileDocuments::new(folder.map(|folder| FILE.path(folder)), FILE);
    if let Err(why) = set.load() {
        tracing::error!("checks of the API are unknown: {why}");
    }
    Arc::new(set)
}

/// All checks; shared by the API and the prober.
pub struct Checks {
    /// Those of the API.
    set: Arc<dyn DocumentSet>,
    content: watch::Receiver<Arc<Content>>,
    defined: RwLock<DefinedChecks>,
    pub read: ReadCheck,
}

struct DefinedChecks {
    /// Those of the config.
    configured: BTreeMap<String, DefinedCheck>,
    /// The checks of the API that these are made of.
    content: Arc<Content>,
    checks: BTreeMap<String, DefinedCheck>,
}

impl Checks {
    /// The checks of the config, and those of the API.
    pub fn new(configured: &[Check], set: Arc<dyn DocumentSet>, read: ReadCheck) -> Self {
        let configured = by_name(configured);
        let receiver = set.content();
        let content = Arc::clone(&receiver.borrow());
        warn_of_replaced(&configured, &content);
        let checks = defined(&configured, &content, read);
        let defined = RwLock::new(DefinedChecks { configured, content, checks });
        Self { set, content: receiver, defined, read }
    }

    /// Replaces the checks of the config.
    pub fn set_configured(&self, configured: &[Check]) {
        let configured = by_name(configured);
        let mut known = self.defined.write().unwrap_or_else(PoisonError::into_inner);
        let content = Arc::clone(&self.content.borrow());
        warn_of_replaced(&configured, &content);
        let checks = defined(&configured, &content, self.read);
        *known = DefinedChecks { configured, content, checks };
    }

    /// When checks of the API change.
    pub fn changes(&self) -> watch::Receiver<Arc<Content>> {
        self.content.clone()
    }

    fn with<T>(&self, use_checks: impl Fn(&BTreeMap<String, DefinedCheck>) -> T) -> T {
        let newest = Arc::clone(&self.content.borrow());
        let known = self.defined.read().unwrap_or_else(PoisonError::into_inner);
        if Arc::ptr_eq(&known.content, &newest) {
            return use_checks(&known.checks);
        }
        drop(known);
        let mut known = self.defined.write().unwrap_or_else(PoisonError::into_inner);
        // It may be newer by now.
        let content = Arc::clone(&self.content.borrow());
        known.checks = defined(&known.configured, &content, self.read);
        known.content = content;
        use_checks(&known.checks)
    }

    /// The check of this name.
    pub fn get(&self, name: &str) -> Option<DefinedCheck> {
        self.with(|checks| checks.get(name).cloned())
    }

    /// All checks, by name.
    pub fn all(&self) -> Vec<DefinedCheck> {
        self.with(|checks| checks.values().cloned().collect())
    }

    /// The names of all checks.
    pub fn names(&self) -> BTreeSet<String> {
        self.with(|checks| checks.keys().cloned().collect())
    }

    /// Defines or changes a check of the API, or with `None` deletes it. Returns whether it is new.
    /// Durable when it returns. Blocks.
    pub fn change(&self, name: &str, check: Option<&Check>) -> Result<bool, CheckRefused> {
        let mut is_new = false;
        let (is_configured, configured) = {
            let known = self.defined.read().unwrap_or_else(PoisonError::into_inner);
            (known.configured.contains_key(name), known.configured.len())
        };
        change(&*self.set, |content| {
            if is_configured {
                return Err(CheckRefused::Configured);
            }
            let is_there =
                content.documents.contains_key(name) || content.unusable.contains_key(name);
            is_new = !is_there;
            match check {
                None if is_new => return Err(CheckRefused::Missing),
                Some(_) if is_new && content.count() + configured >= CHECKS_MAX => {
                    return Err(CheckRefused::TooMany);
                }
                _ => {}
            }
            Ok((name.to_owned(), check.map(Check::keys)))
        })
        .map_err(|error| match error {
            ChangeError::Refused(why) => why,
            ChangeError::NotSaved(why) => CheckRefused::NotSaved(why),
            ChangeError::NoSpace(why) => CheckRefused::NoSpace(why),
            ChangeError::Unknown(why) => CheckRefused::Unknown(why),
        })?;
        Ok(is_new)
    }
}

fn by_name(configured: &[Check]) -> BTreeMap<String, DefinedCheck> {
    let one = |check: &Check| {
        let check = Arc::new(check.clone());
        (check.name.clone(), DefinedCheck { check, is_configured: true })
    };
    configured.iter().map(one).collect()
}

fn warn_of_replaced(configured: &BTreeMap<String, DefinedCheck>, content: &Content) {
    for name in configured.keys().filter(|name| content.documents.contains_key(*name)) {
        tracing::warn!("the check {name} of the config replaces that of the API");
    }
}

fn defined(
    configured: &BTreeMap<String, DefinedCheck>,
    content: &Content,
    read: ReadCheck,
) -> BTreeMap<String, DefinedCheck> {
    let mut checks = configured.clone();
    for (name, document) in &content.documents {
        match read(name, &document.value) {
            Ok(check) => {
                let check = Arc::new(check);
                checks.entry(name.clone()).or_insert(DefinedCheck { check, is_configured: false });
            }
            Err(why) => tracing::error!("the check {name} of the API is left out: {why}"),
        }
    }
    checks
}
