//! Warns of valid records that are probably mistakes, such as names without an address.
use crate::limits::FINDINGS_MAX;
use compile::Zone;
use image::Node;
use model::BrokenRule;
use std::collections::HashMap;
use std::path::Path;
use wire::{Name, NameBuf, Rtype, target};
use zonefile::{Error, SourcePosition};

/// A warning about a record or a record set.
struct LintFinding {
    rule: BrokenRule,
    what: String,
    help: String,
    /// The record's data; `None`: the first record of the set.
    data: Option<Box<[u8]>>,
}

/// By relative owner in lower case, and type.
type LintFindings = HashMap<(Box<[u8]>, Rtype), Vec<LintFinding>>;

/// Checks a loaded zone. Returns warnings, up to a limit. Reads the file again for their positions.
pub fn lint(file: &Path, zone: &Zone) -> Vec<Error> {
    let mut lint = Lint { zone, findings: LintFindings::new(), count: 0 };
    zone.nodes().for_each(|node| lint.node(node));
    locate(file, zone, lint.findings)
}

/// Warns if a file was changed without a higher serial: secondaries detect changes by the serial
/// (RFC 1982 §3.2).
pub fn check_serial(file: &Path, old: u32, new: u32) -> Option<Error> {
    if new.wrapping_sub(old).wrapping_sub(1) < 1 << 31 {
        return None;
    }
    let what = match new == old {
        true => format!("the zone has changed, but its serial is {old} as before"),
        false => format!("the serial {new} is not above {old}, the served one"),
    };
    let least = old.wrapping_add(1);
    let help = format!("secondaries would not transfer the change: write at least {least}");
    let place = SourcePosition { file, line: 0, column: 0 };
    Some(Error::new(place, BrokenRule::SERIAL, what).with_help(help))
}

fn locate(file: &Path, zone: &Zone, mut findings: LintFindings) -> Vec<Error> {
    let mut errors = Vec::new();
    if findings.is_empty() {
        return errors;
    }
    // It was read without an error just now.
    let _ = zonefile::read(file, zone.origin(), &mut |record| {
        let owner = zone.relative(record.owner).unwrap_or_default();
        if let Some(found) = findings.get_mut(&(owner.into(), record.rtype)) {
            let here = |finding: &mut LintFinding| {
                finding.data.as_ref().is_none_or(|data| **data == *record.rdata)
            };
            errors.extend(found.extract_if(.., here).map(|finding| tell(record.place, finding)));
        }
        Ok(())
    });
    errors
}

fn tell(place: SourcePosition<'_>, finding: LintFinding) -> Error {
    Error::new(place, finding.rule, finding.what).with_help(finding.help)
}

struct Lint<'z> {
    zone: &'z Zone,
    findings: LintFindings,
    count: usize,
}

impl<'z> Lint<'z> {
    fn find(&mut self, node: Node<'_>, rtype: Rtype, finding: LintFinding) {
        if self.count < FINDINGS_MAX {
            self.count += 1;
            self.findings.entry((node.name().into(), rtype)).or_default().push(finding);
        }
    }

    fn node(&mut self, node: Node<'z>) {
        let cut = self.cut(node.name());
        let mut messages = false;
        for set in node.sets() {
            let rtype = set.rtype();
            let whole = |rule, what: String, help: &str| LintFinding {
                rule,
                what,
                help: help.into(),
                data: None,
            };
            if !messages && self.is_doubled(node.name()) {
                messages = true;
                let what = format!("the name is `{}`", self.absolute(node.name()));
                self.find(node, rtype, whole(BrokenRule::DOUBLED, what, "end it with a dot"));
            }
            if set.ttl() == 0 {
                let what = format!("a TTL of 0: no resolver may cache this {rtype} set");
                let help = "so every query reaches this server; a few seconds help much";
                self.find(node, rtype, whole(BrokenRule::TTL_ZERO, what, help));
            }
            if cut.is_some_and(|cut| is_occluded(cut, node.name(), rtype)) {
                let cut = self.absolute(cut.unwrap_or_default());
                let what = format!("hidden by the delegation of `{cut}`: it is never answered");
                let help = "it belongs in the file of the delegated zone";
                self.find(node, rtype, whole(BrokenRule::OCCLUDED, what, help));
            }
            for data in set.records() {
                if let Some((rule, what, help)) = self.record(node, rtype, cut, data) {
                    let help = help.into();
                    self.find(
                        node,
                        rtype,
                        LintFinding { rule, what, help, data: Some(data.into()) },
                    );
                }
            }
        }
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
        let relative = self.zone.relative(name)?;
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
        let target_cut = self.cut(&relative);
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
            _ if there.is_none() && self.has_wildcard(relative) => None,
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

    /// The topmost delegation at or above a name.
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

    /// Whether a wildcard covers a missing name (RFC 4592 §3.3.1).
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
