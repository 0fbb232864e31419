//! The current config, and reloads: a changed config is applied as a whole or not at all.
use crate::gather::seconds;
use crate::log::Levels;
use crate::resources::VERSION;
use crate::settings::{self, LastingState};
use config::{Config, Dnstap, Format, Log};
use handler::AccessList;
use handler::Settings;
use query_samples::TapThread;
use std::net::IpAddr;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::SystemTime;
use sync::Publisher;
use zone_manager::status::ConfigStatus;

/// Access lists that are checked once for each connection.
#[derive(Clone, Default)]
pub struct AccessLists(Arc<RwLock<ListSnapshot>>);

#[derive(Default)]
struct ListSnapshot {
    metrics: AccessList,
    proxies: AccessList,
}

impl AccessLists {
    fn set(&self, config: &Config) {
        let metrics = AccessList::new(&config.acl.metrics);
        let proxies = AccessList::of(&config.proxy.from);
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = ListSnapshot { metrics, proxies };
    }

    /// Whether the address may read metrics and health.
    pub fn may_read_metrics(&self, address: IpAddr) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).metrics.lists(address)
    }

    /// A function that tells whether an address belongs to a proxy.
    pub fn proxies(&self) -> worker::IsProxy {
        let lists = self.clone();
        Arc::new(move |address| lists.is_proxy(address))
    }

    /// Whether the address belongs to a proxy.
    fn is_proxy(&self, address: IpAddr) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).proxies.lists(address)
    }
}

/// The current config and everything derived from it.
pub struct Live {
    /// The config at the start of the process. Keys that need a restart keep its values.
    started: Config,
    /// The config of the last reload.
    changed: Option<Config>,
    lasting: LastingState,
    levels: Levels,
    lists: AccessLists,
    pub settings: Publisher<Settings>,
    pub status: ConfigStatus,
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
    ) -> Result<Self, getrandom::Error> {
        let lasting = LastingState::new(&config)?;
        let settings = Publisher::new(settings::settings(&config, &lasting)?);
        lists.set(&config);
        // The client of `status` may have another working directory.
        let file = config.file.as_ref().map(|file| {
            std::path::absolute(file).unwrap_or_else(|_| file.clone()).display().to_string()
        });
        let loaded_seconds = seconds(SystemTime::now());
        let status =
            ConfigStatus { file: file.unwrap_or_default(), loaded_seconds, ..Default::default() };
        let (started, changed) = (config, None);
        Ok(Self { started, changed, lasting, levels, lists, settings, status })
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
    /// Without a config file, nothing happens. Returns the keys whose value has changed.
    ///
    /// # Errors
    /// The errors, a line each. Then nothing has changed.
    pub fn reload(&mut self, tap: &TapThread) -> Result<Vec<String>, Vec<String>> {
        let Some(file) = self.started.file.clone() else { return Ok(Vec::new()) };
        let applied = Config::load(Some(&file))
            .map_err(|errors| errors.iter().map(ToString::to_string).collect())
            .and_then(|config| self.apply(config, tap));
        match &applied {
            Ok(_) => {
                self.status.reloads += 1;
                self.status.loaded_seconds = seconds(SystemTime::now());
                self.status.errors.clear();
            }
            Err(errors) => {
                self.status.reloads_refused += 1;
                self.status.errors.clone_from(errors);
            }
        }
        applied
    }

    fn apply(&mut self, config: Config, tap: &TapThread) -> Result<Vec<String>, Vec<String>> {
        let settings =
            settings::settings(&config, &self.lasting).map_err(|error| vec![error.to_string()])?;
        tap.set(tap_settings(&config)).map_err(|error| vec![format!("[log.queries] {error}")])?;
        self.settings.publish(settings);
        // Replaced settings must not pile up, however often the config is reloaded.
        self.settings.collect();
        self.levels.set(&config.log);
        self.lists.set(&config);
        self.status.restart_needed = self.started.restart_needed(&config);
        let changed = self.config().changed(&config);
        self.changed = Some(config);
        Ok(changed)
    }

    /// Publishes an idle timeout of zero to clients on streams, which are about to be closed.
    pub fn close_streams(&mut self) {
        if let Ok(settings) = settings::settings(self.config(), &self.lasting) {
            self.settings.publish(settings.closing());
        }
    }

    /// Frees settings that no thread reads any more.
    pub fn collect(&mut self) {
        self.settings.collect();
    }
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
