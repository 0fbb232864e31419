//! Upstreams from files such as `/etc/resolv.conf` (resolv.conf(5)).
use crate::limits::RESOLV_CONF_LEN_MAX;
use config::{FileWatch, Forward, ServerAddress, holds, read_nameservers};
use std::fs::File;
use std::io::{self, Read};
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};

/// The files that rules name, and the servers in them.
#[derive(Clone, Debug, Default)]
pub struct ServerFiles {
    files: Vec<ServerFile>,
    /// The addresses that this server answers on.
    own: Vec<SocketAddr>,
}

/// A file with servers.
#[derive(Clone, Debug)]
struct ServerFile {
    path: PathBuf,
    watch: FileWatch,
    /// Those of the last good file.
    servers: Vec<ServerAddress>,
    /// Why the file is not used as it is now.
    fault: Option<String>,
}

impl ServerFiles {
    /// No file is read yet; this server answers on these addresses.
    pub fn new(own: Vec<SocketAddr>) -> Self {
        Self { files: Vec::new(), own }
    }

    /// The rules with the servers of their files, which are read again.
    pub fn resolve(&mut self, rules: &[Forward]) -> Vec<Forward> {
        let paths = rules.iter().filter_map(|rule| rule.file.as_ref());
        self.files.retain(|file| paths.clone().any(|path| *path == file.path));
        for path in paths {
            if self.files.iter().all(|file| file.path != *path) {
                self.files.push(ServerFile::new(path));
            }
        }
        self.files.iter_mut().for_each(|file| file.read(&self.own));
        let servers = |path: &Path| {
            let file = self.files.iter().find(|file| file.path == path);
            file.map(|file| file.servers.clone()).unwrap_or_default()
        };
        let with_servers = |rule: &Forward| match &rule.file {
            Some(path) => Forward { servers: servers(path), ..rule.clone() },
            None => rule.clone(),
        };
        rules.iter().map(with_servers).collect()
    }

    /// Whether a file has changed since it was read.
    pub fn have_changed(&mut self) -> bool {
        // Each is read, also after one that has.
        self.files.iter_mut().filter_map(|file| file.watch.has_changed().then_some(())).count() > 0
    }

    /// Why a file is not used as it is.
    pub fn fault(&self) -> Option<String> {
        self.files.iter().find_map(|file| file.fault.clone())
    }
}

impl ServerFile {
    fn new(path: &Path) -> Self {
        let watch = FileWatch::new(path.to_owned());
        Self { path: path.to_owned(), watch, servers: Vec::new(), fault: None }
    }

    /// Reads the file; what cannot be used leaves the servers from before.
    fn read(&mut self, own: &[SocketAddr]) {
        self.watch.note_read();
        let before = self.fault.take();
        match read(&self.path, own) {
            Ok(servers) => {
                if before.is_some() || servers != self.servers {
                    let names: Vec<_> = servers.iter().map(ToString::to_string).collect();
                    let file = self.path.display();
                    tracing::info!(%file, servers = names.join(" "), "upstreams read");
                }
                self.servers = servers;
            }
            Err(why) => {
                let outcome = match self.servers.is_empty() {
                    true => "its names are answered with SERVFAIL until it does",
                    false => "the previous servers stay in use",
                };
                let fault = format!("[forward] {}: {why}; {outcome}", self.path.display());
                if before.as_ref() != Some(&fault) {
                    tracing::error!("{fault}");
                }
                self.fault = Some(fault);
            }
        }
    }
}

/// The servers of a file, except this one.
fn read(path: &Path, own: &[SocketAddr]) -> Result<Vec<ServerAddress>, String> {
    let text = read_text(path).map_err(|error| format!("cannot be read: {error}"))?;
    let all = read_nameservers(&text);
    if all.is_empty() {
        return Err("names no server (a line such as `nameserver 192.0.2.1`)".to_owned());
    }
    let servers: Vec<_> =
        all.into_iter().filter(|server| !is_own(server.address.at, own)).collect();
    match servers.is_empty() {
        true => Err("names only this server, which would be a loop".to_owned()),
        false => Ok(servers),
    }
}

fn read_text(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(RESOLV_CONF_LEN_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > RESOLV_CONF_LEN_MAX {
        return Err(io::Error::other(format!("it is longer than {RESOLV_CONF_LEN_MAX} bytes")));
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Whether this server answers on an address.
fn is_own(at: SocketAddr, own: &[SocketAddr]) -> bool {
    own.iter().any(|own| holds(own, &at) && (own.ip() == at.ip() || is_local(at)))
}

/// Whether the address is one of this machine: only then can a socket have it.
fn is_local(at: SocketAddr) -> bool {
    UdpSocket::bind((at.ip(), 0)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::Config;
    use std::fs;

    fn names(rules: &[Forward]) -> Vec<String> {
        rules[0].servers.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn bad_file_keeps_the_servers_of_before_and_is_a_fault() {
        let file = std::env::temp_dir().join(format!("dunlin-servers-{}", std::process::id()));
        let text = format!("forward.\".\" = {:?}", file.display().to_string());
        let rules = Config::parse(Path::new("f"), &text).expect("a config").forwards;
        let mut files = ServerFiles::new(vec!["127.0.0.1:53".parse().expect("an address")]);
        let _ = fs::remove_file(&file);
        assert!(files.resolve(&rules)[0].servers.is_empty());
        assert!(files.fault().expect("a fault").contains("SERVFAIL"));
        let good = "search example.\nnameserver 127.0.0.1\noptions ndots:5\nnameserver 192.0.2.7\n";
        fs::write(&file, good).expect("a file");
        assert_eq!(names(&files.resolve(&rules)), ["192.0.2.7"]);
        assert_eq!(files.fault(), None);
        for bad in ["", "nameserver x\n", "nameserver 127.0.0.1\n", "\0\u{fffd}"] {
            fs::write(&file, bad).expect("a file");
            assert_eq!(names(&files.resolve(&rules)), ["192.0.2.7"], "{bad:?}");
            assert!(files.fault().expect("a fault").contains("stay in use"), "{bad:?}");
        }
        fs::write(&file, "nameserver 192.0.2.8\n").expect("a file");
        assert!(!files.have_changed() && files.have_changed());
        assert_eq!(names(&files.resolve(&rules)), ["192.0.2.8"]);
        assert!(!files.have_changed() && files.fault().is_none());
        fs::remove_file(&file).expect("removed");
    }

    #[test]
    fn addresses_of_this_server_are_left_out() {
        let at = |text: &str| text.parse::<SocketAddr>().expect("an address");
        assert!(is_own(at("127.0.0.1:53"), &[at("0.0.0.0:53")]));
        assert!(is_own(at("192.0.2.1:53"), &[at("192.0.2.1:53")]));
        assert!(!is_own(at("127.0.0.1:53"), &[at("0.0.0.0:5300")]), "another server has that port");
        assert!(!is_own(at("192.0.2.1:53"), &[at("0.0.0.0:53"), at("[::]:53")]));
    }
}
