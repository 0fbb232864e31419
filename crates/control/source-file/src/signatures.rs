//! The signatures of a signed zone (RFC 4034, RFC 4035 §5.3): whether they are valid, and until
//! when. Signers write them into the file; this server only checks them.
mod chain;
mod key;
mod record;

use compile::Zone;
use image::Node;
use key::Keys;
use model::BrokenRule;
use record::{Signature, SignedSet, Verdict};
use server_status::SignatureSpan;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};
use wire::Rtype;
use zonefile::{Error, SourcePosition};

/// Signatures that `dunlin check` verifies; of more than these, it verifies a sample.
pub const VERIFIED_MAX: usize = 10_000;
/// Signatures that a server verifies when it has loaded a zone; some 10 ms.
pub const VERIFIED_AT_LOAD_MAX: usize = 100;

/// The known state of the signatures of a zone.
#[derive(Clone, Debug)]
pub struct SignatureReport {
    /// The first end of a set's validity; `None`: there is no signature.
    pub span: Option<SignatureSpan>,
    /// Record sets that need a signature.
    pub sets: usize,
    /// Those whose signature was verified.
    pub verified: usize,
    /// Warnings with their positions.
    pub warnings: Vec<Error>,
}

/// Seconds since 1970.
pub fn seconds_now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// Whether a zone is signed: its apex has signatures.
fn is_signed(zone: &Zone) -> bool {
    zone.facts().signed
}

/// When the first record set loses its last signature; `None` in an unsigned zone, which costs
/// nothing. Verifies nothing.
pub fn signature_span(zone: &Zone, now: i64) -> Option<SignatureSpan> {
    if !is_signed(zone) {
        return None;
    }
    zone.nodes().filter_map(|node| span_of(node, now)).min_by_key(|span| span.expires_seconds)
}

/// The first end of validity among the sets of a name: that of the last signature of each.
fn span_of(node: Node<'_>, now: i64) -> Option<SignatureSpan> {
    let mut last: BTreeMap<u16, SignatureSpan> = BTreeMap::new();
    for data in node.set(Rtype::RRSIG)?.records() {
        let Some(signature) = Signature::parse(data) else { continue };
        let span = signature.span(now);
        let known = last.entry(signature.covered.0).or_insert(span);
        if known.expires_seconds < span.expires_seconds {
            *known = span;
        }
    }
    last.into_values().min_by_key(|span| span.expires_seconds)
}

/// Checks the signatures of a signed zone: their times, that they cover all that they must, the
/// chain of NSEC or NSEC3 records, and up to `verified_max` of them by their keys. `now` is in
/// seconds since 1970. Reads the file again for positions.
pub fn check_signatures(
    file: &Path,
    zone: &Zone,
    now: i64,
    verified_max: usize,
) -> Option<SignatureReport> {
    if !is_signed(zone) {
        return None;
    }
    let mut check = Check::new(zone, now, verified_max);
    zone.nodes().for_each(|node| check.node(node));
    chain::check(zone, &mut check.findings);
    let Check { sets, verified, findings, .. } = check;
    let warnings = findings.locate(file, zone);
    Some(SignatureReport { span: signature_span(zone, now), sets, verified, warnings })
}

struct Check<'z> {
    zone: &'z Zone,
    now: i64,
    keys: Keys,
    /// Verify each set whose number is a multiple of this.
    step: usize,
    sets: usize,
    verified: usize,
    findings: Findings,
}

impl<'z> Check<'z> {
    fn new(zone: &'z Zone, now: i64, verified_max: usize) -> Self {
        let count = |node: Node<'_>| node.set(Rtype::RRSIG).map_or(0, |set| set.count());
        let all: usize = zone.nodes().map(count).sum();
        let (keys, findings) = (Keys::of(zone), Findings::default());
        let step = all.div_ceil(verified_max.max(1)).max(1);
        Self { zone, now, keys, step, sets: 0, verified: 0, findings }
    }

    fn node(&mut self, node: Node<'_>) {
        let signatures: Vec<Signature<'_>> = node
            .set(Rtype::RRSIG)
            .into_iter()
            .flat_map(|set| set.records())
            .filter_map(Signature::parse)
            .collect();
        let cut = self.zone.cut(node.name());
        for set in node.sets().filter(|set| needs_signature(node, set.rtype(), cut)) {
            self.set(&SignedSet::new(self.zone.origin(), node, set), &signatures);
        }
        let orphan = signatures.iter().find(|one| node.set(one.covered).is_none());
        if let Some(signature) = orphan {
            let kind = FindingKind::Orphan(signature.covered);
            self.findings.add(kind, node.name(), Rtype::RRSIG);
        }
    }

    /// A set is in order if one of its signatures is.
    fn set(&mut self, set: &SignedSet<'_>, signatures: &[Signature<'_>]) {
        self.sets += 1;
        let verifies = self.sets.is_multiple_of(self.step);
        let (name, rtype) = (set.name(), set.rtype());
        let mut worst = None;
        for signature in signatures.iter().filter(|one| one.covered == rtype) {
            match set.judge(signature, &self.keys, self.now, verifies) {
                Verdict::Valid => {
                    self.verified += usize::from(verifies);
                    let span = signature.span(self.now);
                    if span.is_soon(self.now as f64) {
                        let kind = FindingKind::Soon(span.expires_seconds);
                        self.findings.add(kind, name, rtype);
                    }
                    return;
                }
                Verdict::Unknown => return,
                Verdict::Refused(kind) => worst = worst.or(Some(kind)),
            }
        }
        self.findings.add(worst.unwrap_or(FindingKind::Missing), name, rtype);
    }
}

/// Whether a set of a name is signed (RFC 4035 §2.2): all sets of the zone are, but neither its
/// delegations nor what is below them.
fn needs_signature(node: Node<'_>, rtype: Rtype, cut: Option<&[u8]>) -> bool {
    match (rtype, cut) {
        (Rtype::RRSIG, _) => false,
        (_, None) => true,
        (Rtype::DS | Rtype::NSEC, Some(cut)) => cut == node.name(),
        (_, Some(_)) => false,
    }
}

/// The fault of a record set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum FindingKind {
    /// No signature.
    Missing,
    /// The signature of a type that the name does not have.
    Orphan(Rtype),
    /// The time when the signature expired.
    Expired(i64),
    /// The time from which the signature is valid.
    Early(i64),
    /// The time when the signature expires.
    Soon(i64),
    /// The zone has no such key: its tag.
    NoKey(u16),
    /// The signature is of other records, or of another key.
    Wrong,
    /// A name without NSEC or NSEC3 record.
    NoDenial,
    /// The next name of an NSEC or NSEC3 record is another one.
    Next,
    /// The types of an NSEC or NSEC3 record are not those of its name.
    Types,
    /// An NSEC3 record of no name.
    NoName,
}

impl FindingKind {
    /// Findings of one kind are one warning.
    fn group(self) -> std::mem::Discriminant<Self> {
        std::mem::discriminant(&self)
    }

    fn rule(self) -> BrokenRule {
        match self {
            Self::Missing | Self::Orphan(_) => BrokenRule::UNSIGNED,
            Self::NoDenial | Self::Next | Self::Types | Self::NoName => BrokenRule::CHAIN,
            _ => BrokenRule::SIGNATURE,
        }
    }

    fn help(self) -> &'static str {
        match self {
            Self::Early(_) => "is the clock of this machine or of the signer right?",
            Self::Expired(_) => "validating resolvers answer SERVFAIL: sign the zone again",
            Self::Soon(_) => "sign the zone again before then",
            _ => "was the zone changed after it was signed? sign it again",
        }
    }

    /// The faults of these records at this name.
    fn what(self, records: &str, denial: &str) -> String {
        let date = |seconds: i64| record::date(seconds);
        match self {
            Self::Missing => format!("{records} has no signature"),
            Self::Orphan(rtype) => format!("there is a signature of {rtype}, but no {rtype}"),
            Self::Expired(at) => format!("the signature of {records} expired on {}", date(at)),
            Self::Early(at) => format!("the signature of {records} is valid from {}", date(at)),
            Self::Soon(at) => format!("the signature of {records} expires on {}", date(at)),
            Self::NoKey(tag) => {
                format!("the signature of {records} is by key {tag}, which the zone does not have")
            }
            Self::Wrong => format!("the signature of {records} does not match its records"),
            Self::NoDenial => format!("the name has no {denial} record"),
            Self::Next => format!("the {denial} record does not name the next name"),
            Self::Types => format!("the {denial} record lists other types than the name has"),
            Self::NoName => format!("the {denial} record belongs to no name"),
        }
    }
}

/// The first finding of each kind, and how many there are.
#[derive(Default)]
struct Findings(Vec<Finding>);

struct Finding {
    kind: FindingKind,
    count: usize,
    /// The relative name and the type of the records whose position is shown.
    name: Box<[u8]>,
    rtype: Rtype,
}

impl Findings {
    fn add(&mut self, kind: FindingKind, name: &[u8], rtype: Rtype) {
        match self.0.iter_mut().find(|known| known.kind.group() == kind.group()) {
            Some(known) => {
                known.count += 1;
                // Of times, the first is shown.
                if kind < known.kind {
                    (known.kind, known.name, known.rtype) = (kind, name.into(), rtype);
                }
            }
            None => self.0.push(Finding { kind, count: 1, name: name.into(), rtype }),
        }
    }

    /// The findings as warnings, at the first record of their name and type.
    fn locate(mut self, file: &Path, zone: &Zone) -> Vec<Error> {
        let mut warnings = Vec::new();
        if self.0.is_empty() {
            return warnings;
        }
        let denial = if zone.facts().nsec3.is_some() { "NSEC3" } else { "NSEC" };
        // It was read without an error just now.
        let _ = zonefile::read(file, zone.origin(), &mut |record| {
            let owner = zone.relative(record.owner).unwrap_or_default();
            let is_here = |one: &mut Finding| {
                *one.name == *owner && (one.rtype == record.rtype || one.rtype == Rtype::ANY)
            };
            let here = self.0.extract_if(.., is_here);
            warnings.extend(here.map(|one| one.warning(record.place, zone, denial)));
            Ok(())
        });
        let whole = SourcePosition { file, line: 0, column: 0 };
        warnings.extend(self.0.into_iter().map(|one| one.warning(whole, zone, denial)));
        warnings
    }
}

impl Finding {
    fn warning(self, place: SourcePosition<'_>, zone: &Zone, denial: &str) -> Error {
        let name = wire::NameBuf::joined(&self.name, zone.origin());
        let name = name.map(|name| name.as_name().to_string()).unwrap_or_default();
        let what = self.kind.what(&format!("{name} {}", self.rtype), denial);
        let what = match self.count {
            1 => what,
            count => format!("{what}, and {} more such record sets", count - 1),
        };
        Error::new(place, self.kind.rule(), what).with_help(self.kind.help())
    }
}

#[cfg(test)]
mod tests;
