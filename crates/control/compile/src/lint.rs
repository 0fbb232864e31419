//! Warns of valid records that are probably mistakes, such as names without an address: of a whole
//! zone, or of some of its sets at a cost that depends on these alone.
mod alias;

use crate::Zone;
use image::Node;
use model::BrokenRule;
use std::collections::HashSet;
use wire::{Name, NameBuf, Rtype, target};

/// A warning about a record or a record set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The name, relative to the zone.
    pub name: Box<[u8]>,
    /// The type.
    pub rtype: Rtype,
    /// The rule that is broken.
    pub rule: BrokenRule,
    /// The fault.
    pub what: String,
    /// The remedy.
    pub help: String,
    /// The record's data; `None`: the first record of the set.
    pub data: Option<Box<[u8]>>,
}

impl Zone {
    /// Checks all names.
    pub fn lint(&self, take: &mut dyn FnMut(Finding)) {
        let lint = Lint { zone: self };
        self.nodes().for_each(|node| lint.node(node, None, take));
    }

    /// Checks these sets, each a relative name and a type, and the NS sets that depend on them.
    /// Returns up to `most` warnings, each once. It reads only these names, the targets of their
    /// records, and once each of the delegations above them.
    pub fn lint_sets<'s>(
        &self,
        sets: impl IntoIterator<Item = (&'s [u8], Rtype)>,
        most: usize,
    ) -> Vec<Finding> {
        let lint = Lint { zone: self };
        let mut found: Vec<Finding> = Vec::new();
        let mut take = |finding| {
            if found.len() < most && !found.contains(&finding) {
                found.push(finding);
            }
        };
        let (mut changed, mut delegations) = (HashSet::new(), HashSet::new());
        for (name, rtype) in sets {
            if let Some(node) = self.names().get(name) {
                lint.node(node, Some(rtype), &mut take);
            }
            if matches!(rtype, Rtype::A | Rtype::AAAA | Rtype::CNAME) {
                changed.insert(name);
                delegations.extend([Some(&[][..]), self.cut(name)].into_iter().flatten());
            }
        }
        for owner in delegations {
            lint.servers(owner, &changed, &mut take);
        }
        found
    }
}

/// The checks of a zone, for any of its names.
struct Lint<'z> {
    zone: &'z Zone,
}

impl<'z> Lint<'z> {
    /// Checks the sets of a name, those of one type if one is given.
    fn node(&self, node: Node<'z>, only: Option<Rtype>, take: &mut dyn FnMut(Finding)) {
        let cut = self.zone.cut(node.name());
        let mut is_doubled = self.is_doubled(node.name());
        for set in node.sets().filter(|set| only.is_none_or(|rtype| rtype == set.rtype())) {
            let rtype = set.rtype();
            let name = || node.name().into();
            let mut find = |rule, what: String, help: &str, data| {
                take(Finding { name: name(), rtype, rule, what, help: help.into(), data });
            };
            if std::mem::take(&mut is_doubled) {
                let what = format!("the name is `{}`", self.absolute(node.name()));
                find(BrokenRule::DOUBLED, what, "end it with a dot", None);
            }
            // No client uses the TTL of NSEC3PARAM (RFC 5155 §4), and signers write 0. A signature
            // has the TTL of its set.
            let has_own_ttl = !matches!(rtype, Rtype::NSEC3PARAM | Rtype::RRSIG);
            if set.ttl() == 0 && has_own_ttl {
                let what = format!("a TTL of 0: no resolver may cache this {rtype} set");
                let help = "so every query reaches this server; a few seconds help much";
                find(BrokenRule::TTL_ZERO, what, help, None);
            }
            if cut.is_some_and(|cut| is_occluded(cut, node.name(), rtype)) {
                let cut = self.absolute(cut.unwrap_or_default());
                let what = format!("hidden by the delegation of `{cut}`: it is never answered");
                let help = "it belongs in the delegated zone";
                find(BrokenRule::OCCLUDED, what, help, None);
            }
            for data in set.records() {
                if let Some((rule, what, help)) = self.record(node, rtype, cut, data) {
                    find(rule, what, help, Some(data.into()));
                }
            }
        }
    }

    /// Checks the NS set of a name: its records that name one of these servers, relative names.
    fn servers(&self, owner: &[u8], of: &HashSet<&[u8]>, take: &mut dyn FnMut(Finding)) {
        let Some(node) = self.zone.names().get(owner) else { return };
        self.node(node, Some(Rtype::NS), &mut |finding| {
            let server = finding.data.as_deref().and_then(|data| Name::parse(data).ok());
            let server = server.and_then(|server| self.zone.relative(server));
            if server.is_some_and(|server| of.contains(&server[..])) {
                take(finding);
            }
        });
    }

    /// Warnings about the target of a record.
    fn record(
        &self,
        node: Node<'_>,
        rtype: Rtype,
        cut: Option<&[u8]>,
        data: &[u8],
    ) -> Option<(BrokenRule, String, &'static str)> {
        if rtype == Rtype::SOA {
            return soa_mail(data);
        }
        let at = match rtype {
            Rtype::CNAME | Rtype::DNAME | Rtype::PTR => 0,
            Rtype::NS | Rtype::MX | Rtype::SRV => target(rtype)?,
            _ => return None,
        };
        let name = Name::parse(data.get(at..)?).ok()?;
        if self.is_address(name) && rtype != Rtype::PTR {
            let what = format!("`{name}` is read as a name, not as an address");
            return Some((
                BrokenRule::ADDRESS,
                what,
                "name a host that has the address as its A record",
            ));
        }
        let Some(relative) = self.zone.relative(name) else {
            return self.top_level(rtype, name);
        };
        if rtype == Rtype::CNAME
            && let Some(what) = alias::loop_of(self.zone, node.name(), &relative)
        {
            return Some((BrokenRule::ALIAS_LOOP, what, "write a target that has addresses"));
        }
        if self.is_doubled(&relative) {
            let what = format!("the name is `{name}`");
            return Some((BrokenRule::DOUBLED, what, "end it with a dot"));
        }
        if name.is_root() || matches!(rtype, Rtype::DNAME | Rtype::PTR) {
            return None;
        }
        let there = self.zone.names().get(&relative);
        let has_address = there
            .is_some_and(|node| node.set(Rtype::A).is_some() || node.set(Rtype::AAAA).is_some());
        let target_cut = self.zone.cut(&relative);
        if let (Rtype::NS, Some(cut)) = (rtype, cut)
            && cut == node.name()
            && target_cut == Some(cut)
        {
            let what = format!("`{name}` is below its own delegation and has no address here");
            let help = "add its A and AAAA records as glue: resolvers cannot find them otherwise";
            return (!has_address).then_some((BrokenRule::GLUE, what, help));
        }
        if target_cut.is_some() || has_address {
            return None;
        }
        self.without_address(rtype, name, &relative, there)
    }

    /// A warning about a target outside of the zone that has only one label.
    fn top_level(
        &self,
        rtype: Rtype,
        name: Name<'_>,
    ) -> Option<(BrokenRule, String, &'static str)> {
        let mut labels = name.labels();
        let is_local = labels.next().is_none_or(|label| label.eq_ignore_ascii_case(b"localhost"));
        let is_single = labels.next().is_none() && !is_local;
        let is_meant = matches!(rtype, Rtype::DNAME | Rtype::PTR) || name.is_root();
        if !is_single || is_meant {
            return None;
        }
        let within = self.absolute(name.as_bytes().strip_suffix(&[0])?);
        let what = format!("`{name}` is a top-level name: in the zone it would be `{within}`");
        let help = "write the whole name, unless it is meant so";
        Some((BrokenRule::TARGET_TOP_LEVEL, what, help))
    }

    /// A warning about a target in this zone without an address.
    fn without_address(
        &self,
        rtype: Rtype,
        name: Name<'_>,
        relative: &[u8],
        there: Option<Node<'_>>,
    ) -> Option<(BrokenRule, String, &'static str)> {
        let alias = there.is_some_and(|node| node.set(Rtype::CNAME).is_some());
        match rtype {
            Rtype::CNAME if there.is_some() => None,
            _ if alias => {
                let what =
                    format!("`{name}` is an alias, but the target of {rtype} must not be one");
                Some((BrokenRule::TARGET_ALIAS, what, "write the target of the alias"))
            }
            _ if there.is_none() && alias::wildcard(self.zone, relative).is_some() => None,
            Rtype::NS => {
                let what = format!("the server `{name}` has no address in this zone");
                Some((
                    BrokenRule::LAME,
                    what,
                    "add an A or AAAA record for it, or is a final dot missing?",
                ))
            }
            _ => {
                let missing = if there.is_some() { "has no address" } else { "does not exist" };
                let what = format!("`{name}` {missing} in this zone");
                Some((
                    BrokenRule::TARGET_MISSING,
                    what,
                    "add a record for it, or is a final dot missing?",
                ))
            }
        }
    }

    fn absolute(&self, name: &[u8]) -> NameBuf {
        NameBuf::joined(name, self.zone.origin()).unwrap_or_else(|_| self.zone.origin().into())
    }

    /// Whether a relative name ends in the labels of the origin, if it has several.
    fn is_doubled(&self, name: &[u8]) -> bool {
        let origin = self.zone.origin();
        let whole = NameBuf::joined(name, Name::ROOT);
        origin.labels().count() > 1 && whole.is_ok_and(|it| it.as_name().is_within(origin))
    }

    /// Whether a name is an IPv4 address, read as a name.
    fn is_address(&self, name: Name<'_>) -> bool {
        let is_number =
            |label: &[u8]| std::str::from_utf8(label).is_ok_and(|text| text.parse::<u8>().is_ok());
        let mut labels = name.labels();
        let four = labels.by_ref().take(4).filter(|label| is_number(label)).count() == 4;
        let rest = labels.count();
        let origin = self.zone.origin();
        let is_reverse = origin.labels().last().is_some_and(|label| label == b"arpa");
        let behind = name.is_within(origin).then(|| origin.labels().count());
        four && !is_reverse && (rest == 0 || Some(rest) == behind)
    }
}

/// Whether a delegation hides a set; false for glue and the delegation's own sets.
fn is_occluded(cut: &[u8], name: &[u8], rtype: Rtype) -> bool {
    match rtype {
        Rtype::A | Rtype::AAAA | Rtype::RRSIG | Rtype::NSEC => false,
        Rtype::NS | Rtype::DS => cut != name,
        _ => true,
    }
}

/// Warns of an `@` in the mail address of an SOA record.
fn soa_mail(data: &[u8]) -> Option<(BrokenRule, String, &'static str)> {
    let primary = Name::parse(data).ok()?;
    let mail = Name::parse(data.get(primary.len()..)?).ok()?;
    let has_at = mail.labels().next().is_some_and(|label| label.contains(&b'@'));
    let what = format!("the mail address is `{mail}`");
    has_at.then_some((
        BrokenRule::MAILBOX,
        what,
        "write a dot for the @, as in `hostmaster.example.org.`",
    ))
}

#[cfg(test)]
mod tests;
