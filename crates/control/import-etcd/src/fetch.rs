//! Reading all keys below a prefix from etcd, as of one revision.
use crate::key::Entry;
use etcd_client::{Certificate, Client, ConnectOptions, GetOptions, Identity, TlsOptions};
use std::collections::HashMap;
use std::fs;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::timeout;

/// Keys of one answer of etcd.
const PAGE: i64 = 1_000;
/// Keys of one import.
const KEYS_MAX: usize = 5_000_000;
/// Until etcd has answered one request.
const ANSWER_MAX: Duration = Duration::from_secs(30);

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
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|why| format!("no runtime: {why}"))?;
    runtime.block_on(read(source, prefix))
}

async fn read(source: &Source, prefix: &str) -> Result<Vec<Entry>, String> {
    let urls = source.endpoints.join(", ");
    let options = Some(options(source)?);
    let connecting = Client::connect(&source.endpoints, options);
    let mut client = within(&urls, connecting).await?;
    let prefix = prefix.trim_matches('/');
    // `0` is the character after `/`.
    let (mut from, end) = (format!("/{prefix}/").into_bytes(), format!("/{prefix}0"));
    let (mut entries, mut leases, mut revision) = (Vec::new(), HashMap::new(), 0);
    loop {
        let options = GetOptions::new().with_range(&*end).with_limit(PAGE).with_revision(revision);
        let page = within(&urls, client.get(from, Some(options))).await?;
        revision = page.header().map_or(revision, etcd_client::ResponseHeader::revision);
        for found in page.kvs() {
            let lease_seconds = match found.lease() {
                0 => None,
                lease => Some(match leases.get(&lease) {
                    Some(seconds) => *seconds,
                    None => {
                        let told = within(&urls, client.lease_time_to_live(lease, None)).await?;
                        let seconds = u32::try_from(told.ttl()).unwrap_or(0);
                        leases.insert(lease, seconds);
                        seconds
                    }
                }),
            };
            let key = String::from_utf8_lossy(found.key()).into_owned();
            entries.push(Entry { key, value: found.value().to_vec(), lease_seconds });
        }
        if entries.len() > KEYS_MAX {
            return Err(format!("{urls}: more than {KEYS_MAX} keys are below /{prefix}/"));
        }
        match page.kvs().last().filter(|_| page.more()) {
            // The next key there can be.
            Some(last) => from = [last.key(), &[0]].concat(),
            None => return Ok(entries),
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
    let mut options = ConnectOptions::new().with_connect_timeout(ANSWER_MAX);
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
