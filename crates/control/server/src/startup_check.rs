//! Errors of a config that depend on this machine, and that would only show at the start.
use crate::privileges::Identity;
use api::Tls;
use config::{Config, Diagnostic};
use rustix::fs::{Access, access};
use std::path::Path;

/// Checks the user, the certificates of the API and the file of the query log, without changing
/// anything.
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
    messages.into_iter().map(|message| Diagnostic::of_file(file, message)).collect()
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
