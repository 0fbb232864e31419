//! The current config, and reloads: a changed config is applied as a whole or not at all.
use crate::limits::REMOVED_SHOWN_MAX;
use crate::resources::VERSION;
use config::{Config, Dnstap, FileWatch, Format, Forward, GeoNetworks, Log, trust};
use control_messages::handled_opcodes;
use data_plane::{AccessLists, ForwardChange, ForwardTable, KnownClients, LastingState, Listening};
use data_plane::{Owner, ServerFiles};
use handler::{OwnQuery, Settings};
use health::HealthService;
use packet::View;
use process::log::Levels;
use query_samples::TapThread;
use server_status::command::ReloadOutcome;
use server_status::{ConfigStatus, seconds};
use std::collections::{HashMap, HashSet};
use std::io::{self, Read, Seek, SeekFrom};
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Instant, SystemTime};
use sync::Publisher;
use upstream::TrustAnchors;
use wire::NameBuf;
use zone_manager::hold::{Arrival, Evidence, Verdict, judge};

/// The current config and everything derived from it.
pub struct Live {
    /// The config at the start of the process. Keys that need a restart keep its values.
    started: Config,
    /// The config of the last reload.
    changed: Option<Config>,
    lasting: LastingState,
    levels: Levels,
    lists: AccessLists,
    /// The config file; `None`: defaults only.
    file: Option<FileWatch>,
    /// The files of `[networks]`.
    geo_files: Vec<FileWatch>,
    /// The forward rules in use, and the files with their servers.
    forwards: ForwardTable,
    server_files: ServerFiles,
    pub settings: Publisher<Settings>,
    pub status: ConfigStatus,
}

/// What forwarding needs to know of the process.
#[derive(Debug)]
pub struct ForwardSetup {
    /// Threads that query upstreams.
    threads: usize,
    trust: Option<TrustAnchors>,
    /// The addresses that this server answers on.
    listen: Vec<SocketAddr>,
}

impl ForwardSetup {
    /// For this many threads of a server with these sockets.
    pub fn new(threads: usize, trust: Option<TrustAnchors>, listening: &[Listening]) -> Self {
        Self { threads, trust, listen: listening.iter().map(|all| all.address).collect() }
    }
}

/// A config that was applied.
#[derive(Debug, Default)]
pub struct Reloaded {
    /// The keys whose value has changed.
    pub changed: Vec<String>,
    pub forwards: ForwardChange,
}

impl Live {
    /// The state at the start.
    ///
    /// # Errors
    /// The kernel returns no random bytes.
    pub fn new(
        config: Config,
        levels: Levels,
        lists: AccessLists,
        setup: ForwardSetup,
        own_query: Option<OwnQuery>,
    ) -> Result<Self, getrandom::Error> {
        let opcodes = handled_opcodes(config.api.update, config.transfer.enabled);
        let lasting = LastingState::new(&config, opcodes, own_query)?;
        let mut server_files = ServerFiles::new(setup.listen);
        let rules = server_files.resolve(&config.forwards);
        let forwards = ForwardTable::new(&config, &rules, setup.threads, setup.trust);
        let settings = lasting.settings(&config)?;
        let settings = Publisher::new(Settings { forwarding: forwards.forwarding(), ..settings });
        lists.set(&config);
        // The client of `status` may have another working directory.
        let file = config.file.as_ref().map(|file| {
            std::path::absolute(file).unwrap_or_else(|_| file.clone()).display().to_string()
        });
        let loaded_seconds = seconds(SystemTime::now());
        let status =
            ConfigStatus { file: file.unwrap_or_default(), loaded_seconds, ..Default::default() };
        let file = config.file.clone().map(FileWatch::new);
        let geo_files = watches(&config.geo);
        let (started, changed) = (config, None);
        let live = Self {
            started,
            changed,
            lasting,
            levels,
            lists,
            file,
            geo_files,
            forwards,
            server_files,
            settings,
            status,
        };
        Ok(live)
    }

    /// The numbers of the views of the config.
    pub fn views(&self) -> HashMap<String, View> {
        self.lasting.networks.views.of(self.config())
    }

    /// The names of the counters of networks, in their order.
    pub fn network_names(&self) -> Vec<String> {
        self.lasting.networks.names()
    }

    /// The network with this number in the settings, and the path of its location.
    pub fn owner(&self, number: u16) -> Owner {
        self.lasting.networks.owner(number)
    }

    /// Publishes settings with the clients of a cluster as they are now.
    pub fn take_clients(&mut self, clients: KnownClients) {
        self.lasting.networks.set_clients(clients);
        match self.lasting.settings(self.config()) {
            Ok(settings) => self.publish(settings),
            Err(error) => tracing::error!("clients of Kubernetes are not used: {error}"),
        }
    }

    /// The forward rules in use.
    pub fn forwards(&self) -> &ForwardTable {
        &self.forwards
    }

    /// Why a file with upstreams is not used as it is.
    pub fn server_file_fault(&self) -> Option<String> {
        self.server_files.fault()
    }

    /// Whether the config file has changed since it was read, and `[server] watch_config` asks for
    /// it to be loaded. True once for each change.
    pub fn config_has_changed(&mut self) -> bool {
        let is_watched = self.config().server.watch_config;
        is_watched && self.file.as_mut().is_some_and(FileWatch::has_changed)
    }

    /// Whether a file of `[networks]` has changed since it was read.
    pub fn geo_files_have_changed(&mut self) -> bool {
        // All of them: a change is reported once.
        self.geo_files.iter_mut().map(FileWatch::has_changed).fold(false, |any, one| any | one)
    }

    /// Takes in what the files of `[networks]` have now, or why they cannot be used: then what they
    /// had stays in use.
    pub fn take_geo(&mut self, read: Result<GeoNetworks, String>) {
        let new = match read {
            Ok(new) => new,
            Err(why) => {
                tracing::error!("{why}; what was read before stays in use");
                self.status.errors = vec![why];
                return;
            }
        };
        let config = self.changed.as_mut().unwrap_or(&mut self.started);
        // A reload was faster, with other files.
        if (&config.geo.maxmind, &config.geo.maxmind_as) != (&new.maxmind, &new.maxmind_as) {
            return;
        }
        config.geo = new;
        self.status.errors.clear();
        match self.lasting.settings(self.config()) {
            Ok(settings) => self.publish(settings),
            Err(error) => tracing::error!("[networks]: {error}"),
        }
        tracing::info!("the files of [networks] were read again");
    }

    /// Whether a file with upstreams has changed since it was read.
    pub fn server_files_have_changed(&mut self) -> bool {
        self.server_files.have_changed()
    }

    /// The config at the start of the process.
    pub fn started(&self) -> &Config {
        &self.started
    }

    /// The current config, without the keys that wait for a restart.
    pub fn config(&self) -> &Config {
        self.changed.as_ref().unwrap_or(&self.started)
    }

    /// Reads the config file again and applies what can change; the caller applies the zones.
    /// Without a config file, nothing happens. Unless `accepts`, a config that removes most of the
    /// zones is held.
    ///
    /// # Errors
    /// The config is refused or held. Then nothing has changed.
    pub fn reload(
        &mut self,
        tap: &TapThread,
        prober: &HealthService,
        accepts: bool,
    ) -> Result<Reloaded, ReloadOutcome> {
        let Some(file) = self.started.file.clone() else { return Ok(Reloaded::default()) };
        self.file.iter_mut().chain(&mut self.geo_files).for_each(FileWatch::note_read);
        let is_cut = ends_without_newline(&file);
        let refused = |errors| ReloadOutcome::Refused { errors };
        let applied = Config::load(Some(&file))
            .map_err(|errors| refused(errors.iter().map(ToString::to_string).collect()))
            .and_then(|config| match hold(self.config(), &config, is_cut).filter(|_| !accepts) {
                Some(held) => Err(held),
                None => prober
                    .try_checks(&config.health.checks)
                    .map_err(|why| vec![why])
                    .and_then(|()| self.apply(config, tap))
                    .map_err(refused),
            });
        match &applied {
            Ok(_) => {
                self.status.reloads += 1;
                self.status.loaded_seconds = seconds(SystemTime::now());
                self.status.errors.clear();
            }
            Err(refusal) => {
                self.status.reloads_refused += 1;
                self.status.errors = match refusal {
                    ReloadOutcome::Refused { errors } => errors.clone(),
                    ReloadOutcome::Held { reason, .. } => vec![reason.clone()],
                    _ => Vec::new(),
                };
            }
        }
        applied
    }

    fn apply(&mut self, config: Config, tap: &TapThread) -> Result<Reloaded, Vec<String>> {
        let settings = self.lasting.settings(&config).map_err(|error| vec![error.to_string()])?;
        let trust = match self.forwards.lacks_trust() {
            true => trust::load(&config).map_err(|error| vec![error.to_string()])?,
            false => None,
        };
        let rules = self.server_files.resolve(&config.forwards);
        let (forwards, forward_change) =
            self.changed_forwards(&rules, trust).map_err(|error| vec![error])?;
        tap.set(tap_settings(&config)).map_err(|error| vec![format!("[log.queries] {error}")])?;
        self.forwards = forwards;
        self.publish(settings);
        self.levels.set(&config.log);
        self.lists.set(&config);
        self.status.restart_needed = self.started.restart_needed(&config);
        let changed = self.config().changed(&config);
        if config.geo.files().ne(self.config().geo.files()) {
            self.geo_files = watches(&config.geo);
        }
        self.changed = Some(config);
        Ok(Reloaded { changed, forwards: forward_change })
    }

    /// The forward table with other rules, and what that changes.
    fn changed_forwards(
        &self,
        rules: &[Forward],
        trust: Option<TrustAnchors>,
    ) -> Result<(ForwardTable, ForwardChange), String> {
        let mut forwards = self.forwards.clone();
        let change = forwards.change(rules, trust, Instant::now())?;
        Ok((forwards, change))
    }

    /// Reads the files with upstreams again.
    ///
    /// # Errors
    /// They cannot be used now; the previous ones stay in use.
    pub fn read_server_files(&mut self) -> Result<ForwardChange, String> {
        let rules = self.config().forwards.clone();
        let rules = self.server_files.resolve(&rules);
        let (forwards, change) = self.changed_forwards(&rules, None)?;
        self.forwards = forwards;
        if change.serial.is_some() {
            let settings = self.lasting.settings(self.config());
            self.publish(settings.map_err(|error| error.to_string())?);
        }
        Ok(change)
    }

    /// Publishes settings with the forward rules in use.
    fn publish(&mut self, settings: Settings) {
        self.settings.publish(Settings { forwarding: self.forwards.forwarding(), ..settings });
        // Replaced settings must not pile up, however often the config is reloaded.
        self.settings.collect();
    }

    /// Publishes the names of the keys that sign messages.
    pub fn set_keys(&mut self, keys: Vec<NameBuf>) {
        if self.lasting.set_keys(keys)
            && let Ok(settings) = self.lasting.settings(self.config())
        {
            self.publish(settings);
        }
    }

    /// Publishes an idle timeout of zero to clients on streams, which are about to be closed.
    pub fn close_streams(&mut self) {
        if let Ok(settings) = self.lasting.settings(self.config()) {
            self.publish(settings.closing());
        }
    }

    /// Frees settings that no thread reads any more.
    pub fn collect(&mut self) {
        self.settings.collect();
    }
}

fn watches(geo: &GeoNetworks) -> Vec<FileWatch> {
    geo.files().cloned().map(FileWatch::new).collect()
}

/// Whether a file has text that does not end with a newline.
fn ends_without_newline(file: &Path) -> bool {
    let last_byte = |file: &Path| -> io::Result<u8> {
        let mut file = zonefile::open(file)?;
        file.seek(SeekFrom::End(-1))?;
        let mut byte = [0];
        file.read_exact(&mut byte)?;
        Ok(byte[0])
    };
    last_byte(file).is_ok_and(|byte| byte != b'\n')
}

/// Why a config is held that removes zones of the old one: by the rule for names of zone files
/// ([`judge`]).
fn hold(old: &Config, new: &Config, is_cut: bool) -> Option<ReloadOutcome> {
    let names = |config: &Config| -> HashSet<String> {
        let names = config.zones.iter().map(|zone| &zone.name);
        let names = names.chain(config.secondaries.iter().map(|zone| &zone.name));
        names.map(|name| name.to_string().to_ascii_lowercase()).collect()
    };
    let (before, after) = (names(old), names(new));
    let mut removed: Vec<&str> = before.difference(&after).map(String::as_str).collect();
    let (had, has) = (before.len() as u64, (before.len() - removed.len()) as u64);
    let is_cut = is_cut && !removed.is_empty();
    let evidence = Evidence { arrival: Arrival::InPlace, is_cut, had: Some(had), has };
    if judge(&evidence) != Verdict::Hold {
        return None;
    }
    removed.sort_unstable();
    let (count, more) = (removed.len(), if removed.len() > REMOVED_SHOWN_MAX { ", …" } else { "" });
    removed.truncate(REMOVED_SHOWN_MAX);
    let cut = if is_cut { " and does not end with a newline" } else { "" };
    let reason = format!(
        "the config removes {count} of {had} zones{cut}: {}{more}; the previous config stays in \
         use; if this is meant, run `dunlin reload --accept`",
        removed.join(", ")
    );
    Some(ReloadOutcome::Held { had, has, reason })
}

/// The hottest names and clients are estimated from one query in this many.
const HOT_ONE_IN: u32 = 64;

/// The settings of the tap from a config.
pub fn tap_settings(config: &Config) -> query_samples::TapSettings {
    let Log { format, queries, .. } = &config.log;
    let format = match format {
        Format::Text => query_samples::LogFormat::Text,
        Format::Json => query_samples::LogFormat::Json,
    };
    let Dnstap { socket, sample } = &config.dnstap;
    query_samples::TapSettings {
        queries: query_samples::QueryLogSettings {
            one_in: queries.sample,
            file: queries.file.clone(),
            format,
        },
        dnstap: socket.clone().map(|socket| query_samples::DnstapSettings {
            one_in: *sample,
            socket,
            identity: config.server.id.clone(),
            version: format!("dunlin {VERSION}"),
        }),
        hot_one_in: HOT_ONE_IN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(zones: std::ops::Range<u32>) -> Config {
        let zone = |n| format!("[[zone]]\nname = \"z{n:03}.test\"\nfile = \"z{n}\"\n");
        let text: String = zones.map(zone).collect();
        Config::parse(Path::new("dunlin.toml"), &text).expect("a config")
    }

    #[test]
    fn config_that_removes_most_zones_is_held() {
        let held = |old, new, is_cut| match hold(&config(old), &config(new), is_cut) {
            Some(ReloadOutcome::Held { had, has, reason }) => Some((had, has, reason)),
            _ => None,
        };
        let (had, has, reason) = held(0..40, 0..0, false).expect("it is empty");
        assert_eq!((had, has), (40, 0));
        let expected = "the config removes 40 of 40 zones: z000.test., z001.test., z002.test., \
                        z003.test., z004.test., …; ";
        assert!(reason.starts_with(expected) && reason.contains("--accept"), "{reason}");
        assert_eq!(held(0..40, 30..90, false).map(|held| held.1), Some(10), "others are new");
        assert_eq!(held(0..40, 20..40, false), None, "half of them");
        assert_eq!(held(0..19, 0..0, false), None, "fewer than 20");
        assert!(held(0..19, 0..18, true).expect("cut").2.contains("does not end with a newline"));
        assert_eq!(held(0..19, 0..19, true), None, "nothing is removed");
    }

    #[test]
    fn last_byte_of_a_file_is_examined() {
        let file = std::env::temp_dir().join(format!("live-cut-{}", std::process::id()));
        for (text, is_cut) in [("", false), ("a\n", false), ("a", true), ("a\nb", true)] {
            std::fs::write(&file, text).expect("a file");
            assert_eq!(ends_without_newline(&file), is_cut, "{text:?}");
        }
        std::fs::remove_file(&file).expect("the file goes");
        assert!(!ends_without_newline(&file));
    }
}
