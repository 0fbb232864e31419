//! Warns of valid records that are probably mistakes, with their places in the file.
use crate::limits::FINDINGS_MAX;
use compile::{Finding, Zone};
use model::BrokenRule;
use std::collections::HashMap;
use std::path::Path;
use wire::Rtype;
use zonefile::{Error, SourcePosition};

/// By relative owner in lower case, and type.
type LintFindings = HashMap<(Box<[u8]>, Rtype), Vec<Finding>>;

/// Checks a loaded zone. Returns warnings, up to a limit. Reads the file again for their positions.
pub fn lint(file: &Path, zone: &Zone) -> Vec<Error> {
    let (mut findings, mut count) = (LintFindings::new(), 0);
    zone.lint(&mut |finding| {
        if count < FINDINGS_MAX {
            count += 1;
            let set = (finding.name.clone(), finding.rtype);
            findings.entry(set).or_default().push(finding);
        }
    });
    locate(file, zone, findings)
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
            let here = |finding: &mut Finding| {
                finding.data.as_ref().is_none_or(|data| **data == *record.rdata)
            };
            errors.extend(found.extract_if(.., here).map(|finding| tell(record.place, finding)));
        }
        Ok(())
    });
    errors
}

fn tell(place: SourcePosition<'_>, finding: Finding) -> Error {
    Error::new(place, finding.rule, finding.what).with_help(finding.help)
}

#[cfg(test)]
mod tests;
