//! `[hosts]`: names and addresses from files that other programs know too.
use super::section::Section;
use super::{units, values};
use crate::limits::{HOSTS_FILES_MAX, HOSTS_TTL};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// `[hosts]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hosts {
    /// The files, the first before the others; relative paths are taken from where the config lies.
    pub files: Vec<PathBuf>,
    /// How long what they say may be kept.
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
            section.wrong("files", "names a file twice", "take one of them out");
        }
        section.close();
        hosts
    }
}
