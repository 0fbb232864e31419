//! What of the config holds, and how a changed one is taken over: whole, or not at all.
use crate::gather::seconds;
use crate::log::Levels;
use crate::opened::VERSION;
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

/// Lists that are looked at once a connection.
#[derive(Clone, Default)]
pub struct Lists(Arc<RwLock<Looked>>);

#[derive(Default)]
struct Looked {
    metrics: AccessList,
    proxies: AccessList,
}

impl Lists {
    fn set(&self, config: &Config) {
        let metrics = AccessList::new(&config.acl.metrics);
        let proxies = AccessList::of(&config.proxy.from);
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Looked { metrics, proxies };
    }

    /// Whether an address may ask for metrics and health.
    pub fn may_watch(&self, address: IpAddr) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).metrics.lists(address)
    }

    /// Tells whether an address is that of a proxy.
    pub fn proxies(&self) -> worker::IsProxy {
        let lists = self.clone();
        Arc::new(move |address| lists.is_proxy(address))
    }

    /// Whether an address is that of a proxy.
    fn is_proxy(&self, address: IpAddr) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).proxies.lists(address)
    }
}

/// What holds now.
pub struct Live {
    /// With which the process started: what is there once stays as it says.
    started: Config,
    /// The one read last, once there is another.
    changed: Option<Config>,
    lasting: LastingState,
    levels: Levels,
    lists: Lists,
    pub settings: Publisher<Settings>,
    pub status: ConfigStatus,
}

impl Live {
    /// What a server starts with.
    ///
    /// # Errors
    /// The system has no randomness to give.
    pub fn new(config: Config, levels: Levels, lists: Lists) -> Result<Self, getrandom::Error> {
        let lasting = LastingState::new(&config)?;
        let settings = Publisher::new(settings::settings(&config, &lasting)?);
        lists.set(&config);
        // Who asks may stand elsewhere.
        let file = config.file.as_ref().map(|file| {
            std::path::absolute(file).unwrap_or_else(|_| file.clone()).display().to_string()
        });
        let loaded_seconds = seconds(SystemTime::now());
        let status =
            ConfigStatus { file: file.unwrap_or_default(), loaded_seconds, ..Default::default() };
        let (started, changed) = (config, None);
        Ok(Self { started, changed, lasting, levels, lists, settings, status })
    }

    /// The config that the process was started with.
    pub fn started(&self) -> &Config {
        &self.started
    }

    /// The config that holds, but for what waits for a restart.
    pub fn config(&self) -> &Config {
        self.changed.as_ref().unwrap_or(&self.started)
    }

    /// Reads the config file again and takes over what can change; the zones are the caller's to
    /// take over. A server without a config file has nothing to read. Returns the keys that hold
    /// another value now.
    ///
    /// # Errors
    /// What is wrong, a line each. Nothing has changed then.
    pub fn reload(&mut self, tap: &TapThread) -> Result<Vec<String>, Vec<String>> {
        let Some(file) = self.started.file.clone() else { return Ok(Vec::new()) };
        let taken = Config::load(Some(&file))
            .map_err(|errors| errors.iter().map(ToString::to_string).collect())
            .and_then(|config| self.take(config, tap));
        match &taken {
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
        taken
    }

    fn take(&mut self, config: Config, tap: &TapThread) -> Result<Vec<String>, Vec<String>> {
        let settings =
            settings::settings(&config, &self.lasting).map_err(|error| vec![error.to_string()])?;
        tap.set(tap_settings(&config)).map_err(|error| vec![format!("[log.queries] {error}")])?;
        self.settings.publish(settings);
        // Here too, so that what was replaced does not pile up, however often it is.
        self.settings.collect();
        self.levels.set(&config.log);
        self.lists.set(&config);
        self.status.restart_needed = self.started.restart_needed(&config);
        let changed = self.config().changed(&config);
        self.changed = Some(config);
        Ok(changed)
    }

    /// Tells clients on streams that these are about to be closed.
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

/// Every how many queries the hottest names and clients are estimated from.
const HOT_ONE_IN: u32 = 64;

/// What the tap shows, by this config.
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
