//! Builds the threads' settings from a config, and keeps the state that outlives a change.
use crate::ForwardTable;
use crate::networks::LastingNetworks;
use answer::{CookieSecret, KeyNames};
use config::{Config, Denied, Diagnostic, Rate};
use handler::{AccessList, DebtTable, OwnQuery, RateLimit, Settings};
use std::error::Error;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use wire::NameBuf;

/// Bit n: messages of opcode n are taken only if they are signed. UPDATE (RFC 2136 §3.3).
const SIGNED_OPCODES: u16 = 1 << 5;

/// State that stays when settings change, so that clients do not notice.
#[derive(Debug)]
pub struct LastingState {
    /// Signs cookies if the config has no secret.
    secret: CookieSecret,
    /// Debts of clients, created when the limit is first set.
    clients: OnceLock<Arc<DebtTable>>,
    replies: OnceLock<Arc<DebtTable>>,
    /// Counters of networks, and the key of names that they deny.
    pub networks: LastingNetworks,
    /// Bytes of one table.
    table_len: usize,
    /// The idle timeout of streams, in units of 100 ms. It changes only with a restart.
    keepalive: u16,
    /// Bit n: messages of opcode n are passed to the control plane.
    handled_opcodes: u16,
    /// The query of the server to itself through announced addresses, which change only with a
    /// restart.
    own_query: Option<OwnQuery>,
    /// The names of the keys that sign messages.
    keys: Vec<NameBuf>,
}

impl LastingState {
    /// The state of a server that starts with this config. `handled_opcodes`: bit n says that
    /// messages of opcode n are passed to the control plane. `own_query`: what the server sends to
    /// itself through announced addresses.
    ///
    /// # Errors
    /// The kernel returns no random bytes.
    pub fn new(
        config: &Config,
        handled_opcodes: u16,
        own_query: Option<OwnQuery>,
    ) -> Result<Self, getrandom::Error> {
        let mut secret = [0; 16];
        getrandom::fill(&mut secret)?;
        let idle = config.streams.idle.as_millis() / 100;
        Ok(Self {
            keepalive: u16::try_from(idle).unwrap_or(u16::MAX),
            secret: CookieSecret(secret),
            handled_opcodes,
            own_query,
            keys: Vec::new(),
            clients: OnceLock::new(),
            replies: OnceLock::new(),
            networks: LastingNetworks::new()?,
            table_len: usize::try_from(config.limits.memory / 2).unwrap_or(usize::MAX),
        })
    }

    /// The settings of a config, without its forward rules.
    ///
    /// # Errors
    /// The kernel returns no random bytes.
    pub fn settings(&self, config: &Config) -> Result<Settings, getrandom::Error> {
        let Config { server, acl, limits, .. } = config;
        let cookie_secrets = match &server.cookies {
            cookies if !cookies.enabled => Vec::new(),
            cookies if cookies.secrets.is_empty() => vec![self.secret.clone()],
            cookies => cookies.secrets.clone(),
        };
        let clients = self.limit(&self.clients, &limits.rate)?;
        let replies = self.limit(&self.replies, &limits.responses)?;
        let networks = self.networks.list(config);
        let limited = clients.is_some()
            || replies.is_some()
            || !acl.allows_all_queries()
            || !networks.is_empty();
        Ok(Settings {
            udp_size_max: server.udp_size_max,
            cookie_secrets,
            nsid: server.nsid.clone(),
            version: server.version.clone(),
            id: server.id.clone(),
            keepalive: self.keepalive,
            query: AccessList::new(&acl.query),
            recursion: AccessList::new(&acl.recursion),
            notify_from: AccessList::new(&acl.notify_from),
            handled_opcodes: self.handled_opcodes,
            signed_opcodes: self.handled_opcodes & SIGNED_OPCODES,
            keys: self.keys.clone(),
            silent: acl.denied == Denied::Drop,
            exempt: AccessList::of(&limits.exempt),
            clients,
            replies,
            limited,
            networks,
            proxies: AccessList::of(&config.proxy.from),
            rewrites: config.rewrites.clone(),
            own_query: self.own_query.clone(),
            forwarding: None,
        })
    }

    /// Sets the names of the keys that sign messages. Returns whether they are others.
    pub fn set_keys(&mut self, mut keys: Vec<NameBuf>) -> bool {
        KeyNames::sort(&mut keys);
        let is_same = |(one, other): (&NameBuf, &NameBuf)| one.as_name() == other.as_name();
        let are_same = keys.len() == self.keys.len() && keys.iter().zip(&self.keys).all(is_same);
        self.keys = keys;
        !are_same
    }

    fn limit(
        &self,
        table: &OnceLock<Arc<DebtTable>>,
        rate: &Rate,
    ) -> Result<Option<RateLimit>, getrandom::Error> {
        let Some((rate, networks)) = rate.parts() else { return Ok(None) };
        let table = match table.get() {
            Some(table) => Arc::clone(table),
            None => {
                let made = Arc::new(DebtTable::new(self.table_len, random_words()?));
                Arc::clone(table.get_or_init(|| made))
            }
        };
        Ok(Some(RateLimit { table, rate, networks }))
    }
}

fn random_words() -> Result<[u64; 4], getrandom::Error> {
    let mut words = [0; 4];
    for word in &mut words {
        *word = getrandom::u64()?;
    }
    Ok(words)
}

/// The settings of a config file with its forward rules, or the defaults, for tests and benchmarks
/// that run a handler without a server. No message is passed to the control plane.
///
/// # Errors
/// The file has an error, or the kernel returns no random bytes.
pub fn settings_of_file(file: Option<&Path>) -> Result<Settings, Box<dyn Error>> {
    let lines = |errors: Vec<Diagnostic>| -> String {
        errors.iter().map(|error| format!("{error}\n")).collect()
    };
    let config = Config::load(file).map_err(lines)?;
    let forwards = ForwardTable::new(&config, &config.forwards, 1, None);
    let settings = LastingState::new(&config, 0, None)?.settings(&config)?;
    Ok(Settings { forwarding: forwards.forwarding(), ..settings })
}

#[cfg(test)]
mod tests {
    use super::*;
    fn config(text: &str) -> Config {
        Config::parse(Path::new("f"), text).expect("a config")
    }

    #[test]
    fn random_secret_and_debts_outlive_a_reload() {
        let text = "limits.rate.per_second = 10";
        let lasting = LastingState::new(&config(text), 0, None).expect("randomness");
        let settings = |text: &str| lasting.settings(&config(text)).expect("settings");
        let (first, second) = (settings(text), settings("limits.rate.per_second = 20"));
        assert_eq!(first.cookie_secrets, second.cookie_secrets);
        let tables = [&first, &second].map(|all| Arc::as_ptr(&all.clients.as_ref().unwrap().table));
        assert_eq!(tables[0], tables[1]);
    }

    #[test]
    fn streams_get_the_idle_timeout_of_the_start_and_zero_when_closing() {
        let lasting =
            LastingState::new(&config("streams.idle = \"7s\""), 0, None).expect("randomness");
        let changed = config("streams.idle = \"60s\"");
        let settings = lasting.settings(&changed).expect("settings");
        assert_eq!(settings.policy().keepalive, Some(70));
        assert_eq!(settings.closing().policy().keepalive, Some(0));
    }

    #[test]
    fn limits_are_absent_unless_configured() {
        let lasting = LastingState::new(&config(""), 0, None).expect("randomness");
        let settings = |text: &str| lasting.settings(&config(text)).expect("settings");
        assert!(settings("").policy().limits.is_none());
        assert!(lasting.clients.get().is_none(), "no table either");
        assert!(settings("acl.query = [\"10.0.0.0/8\"]").policy().limits.is_some());
        assert!(settings("limits.responses.per_second = 5").policy().limits.is_some());
    }
}
