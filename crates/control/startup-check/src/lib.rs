//! Faults of a config that depend on this machine, and that would only show at the start or later.
#![forbid(unsafe_code)]

use admin::Endpoint;
use config::{Admin, Config, Diagnostic, Etcd, StoreKind, holds, trust};
use data_plane::{check_dpdk, check_placement};
use listen::{Certificates, Protocol, Tls};
use process::Identity;
use rustix::fs::{Access, access};
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::Path;
use upstream::QueryTransport;

/// The fault of a config on this machine.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct StartupReport {
    /// What stops the start, or makes it useless.
    pub errors: Vec<Diagnostic>,
    /// What the server cannot do once it runs.
    pub warnings: Vec<Diagnostic>,
}

/// Checks what the start needs: CPUs, DPDK, addresses, the user, the files that `[api.tls]`,
/// `[transfer.tls]` and `[etcd]` name, the admin socket, the file of the query log, and that the
/// server's user can read what it has to. Changes nothing.
pub fn check_startup(config: &Config) -> StartupReport {
    let file = config.file.as_deref().unwrap_or(Path::new("dunlin.toml"));
    let mut messages = Vec::new();
    let (user, group) = (&config.server.user, &config.server.group);
    messages.extend(Identity::check(user, group).err().map(|error| error.to_string()));
    messages.extend(check_placement(config).err().map(|error| error.to_string()));
    messages.extend(check_dpdk(config));
    messages.extend(shared_ports(config));
    messages.extend(own_rules(config));
    if let Some(path) =
        config.admin.socket.as_deref().filter(|path| *path != Path::new(Admin::SOCKET))
    {
        messages.extend(Endpoint::check(path).err().map(|error| error.to_string()));
    }
    for (section, protocol, certificates) in certificates(config) {
        let opened = Tls::open(section, protocol, certificates.clone());
        messages.extend(opened.err().map(|why| format!("[{section}] {why}")));
    }
    if let Some(log) = &config.log.queries.file {
        messages.extend(unopenable(log).map(|why| format!("[log.queries] file: {why}")));
    }
    let mut report = StartupReport::default();
    report.errors.extend(messages.into_iter().map(|message| Diagnostic::of_file(file, message)));
    if config.store.kind == StoreKind::Etcd {
        report.errors.extend(of_etcd(&config.etcd, file));
    }
    let keys = config.secondaries.iter().filter_map(|zone| zone.key_file.as_deref());
    let faults = keys.filter_map(|key| source_transfer::read_key(key).err());
    report.errors.extend(faults.map(|why| Diagnostic::of_file(file, why)));
    let (errors, warnings) = announcer::check(config, file);
    report.errors.extend(errors);
    report.warnings.extend(warnings);
    if let Ok(Some(identity)) = Identity::of_config(user, group) {
        let unreadable = identity.run_as(|| unreadable(config));
        let (errors, warnings) = unreadable.unwrap_or_default();
        report.errors.extend(errors);
        report.warnings.extend(warnings);
    }
    report
}

/// The certificates that this server shows, by the section that names them.
fn certificates(config: &Config) -> impl Iterator<Item = (&'static str, Protocol, &Certificates)> {
    let of_api = config.api.tls.iter().map(|files| ("api.tls", Protocol::Http, files));
    let of_transfers =
        config.transfer.tls.iter().map(|files| ("transfer.tls", Protocol::Transfer, files));
    of_api.chain(of_transfers)
}

/// Listeners of which one takes the TCP port of another one.
fn shared_ports(config: &Config) -> Vec<String> {
    let others = [("[ops] listen", config.ops.listen), ("[api] listen", config.api.listen)];
    let transfers = config.transfer.tls_listen.iter();
    let transfers = transfers.map(|address| ("[transfer] tls_listen", Some(*address)));
    let mut listeners: Vec<(&str, SocketAddr)> =
        config.server.listen.iter().map(|address| ("[server] listen", *address)).collect();
    let mut found = Vec::new();
    for (key, address) in
        others.into_iter().chain(transfers).filter_map(|(key, address)| Some((key, address?)))
    {
        let overlaps = |other: &SocketAddr| holds(other, &address) || holds(&address, other);
        if let Some((other, taken)) = listeners.iter().find(|(_, other)| overlaps(other)) {
            found.push(format!("{key}: {other} has {taken} already: choose another port"));
        }
        listeners.push((key, address));
    }
    found
}

/// Forward rules that send queries to this server itself.
fn own_rules(config: &Config) -> Vec<String> {
    let mut found = Vec::new();
    for rule in &config.forwards {
        for server in &rule.servers {
            let at = server.address.at;
            let is_own = |own: &SocketAddr| {
                holds(own, &at) && (own.ip() == at.ip() || is_of_this_machine(at.ip()))
            };
            let is_plain = !matches!(server.address.over, QueryTransport::Tls(_));
            if is_plain && config.server.listen.iter().any(is_own) {
                let suffix = rule.suffix.as_name();
                found.push(format!(
                    "[forward] {suffix}: {server} is this server itself, so that no query is \
                     answered: name another server"
                ));
            }
        }
    }
    found
}

/// Whether packets to this address stay on this machine. The kernel chooses it as their source
/// then; nothing is sent.
fn is_of_this_machine(ip: IpAddr) -> bool {
    let any = match ip {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    let source = || {
        let socket = UdpSocket::bind((any, 0))?;
        socket.connect((ip, 53))?;
        socket.local_addr()
    };
    ip.is_loopback() || source().is_ok_and(|source| source.ip() == ip)
}

/// Files that this thread cannot read: those without which names are not served, and those that
/// are read again only after a change. Missing files are reported by those that load them.
fn unreadable(config: &Config) -> (Vec<Diagnostic>, Vec<Diagnostic>) {
    let user = &config.server.user;
    let find = |key: &str, path: &Path, when: &str| {
        let error = fs::File::open(path).err()?;
        let why = format!("[server] user {user:?} cannot read it{when}: {error}");
        let help = format!(
            "{key} names it: let this user or its group read it, and search the folders above it"
        );
        (error.kind() == io::ErrorKind::PermissionDenied)
            .then(|| Diagnostic { help: Some(help), ..Diagnostic::of_file(path, why) })
    };
    let keys = config.secondaries.iter().filter_map(|zone| zone.key_file.as_deref());
    let keys = keys.map(|file| ("[[zone]] key_file", file));
    let zones = config.zones.iter().map(|zone| ("[[zone]] file", zone.file.as_path())).chain(keys);
    let hosts = config.hosts.files.iter().map(|file| ("[hosts] files", file.as_path()));
    let etcd = &config.etcd;
    let of_etcd = [
        ("[etcd] ca", &etcd.ca),
        ("[etcd] cert", &etcd.cert),
        ("[etcd] key", &etcd.key),
        ("[etcd] password_file", &etcd.password_file),
        ("[kubernetes] kubeconfig", &config.kubernetes.kubeconfig),
    ];
    let of_etcd = of_etcd.into_iter().filter_map(|(key, file)| Some((key, file.as_deref()?)));
    let needed = zones.chain(hosts).chain(of_etcd);
    let errors = needed.filter_map(|(key, path)| find(key, path, "")).collect();
    let tls = certificates(config).flat_map(|(section, _, tls)| {
        let files = [Some(&tls.cert), Some(&tls.key), tls.client_ca.as_ref()];
        let key = if section == "api.tls" { "[api.tls]" } else { "[transfer.tls]" };
        files.into_iter().flatten().map(move |file| (key, file.as_path()))
    });
    let this = config.file.iter().map(|file| ("the command line", file.as_path()));
    let later = tls.chain(this);
    let warnings = later.filter_map(|(key, path)| find(key, path, " again after a change"));
    (errors, warnings.collect())
}

/// The fault of the files of `[etcd]`. The server reads them for each connection, and would
/// try again and again.
fn of_etcd(etcd: &Etcd, config: &Path) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    found.extend(etcd.ca.as_ref().and_then(|ca| trust::read(ca, "[etcd] ca").err()));
    if let (Some(cert), Some(key)) = (&etcd.cert, &etcd.key) {
        let (cert, key) = (cert.clone(), key.clone());
        let opened = Tls::open("etcd", Protocol::Http, Certificates { cert, key, client_ca: None });
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
    fn fault_that_prevents_the_start_is_an_error() {
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
            ("server.workers = \"0,1023\"", "CPU 1023, which this process may not use"),
            (
                "server.listen = [\"127.0.0.1:5300\"]\nops.listen = \"127.0.0.1:5300\"",
                "[ops] listen: [server] listen has 127.0.0.1:5300 already",
            ),
            (
                "server.listen = [\"127.0.0.1:5300\"]\nops.listen = \"0.0.0.0:5300\"",
                "[ops] listen: [server] listen has 127.0.0.1:5300 already",
            ),
            (
                "store.kind = \"redb\"\nops.listen = \"127.0.0.1:9153\"\n\
                 api.listen = \"127.0.0.1:9153\"",
                "[api] listen: [ops] listen has 127.0.0.1:9153 already",
            ),
            (&format!("admin.socket = \"/tmp/{}\"", "0".repeat(100)), "too long"),
            ("admin.socket = \".\"", "is not"),
            ("admin.socket = \"empty.pem\"", "is not a socket"),
            (
                "server.listen = [\"127.0.0.1:5300\"]\n[forward]\n\".\" = [\"127.0.0.1:5300\"]",
                "127.0.0.1:5300 is this server itself",
            ),
            (
                "server.listen = [\"0.0.0.0:5300\"]\n[forward]\n\".\" = [\"tcp://127.0.0.9:5300\"]",
                "is this server itself",
            ),
            (etcd!("https", "ca = \"none.pem\""), "cannot be read"),
            (etcd!("https", "ca = \"empty.pem\""), "holds no certificate"),
            (etcd!("http", "user = \"u\"\npassword_file = \"none\""), "cannot be read"),
            (etcd!("http", "user = \"u\"\npassword_file = \"empty.pem\""), "has no password"),
        ] {
            let config = Config::parse(&folder.join("dunlin.toml"), text).expect(text);
            let found = check_startup(&config);
            let [error] = &found.errors[..] else { panic!("{text}: {found:?}") };
            assert!(error.message.contains(expected), "{text}: {error}");
        }
        for text in [
            "",
            "server.listen = [\"127.0.0.1:5300\"]\nops.listen = \"127.0.0.2:5300\"",
            "server.listen = [\"127.0.0.1:5300\"]\n[forward]\n\".\" = [\"127.0.0.2:5300\"]",
            "server.listen = [\"0.0.0.0:5300\"]\n[forward]\n\".\" = [\"192.0.2.1:5300\"]",
            "[forward]\n\".\" = [\"tls://127.0.0.1:53#a.test\"]",
        ] {
            let config = Config::parse(&folder.join("dunlin.toml"), text).expect(text);
            assert_eq!(check_startup(&config), StartupReport::default(), "{text}");
        }
        let config = Config::parse(&folder.join("dunlin.toml"), "").expect("defaults");
        assert_eq!(check_startup(&config), StartupReport::default());
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}
