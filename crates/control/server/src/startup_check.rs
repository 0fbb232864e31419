//! Errors of a config that depend on this machine, and that would only show at the start.
use crate::privileges::Identity;
use api::{Certificates, Tls};
use config::{Config, Diagnostic, Etcd, StoreKind, trust};
use rustix::fs::{Access, access};
use std::fs;
use std::path::Path;

/// Checks the user, the files that `[api.tls]` and `[etcd]` name, and the file of the query log,
/// without changing anything.
pub fn check_startup(config: &Config) -> Vec<Diagnostic> {
    let file = config.file.as_deref().unwrap_or(Path::new("dunlin.toml"));
    let mut messages = Vec::new();
    let (user, group) = (&config.server.user, &config.server.group);
    messages.extend(Identity::check(user, group).err().map(|error| error.to_string()));
    if let Some(certificates) = &config.api.tls {
        let opened = Tls::open(certificates.clone());
        messages.extend(opened.err().map(|why| format!("[api.tls] {why}")));
    }
    if let Some(log) = &config.log.queries.file {
        messages.extend(unopenable(log).map(|why| format!("[log.queries] file: {why}")));
    }
    let mut found: Vec<_> =
        messages.into_iter().map(|message| Diagnostic::of_file(file, message)).collect();
    if config.store.kind == StoreKind::Etcd {
        found.extend(of_etcd(&config.etcd, file));
    }
    found
}

/// What is wrong with the files of `[etcd]`. The server reads them for each connection, and would
/// try again and again.
fn of_etcd(etcd: &Etcd, config: &Path) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    found.extend(etcd.ca.as_ref().and_then(|ca| trust::read(ca, "[etcd] ca").err()));
    if let (Some(cert), Some(key)) = (&etcd.cert, &etcd.key) {
        let (cert, key) = (cert.clone(), key.clone());
        let opened = Tls::open(Certificates { cert, key, client_ca: None });
        found.extend(opened.err().map(|why| Diagnostic::of_file(config, format!("[etcd] {why}"))));
    }
    if let Some(file) = &etcd.password_file {
        let message = match fs::read(file) {
            Err(why) => Some(format!("cannot be read: {why}")),
            Ok(text) if text.trim_ascii().is_empty() => Some("has no password".to_owned()),
            Ok(_) => None,
        };
        found.extend(message.map(|message| Diagnostic {
            help: Some("[etcd] password_file names it".into()),
            ..Diagnostic::of_file(file, message)
        }));
    }
    found
}

/// Why a file cannot be opened for appending.
fn unopenable(file: &Path) -> Option<String> {
    let (tested, what) = match file.symlink_metadata() {
        Ok(found) if found.is_dir() => return Some(format!("{} is a folder", file.display())),
        Ok(_) => (file, "cannot be written"),
        Err(_) => (file.parent()?, "cannot be created: its folder"),
    };
    let error = access(tested, Access::WRITE_OK).err()?;
    Some(format!("{} {what}: {error}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    macro_rules! etcd {
        ($scheme:literal, $keys:literal) => {
            concat!(
                "server.data_dir = \"d\"\nstore.kind = \"etcd\"\n[etcd]\nendpoints = [\"",
                $scheme,
                "://127.0.0.1:2379\"]\n",
                $keys
            )
        };
    }

    #[test]
    fn what_stops_the_start_is_an_error() {
        let folder = std::env::temp_dir().join(format!("dunlin-startup-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::write(folder.join("empty.pem"), "").expect("a file");
        for (text, expected) in [
            ("server.user = \"no-such-user\"", "there is no user \"no-such-user\""),
            ("server.user = \"root\"\nserver.group = \"no-such\"", "no group \"no-such\""),
            ("server.group = \"root\"", "needs [server] user"),
            ("log.queries = { sample = 1, file = \"missing/q.log\" }", "cannot be created"),
            ("log.queries = { sample = 1, file = \".\" }", "is a folder"),
            (
                "[store]\nkind = \"redb\"\n[api]\nlisten = \"127.0.0.1:0\"\n\
                 tls = { cert = \"empty.pem\", key = \"none.pem\" }",
                "empty.pem",
            ),
            (etcd!("https", "ca = \"none.pem\""), "cannot be read"),
            (etcd!("https", "ca = \"empty.pem\""), "holds no certificate"),
            (etcd!("http", "user = \"u\"\npassword_file = \"none\""), "cannot be read"),
            (etcd!("http", "user = \"u\"\npassword_file = \"empty.pem\""), "has no password"),
        ] {
            let config = Config::parse(&folder.join("dunlin.toml"), text).expect(text);
            let found = check_startup(&config);
            let [error] = &found[..] else { panic!("{text}: {found:?}") };
            assert!(error.message.contains(expected), "{text}: {error}");
        }
        let config = Config::parse(&folder.join("dunlin.toml"), "").expect("defaults");
        assert_eq!(check_startup(&config), []);
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}
