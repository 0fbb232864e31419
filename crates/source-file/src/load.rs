//! Loads one zone: from its file, through the reader, into the compiler.
use compile::{Loader, Problem, Zone};
use image::HashKey;
use model::Rule;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use wire::Name;
use zonefile::{Error, Failure, Place, Summary};

/// Reads a zone from its file. What does not differ from `old` is shared with it.
///
/// # Errors
/// Everything that is wrong with the files and with the zone they make, each with its place.
pub fn load(
    file: &Path,
    origin: Name<'_>,
    key: &Arc<HashKey>,
    old: Option<&Zone>,
) -> Result<(Zone, Summary), Failure> {
    let mut loader = Loader::new(Arc::clone(key), origin, old);
    let mut ordinal: u32 = 0;
    let summary = zonefile::read(file, origin, &mut |record| {
        ordinal = ordinal.saturating_add(1);
        loader.add(record.owner, record.rtype, record.ttl, record.rdata, ordinal)
    })?;
    match loader.finish() {
        Ok(zone) => Ok((zone, summary)),
        Err(problems) => Err(locate(file, origin, problems, summary.files)),
    }
}

/// Gives problems their places. The loader remembers the number of a record, not its place: that
/// is asked for only when something is wrong, and then the files are read once more.
fn locate(file: &Path, origin: Name<'_>, problems: Vec<Problem>, files: Vec<PathBuf>) -> Failure {
    let mut wanted: BTreeMap<u32, Vec<(Rule, String)>> = BTreeMap::new();
    let whole = Place { file, line: 0, column: 0 };
    let mut errors = Vec::new();
    for Problem { place, rule, what } in problems {
        match place {
            Some(ordinal) => wanted.entry(ordinal).or_default().push((rule, what)),
            None => errors.push(error(whole, rule, what)),
        }
    }
    let mut ordinal: u32 = 0;
    // It was read without an error just now; should it have changed since, the next look tells.
    let _ = zonefile::read(file, origin, &mut |record| {
        ordinal = ordinal.saturating_add(1);
        let found = wanted.remove(&ordinal).into_iter().flatten();
        errors.extend(found.map(|(rule, what)| error(record.place, rule, what)));
        Ok(())
    });
    let rest = wanted.into_values().flatten();
    errors.extend(rest.map(|(rule, what)| error(whole, rule, what)));
    Failure { errors, stopped: false, files }
}

/// A problem with its place, and what to do about it. One that no record has is about a missing
/// one.
fn error(place: Place<'_>, rule: Rule, what: String) -> Error {
    let missing = place.line == 0;
    let help = match rule {
        Rule::SOA if missing => "a zone begins with `@ SOA ns hostmaster 1 2h 1h 2w 5m`",
        Rule::SOA => "a zone has one, at its apex `@`: take the others out",
        Rule::NS => "name the servers of the zone: `@ NS ns`",
        Rule::CNAME_ALONE => {
            "an alias has no other records: write A and AAAA records instead of it"
        }
        Rule::SINGLE => "keep one of them",
        Rule::NSEC3 => "sign the zone again with 0 iterations",
        Rule::LIMIT => "spread the records over several names",
        _ => return Error::new(place, rule, what),
    };
    Error::new(place, rule, what).with_help(help)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::{NameBuf, Rtype};

    const HEAD: &str = "$TTL 60\n@ SOA ns root 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\n";

    /// Loads the text as `example.org`; its errors, the file left out.
    fn load_text(test: &str, text: &str, old: Option<&Zone>) -> Result<Zone, String> {
        let file = std::env::temp_dir().join(format!("load-{test}-{}", std::process::id()));
        std::fs::write(&file, text).expect("a file");
        let origin = NameBuf::from_text(b"example.org.", Name::ROOT).expect("a name");
        let key = Arc::new(HashKey::new(std::array::from_fn(|word| word as u64 * 7 + 1)));
        let loaded = load(&file, origin.as_name(), &key, old);
        std::fs::remove_file(&file).expect("the file goes");
        match loaded {
            Ok((zone, _)) => Ok(zone),
            Err(failure) => Err(failure.to_string().replace(&file.display().to_string(), "")),
        }
    }

    #[test]
    fn a_zone_is_loaded() {
        let zone = load_text("good", HEAD, None).expect("a zone");
        assert_eq!((zone.serial(), zone.count()), (Some(1), (2, 3)));
        let name = NameBuf::from_text(b"ns.example.org.", Name::ROOT).expect("a name");
        assert!(zone.set(name.as_name(), Rtype::A).is_some());
    }

    #[test]
    fn what_the_compiler_refuses_has_its_place() {
        let text = format!("{HEAD}www CNAME ns\n\nwww A 192.0.2.2\n");
        let told = load_text("alias", &text, None).map(drop).expect_err("a CNAME and an A");
        assert!(told.starts_with(":7:1: www.example.org.: a CNAME record beside"), "{told}");

        let told = load_text("apex", "ns 60 A 192.0.2.1\n", None).map(drop).expect_err("no SOA");
        assert!(told.contains(": the zone example.org. has no SOA"), "{told}");
    }
}
