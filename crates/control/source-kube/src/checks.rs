//! Checks of headless services, which the annotation `dunlin.io/check` names, and hints of slices.
//!
//! Only what few services need is kept here: a plain service or endpoint takes no byte more.
use crate::cluster::{ObjectName, ServiceKey};
use crate::limits::{CHECK_SHOWN_MAX, UNUSED_CHECKS_SHOWN};
use crate::objects::{Hints, ServiceKind, Slice};
use crate::packed::{KeyRef, Table};
use std::fmt;
use std::sync::Arc;
use zone_manager::CheckNames;

/// The known state of checks.
#[derive(Clone, Debug)]
pub(crate) struct Checks {
    /// All that exist.
    known: CheckNames,
    /// The check that a service names, and whether the service is headless.
    named: Table<(Box<str>, bool)>,
    /// Whether the zones of the cluster can have checks.
    can_check: bool,
    /// Endpoints that still serve while they end, by their slices. They are few, and soon gone.
    pub terminating: Table<Slice>,
    /// The hints of slices. Few have some.
    pub hints: Table<Hints>,
    /// What is unused may have changed.
    is_changed: bool,
}

/// A check that a service names in vain. The service is served as without it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct UnusedCheck {
    service: ObjectName,
    check: Box<str>,
    why: &'static str,
}

/// `shop/web: dunlin.io/check "http": there is no such check`.
impl fmt::Display for UnusedCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { service: ObjectName { namespace, name }, check, why } = self;
        write!(f, "{namespace}/{name}: dunlin.io/check {check:?}: {why}")
    }
}

impl Checks {
    pub fn new(can_check: bool) -> Self {
        let (known, named, terminating) = (CheckNames::default(), Table::new(), Table::new());
        let hints = Table::new();
        Self { known, named, can_check, terminating, hints, is_changed: false }
    }

    /// The check of a service, if it is used.
    pub fn of(&self, key: KeyRef<'_>) -> Option<Box<str>> {
        let (check, is_headless) = self.named.get(key)?;
        (is_headless && self.can_check && self.known.contains(&*check)).then_some(check)
    }

    /// Those that exist.
    pub fn known(&self) -> CheckNames {
        Arc::clone(&self.known)
    }

    /// Notes the check that a service names, if any.
    pub fn name(&mut self, key: KeyRef<'_>, check: Option<&str>, kind: Option<&ServiceKind>) {
        if check.is_none() && self.named.get(key).is_none() {
            return;
        }
        // No check has a longer name.
        let check = check.map(|check| check.chars().take(CHECK_SHOWN_MAX).collect::<String>());
        let named =
            check.zip(kind).map(|(check, kind)| (check.into(), *kind == ServiceKind::Headless));
        self.named.set(key, named.as_ref());
        self.is_changed = true;
    }

    /// The check that a service names, whether it is used or not.
    pub fn named_by(&self, key: KeyRef<'_>) -> Option<Box<str>> {
        self.named.get(key).map(|(check, _)| check)
    }

    /// Each service that names a check, and the check.
    pub fn named(&self) -> impl Iterator<Item = (KeyRef<'_>, Box<str>)> {
        self.named.iter().map(|(key, (check, _))| (key, check))
    }

    /// The services whose checks come or go if these exist.
    pub fn affected(&self, known: &CheckNames) -> Vec<ServiceKey> {
        let changes = |check: &str| self.known.contains(check) != known.contains(check);
        let affected = self.named().filter(|(_, check)| changes(check));
        affected.map(|((is_import, of, name), _)| (is_import, ObjectName::new(of, name))).collect()
    }

    /// These checks exist.
    pub fn know(&mut self, known: CheckNames) {
        (self.known, self.is_changed) = (known, true);
    }

    /// The checks that are named in vain, the first of them, and how many there are. `None`:
    /// nothing has changed since the last call.
    pub fn unused(&mut self) -> Option<(Vec<UnusedCheck>, usize)> {
        std::mem::take(&mut self.is_changed).then_some(())?;
        let mut unused: Vec<UnusedCheck> = self
            .named
            .iter()
            .filter_map(|((_, of, name), (check, is_headless))| {
                let why = match is_headless {
                    _ if !self.can_check => "zones with fallthrough have no checks",
                    false => "only headless services have checks",
                    true if !self.known.contains(&*check) => "there is no such check",
                    true => return None,
                };
                Some(UnusedCheck { service: ObjectName::new(of, name), check, why })
            })
            .collect();
        let count = unused.len();
        unused.sort_unstable();
        unused.truncate(UNUSED_CHECKS_SHOWN);
        Some((unused, count))
    }
}
