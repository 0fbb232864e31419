//! Principals and their grants.
use crate::limits::{
    GRANT_PREFIXES_MAX, GRANT_TYPES_MAX, GRANT_VIEWS_MAX, GRANTS_MAX, PRINCIPAL_LEN_MAX,
};
use limit::Prefix;
use records::{Hiding, SetKey, View, WriteRights};
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use wire::{Name, NameBuf, Rtype};

/// The permissions of a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// To read zones, record sets and journals.
    Read,
    /// To write and delete record sets.
    Write,
    /// With `write`: to make names exist, and so to hide a wildcard from names beyond the grant.
    HideWildcard,
    /// To create and delete zones.
    Zones,
    /// To see the status, and to look at and empty the cache.
    Operate,
    /// To drain and restore addresses, or to force their state.
    Endpoints,
}

impl Verb {
    /// Every verb.
    pub const ALL: [Self; 6] =
        [Self::Read, Self::Write, Self::HideWildcard, Self::Zones, Self::Operate, Self::Endpoints];

    /// Its word in a grant.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::HideWildcard => "hide-wildcard",
            Self::Zones => "zones",
            Self::Operate => "operate",
            Self::Endpoints => "endpoints",
        }
    }
}

/// A pattern of names: all, one, or a form. A `*` at the left stands for one or more labels, one
/// elsewhere for exactly one label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Every name.
    All,
    /// Names that match this pattern.
    Of(Box<NameBuf>),
}

impl Pattern {
    /// Whether a name matches.
    pub fn matches(&self, name: Name<'_>) -> bool {
        let Self::Of(pattern) = self else { return true };
        let mut wanted: Vec<&[u8]> = pattern.as_name().labels().collect();
        let mut found: Vec<&[u8]> = name.labels().collect();
        if wanted.first() == Some(&&b"*"[..]) && found.len() > wanted.len() {
            found.drain(..found.len() - wanted.len());
        }
        wanted.len() == found.len() && wanted.drain(..).zip(found).all(is_alike)
    }

    /// Whether a matching name can be in a zone that matches another pattern.
    fn can_lie_in(&self, zones: &Self) -> bool {
        let (Self::Of(names), Self::Of(zones)) = (self, zones) else { return true };
        let [(names, any_deeper), (zones, any_zone_deeper)] = [names, zones].map(|pattern| {
            let mut labels: Vec<&[u8]> = pattern.as_name().labels().collect();
            let is_open = labels.first() == Some(&&b"*"[..]);
            if is_open {
                labels.remove(0);
            }
            (labels, is_open)
        });
        // A zone pattern with `*` at the left has at least one label more.
        let is_deep_enough =
            any_deeper || names.len() >= zones.len() + usize::from(any_zone_deeper);
        is_deep_enough && names.into_iter().rev().zip(zones.into_iter().rev()).all(is_compatible)
    }

    /// Whether every name below a name matches.
    pub fn matches_below(&self, name: Name<'_>) -> bool {
        let Self::Of(pattern) = self else { return true };
        let mut wanted: Vec<&[u8]> = pattern.as_name().labels().collect();
        if wanted.first() != Some(&&b"*"[..]) {
            return false;
        }
        wanted.remove(0);
        let found: Vec<&[u8]> = name.labels().collect();
        let more = found.len().checked_sub(wanted.len());
        more.is_some_and(|more| wanted.into_iter().zip(found.into_iter().skip(more)).all(is_alike))
    }
}

fn is_compatible((one, other): (&[u8], &[u8])) -> bool {
    one == b"*" || is_alike((other, one))
}

fn is_alike((wanted, found): (&[u8], &[u8])) -> bool {
    wanted == b"*" || wanted.eq_ignore_ascii_case(found)
}

impl FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "*" {
            return Ok(Self::All);
        }
        zonefile::read_name(text).map(Box::new).map(Self::Of).map_err(|fault| {
            format!("{text:?} is neither a name nor a pattern such as *.example.org: it {fault}")
        })
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("*"),
            Self::Of(name) => write!(f, "{name}"),
        }
    }
}

/// A grant: `VERBS [ZONE [NAMES [TYPES [VIEWS]]]]`, for example
/// `read,write example.org *.web.example.org A,AAAA internal`; or `endpoints PREFIXES`, for example
/// `endpoints 192.0.2.0/24,2001:db8::/32`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Verbs.
    pub verbs: Vec<Verb>,
    /// Zones.
    pub zones: Pattern,
    /// Names in these zones.
    pub names: Pattern,
    /// Types of the sets; empty: all.
    pub types: Vec<Rtype>,
    /// Views of the sets; empty: all.
    pub views: Vec<View>,
    /// Addresses, for the verb `endpoints`.
    pub addresses: Vec<Prefix>,
}

impl FromStr for Grant {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut words = text.split_whitespace();
        let verbs = words.next().ok_or_else(|| format!("an empty grant; {GRANT_FORM}"))?;
        let verbs = verbs.split(',').map(read_verb).collect::<Result<Vec<_>, _>>()?;
        if verbs.contains(&Verb::Endpoints) {
            return Self::of_addresses(verbs, words.next(), words.next());
        }
        let zones = words.next().map(Pattern::from_str).transpose()?;
        let needs_zone = verbs.iter().any(|verb| *verb != Verb::Operate);
        if needs_zone && zones.is_none() {
            return Err(format!("{text:?} names no zone, `*` for all; {GRANT_FORM}"));
        }
        let names = words.next().map_or(Ok(Pattern::All), Pattern::from_str)?;
        let types = words.next().map_or(Ok(Vec::new()), read_types)?;
        let views = words.next().map_or(Ok(Vec::new()), read_views)?;
        if let Some(word) = words.next() {
            return Err(format!("unexpected word {word:?}; {GRANT_FORM}"));
        }
        let (zones, addresses) = (zones.unwrap_or(Pattern::All), Vec::new());
        Ok(Self { verbs, zones, names, types, views, addresses })
    }
}

impl Grant {
    /// A grant of the verb `endpoints`, which stands alone.
    fn of_addresses(
        verbs: Vec<Verb>,
        prefixes: Option<&str>,
        more: Option<&str>,
    ) -> Result<Self, String> {
        let (Some(prefixes), None, [_]) = (prefixes, more, &verbs[..]) else {
            return Err(format!("`endpoints` stands alone before its addresses; {ENDPOINTS_FORM}"));
        };
        let read = |text: &str| {
            text.parse::<Prefix>().map_err(|why| format!("{text:?}: {why}; {ENDPOINTS_FORM}"))
        };
        let addresses = prefixes.split(',').map(read).collect::<Result<Vec<_>, _>>()?;
        if addresses.len() > GRANT_PREFIXES_MAX {
            return Err(format!("a grant names {GRANT_PREFIXES_MAX} prefixes at most"));
        }
        let (names, types, views) = (Pattern::All, Vec::new(), Vec::new());
        Ok(Self { verbs, zones: Pattern::All, names, types, views, addresses })
    }

    /// Whether it is about all sets of its zones.
    fn is_of_all(&self) -> bool {
        self.names == Pattern::All && self.types.is_empty() && self.views.is_empty()
    }

    /// Whether it allows writes, but not of all names, types and views of its zones.
    pub fn limits_writes(&self) -> bool {
        self.verbs.contains(&Verb::Write) && !self.is_of_all()
    }

    /// Whether it is about a record set.
    fn matches(&self, SetKey { zone, name, rtype, view }: &SetKey) -> bool {
        self.zones.matches(zone.as_name())
            && self.names.matches(name.as_name())
            && (self.types.is_empty() || self.types.contains(rtype))
            && (self.views.is_empty() || self.views.contains(view))
    }

    /// Refuses a grant that can never match a request.
    ///
    /// # Errors
    /// Which parts exclude each other.
    pub fn check_matchable(&self) -> Result<(), String> {
        let never = |why: String| Err(format!("the grant `{self}` can never match: {why}"));
        if !self.names.can_lie_in(&self.zones) {
            return never(format!("no name {} lies in a zone {}", self.names, self.zones));
        }
        if let Some(rtype) = self.types.iter().find(|rtype| rtype.is_meta()) {
            return never(format!("no record has the type {rtype}"));
        }
        let is_whole = self.is_of_all();
        if self.verbs.contains(&Verb::HideWildcard) && !self.verbs.contains(&Verb::Write) {
            return never("`hide-wildcard` is about writes: add `write`".into());
        }
        if self.verbs == [Verb::Operate] && !(is_whole && self.zones == Pattern::All) {
            return never(
                "`operate` is about the server: leave out zone, names, types and views".into(),
            );
        }
        if self.verbs == [Verb::Zones] && !is_whole {
            return never("`zones` is about whole zones: leave out names, types and views".into());
        }
        Ok(())
    }
}

const GRANT_FORM: &str = "a grant is `VERBS ZONE [NAMES [TYPES [VIEWS]]]`, such as \
                          `read,write example.org *.example.org A,AAAA`";

const ENDPOINTS_FORM: &str = "a grant for addresses is `endpoints PREFIXES`, such as `endpoints \
                              192.0.2.0/24,2001:db8::/32`";

fn read_verb(word: &str) -> Result<Verb, String> {
    Verb::ALL.into_iter().find(|verb| verb.word() == word).ok_or_else(|| {
        let words = Verb::ALL.map(Verb::word).join(", ");
        format!("{word:?} is not a verb: there are {words}; {GRANT_FORM}")
    })
}

fn read_types(text: &str) -> Result<Vec<Rtype>, String> {
    if text == "*" {
        return Ok(Vec::new());
    }
    let read = |word: &str| {
        let rtype = word.to_ascii_uppercase().parse();
        rtype.map_err(|()| format!("{word:?} is not a type such as AAAA or TYPE65280"))
    };
    let types: Vec<Rtype> = text.split(',').map(read).collect::<Result<_, _>>()?;
    match types.len() > GRANT_TYPES_MAX {
        true => Err(format!("a grant names {GRANT_TYPES_MAX} types at most, or `*`")),
        false => Ok(types),
    }
}

fn read_views(text: &str) -> Result<Vec<View>, String> {
    if text == "*" {
        return Ok(Vec::new());
    }
    let read = |word: &str| {
        View::from_word(word).ok_or_else(|| format!("{word:?} is not the name of a view"))
    };
    let views: Vec<View> = text.split(',').map(read).collect::<Result<_, _>>()?;
    match views.len() > GRANT_VIEWS_MAX {
        true => Err(format!("a grant names {GRANT_VIEWS_MAX} views at most, or `*`")),
        false => Ok(views),
    }
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verbs: Vec<&str> = self.verbs.iter().map(|verb| verb.word()).collect();
        if !self.addresses.is_empty() {
            let addresses: Vec<String> = self.addresses.iter().map(ToString::to_string).collect();
            return write!(f, "{} {}", verbs.join(","), addresses.join(","));
        }
        // It is about the server, not about names.
        if self.verbs == [Verb::Operate] {
            return f.write_str(Verb::Operate.word());
        }
        write!(f, "{} {} {} ", verbs.join(","), self.zones, self.names)?;
        let types: Vec<String> = self.types.iter().map(ToString::to_string).collect();
        let types = types.join(",");
        f.write_str(if types.is_empty() { "*" } else { &types })?;
        let views: Vec<&str> = self.views.iter().map(View::word).collect();
        if views.is_empty() { Ok(()) } else { write!(f, " {}", views.join(",")) }
    }
}

/// A principal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// The name in the journal and the audit log.
    pub name: String,
    /// The grants.
    pub grants: Vec<Grant>,
    /// Its credential is older than the verb `hide-wildcard`: it may hide wildcards, with a
    /// warning.
    pub may_hide_with_warning: bool,
}

impl WriteRights for Principal {
    fn may_write(&self, set: &SetKey) -> bool {
        self.may(Verb::Write, set)
    }

    fn covers(&self, set: &SetKey) -> bool {
        self.may(Verb::Write, set) && self.may_below(Verb::Write, set)
    }

    fn hiding(&self, set: &SetKey) -> Hiding {
        let may = |verb| {
            let mut grants = self.of(Verb::Write).filter(|grant| grant.verbs.contains(&verb));
            grants.any(|grant| grant.matches(set))
        };
        match self.may_hide_with_warning {
            _ if may(Verb::HideWildcard) => Hiding::Allowed,
            true => Hiding::Warned,
            false => Hiding::Refused,
        }
    }
}

impl Principal {
    /// A principal of a valid name and some grants.
    ///
    /// # Errors
    /// The name is invalid, or there are no grants or too many.
    pub fn new(name: &str, grants: Vec<Grant>) -> Result<Self, String> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.@".contains(&byte);
        if name.is_empty() || name.len() > PRINCIPAL_LEN_MAX || !name.bytes().all(is_plain) {
            return Err(format!(
                "{name:?} is not a name for a principal: 1 to {PRINCIPAL_LEN_MAX} letters, digits, \
                 and any of - _ . @"
            ));
        }
        if grants.is_empty() || grants.len() > GRANTS_MAX {
            return Err(format!("a principal has 1 to {GRANTS_MAX} grants; {GRANT_FORM}"));
        }
        Ok(Self { name: name.to_owned(), grants, may_hide_with_warning: false })
    }

    /// A user of this machine who may manage the server: it has every grant. No other principal can
    /// have its name.
    pub fn local(uid: u32) -> Self {
        // `operate` is for all addresses, too.
        let verbs = vec![Verb::Read, Verb::Write, Verb::HideWildcard, Verb::Zones, Verb::Operate];
        let (zones, names) = (Pattern::All, Pattern::All);
        let (types, views, addresses) = (Vec::new(), Vec::new(), Vec::new());
        let all = Grant { verbs, zones, names, types, views, addresses };
        let name = format!("local:{uid}");
        Self { name, grants: vec![all], may_hide_with_warning: false }
    }

    /// Whether a grant allows this verb on anything in a zone.
    pub fn may_in(&self, verb: Verb, zone: Name<'_>) -> bool {
        self.of(verb).any(|grant| grant.zones.matches(zone))
    }

    /// Whether a grant allows this verb on the whole zone.
    pub fn may_all_of(&self, verb: Verb, zone: Name<'_>) -> bool {
        self.of(verb).any(|grant| grant.zones.matches(zone) && grant.is_of_all())
    }

    /// Whether a grant allows this verb on all zones and everything in them.
    pub fn may_everything(&self, verb: Verb) -> bool {
        self.of(verb).any(|grant| grant.zones == Pattern::All && grant.is_of_all())
    }

    /// Whether a grant allows this verb on a record set.
    pub fn may(&self, verb: Verb, set: &SetKey) -> bool {
        self.of(verb).any(|grant| grant.matches(set))
    }

    /// Whether grants allow this verb on sets of the type and view of a set at every name below it.
    pub fn may_below(&self, verb: Verb, set: &SetKey) -> bool {
        let SetKey { zone, name, rtype, view } = set;
        self.of(verb).any(|grant| {
            grant.zones.matches(zone.as_name())
                && grant.names.matches_below(name.as_name())
                && (grant.types.is_empty() || grant.types.contains(rtype))
                && (grant.views.is_empty() || grant.views.contains(view))
        })
    }

    /// Whether grants allow this verb on a name of a zone and on all names below it, for all types.
    pub fn may_subtree(&self, verb: Verb, zone: Name<'_>, name: Name<'_>) -> bool {
        let is_of_all = |grant: &Grant| grant.types.is_empty() && grant.views.is_empty();
        let of_zone = |grant: &&Grant| grant.zones.matches(zone) && is_of_all(grant);
        self.of(verb).filter(of_zone).any(|grant| grant.names.matches(name))
            && self.of(verb).filter(of_zone).any(|grant| grant.names.matches_below(name))
    }

    /// Whether a grant allows to operate the server.
    pub fn may_operate(&self) -> bool {
        self.of(Verb::Operate).next().is_some()
    }

    /// Whether a grant allows to set the state of an address.
    pub fn may_set(&self, address: IpAddr) -> bool {
        let contains = |grant: &Grant| grant.addresses.iter().any(|one| one.holds(address));
        self.may_operate() || self.of(Verb::Endpoints).any(contains)
    }

    fn of(&self, verb: Verb) -> impl Iterator<Item = &Grant> {
        self.grants.iter().filter(move |grant| grant.verbs.contains(&verb))
    }
}

#[cfg(test)]
mod tests;
