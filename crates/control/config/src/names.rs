//! `[hosts]`: names and addresses from hosts files. `[[rewrite]]`: rewrite rules.
use super::section::Section;
use super::{units, values};
use crate::limits::{HOSTS_FILES_MAX, HOSTS_TTL, REWRITES_MAX};
use image::{RewriteRule, Rewrites};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// `[hosts]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hosts {
    /// The files, by precedence; relative paths start at the config's folder.
    pub files: Vec<PathBuf>,
    /// The TTL of their names.
    pub ttl: Duration,
}

impl Hosts {
    pub(super) fn read(mut section: Section<'_, '_>, config: &Path) -> Self {
        let folder = config.parent().unwrap_or(Path::new(""));
        let hosts = Self {
            files: section.list("files", Vec::new(), HOSTS_FILES_MAX, |value| {
                values::file(value).map(|file| folder.join(file))
            }),
            ttl: section.read("ttl", Duration::from_secs(60), units::duration(HOSTS_TTL)),
        };
        let is_twice = |(at, file): (usize, &PathBuf)| hosts.files[..at].contains(file);
        if hosts.files.iter().enumerate().any(is_twice) {
            section.wrong("files", "names a file twice", "remove one of them");
        }
        section.close();
        hosts
    }
}

/// The names of earlier rules, whether each is for the name alone, and its offset.
type Seen = HashMap<(Vec<u8>, bool), usize>;

/// Reads all `[[rewrite]]`.
pub(super) fn read_rewrites(root: &mut Section<'_, '_>) -> Vec<RewriteRule> {
    let (mut rewrites, mut seen) = (Vec::new(), Seen::new());
    root.sections("rewrite", "[[rewrite]]", REWRITES_MAX, |section| {
        rewrites.extend(read_rewrite(section, &mut seen));
    });
    Rewrites::sort(&mut rewrites);
    rewrites
}

/// Reads one `[[rewrite]]`.
fn read_rewrite(mut section: Section<'_, '_>, seen: &mut Seen) -> Option<RewriteRule> {
    let exact = match (section.has("exact"), section.has("suffix")) {
        (true, true) => {
            section.wrong("suffix", "stands beside `exact`", "make two rules of them");
            true
        }
        (true, false) => true,
        (false, true) => false,
        (false, false) => {
            section.missing("exact` or `suffix");
            section.know(&["exact", "suffix", "to"]);
            section.close();
            return None;
        }
    };
    section.know(&["exact", "suffix"]);
    let from = section.require(if exact { "exact" } else { "suffix" }, values::zone_name);
    let to = section.require("to", values::zone_name);
    if let Some(from) = &from {
        let key = (from.get_ref().as_name().as_bytes().to_vec(), exact);
        if let Some(first) = seen.insert(key, from.span().start) {
            section.twice("this name", first, from.span().start);
        }
    }
    if let (Some(from), Some(to)) = (&from, &to)
        && from.get_ref().as_name() == to.get_ref().as_name()
    {
        section.wrong("to", "is the same name", "name another, or take the rule out");
    }
    section.close();
    Some(RewriteRule { from: from?.into_inner(), to: to?.into_inner(), exact })
}
