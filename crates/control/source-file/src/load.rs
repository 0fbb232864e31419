//! Loads one zone from its file into the compiler.
use crate::handler::{ViewFile, ZoneFile};
use crate::limits::FINDINGS_MAX;
use compile::{HiddenName, Loader, ViewSets, Zone, ZoneProblem};
use image::HashKey;
use model::BrokenRule;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;
use wire::Name;
use zonefile::{Error, LoadFailure, LoadSummary, SourcePosition};

/// Reads a zone from its file. Shares unchanged parts with `old`.
///
/// # Errors
/// All errors of the files and the zone, with their positions.
pub fn load(
    file: &Path,
    origin: Name<'_>,
    key: &Arc<HashKey>,
    old: Option<&Zone>,
) -> Result<(Zone, LoadSummary), LoadFailure> {
    let mut loader = Loader::new(Arc::clone(key), origin, old);
    let mut ordinal: u32 = 0;
    let mut summary = zonefile::read(file, origin, &mut |record| {
        ordinal = ordinal.saturating_add(1);
        loader.add(record.owner, record.rtype, record.ttl, record.rdata, ordinal)
    })?;
    match loader.finish_with_warnings() {
        Ok((zone, warnings)) => {
            let hidden = zone.names_below_dnames(FINDINGS_MAX);
            if !hidden.is_empty() {
                let errors = locate_hidden(file, &zone, &hidden);
                return Err(LoadFailure { errors, stopped: false, files: summary.files });
            }
            if !warnings.is_empty() {
                summary.warnings.extend(locate(file, origin, warnings));
            }
            Ok((zone, summary))
        }
        Err(problems) => {
            let errors = locate(file, origin, problems);
            Err(LoadFailure { errors, stopped: false, files: summary.files })
        }
    }
}

/// As [`load`], with the views of the zone, each from its file.
///
/// # Errors
/// As [`load`]; also if a view has errors: then the zone is not loaded either.
pub fn load_with_views(
    zone: &ZoneFile,
    key: &Arc<HashKey>,
    old: Option<&Zone>,
) -> Result<(Zone, LoadSummary), LoadFailure> {
    let (loaded, mut summary) = load(&zone.file, zone.origin.as_name(), key, old)?;
    let (mut views, mut errors) = (Vec::new(), Vec::new());
    for ViewFile { view, file } in &zone.views {
        match load_view(file, &loaded, key) {
            Ok((sets, more)) => {
                views.push((*view, Some(sets)));
                summary.files.extend(more.files);
                summary.warnings.extend(more.warnings);
                summary.cut_off = summary.cut_off.or(more.cut_off);
            }
            Err(failure) => {
                errors.extend(failure.errors);
                summary.files.extend(failure.files);
            }
        }
    }
    if views.is_empty() && errors.is_empty() {
        return Ok((loaded, summary));
    }
    let whole = SourcePosition { file: &zone.file, line: 0, column: 0 };
    let loaded = match errors.is_empty() {
        true => loaded.with_views(views).map_err(|why| error(whole, BrokenRule::LIMIT, why)),
        false => return Err(LoadFailure { errors, stopped: false, files: summary.files }),
    };
    match loaded {
        Ok(loaded) => Ok((loaded, summary)),
        Err(why) => Err(LoadFailure { errors: vec![why], stopped: false, files: summary.files }),
    }
}

/// Reads the sets of a view of a zone from their file.
///
/// # Errors
/// All errors of the files and the sets, with their positions.
pub(crate) fn load_view(
    file: &Path,
    zone: &Zone,
    key: &Arc<HashKey>,
) -> Result<(ViewSets, LoadSummary), LoadFailure> {
    let origin = zone.origin();
    let mut loader = Loader::new(Arc::clone(key), origin, None);
    let mut ordinal: u32 = 0;
    let mut summary = zonefile::read(file, origin, &mut |record| {
        ordinal = ordinal.saturating_add(1);
        loader.add(record.owner, record.rtype, record.ttl, record.rdata, ordinal)
    })?;
    match loader.finish_view(zone) {
        Ok((sets, warnings)) => {
            if !warnings.is_empty() {
                summary.warnings.extend(locate(file, origin, warnings));
            }
            Ok((sets, summary))
        }
        Err(problems) => {
            let errors = locate(file, origin, problems);
            Err(LoadFailure { errors, stopped: false, files: summary.files })
        }
    }
}

/// Adds positions to problems. The loader keeps only the number of a record, so this reads the
/// files again.
fn locate(file: &Path, origin: Name<'_>, problems: Vec<ZoneProblem>) -> Vec<Error> {
    let mut wanted: BTreeMap<u32, Vec<(BrokenRule, String)>> = BTreeMap::new();
    let whole = SourcePosition { file, line: 0, column: 0 };
    let mut errors = Vec::new();
    for ZoneProblem { place, rule, what } in problems {
        match place {
            Some(ordinal) => wanted.entry(ordinal).or_default().push((rule, what)),
            None => errors.push(error(whole, rule, what)),
        }
    }
    let mut ordinal: u32 = 0;
    // It was read without an error just now; the next visit detects a change since.
    let _ = zonefile::read(file, origin, &mut |record| {
        ordinal = ordinal.saturating_add(1);
        let found = wanted.remove(&ordinal).into_iter().flatten();
        errors.extend(found.map(|(rule, what)| error(record.place, rule, what)));
        Ok(())
    });
    let rest = wanted.into_values().flatten();
    errors.extend(rest.map(|(rule, what)| error(whole, rule, what)));
    errors
}

/// Adds positions to names below DNAME records: those of their first records.
fn locate_hidden(file: &Path, zone: &Zone, hidden: &[HiddenName]) -> Vec<Error> {
    let mut left: HashMap<&[u8], &HiddenName> =
        hidden.iter().map(|hidden| (&*hidden.name, hidden)).collect();
    let mut errors = Vec::new();
    let _ = zonefile::read(file, zone.origin(), &mut |record| {
        let owner = zone.relative(record.owner).unwrap_or_default();
        if let Some(hidden) = left.remove(&*owner) {
            let ZoneProblem { rule, what, .. } = hidden.problem(zone, None);
            errors.push(error(record.place, rule, what));
        }
        Ok(())
    });
    let whole = SourcePosition { file, line: 0, column: 0 };
    errors.extend(left.into_values().map(|hidden| {
        let ZoneProblem { rule, what, .. } = hidden.problem(zone, None);
        error(whole, rule, what)
    }));
    errors
}

/// A problem with its position and how to fix it. A problem without a record is about a missing
/// one.
fn error(place: SourcePosition<'_>, rule: BrokenRule, what: String) -> Error {
    let missing = place.line == 0;
    let help = match rule {
        BrokenRule::SOA if missing => "a zone begins with `@ SOA ns hostmaster 1 2h 1h 2w 5m`",
        BrokenRule::SOA => "a zone has one, at its apex `@`: remove the others",
        BrokenRule::NS => "name the servers of the zone: `@ NS ns`",
        BrokenRule::CNAME_ALONE => {
            "an alias has no other records: write A and AAAA records instead of it"
        }
        BrokenRule::SINGLE => "keep one of them",
        BrokenRule::TTL_DIFFERS => "give all records of a name and type the same TTL",
        BrokenRule::NSEC3 => "re-sign the zone with 0 iterations",
        BrokenRule::BELOW_DNAME => "move it elsewhere, or remove the DNAME record",
        BrokenRule::LIMIT => "spread the records over several names",
        _ => return Error::new(place, rule, what),
    };
    Error::new(place, rule, what).with_help(help)
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_support::folder::Folder;
    use wire::{NameBuf, Rtype};

    const HEAD: &str = "$TTL 60\n@ SOA ns root 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\n";

    /// Loads the text as `example.org`. Errors are without the file.
    fn load_text(test: &str, text: &str, old: Option<&Zone>) -> Result<Zone, String> {
        load_with_summary(test, text, old).map(|(zone, _)| zone)
    }

    fn load_with_summary(
        test: &str,
        text: &str,
        old: Option<&Zone>,
    ) -> Result<(Zone, LoadSummary), String> {
        let folder = Folder::new(test);
        let file = folder.join("zone");
        std::fs::write(&file, text).expect("a file");
        let origin = NameBuf::from_text(b"example.org.", Name::ROOT).expect("a name");
        let key = Arc::new(HashKey::new(std::array::from_fn(|word| word as u64 * 7 + 1)));
        load(&file, origin.as_name(), &key, old)
            .map_err(|failure| failure.to_string().replace(&file.display().to_string(), ""))
    }

    #[test]
    fn a_zone_is_loaded() {
        let zone = load_text("good", HEAD, None).expect("a zone");
        assert_eq!((zone.serial(), zone.count()), (Some(1), (2, 3)));
        let name = NameBuf::from_text(b"ns.example.org.", Name::ROOT).expect("a name");
        assert!(zone.set(name.as_name(), Rtype::A).is_some());
    }

    #[test]
    fn a_set_with_two_ttls_is_a_warning_at_the_record_that_differs() {
        let sets = "www 300 A 192.0.2.9\nwww 300 A 192.0.2.8\nwww 60 A 192.0.2.7\n\
                    www 5 AAAA 2001:db8::1\n\
                    a 60 RRSIG A 8 3 60 20300101000000 20200101000000 1 example.org. AA==\n\
                    a 90 RRSIG NS 8 3 90 20300101000000 20200101000000 1 example.org. AA==\n";
        let loaded = load_with_summary("ttls", &format!("{HEAD}{sets}"), None);
        let (zone, summary) = loaded.expect("a zone");
        let messages: Vec<_> = summary.warnings.iter().map(|warning| warning.to_string()).collect();
        let expected = ":7:1: www.example.org.: this A record has a TTL of 60, an earlier one \
                        300; the set is served with 60 (give all records of a name and type the \
                        same TTL)";
        assert!(messages.len() == 1 && messages[0].ends_with(expected), "{messages:?}");
        assert_eq!(summary.warnings[0].rule, BrokenRule::TTL_DIFFERS);
        let name = NameBuf::from_text(b"www.example.org.", Name::ROOT).expect("a name");
        assert_eq!(zone.set(name.as_name(), Rtype::A).map(|set| set.ttl()), Some(60));
    }

    #[test]
    fn record_below_a_dname_is_refused_at_its_line() {
        let text = format!("{HEAD}d DNAME x.test.\nxd A 192.0.2.2\na.d A 192.0.2.2\n");
        let messages = load_text("dname", &text, None).map(drop).expect_err("it is hidden");
        let expected = ":7:1: a.d.example.org.: it is below d.example.org., whose DNAME record \
                        answers for it (move it elsewhere, or remove the DNAME record)";
        assert_eq!(messages, expected);
    }

    /// Loads the text as `example.org` with a view of it. Errors are without the files.
    fn load_view_text(test: &str, text: &str, view: &str) -> Result<Zone, String> {
        let file = |part: &str, text: &str| {
            let file = std::env::temp_dir().join(format!("{part}-{test}-{}", std::process::id()));
            std::fs::write(&file, text).expect("a file");
            file
        };
        let (file, of_view) = (file("base", text), file("view", view));
        let origin = NameBuf::from_text(b"example.org.", Name::ROOT).expect("a name");
        let key = Arc::new(HashKey::new(std::array::from_fn(|word| word as u64 * 7 + 1)));
        let views = vec![ViewFile { view: compile::View(1), file: of_view.clone() }];
        let zone = ZoneFile { origin, file, views };
        let loaded = load_with_views(&zone, &key, None);
        for file in [&zone.file, &of_view] {
            std::fs::remove_file(file).expect("the file goes");
        }
        let told = |failure: LoadFailure| {
            failure.to_string().replace(&of_view.display().to_string(), "VIEW")
        };
        loaded.map(|(zone, _)| zone).map_err(told)
    }

    #[test]
    fn errors_of_a_view_have_their_place_in_its_file() {
        let zone = format!("{HEAD}www A 192.0.2.2\nalias CNAME ns\nd DNAME x.test.\n");
        for (test, view, expected) in [
            ("good", "www 60 AAAA 2001:db8::1\nalias 60 CNAME www\nnew.ent 60 A 192.0.2.9\n", ""),
            ("cname", "\nwww 60 CNAME ns\n", "VIEW:2:1: www.example.org.: a CNAME record beside"),
            ("address", "alias 60 A 192.0.2.1\n", "VIEW:1:1: alias.example.org.: a CNAME record"),
            ("soa", "@ 60 SOA ns root 1 2 3 4 5\n", "VIEW:1:1: example.org.: a view has no SOA"),
            ("hidden", "a.d 60 A 192.0.2.1\n", "VIEW:1:1: a.d.example.org.: it is below d.exam"),
            ("hides", "www 60 DNAME x.test.\na.www 60 A 192.0.2.1\n", "VIEW: www.example.org.: it"),
            ("syntax", "www 60 A 192.0.2\n", "VIEW:1:10: "),
        ] {
            let told = load_view_text(test, &zone, view).map(drop).err().unwrap_or_default();
            assert!(told.starts_with(expected) && told.is_empty() == expected.is_empty(), "{told}");
        }
    }

    #[test]
    fn compiler_errors_have_their_position() {
        let text = format!("{HEAD}www CNAME ns\n\nwww A 192.0.2.2\n");
        let messages = load_text("alias", &text, None).map(drop).expect_err("a CNAME and an A");
        assert!(
            messages.starts_with(":7:1: www.example.org.: a CNAME record beside"),
            "{messages}"
        );

        let messages =
            load_text("apex", "ns 60 A 192.0.2.1\n", None).map(drop).expect_err("no SOA");
        assert!(messages.contains(": the zone example.org. has no SOA"), "{messages}");
    }
}
