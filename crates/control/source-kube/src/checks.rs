//! Checks of services, which the annotation `dunlin.io/check` or the config names, and hints of
//! slices.
//!
//! Only what few services need is kept here: a plain service or endpoint takes no byte more.
use crate::cluster::{ObjectName, ServiceKey};
use crate::limits::{CHECK_SHOWN_MAX, UNUSED_CHECKS_SHOWN};
use crate::objects::{Hints, ServiceKind, Slice};
use crate::packed::{KeyRef, Table};
use model::CHECK_OFF;
use std::fmt;
use std::sync::Arc;
use zone_manager::CheckNames;

/// The known state of checks.
#[derive(Clone, Debug)]
pub(crate) struct Checks {
    /// All that exist.
    known: CheckNames,
    /// The check of services that name none.
    default: Option<Box<str>>,
    /// Whether services with an address of their own can have a check.
    has_cluster_ips: bool,
    /// The check that a service names, and whether the service can have one.
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

const WITH_FALLTHROUGH: &str = "zones with fallthrough have no checks";

/// A check that a service, or the config for all of them (`None`), names in vain. Services are
/// served as without it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct UnusedCheck {
    service: Option<ObjectName>,
    check: Box<str>,
    why: &'static str,
}

/// `shop/web: dunlin.io/check "http": there is no such check`.
impl fmt::Display for UnusedCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { service, check, why } = self;
        match service {
            Some(ObjectName { namespace, name }) => {
                write!(f, "{namespace}/{name}: dunlin.io/check {check:?}: {why}")
            }
            None => write!(f, "[kubernetes] check {check:?}: {why}"),
        }
    }
}

impl Checks {
    pub fn new(can_check: bool) -> Self {
        let (known, named, terminating) = (CheckNames::default(), Table::new(), Table::new());
        let hints = Table::new();
        let (default, has_cluster_ips) = (None, false);
        Self {
            known,
            default,
            has_cluster_ips,
            named,
            can_check,
            terminating,
            hints,
            is_changed: false,
        }
    }

    /// What the config says: the check of services that name none, and whether those with an
    /// address of their own can have one.
    pub fn configure(&mut self, default: Option<Box<str>>, has_cluster_ips: bool) {
        (self.default, self.has_cluster_ips, self.is_changed) = (default, has_cluster_ips, true);
    }

    /// With what the config says to others.
    pub fn configured_as(&mut self, other: &Self) {
        self.configure(other.default.clone(), other.has_cluster_ips);
    }

    /// The check of a service of this kind, if it is used.
    pub fn of(&self, key: KeyRef<'_>, kind: &ServiceKind) -> Option<Box<str>> {
        if !self.can_check || !self.may_check(kind) {
            return None;
        }
        let named = self.named.get(key).map(|(check, _)| check);
        let check = named.or_else(|| self.default.clone())?;
        (*check != *CHECK_OFF && self.known.contains(&*check)).then_some(check)
    }

    /// Whether a service of this kind can have a check.
    fn may_check(&self, kind: &ServiceKind) -> bool {
        match kind {
            ServiceKind::Headless => true,
            ServiceKind::ClusterIp(_) => self.has_cluster_ips,
            ServiceKind::External(_) => false,
        }
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
        let named = check.zip(kind).map(|(check, kind)| (check.into(), self.may_check(kind)));
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

    /// Whether the check of services that name none comes or goes if these exist.
    pub fn affects_all(&self, known: &CheckNames) -> bool {
        let changes = |check: &str| self.known.contains(check) != known.contains(check);
        self.default.as_deref().is_some_and(changes)
    }

    /// The services whose named checks come or go if these exist.
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
    /// nothing has changed since the last call. A service that `has_part` uses its check in the
    /// zone that clusters share.
    pub fn unused(
        &mut self,
        has_part: impl Fn(KeyRef<'_>) -> bool,
    ) -> Option<(Vec<UnusedCheck>, usize)> {
        std::mem::take(&mut self.is_changed).then_some(())?;
        let mut unused: Vec<UnusedCheck> = self
            .named
            .iter()
            .filter_map(|((is_import, of, name), (check, can_have))| {
                let why = match can_have {
                    _ if !self.can_check => WITH_FALLTHROUGH,
                    _ if *check == *CHECK_OFF => return None,
                    false if has_part((is_import, of, name)) => return None,
                    false if self.has_cluster_ips => "an external name has no check",
                    false => "only headless services have checks",
                    true if !self.known.contains(&*check) => "there is no such check",
                    true => return None,
                };
                let service = Some(ObjectName::new(of, name));
                Some(UnusedCheck { service, check, why })
            })
            .collect();
        let why = if self.can_check { "there is no such check" } else { WITH_FALLTHROUGH };
        let default = self.default.as_deref();
        let in_vain = default.filter(|check| !self.can_check || !self.known.contains(*check));
        let in_vain = in_vain.map(|check| UnusedCheck { service: None, check: check.into(), why });
        unused.extend(in_vain);
        let count = unused.len();
        unused.sort_unstable();
        unused.truncate(UNUSED_CHECKS_SHOWN);
        Some((unused, count))
    }
}
