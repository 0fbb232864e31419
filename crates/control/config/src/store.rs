//! `[store]` and `[etcd]`: the storage of records that are written over the API.
use super::section::Section;
use super::values::{self, Wrong};
use super::zone;
use crate::limits::{ETCD_ENDPOINTS_MAX, TEXT_LEN_MAX, VIEWS_MAX};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use toml::de::DeValue;

/// `[store]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Store {
    /// The kind of storage.
    pub kind: StoreKind,
    /// The views that its zones may have.
    pub views: Vec<String>,
}

/// The kind of storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreKind {
    /// None: all zones come from files.
    None,
    /// Files in `[server] data_dir`.
    Redb,
    /// etcd, with a copy in `[server] data_dir`.
    Etcd,
}

/// `[etcd]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Etcd {
    /// The URLs of its members.
    pub endpoints: Vec<String>,
    /// The prefix of all keys.
    pub prefix: String,
    /// The CA of the members' certificates.
    pub ca: Option<PathBuf>,
    /// The certificate of this server, and its key.
    pub cert: Option<PathBuf>,
    /// Its key.
    pub key: Option<PathBuf>,
    /// The user; empty: none.
    pub user: String,
    /// The file with the user's password.
    pub password_file: Option<PathBuf>,
}

impl Store {
    pub(super) fn read(mut section: Section<'_, '_>, has_data_dir: bool) -> Self {
        let kinds =
            [("none", StoreKind::None), ("redb", StoreKind::Redb), ("etcd", StoreKind::Etcd)];
        let kind = section.read("kind", StoreKind::None, values::word(kinds));
        if kind != StoreKind::None && !has_data_dir {
            let what = "needs a folder to keep records in";
            section.wrong("kind", what, "name one as [server] data_dir");
        }
        let views = section.list("views", Vec::new(), VIEWS_MAX, zone::view);
        let views: BTreeSet<String> = views.into_iter().flatten().collect();
        if !views.is_empty() && kind == StoreKind::None {
            section.wrong("views", "are of zones in a store", "name a `kind` of store");
        }
        section.close();
        Self { kind, views: views.into_iter().collect() }
    }
}

impl Etcd {
    pub(super) fn read(mut section: Section<'_, '_>, config: &Path, store: StoreKind) -> Self {
        let etcd = Self::read_keys(&mut section, config);
        match store {
            StoreKind::Etcd if etcd.endpoints.is_empty() => section.missing("endpoints"),
            StoreKind::Etcd => etcd.check(&mut section),
            _ => (),
        }
        section.close();
        etcd
    }

    /// The keys of an etcd, of this site or of another one.
    pub(super) fn read_keys(section: &mut Section<'_, '_>, config: &Path) -> Self {
        let folder = config.parent().unwrap_or(Path::new(""));
        let file = |section: &mut Section<'_, '_>, key| {
            let read = section.read(key, None, |value| match value.as_str() {
                Some("") => Ok(None),
                _ => values::file(value).map(Some),
            });
            read.map(|file| folder.join(file))
        };
        Self {
            endpoints: section.list("endpoints", Vec::new(), ETCD_ENDPOINTS_MAX, endpoint),
            prefix: section.read("prefix", "/dunlin/".to_owned(), prefix),
            ca: file(section, "ca"),
            cert: file(section, "cert"),
            key: file(section, "key"),
            user: section.read("user", String::new(), values::text(TEXT_LEN_MAX)),
            password_file: file(section, "password_file"),
        }
    }

    /// Whether its keys go together.
    pub(super) fn check(&self, section: &mut Section<'_, '_>) {
        if self.cert.is_some() != self.key.is_some() {
            let there = if self.cert.is_some() { "cert" } else { "key" };
            section.wrong(there, "is not enough", "name both `cert` and `key`");
        }
        if self.user.is_empty() == self.password_file.is_some() {
            let there = if self.user.is_empty() { "password_file" } else { "user" };
            section.wrong(there, "is not enough", "name both `user` and `password_file`");
        }
        let is_tls = |url: &String| url.starts_with("https://");
        let has_files = self.ca.is_some() || self.cert.is_some();
        if has_files && !self.endpoints.iter().all(is_tls) {
            let help = "write https:// in all of them, or leave out `ca`, `cert` and `key`";
            section.wrong("endpoints", "are not all of TLS, and certificates are named", help);
        } else if self.ca.is_none() && self.endpoints.iter().any(is_tls) {
            let help = "name the CA of the members' certificates as `ca`";
            section.wrong("endpoints", "need a CA", help);
        }
    }
}

/// The URL of a member: scheme, host and port only.
fn endpoint(value: &DeValue<'_>) -> Result<String, Wrong> {
    let url = values::text(TEXT_LEN_MAX)(value)?;
    let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
    let has_port = |rest: &str| {
        let port = rest.rsplit_once(':').map(|(host, port)| (host, port.parse::<u16>()));
        matches!(port, Some((host, Ok(1..))) if !host.is_empty() && !host.contains(['/', '@', '?']))
    };
    if rest.is_some_and(has_port) {
        return Ok(url);
    }
    values::expected("a URL of an etcd member, such as \"https://etcd-1.example:2379\"", value)
}

/// A prefix that begins and ends with a slash.
fn prefix(value: &DeValue<'_>) -> Result<String, Wrong> {
    let text = values::text(TEXT_LEN_MAX)(value)?;
    let is_valid = text.len() > 2
        && text.starts_with('/')
        && text.ends_with('/')
        && !text.contains("//")
        && text.bytes().all(|byte| byte.is_ascii_graphic());
    if is_valid {
        return Ok(text);
    }
    values::expected("a prefix that begins and ends with a slash, such as \"/dunlin/\"", value)
}

#[cfg(test)]
mod tests {
    use crate::Config;
    use std::path::Path;

    fn errors(etcd: &str) -> String {
        let text = format!("server.data_dir = \"d\"\nstore.kind = \"etcd\"\n[etcd]\n{etcd}");
        match Config::parse(Path::new("f"), &text) {
            Ok(_) => String::new(),
            Err(found) => found.iter().map(|found| format!("{found}\n")).collect(),
        }
    }

    #[test]
    fn etcd_needs_endpoints_and_whole_credentials() {
        let http = "endpoints = [\"http://127.0.0.1:2379\"]\n";
        let https = "endpoints = [\"https://[::1]:2379\"]\nca = \"ca.pem\"\n";
        assert_eq!(errors(http), "");
        assert_eq!(errors(&format!("{https}cert = \"c\"\nkey = \"k\"")), "");
        assert_eq!(errors(&format!("{http}user = \"dns\"\npassword_file = \"p\"")), "");
        for (text, wanted) in [
            (String::new(), "needs the key `endpoints`"),
            ("endpoints = [\"127.0.0.1:2379\"]".to_owned(), "a URL of an etcd member"),
            ("endpoints = [\"http://a:2379/x\"]".to_owned(), "a URL of an etcd member"),
            ("endpoints = [\"http://a:0\"]".to_owned(), "a URL of an etcd member"),
            ("endpoints = [\"https://a:1\"]".to_owned(), "need a CA"),
            (format!("{http}ca = \"a\""), "are not all of TLS"),
            (format!("{https}cert = \"c\""), "name both `cert` and `key`"),
            (format!("{http}user = \"dns\""), "name both `user` and `password_file`"),
            (format!("{http}prefix = \"dunlin\""), "begins and ends with a slash"),
            (format!("{http}prefix = \"/\""), "begins and ends with a slash"),
        ] {
            let found = errors(&text);
            assert!(found.contains(wanted), "{text}: {found}");
        }
    }
}
