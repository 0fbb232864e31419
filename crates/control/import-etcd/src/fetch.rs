//! Reading all keys below a prefix from etcd, as of one revision, and what changes after it.
use crate::key::Entry;
use etcd_client::{
    Certificate, Client, ConnectOptions, EventType, GetOptions, Identity, KeyValue, TlsOptions,
    WatchOptions, WatchStream,
};
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

/// Keys of one answer of etcd.
const PAGE: i64 = 1_000;
/// Keys of one import.
const KEYS_MAX: usize = 5_000_000;
/// Until etcd has answered one request.
const ANSWER_MAX: Duration = Duration::from_secs(30);
/// How often a connection is tried while nothing changes, and how long the answer may take.
const KEEPALIVE: Duration = Duration::from_secs(5);

/// Where etcd is, and who we are.
#[derive(Clone, Debug, Default)]
pub struct Source {
    /// The URLs of its members.
    pub endpoints: Vec<String>,
    /// The CA of their certificates; `None`: those of the system.
    pub ca: Option<PathBuf>,
    /// Our certificate and its key.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// A user, and the file with the password.
    pub user: Option<(String, PathBuf)>,
}

/// Reads all keys below `/prefix/`, and how long their leases last.
///
/// # Errors
/// What failed, and where.
pub fn fetch(source: &Source, prefix: &str) -> Result<Vec<Entry>, String> {
    let reading = async { Reader::connect(source, prefix).await?.read().await };
    Ok(runtime()?.block_on(reading)?.0)
}

/// All keys below a prefix, as they change.
pub struct FollowedKeys {
    runtime: Runtime,
    reader: Reader,
    changes: WatchStream,
    entries: BTreeMap<String, Entry>,
}

impl FollowedKeys {
    /// Reads the keys below `/prefix/`, and watches them from there.
    ///
    /// # Errors
    /// What failed, and where.
    pub fn begin(source: &Source, prefix: &str) -> Result<Self, String> {
        let runtime = runtime()?;
        let beginning = async {
            let mut reader = Reader::connect(source, prefix).await?;
            let (entries, revision) = reader.read().await?;
            let changes = reader.watch(revision + 1).await?;
            Ok::<_, String>((reader, entries, changes))
        };
        let (reader, entries, changes) = runtime.block_on(beginning)?;
        let by_key = entries.into_iter().map(|entry| (entry.key.clone(), entry));
        Ok(Self { runtime, reader, changes, entries: by_key.collect() })
    }

    /// The entries, by key.
    pub fn entries(&self) -> &BTreeMap<String, Entry> {
        &self.entries
    }

    /// Waits until some have changed.
    ///
    /// # Errors
    /// The connection failed, or etcd has deleted what changed: begin again.
    pub fn wait(&mut self) -> Result<(), String> {
        let Self { runtime, reader, changes, entries } = self;
        runtime.block_on(reader.take(changes, entries))
    }
}

fn runtime() -> Result<Runtime, String> {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.map_err(|why| format!("no runtime: {why}"))
}

/// A connection, and what is read over it.
struct Reader {
    client: Client,
    /// The members, for messages.
    urls: String,
    /// Without slashes around it.
    prefix: String,
    /// The seconds of leases.
    leases: HashMap<i64, u32>,
}

impl Reader {
    async fn connect(source: &Source, prefix: &str) -> Result<Self, String> {
        let urls = source.endpoints.join(", ");
        let options = Some(options(source)?);
        let client = within(&urls, Client::connect(&source.endpoints, options)).await?;
        Ok(Self { client, urls, prefix: prefix.trim_matches('/').into(), leases: HashMap::new() })
    }

    /// All entries, and the revision.
    async fn read(&mut self) -> Result<(Vec<Entry>, i64), String> {
        let prefix = &self.prefix;
        // `0` is the character after `/`.
        let (mut from, end) = (format!("/{prefix}/").into_bytes(), format!("/{prefix}0"));
        let (mut entries, mut revision) = (Vec::new(), 0);
        loop {
            let options = GetOptions::new().with_range(&*end).with_limit(PAGE);
            let options = Some(options.with_revision(revision));
            let page = within(&self.urls, self.client.get(from, options)).await?;
            revision = page.header().map_or(revision, etcd_client::ResponseHeader::revision);
            for found in page.kvs() {
                entries.push(self.entry(found).await?);
            }
            if entries.len() > KEYS_MAX {
                let urls = &self.urls;
                return Err(format!(
                    "{urls}: more than {KEYS_MAX} keys are below /{}/",
                    self.prefix
                ));
            }
            match page.kvs().last().filter(|_| page.more()) {
                // The next key there can be.
                Some(last) => from = [last.key(), &[0]].concat(),
                None => return Ok((entries, revision)),
            }
        }
    }

    /// A key with its value, and how long its lease lasts.
    async fn entry(&mut self, found: &KeyValue) -> Result<Entry, String> {
        let lease_seconds = match (found.lease(), self.leases.get(&found.lease())) {
            (0, _) => None,
            (_, Some(seconds)) => Some(*seconds),
            (lease, None) => {
                let asked = self.client.lease_time_to_live(lease, None);
                let seconds =
                    u32::try_from(within(&self.urls, asked).await?.granted_ttl()).unwrap_or(0);
                self.leases.insert(lease, seconds);
                Some(seconds)
            }
        };
        let key = String::from_utf8_lossy(found.key()).into_owned();
        Ok(Entry { key, value: found.value().to_vec(), lease_seconds })
    }

    async fn watch(&mut self, from: i64) -> Result<WatchStream, String> {
        let options = WatchOptions::new().with_prefix().with_start_revision(from);
        let watching = self.client.watch(format!("/{}/", self.prefix), Some(options));
        within(&self.urls, watching).await
    }

    /// Takes in the next changes.
    async fn take(
        &mut self,
        changes: &mut WatchStream,
        entries: &mut BTreeMap<String, Entry>,
    ) -> Result<(), String> {
        let message = changes.message().await;
        let message = message.map_err(|why| format!("etcd at {}: {why}", self.urls))?;
        let message = message.filter(|message| !message.canceled());
        let message = message.ok_or_else(|| format!("etcd at {}: the watch ended", self.urls))?;
        // Those of keys that are gone, too.
        if self.leases.len() > entries.len() {
            self.leases.clear();
        }
        for event in message.events() {
            let Some(found) = event.kv() else { continue };
            if event.event_type() == EventType::Put {
                let entry = self.entry(found).await?;
                entries.insert(entry.key.clone(), entry);
            } else {
                entries.remove(&*String::from_utf8_lossy(found.key()));
            }
        }
        match entries.len() > KEYS_MAX {
            true => Err(format!("etcd at {}: more than {KEYS_MAX} keys", self.urls)),
            false => Ok(()),
        }
    }
}

async fn within<T>(
    urls: &str,
    request: impl Future<Output = Result<T, etcd_client::Error>>,
) -> Result<T, String> {
    match timeout(ANSWER_MAX, request).await {
        Ok(answered) => answered.map_err(|why| format!("etcd at {urls}: {why}")),
        Err(_) => Err(format!("etcd at {urls}: no answer within {} s", ANSWER_MAX.as_secs())),
    }
}

fn options(source: &Source) -> Result<ConnectOptions, String> {
    let read = |path: &Path| {
        fs::read(path).map_err(|why| format!("{} cannot be read: {why}", path.display()))
    };
    let options = ConnectOptions::new().with_connect_timeout(ANSWER_MAX);
    let mut options = options.with_keep_alive(KEEPALIVE, KEEPALIVE).with_require_leader(true);
    if let Some((user, file)) = &source.user {
        let password = String::from_utf8_lossy(&read(file)?).into_owned();
        options = options.with_user(user, password.trim_end_matches(['\r', '\n']));
    }
    if source.endpoints.iter().any(|url| url.starts_with("https://")) {
        let mut tls = TlsOptions::new();
        if let Some(ca) = &source.ca {
            tls = tls.ca_certificate(Certificate::from_pem(read(ca)?));
        }
        if let Some((certificate, key)) = &source.identity {
            tls = tls.identity(Identity::from_pem(read(certificate)?, read(key)?));
        }
        options = options.with_tls(tls);
    }
    Ok(options)
}
