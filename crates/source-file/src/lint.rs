//! What is legal in a zone but hardly meant: names and addresses that lead nowhere.
use crate::limits::FINDINGS_MAX;
use compile::Zone;
use image::Node;
use model::Rule;
use std::collections::HashMap;
use std::path::Path;
use wire::{Name, NameBuf, Rtype, target};
use zonefile::{Error, Place};

/// Something about a record, or about all of one name and type.
struct Finding {
    rule: Rule,
    what: String,
    help: String,
    /// The record's data; nothing: the first of the set.
    data: Option<Box<[u8]>>,
}

/// By owner, relative and in lower case, and type.
type Findings = HashMap<(Box<[u8]>, Rtype), Vec<Finding>>;

/// Looks through a zone that was loaded from this file. What is found, up to a limit, each with
/// its place: the file is read once more for that.
pub fn lint(file: &Path, zone: &Zone) -> Vec<Error> {
    let mut lint = Lint { zone, findings: Findings::new(), count: 0 };
    zone.nodes().for_each(|node| lint.node(node));
    locate(file, zone, lint.findings)
}

fn locate(file: &Path, zone: &Zone, mut findings: Findings) -> Vec<Error> {
    let mut errors = Vec::new();
    if findings.is_empty() {
        return errors;
    }
    // It was read without an error just now.
    let _ = zonefile::read(file, zone.origin(), &mut |record| {
        let owner = zone.relative(record.owner).unwrap_or_default();
        if let Some(found) = findings.get_mut(&(owner.into(), record.rtype)) {
            let here = |finding: &mut Finding| {
                finding.data.as_ref().is_none_or(|data| **data == *record.rdata)
            };
            errors.extend(found.extract_if(.., here).map(|finding| tell(record.place, finding)));
        }
        Ok(())
    });
    errors
}

fn tell(place: Place<'_>, finding: Finding) -> Error {
    Error::new(place, finding.rule, finding.what).with_help(finding.help)
}

struct Lint<'z> {
    zone: &'z Zone,
    findings: Findings,
    count: usize,
}

impl<'z> Lint<'z> {
    fn find(&mut self, node: Node<'_>, rtype: Rtype, finding: Finding) {
        if self.count < FINDINGS_MAX {
            self.count += 1;
            self.findings.entry((node.name().into(), rtype)).or_default().push(finding);
        }
    }

    fn node(&mut self, node: Node<'z>) {
        let cut = self.cut(node.name());
        let mut told = false;
        for set in node.sets() {
            let rtype = set.rtype();
            let whole = |rule, what: String, help: &str| Finding {
                rule,
                what,
                help: help.into(),
                data: None,
            };
            if !told && self.is_doubled(node.name()) {
                told = true;
                let what = format!("the name is `{}`", self.absolute(node.name()));
                self.find(node, rtype, whole(Rule::DOUBLED, what, "end it with a dot"));
            }
            if set.ttl() == 0 {
                let what = format!("a TTL of 0: no resolver may keep this {rtype} set");
                let help = "every question comes here then; some seconds help much";
                self.find(node, rtype, whole(Rule::TTL_ZERO, what, help));
            }
            if cut.is_some_and(|cut| is_occluded(cut, node.name(), rtype)) {
                let cut = self.absolute(cut.unwrap_or_default());
                let what = format!("hidden by the delegation of `{cut}`: it is never answered");
                let help = "it belongs into the file of the delegated zone";
                self.find(node, rtype, whole(Rule::OCCLUDED, what, help));
            }
            for data in set.records() {
                if let Some((rule, what, help)) = self.record(node, rtype, cut, data) {
                    let help = help.into();
                    self.find(node, rtype, Finding { rule, what, help, data: Some(data.into()) });
                }
            }
        }
    }

    /// What is to be said of one record: of what its data points at.
    fn record(
        &self,
        node: Node<'_>,
        rtype: Rtype,
        cut: Option<&[u8]>,
        data: &[u8],
    ) -> Option<(Rule, String, &'static str)> {
        if rtype == Rtype::SOA {
            return mailbox(data);
        }
        let at = match rtype {
            Rtype::CNAME | Rtype::DNAME | Rtype::PTR => 0,
            Rtype::NS | Rtype::MX | Rtype::SRV => target(rtype)?,
            _ => return None,
        };
        let name = Name::parse(data.get(at..)?).ok()?;
        if self.is_address(name) && rtype != Rtype::PTR {
            let what = format!("`{name}` is taken as a name, not as an address");
            return Some((Rule::ADDRESS, what, "name a host that has the address as its A record"));
        }
        let relative = self.zone.relative(name)?;
        if self.is_doubled(&relative) {
            let what = format!("the name is `{name}`");
            return Some((Rule::DOUBLED, what, "end it with a dot"));
        }
        if name.is_root() || matches!(rtype, Rtype::DNAME | Rtype::PTR) {
            return None;
        }
        let there = self.zone.names().get(&relative);
        let has_address = there
            .is_some_and(|node| node.set(Rtype::A).is_some() || node.set(Rtype::AAAA).is_some());
        let target_cut = self.cut(&relative);
        if let (Rtype::NS, Some(cut)) = (rtype, cut)
            && cut == node.name()
            && target_cut == Some(cut)
        {
            let what = format!("`{name}` lies below its own delegation and has no address here");
            let help = "add its A and AAAA records as glue: nobody finds them otherwise";
            return (!has_address).then_some((Rule::GLUE, what, help));
        }
        if target_cut.is_some() || has_address {
            return None;
        }
        self.without_address(rtype, name, &relative, there)
    }

    /// What is to be said of a target in this zone that has no address.
    fn without_address(
        &self,
        rtype: Rtype,
        name: Name<'_>,
        relative: &[u8],
        there: Option<Node<'_>>,
    ) -> Option<(Rule, String, &'static str)> {
        let alias = there.is_some_and(|node| node.set(Rtype::CNAME).is_some());
        match rtype {
            Rtype::CNAME if there.is_some() => None,
            _ if alias => {
                let what = format!("`{name}` is an alias, which the target of {rtype} may not be");
                Some((Rule::TARGET_ALIAS, what, "name what the alias stands for"))
            }
            _ if there.is_none() && self.has_wildcard(relative) => None,
            Rtype::NS => {
                let what = format!("the server `{name}` has no address in this zone");
                Some((
                    Rule::LAME,
                    what,
                    "add an A or AAAA record for it, or is a final dot missing?",
                ))
            }
            _ => {
                let missing = if there.is_some() { "has no address" } else { "does not exist" };
                let what = format!("`{name}` {missing} in this zone");
                Some((
                    Rule::TARGET_MISSING,
                    what,
                    "add a record for it, or is a final dot missing?",
                ))
            }
        }
    }

    /// The uppermost delegation that a name is at or below.
    fn cut<'n>(&self, name: &'n [u8]) -> Option<&'n [u8]> {
        let mut found = None;
        let mut rest = name;
        while let [len, ..] = rest {
            let is_cut = |node: Node<'_>| node.set(Rtype::NS).is_some();
            if self.zone.facts().cuts != Default::default()
                && self.zone.names().get(rest).is_some_and(is_cut)
            {
                found = Some(rest);
            }
            rest = rest.get(1 + usize::from(*len)..)?;
        }
        found
    }

    fn absolute(&self, name: &[u8]) -> NameBuf {
        NameBuf::joined(name, self.zone.origin()).unwrap_or_else(|_| self.zone.origin().into())
    }

    /// Whether a relative name ends in the labels of the origin, of which there are several.
    fn is_doubled(&self, name: &[u8]) -> bool {
        let origin = self.zone.origin();
        let whole = NameBuf::joined(name, Name::ROOT);
        origin.labels().count() > 1 && whole.is_ok_and(|it| it.as_name().is_within(origin))
    }

    /// Whether a name is an IPv4 address that was taken for one.
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

    /// Whether a wildcard stands for a name that is not there (RFC 4592 §3.3.1).
    fn has_wildcard(&self, name: &[u8]) -> bool {
        let mut rest = name;
        while let [len, ..] = rest {
            rest = rest.get(1 + usize::from(*len)..).unwrap_or_default();
            if self.zone.names().get(rest).is_some() {
                let wildcard = [b"\x01*", rest].concat();
                return self.zone.names().get(&wildcard).is_some();
            }
        }
        false
    }
}

/// Whether a delegation hides a set: glue and what belongs to the delegation itself are not.
fn is_occluded(cut: &[u8], name: &[u8], rtype: Rtype) -> bool {
    match rtype {
        Rtype::A | Rtype::AAAA | Rtype::RRSIG | Rtype::NSEC => false,
        Rtype::NS | Rtype::DS => cut != name,
        _ => true,
    }
}

/// The mailbox of an SOA record, which has a dot where others have an `@`.
fn mailbox(data: &[u8]) -> Option<(Rule, String, &'static str)> {
    let primary = Name::parse(data).ok()?;
    let mailbox = Name::parse(data.get(primary.len()..)?).ok()?;
    let has_at = mailbox.labels().next().is_some_and(|label| label.contains(&b'@'));
    let what = format!("the mailbox is `{mailbox}`");
    has_at.then_some((
        Rule::MAILBOX,
        what,
        "write a dot for the @, as in `hostmaster.example.org.`",
    ))
}

#[cfg(test)]
mod tests;
