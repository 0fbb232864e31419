//! Reads `dunlin.toml`: every key, its default, and errors with their place.
#![forbid(unsafe_code)]

mod anycast;
mod change;
mod diagnostic;
mod dpdk;
mod feature;
mod file_watch;
mod forward;
mod geo;
mod health;
mod kubernetes;
pub mod limits;
mod names;
mod network;
mod operate;
mod resolv_conf;
mod roles;
mod secondary;
mod section;
mod server;
mod site;
mod store;
mod transfer;
pub mod trust;
mod units;
mod upstream;
mod values;
mod xdp;
mod zone;

pub use anycast::Anycast;
pub use dpdk::{Dpdk, PollSleep};
pub use feature::{FEATURE_HELP, Feature};
pub use file_watch::FileWatch;
pub use forward::{Cache, Forward, Mode};
pub use geo::{GeoNetworks, GeoRanges, GeoTable};
pub use health::{Health, read_check_keys};
pub use kubernetes::{
    Compat, Kubernetes, LabelCondition, ObjectRecords, PodNames, RecordKind, RecordZone,
    SharedAddresses, SharedZone,
};
pub use names::Hosts;
pub use network::{DenyAnswer, Ecs, Network, NetworkNames, PodSelector};
pub use operate::{
    Acl, Admin, Api, Denied, Dnstap, Limits, Ops, Proxy, Queries, Rate, Streams, UpdateWait,
};
pub use resolv_conf::read_nameservers;
pub use roles::Roles;
pub use secondary::Secondary;
pub use server::{Cookies, PortKind, Server, Steering, Workers, holds};
pub use site::Site;
pub use store::{Etcd, Store, StoreKind};
pub use transfer::{NotifyServer, Transfer};
pub use upstream::{ServerAddress, Upstream};
pub use xdp::{Queues, Xdp};
pub use zone::{Zone, ZoneCheck, ZoneView};

use crate::limits::CONFIG_LEN_MAX;
pub use diagnostic::Diagnostic;
use health::KnownChecks;
use image::RewriteRule;
use listen::Certificates;
use section::{Problems, Section};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use toml::de::DeTable;
use values::Wrong;
use zone::ZoneSections;

/// A whole config, with every value validated. The default is that of an empty file.
#[derive(Debug)]
pub struct Config {
    /// The file.
    pub file: Option<PathBuf>,
    /// Section `[server]`.
    pub server: Server,
    /// Section `[xdp]`.
    pub xdp: Xdp,
    /// Section `[dpdk]`.
    pub dpdk: Dpdk,
    /// Section `[acl]`.
    pub acl: Acl,
    /// Section `[limits]`.
    pub limits: Limits,
    /// Section `[streams]`.
    pub streams: Streams,
    /// Section `[proxy]`.
    pub proxy: Proxy,
    /// Section `[anycast]`.
    pub anycast: Anycast,
    /// Section `[ops]`.
    pub ops: Ops,
    /// Section `[api]`.
    pub api: Api,
    /// Section `[transfer]`.
    pub transfer: Transfer,
    /// Section `[admin]`.
    pub admin: Admin,
    /// Section `[log]`.
    pub log: Log,
    /// Section `[dnstap]`.
    pub dnstap: Dnstap,
    /// Section `[forward]`, one rule for each suffix.
    pub forwards: Vec<Forward>,
    /// Section `[upstream]`.
    pub upstream: Upstream,
    /// Section `[cache]`.
    pub cache: Cache,
    /// Section `[hosts]`.
    pub hosts: Hosts,
    /// Section `[kubernetes]`.
    pub kubernetes: Kubernetes,
    /// Sections `[health]` and `[check]`.
    pub health: Health,
    /// Section `[store]`.
    pub store: Store,
    /// Section `[etcd]`.
    pub etcd: Etcd,
    /// In the order that [`image::Rewrites`] needs.
    pub rewrites: Vec<RewriteRule>,
    /// Section `[networks]`, with what its files have.
    pub geo: GeoNetworks,
    /// Section `[ecs]`.
    pub ecs: Ecs,
    /// Sections `[[network]]`.
    pub networks: Vec<Network>,
    /// Sections `[[zone]]` with a file.
    pub zones: Vec<Zone>,
    /// Sections `[zone.check]`.
    pub zone_checks: Vec<ZoneCheck>,
    /// Sections `[[zone]]` with primaries.
    pub secondaries: Vec<Secondary>,
    /// Sections `[[site]]`.
    pub sites: Vec<Site>,
}

/// `[log]`
#[derive(Debug, PartialEq)]
pub struct Log {
    /// The level.
    pub level: Level,
    /// The format of a line.
    pub format: Format,
    /// Levels of single crates.
    pub levels: Vec<(&'static str, Level)>,
    /// The query log.
    pub queries: Queries,
}

/// The least important lines that are logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Failures only.
    Error,
    /// Also lines that need attention.
    Warn,
    /// Also changes.
    Info,
    /// Also details.
    Debug,
}

/// The format of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `key=value` pairs.
    Text,
    /// A JSON object.
    Json,
}

impl Config {
    /// Reads a config file; `None`: every key has its default.
    ///
    /// # Errors
    /// All errors of the file, in order.
    pub fn load(file: Option<&Path>) -> Result<Self, Vec<Diagnostic>> {
        match file {
            None => Self::parse(Path::new(""), ""),
            Some(file) => Self::parse(file, &read_text(file)?),
        }
    }

    /// Parses a config; `file` is for messages and relative paths.
    ///
    /// # Errors
    /// All errors, in order.
    pub fn parse(file: &Path, text: &str) -> Result<Self, Vec<Diagnostic>> {
        Self::parse_with(file, text, Feature::is_built)
    }

    /// Parses a config for a build with some features.
    fn parse_with(
        file: &Path,
        text: &str,
        is_built: impl Fn(Feature) -> bool,
    ) -> Result<Self, Vec<Diagnostic>> {
        let mut problems = Problems::new(file, text);
        let (table, errors) = DeTable::parse_recoverable(text);
        // Keys may be missing from a recovered table, so further errors would be wrong.
        if !errors.is_empty() {
            note_syntax(&errors, &mut problems);
            return Err(problems.finish());
        }
        feature::report_absent(table.get_ref(), is_built, &mut problems);
        let config = Self::read(file, table.get_ref(), &mut problems);
        match problems.finish() {
            found if found.is_empty() => Ok(config),
            found => Err(found),
        }
    }

    fn read<'t>(file: &Path, table: &'t DeTable<'t>, problems: &mut Problems<'t>) -> Self {
        let mut root = Section::root(table, problems);
        let server = Server::read(root.section("server", "[server]"));
        let xdp = Xdp::read(root.section("xdp", "[xdp]"), server.port);
        let dpdk = Dpdk::read(root.section("dpdk", "[dpdk]"), server.port);
        let acl = Acl::read(root.section("acl", "[acl]"));
        let limits = Limits::read(root.section("limits", "[limits]"));
        let streams = Streams::read(root.section("streams", "[streams]"));
        let proxy = Proxy::read(root.section("proxy", "[proxy]"));
        let anycast = Anycast::read(root.section("anycast", "[anycast]"));
        let ops = Ops::read(root.section("ops", "[ops]"));
        let transfer = Transfer::read(root.section("transfer", "[transfer]"));
        let admin = Admin::read(root.section("admin", "[admin]"));
        let log = Log::read(root.section("log", "[log]"));
        let dnstap = Dnstap::read(root.section("dnstap", "[dnstap]"));
        let forwards = Forward::read_all(root.section("forward", "[forward]"));
        let upstream = Upstream::read(root.section("upstream", "[upstream]"));
        let cache = Cache::read(root.section("cache", "[cache]"));
        let hosts = Hosts::read(root.section("hosts", "[hosts]"), file);
        let store = Store::read(root.section("store", "[store]"), server.data_dir.is_some());
        let health = Health::read_all(&mut root, file);
        let etcd = Etcd::read(root.section("etcd", "[etcd]"), file, store.kind);
        let api = Api::read(root.section("api", "[api]"), store.kind);
        let checks = KnownChecks::new(&health, store.kind != StoreKind::None);
        let kubernetes = Kubernetes::read(&mut root, file, &checks, store.kind);
        let rewrites = names::read_rewrites(&mut root);
        let ecs = Ecs::read(root.section("ecs", "[ecs]"));
        let (networks, geo, used) = Network::read_all(&mut root, file, kubernetes.is_wanted());
        let has_data_dir = server.data_dir.is_some();
        let ZoneSections { zones, zone_checks, secondaries } =
            zone::read_all(&mut root, (file, has_data_dir), (&used[..], &store.views[..]), &checks);
        let names = zones.iter().map(|zone| &zone.name);
        let names = names.chain(secondaries.iter().map(|zone| &zone.name));
        let sites = site::read_all(&mut root, file, has_data_dir, (names, &kubernetes));
        root.close();
        let mut config = Self {
            file: (!file.as_os_str().is_empty()).then(|| file.into()),
            server,
            xdp,
            dpdk,
            acl,
            limits,
            streams,
            proxy,
            anycast,
            ops,
            api,
            transfer,
            admin,
            log,
            dnstap,
            forwards,
            upstream,
            cache,
            hosts,
            kubernetes,
            health,
            store,
            etcd,
            rewrites,
            geo,
            ecs,
            networks,
            zones,
            zone_checks,
            secondaries,
            sites,
        };
        config.place(file.parent().unwrap_or(Path::new("")));
        config.leave_roles();
        config
    }

    /// Removes what only parts need that do not run: their sockets are not opened.
    fn leave_roles(&mut self) {
        let roles = self.server.roles;
        if !roles.dns {
            self.server.listen.clear();
            self.server.port = PortKind::Socket;
            self.forwards.clear();
            self.transfer.enabled = false;
        }
        if !roles.api {
            self.api.listen = None;
        }
        // In a fleet, the others follow the server that watches the cluster.
        if !roles.kubernetes && self.store.kind != StoreKind::Etcd {
            self.kubernetes.zones.clear();
            self.kubernetes.multicluster_zones.clear();
        }
    }

    /// Makes relative paths start at the config's folder.
    fn place(&mut self, folder: &Path) {
        let paths = [
            &mut self.server.data_dir,
            &mut self.admin.socket,
            &mut self.log.queries.file,
            &mut self.dnstap.socket,
            &mut self.upstream.ca,
        ];
        for path in paths.into_iter().flatten() {
            *path = folder.join(&*path);
        }
        let certificates = [&mut self.api.tls, &mut self.transfer.tls];
        for Certificates { cert, key, client_ca } in certificates.into_iter().flatten() {
            for path in [cert, key].into_iter().chain(client_ca) {
                *path = folder.join(&*path);
            }
        }
    }
}

/// The local socket that a config names, whatever is wrong with its other sections.
///
/// # Errors
/// The file cannot be read or is not TOML, or the section `[admin]` is wrong.
pub fn admin_socket(file: &Path) -> Result<Option<PathBuf>, Vec<Diagnostic>> {
    let text = read_text(file)?;
    let mut problems = Problems::new(file, &text);
    let (table, errors) = DeTable::parse_recoverable(&text);
    if !errors.is_empty() {
        note_syntax(&errors, &mut problems);
        return Err(problems.finish());
    }
    let admin =
        Admin::read(Section::root(table.get_ref(), &mut problems).section("admin", "[admin]"));
    let folder = file.parent().unwrap_or(Path::new(""));
    match problems.finish() {
        found if found.is_empty() => Ok(admin.socket.map(|path| folder.join(path))),
        found => Err(found),
    }
}

/// The text of a config file.
fn read_text(file: &Path) -> Result<String, Vec<Diagnostic>> {
    let mut bytes = Vec::new();
    zonefile::open(file)
        .and_then(|opened| opened.take(CONFIG_LEN_MAX + 1).read_to_end(&mut bytes))
        .map_err(|error| vec![unreadable(file, &error)])?;
    if bytes.len() as u64 > CONFIG_LEN_MAX {
        let wrong = format!("is longer than {CONFIG_LEN_MAX} bytes");
        let help = Some("is it a config?".into());
        return Err(vec![Diagnostic { help, ..Diagnostic::of_file(file, wrong) }]);
    }
    String::from_utf8(bytes).map_err(|error| {
        let (end, bytes) = (error.utf8_error().valid_up_to(), error.into_bytes());
        let wrong = Diagnostic::at(file, &bytes, end, "is not UTF-8 from here");
        let help = Some("save it as UTF-8, with no other letters".into());
        vec![Diagnostic { help, ..wrong.by(model::BrokenRule::CONFIG_SYNTAX) }]
    })
}

/// Why a config cannot be read, and what to do.
fn unreadable(file: &Path, error: &io::Error) -> Diagnostic {
    if error.kind() == io::ErrorKind::IsADirectory {
        let name = file.join("dunlin.toml");
        let help = Some(format!("name the config in it, such as {}", name.display()));
        return Diagnostic { help, ..Diagnostic::of_file(file, "is a folder, not a config") };
    }
    let help = match error.kind() {
        io::ErrorKind::InvalidInput => "write it to a file: a pipe or device may never end".into(),
        io::ErrorKind::PermissionDenied => {
            let user = rustix::process::geteuid().as_raw();
            format!("let user {user} or its group read it, and search the folders above it")
        }
        _ => "is its path right?".into(),
    };
    let wrong = format!("cannot be read: {error}");
    Diagnostic { help: Some(help), ..Diagnostic::of_file(file, wrong) }
}
/// What a config of another server is, and what to do with it; `None`: it is none that is known.
fn foreign(text: &str) -> Option<(&'static str, &'static str)> {
    let lines = || text.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';', '/']));
    let any = |is_it: &dyn Fn(&str) -> bool| lines().any(is_it);
    let first = lines().find(|line| !line.is_empty()).unwrap_or_default();
    let is_named = |line: &str| {
        line.starts_with("options {") || line.starts_with("zone \"") && line.ends_with('{')
    };
    let own = "write a dunlin.toml: README has a short one, examples/dunlin.toml lists all keys";
    if any(&is_named) {
        return Some(("is a named.conf of BIND, not a config of Dunlin", own));
    }
    if any(&|line| matches!(line, "server:" | "forward-zone:" | "stub-zone:" | "auth-zone:")) {
        return Some(("is an unbound.conf, not a config of Dunlin", own));
    }
    let is_block = first.ends_with('{') && !first.contains('=');
    is_block.then_some((
        "is a Corefile of CoreDNS, not a config of Dunlin",
        "`dunlin import corefile FILE` converts it",
    ))
}

/// Reports what is not TOML: keys that occur twice, and otherwise the first error, because one
/// missing bracket or quote makes errors of everything after it.
fn note_syntax(errors: &[toml::de::Error], problems: &mut Problems<'_>) {
    let offset = |error: &toml::de::Error| error.span().map_or(0, |span| span.start);
    let (twice, others): (Vec<_>, Vec<_>) =
        errors.iter().partition(|error| error.message() == "duplicate key");
    if let Some((message, help)) = foreign(problems.text).filter(|_| !others.is_empty()) {
        let wrong = Wrong { message: message.to_owned(), help: Some(help.to_owned()) };
        problems.add_by(model::BrokenRule::CONFIG_SYNTAX, 0, wrong);
        return;
    }
    if let Some(first) = others.iter().min_by_key(|error| offset(error)) {
        // The first line is the message; the others would quote the file.
        let message = first.message().lines().next().unwrap_or_default().to_owned();
        let help = (errors.len() > 1)
            .then(|| "is a bracket or a quote missing before it? check again then".to_owned());
        problems.add_by(model::BrokenRule::CONFIG_SYNTAX, offset(first), Wrong { message, help });
        return;
    }
    for error in twice {
        let key = error.span().and_then(|span| problems.text.get(span)).unwrap_or_default();
        let message = format!("the key or section `{}` is there twice", key.trim());
        let help = Some("remove one of them, or put both into one".to_owned());
        problems.add_by(model::BrokenRule::CONFIG_SYNTAX, offset(error), Wrong { message, help });
    }
}

impl Log {
    fn read(mut section: Section<'_, '_>) -> Self {
        let log = Self {
            level: section.read("level", Level::Info, values::word(Level::WORDS)),
            format: section.read("format", Format::Text, values::word(Format::WORDS)),
            levels: operate::read_levels(section.section("levels", "[log.levels]")),
            queries: Queries::read(section.section("queries", "[log.queries]")),
        };
        section.close();
        log
    }
}

#[cfg(test)]
mod tests;
