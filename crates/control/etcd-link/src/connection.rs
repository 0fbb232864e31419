//! The connection to one of the members of etcd at a time; the next one is asked after an error.
use crate::limits::{CONNECT_MAX, HANDSHAKE_MAX, KEEPALIVE, REQUEST_MAX, UNSENT_MAX, UNSENT_PAUSE};
use crate::traffic::Traffic;
use etcd_client::{
    Certificate, Client, Compare, ConnectOptions, Error, GetOptions, GetResponse, Identity,
    KeyValue, TlsOptions, Txn, TxnOp, TxnOpResponse, TxnResponse,
};
use std::error::Error as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

/// Why a request was not answered as expected.
#[derive(Clone, Debug)]
pub enum RequestError {
    /// No member said whether it did the request.
    Unanswered(String),
    /// A member refused it, and did nothing.
    Refused(String),
    /// No member was there that has a leader: nothing was done, and it may be tried again.
    Unsent(String),
    /// etcd has no space left.
    NoSpace(String),
    /// What was asked for is compacted.
    Compacted,
    /// What is in etcd cannot be used before an operator has done something.
    Unusable(String),
}

impl RequestError {
    /// The cause, and what to do.
    pub fn why(&self) -> &str {
        match self {
            Self::Unanswered(why)
            | Self::Refused(why)
            | Self::Unsent(why)
            | Self::NoSpace(why)
            | Self::Unusable(why) => why,
            Self::Compacted => "etcd has compacted what was asked for",
        }
    }
}

/// The space of an etcd.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EtcdSpace {
    /// Bytes of its file.
    pub bytes: u64,
    /// The most bytes that it may have, if it says so (etcd 3.6).
    pub quota: Option<u64>,
}

/// The member in use.
#[derive(Default)]
struct Current {
    /// The index of its endpoint.
    endpoint: usize,
    client: Option<Client>,
}

/// Where etcd is, and how to log in.
#[derive(Clone, Debug, Default)]
pub struct ConnectionSettings {
    /// The URLs of its members: at least one.
    pub endpoints: Vec<String>,
    /// The CA that signed the members' certificates; `None`: none is accepted.
    pub ca: Option<PathBuf>,
    /// The client's certificate and its key.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// The user, and the file with its password.
    pub user: Option<(String, PathBuf)>,
}

/// Asks the members of etcd, one at a time.
pub struct Connection {
    settings: ConnectionSettings,
    current: Mutex<Current>,
    /// Whether etcd asked for no login, although there is a user.
    is_open: AtomicBool,
    /// What came from etcd.
    pub traffic: Arc<Traffic>,
}

impl Connection {
    /// A connection, which the first request makes.
    pub fn new(settings: ConnectionSettings) -> Self {
        // Servers spread over the members.
        let endpoint = fastrand::usize(..settings.endpoints.len().max(1));
        let current = Mutex::new(Current { endpoint, client: None });
        let (is_open, traffic) = (AtomicBool::new(false), Arc::default());
        Self { settings, current, is_open, traffic }
    }

    fn current(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The endpoint in use.
    pub fn endpoint(&self) -> String {
        let at = self.current().endpoint % self.settings.endpoints.len().max(1);
        self.settings.endpoints.get(at).cloned().unwrap_or_default()
    }

    /// A client of the member in use, and its endpoint's index. Certificates and passwords are read
    /// from their files for each connection.
    pub async fn client(&self) -> Result<(usize, Client), RequestError> {
        let endpoint = {
            let current = self.current();
            if let Some(client) = &current.client {
                return Ok((current.endpoint, client.clone()));
            }
            current.endpoint
        };
        match self.connect(endpoint).await {
            Ok(client) => {
                let mut current = self.current();
                if current.endpoint == endpoint {
                    current.client = Some(client.clone());
                }
                Ok((endpoint, client))
            }
            Err(why) => {
                self.leave(endpoint);
                Err(why)
            }
        }
    }

    async fn connect(&self, endpoint: usize) -> Result<Client, RequestError> {
        let urls = &self.settings.endpoints;
        let url = &urls[endpoint % urls.len()];
        let has_user = self.settings.user.is_some();
        match self.connect_to(url, has_user).await? {
            // An operator has disabled the logins of etcd.
            Err(error) if has_user && message_of(&error).contains("is not enabled") => {
                if !self.is_open.swap(true, Relaxed) {
                    tracing::warn!(
                        "etcd at {url} has no authentication: any client may write to \
                                    it"
                    );
                }
                self.connect_to(url, false).await?.map_err(|error| unsent(classify(url, error)))
            }
            Err(error) => Err(unsent(classify(url, error))),
            Ok(client) => {
                if has_user && self.is_open.swap(false, Relaxed) {
                    tracing::info!("etcd at {url} has authentication again");
                }
                Ok(client)
            }
        }
    }

    async fn connect_to(
        &self,
        url: &String,
        logs_in: bool,
    ) -> Result<Result<Client, Error>, RequestError> {
        let options = self.options(logs_in).map_err(RequestError::Refused)?;
        let connecting = timeout(CONNECT_MAX, Client::connect([url], Some(options)));
        connecting.await.map_err(|_| unsent(unanswered(url, "no connection", CONNECT_MAX)))
    }

    fn options(&self, logs_in: bool) -> Result<ConnectOptions, String> {
        let read = |path: &Path| {
            fs::read(path).map_err(|why| format!("{} cannot be read: {why}", path.display()))
        };
        let mut options = ConnectOptions::new()
            .with_connect_timeout(HANDSHAKE_MAX)
            .with_keep_alive(KEEPALIVE, KEEPALIVE)
            .with_keep_alive_while_idle(true)
            .with_require_leader(true);
        if let Some((user, password)) = self.settings.user.as_ref().filter(|_| logs_in) {
            let password = read(password)?;
            let password = String::from_utf8_lossy(&password);
            // A member that starts again has forgotten the login, which is then repeated.
            options = options
                .with_user(user, password.trim_end_matches(['\r', '\n']))
                .with_auto_token_refresh(true);
        }
        let is_tls = |url: &String| url.starts_with("https://");
        if self.settings.endpoints.iter().any(is_tls) {
            let mut tls = TlsOptions::new();
            if let Some(ca) = &self.settings.ca {
                tls = tls.ca_certificate(Certificate::from_pem(read(ca)?));
            }
            if let Some((certificate, key)) = &self.settings.identity {
                tls = tls.identity(Identity::from_pem(read(certificate)?, read(key)?));
            }
            options = options.with_tls(tls);
        }
        Ok(options)
    }

    /// Leaves a member for the next one, unless that was done already.
    pub fn leave(&self, endpoint: usize) {
        let mut current = self.current();
        if current.endpoint == endpoint {
            *current = Current { endpoint: endpoint.wrapping_add(1), client: None };
        }
    }

    /// The keys that these options choose.
    pub async fn get(
        &self,
        key: impl Into<Vec<u8>>,
        options: GetOptions,
    ) -> Result<GetResponse, RequestError> {
        let key = key.into();
        let got = self.call(|mut etcd| {
            let (key, options) = (key.clone(), options.clone());
            async move { etcd.get(key, Some(options)).await }
        });
        let got = got.await?;
        self.traffic.got(&got);
        Ok(got)
    }

    /// The space of the member in use; `None`: it does not answer.
    pub async fn space(&self) -> Option<EtcdSpace> {
        let (_, mut client) = self.client().await.ok()?;
        let status = timeout(REQUEST_MAX, client.status()).await.ok()?.ok()?;
        let quota = u64::try_from(status.db_size_quota()).ok().filter(|bytes| *bytes > 0);
        Some(EtcdSpace { bytes: u64::try_from(status.db_size()).ok()?, quota })
    }

    /// A key as it was at a revision of etcd, if it existed; 0: now.
    pub async fn find(
        &self,
        key: impl Into<Vec<u8>>,
        at: i64,
    ) -> Result<Option<KeyValue>, RequestError> {
        let mut got = self.get(key, GetOptions::new().with_revision(at)).await?;
        Ok(got.take_kvs().pop())
    }

    /// The value of a key, if it exists.
    pub async fn value(&self, key: &str) -> Result<Option<Vec<u8>>, RequestError> {
        Ok(self.find(key, 0).await?.map(|kv| kv.value().to_vec()))
    }

    /// Does these operations if etcd is so. Returns whether it was.
    pub async fn write(
        &self,
        when: impl Into<Vec<Compare>>,
        ops: impl Into<Vec<TxnOp>>,
    ) -> Result<bool, RequestError> {
        let txn = Txn::new().when(when).and_then(ops);
        Ok(self.transact(txn).await?.succeeded())
    }

    /// Runs a transaction.
    pub async fn transact(&self, txn: Txn) -> Result<TxnResponse, RequestError> {
        self.call(|mut etcd| {
            let txn = txn.clone();
            async move { etcd.txn(txn).await }
        })
        .await
    }

    /// A new lease.
    pub async fn grant(&self, ttl: Duration) -> Result<i64, RequestError> {
        let granted = self
            .call(|mut etcd| async move { etcd.lease_grant(ttl.as_secs() as i64, None).await })
            .await?;
        Ok(granted.id())
    }

    /// Renews a lease. `false`: it has expired.
    pub async fn renew(&self, lease: i64) -> Result<bool, RequestError> {
        self.call(|mut etcd| async move {
            // It waits for the first answer.
            match etcd.lease_keep_alive(lease).await {
                Ok(_) => Ok(true),
                Err(Error::LeaseKeepAliveError(_)) => Ok(false),
                Err(error) => Err(error),
            }
        })
        .await
    }

    /// Gives a lease up: its keys are gone.
    pub async fn revoke(&self, lease: i64) -> Result<(), RequestError> {
        self.call(|mut etcd| async move { etcd.lease_revoke(lease).await }).await.map(drop)
    }

    /// Sends a request to the member in use, and leaves that after an error. What no member did is
    /// tried again for a while, and a login by a password that was changed since is repeated by the
    /// new one.
    async fn call<T, F>(&self, request: impl Fn(Client) -> F) -> Result<T, RequestError>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let until = Instant::now() + UNSENT_MAX;
        let mut is_repeated = false;
        loop {
            let error = match self.ask(&request).await {
                Ok(answer) => return answer,
                Err(error) => error,
            };
            match error {
                RequestError::Unsent(_) if Instant::now() < until => {
                    sleep(UNSENT_PAUSE.mul_f64(0.5 + fastrand::f64())).await;
                }
                RequestError::Refused(_) if !std::mem::replace(&mut is_repeated, true) => {}
                error => return Err(error),
            }
        }
    }

    /// Asks the member in use. `Err`: it did nothing, and the next one, or a new login, may help.
    async fn ask<T, F>(
        &self,
        request: impl Fn(Client) -> F,
    ) -> Result<Result<T, RequestError>, RequestError>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let (endpoint, client) = match self.client().await {
            Err(error @ RequestError::Unsent(_)) => return Err(error),
            Err(error) => return Ok(Err(error)),
            Ok(client) => client,
        };
        let (error, is_old) = match timeout(REQUEST_MAX, request(client)).await {
            Ok(Ok(done)) => return Ok(Ok(done)),
            Ok(Err(error)) => {
                let is_old = is_login_refused(&error);
                (classify(&self.endpoint(), error), is_old)
            }
            Err(_) => (unanswered(&self.endpoint(), "no answer", REQUEST_MAX), false),
        };
        if !matches!(error, RequestError::Compacted | RequestError::NoSpace(_)) {
            self.leave(endpoint);
        }
        match error {
            error @ RequestError::Unsent(_) => Err(error),
            error if is_old => Err(error),
            error => Ok(Err(error)),
        }
    }
}

/// The values of the keys that a transaction has read, in order.
pub fn values<const KEYS: usize>(answer: &TxnResponse) -> [Option<Vec<u8>>; KEYS] {
    let mut found = answer.op_responses().into_iter().map(|response| match response {
        TxnOpResponse::Get(got) => got.kvs().first().map(|kv| kv.value().to_vec()),
        _ => None,
    });
    std::array::from_fn(|_| found.next().flatten())
}

/// What the member says.
fn message_of(error: &Error) -> &str {
    match error {
        Error::GRpcStatus(status) => status.message(),
        _ => "",
    }
}

/// Nothing was sent that could be done.
fn unsent(error: RequestError) -> RequestError {
    match error {
        RequestError::Unanswered(why) => RequestError::Unsent(why),
        error => error,
    }
}

/// Whether etcd did not accept the login, or asks for one again, and so did nothing.
fn is_login_refused(error: &Error) -> bool {
    let message = message_of(error);
    message.contains("authentication failed") || message.contains("user name is empty")
}

fn unanswered(url: &str, what: &str, within: Duration) -> RequestError {
    RequestError::Unanswered(format!("etcd at {url}: {what} within {} s", within.as_secs()))
}

/// Says what an error means for the request.
pub fn classify(url: &str, error: Error) -> RequestError {
    // The codes of gRPC.
    const INVALID_ARGUMENT: i32 = 3;
    const NOT_FOUND: i32 = 5;
    const PERMISSION_DENIED: i32 = 7;
    const RESOURCE_EXHAUSTED: i32 = 8;
    const FAILED_PRECONDITION: i32 = 9;
    const OUT_OF_RANGE: i32 = 11;
    const UNAUTHENTICATED: i32 = 16;
    let Error::GRpcStatus(status) = &error else {
        return RequestError::Unanswered(format!("etcd at {url}: {}", with_sources(&error)));
    };
    let why = format!("etcd at {url}: {}", told(status.message(), status.source()));
    match status.code() as i32 {
        OUT_OF_RANGE if status.message().contains("compacted") => RequestError::Compacted,
        RESOURCE_EXHAUSTED if status.message().contains("space exceeded") => {
            RequestError::NoSpace(format!(
                "{why}: compact and defragment it, then clear the alarm by `etcdctl alarm disarm`, \
                 or raise its --quota-backend-bytes"
            ))
        }
        PERMISSION_DENIED | UNAUTHENTICATED => {
            RequestError::Refused(format!("{why}: check `[etcd] user` and its role (docs/etcd.md)"))
        }
        INVALID_ARGUMENT | NOT_FOUND | FAILED_PRECONDITION | OUT_OF_RANGE | RESOURCE_EXHAUSTED => {
            RequestError::Refused(why)
        }
        // It looks for its leader before it does anything.
        _ if status.message() == "etcdserver: no leader" => RequestError::Unsent(why),
        _ => RequestError::Unanswered(why),
    }
}

/// What a message of the client means. One text for each cause: the log says the same only once.
fn told(message: &str, source: Option<&dyn std::error::Error>) -> String {
    match message {
        _ if message.contains("InvalidContentType") => {
            "it does not speak TLS: write http:// for it in `[etcd] endpoints`".into()
        }
        _ if message == "transport error" || message.starts_with("h2 protocol error") => {
            "the connection failed; if that lasts, this is not etcd, or it expects https://".into()
        }
        _ => source.map_or_else(
            || message.to_owned(),
            |source| match with_sources(source).rsplit_once(": ") {
                Some((_, cause)) if !message.contains(cause) => format!("{message}: {cause}"),
                _ => message.to_owned(),
            },
        ),
    }
}

/// An error and its causes: the first alone is often only "transport error".
fn with_sources(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text += &format!(": {cause_text}");
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_support::etcd::Etcd;
    use test_support::wait;
    use tokio::runtime::Builder;

    #[test]
    fn request_without_a_leader_is_not_done_and_may_be_tried_again() {
        let Some(mut etcd) = Etcd::start_or_skip(3) else { return };
        let endpoints = vec![etcd.endpoints().swap_remove(0)];
        let connection =
            Connection::new(ConnectionSettings { endpoints, ..ConnectionSettings::default() });
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let put = || Txn::new().and_then([etcd_client::TxnOp::put("k", "", None)]);
        let write = || runtime.block_on(connection.transact(put()));
        wait::until_true("a write is done", || write().is_ok());
        (1..3).for_each(|member| etcd.kill(member));
        wait::until_true("there is no leader", || match write() {
            Err(RequestError::Unsent(why)) => why.contains("no leader"),
            _ => false,
        });
        etcd.start(1);
        wait::until_true("a leader is elected", || write().is_ok());
    }
}
