//! What may change while the server runs, as its threads read it: published like an image, each
//! whole and never changed.
use crate::access::AccessList;
use crate::config::{Config, Denied, Rate};
use crate::diagnostic::Diagnostic;
use answer::{CookieSecret, Limiter, Limits, Policy};
use image::{Forwards, RewriteRule, Rewrites};
use limit::{DebtSet, Networks, RateTable, TableKey};
use std::error::Error;
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// What stays as it is when settings change, so that clients do not notice.
#[derive(Debug)]
pub(crate) struct Kept {
    /// Signs cookies where the config names no secret.
    secret: CookieSecret,
    /// Who owes what. Made when the limit is first set.
    clients: OnceLock<Arc<Table>>,
    replies: OnceLock<Arc<Table>>,
    /// Octets of one table.
    table_octets: usize,
    /// After how long idle streams are closed, in units of 100 ms: streams do not follow a change.
    keepalive: u16,
}

/// Who owes what, for all threads.
#[derive(Debug)]
struct Table {
    sets: Box<[DebtSet]>,
    key: TableKey,
}

/// A limit that is set.
#[derive(Debug)]
struct Limit {
    table: Arc<Table>,
    rate: limit::Rate,
    networks: Networks,
}

/// One state of the settings.
#[derive(Debug)]
pub struct Settings {
    udp_size_max: u16,
    cookie_secrets: Vec<CookieSecret>,
    nsid: String,
    version: String,
    id: String,
    /// In units of 100 ms.
    keepalive: u16,
    query: AccessList,
    recursion: AccessList,
    silent: bool,
    exempt: AccessList,
    clients: Option<Limit>,
    replies: Option<Limit>,
    /// Whether anything of the above keeps anybody out.
    limited: bool,
    /// Who puts a PROXY header before what it sends.
    pub(crate) proxies: AccessList,
    rewrites: Vec<RewriteRule>,
}

impl Kept {
    /// For a server that starts with this config.
    ///
    /// # Errors
    /// The system has no randomness to give.
    pub(crate) fn new(config: &Config) -> Result<Self, getrandom::Error> {
        let mut secret = [0; 16];
        getrandom::fill(&mut secret)?;
        let idle = config.streams.idle.as_millis() / 100;
        Ok(Self {
            keepalive: u16::try_from(idle).unwrap_or(u16::MAX),
            secret: CookieSecret(secret),
            clients: OnceLock::new(),
            replies: OnceLock::new(),
            table_octets: usize::try_from(config.limits.memory / 2).unwrap_or(usize::MAX),
        })
    }

    fn limit(
        &self,
        table: &OnceLock<Arc<Table>>,
        rate: &Rate,
    ) -> Result<Option<Limit>, getrandom::Error> {
        let Some((rate, networks)) = rate.parts() else { return Ok(None) };
        let table = match table.get() {
            Some(table) => Arc::clone(table),
            None => {
                let made = Arc::new(Table::new(self.table_octets)?);
                Arc::clone(table.get_or_init(|| made))
            }
        };
        Ok(Some(Limit { table, rate, networks }))
    }
}

impl Table {
    fn new(octets: usize) -> Result<Self, getrandom::Error> {
        let mut words = [0; 4];
        for word in &mut words {
            *word = getrandom::u64()?;
        }
        let sets = (octets / size_of::<DebtSet>()).max(1);
        Ok(Self { sets: (0..sets).map(|_| DebtSet::new()).collect(), key: TableKey::new(words) })
    }
}

impl Limit {
    fn limiter(&self) -> Limiter<'_> {
        let table = RateTable::new(&self.table.sets, self.table.key);
        Limiter { table, rate: self.rate, networks: self.networks }
    }
}

impl Settings {
    /// What a config says.
    ///
    /// # Errors
    /// The system has no randomness to give.
    pub(crate) fn new(config: &Config, kept: &Kept) -> Result<Self, getrandom::Error> {
        let Config { server, acl, limits, .. } = config;
        let cookie_secrets = match &server.cookies {
            cookies if !cookies.enabled => Vec::new(),
            cookies if cookies.secrets.is_empty() => vec![kept.secret.clone()],
            cookies => cookies.secrets.clone(),
        };
        let clients = kept.limit(&kept.clients, &limits.rate)?;
        let replies = kept.limit(&kept.replies, &limits.responses)?;
        let limited = clients.is_some() || replies.is_some() || !acl.lets_everybody_ask();
        Ok(Self {
            udp_size_max: server.udp_size_max,
            cookie_secrets,
            nsid: server.nsid.clone(),
            version: server.version.clone(),
            id: server.id.clone(),
            keepalive: kept.keepalive,
            query: AccessList::new(&acl.query),
            recursion: AccessList::new(&acl.recursion),
            silent: acl.denied == Denied::Drop,
            exempt: AccessList::of(&limits.exempt),
            clients,
            replies,
            limited,
            proxies: AccessList::of(&config.proxy.from),
            rewrites: config.rewrites.clone(),
        })
    }

    /// What a config file says, or, without one, the defaults: for who answers without a server
    /// around it, such as a bench.
    ///
    /// # Errors
    /// What is wrong with the file, or the system has no randomness to give.
    pub fn of_file(file: Option<&Path>) -> Result<Self, Box<dyn Error>> {
        let lines = |errors: Vec<Diagnostic>| -> String {
            errors.iter().map(|error| format!("{error}\n")).collect()
        };
        let config = Config::load(file).map_err(lines)?;
        Ok(Self::new(&config, &Kept::new(&config)?)?)
    }

    /// The same, but that streams are about to be closed (RFC 7828 §3.4).
    pub fn closing(self) -> Self {
        Self { keepalive: 0, ..self }
    }

    /// As `answer` reads it, but for whose names others are asked about.
    pub fn policy(&self) -> Policy<'_> {
        Policy {
            udp_size_max: self.udp_size_max,
            cookie_secrets: &self.cookie_secrets,
            nsid: self.nsid.as_bytes(),
            version: self.version.as_bytes(),
            id: self.id.as_bytes(),
            keepalive: Some(self.keepalive),
            limits: self.limited.then(|| Limits {
                access: self.query.acl(),
                silent: self.silent,
                exempt: self.exempt.acl(),
                clients: self.clients.as_ref().map(Limit::limiter),
                replies: self.replies.as_ref().map(Limit::limiter),
            }),
            forwards: Forwards::default(),
            rewrites: Rewrites::new(&self.rewrites),
            recursion: self.recursion.acl(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    fn config(text: &str) -> Config {
        Config::parse(Path::new("f"), text).expect("a config")
    }

    #[test]
    fn a_random_secret_and_debts_outlive_a_change() {
        let text = "limits.rate.per_second = 10";
        let kept = Kept::new(&config(text)).expect("randomness");
        let settings = |text: &str| Settings::new(&config(text), &kept).expect("settings");
        let (first, second) = (settings(text), settings("limits.rate.per_second = 20"));
        assert_eq!(first.cookie_secrets, second.cookie_secrets);
        let tables = [&first, &second].map(|all| Arc::as_ptr(&all.clients.as_ref().unwrap().table));
        assert_eq!(tables[0], tables[1]);
    }

    #[test]
    fn streams_are_told_how_long_they_live_and_not_what_waits_for_a_restart() {
        let kept = Kept::new(&config("streams.idle = \"7s\"")).expect("randomness");
        let changed = config("streams.idle = \"60s\"");
        let settings = Settings::new(&changed, &kept).expect("settings");
        assert_eq!(settings.policy().keepalive, Some(70));
        assert_eq!(settings.closing().policy().keepalive, Some(0));
    }

    #[test]
    fn without_limits_there_is_no_gate() {
        let kept = Kept::new(&config("")).expect("randomness");
        let settings = |text: &str| Settings::new(&config(text), &kept).expect("settings");
        assert!(settings("").policy().limits.is_none());
        assert!(kept.clients.get().is_none(), "nor a table");
        assert!(settings("acl.query = [\"10.0.0.0/8\"]").policy().limits.is_some());
        assert!(settings("limits.responses.per_second = 5").policy().limits.is_some());
    }
}
