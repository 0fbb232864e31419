//! A server with the API, and a simple client.
use crate::memory::MemoryStore;
use api::{
    Api, ApiCounters, ControlFuture, CredentialFile, Credentials, ExplainRequest, NewCredential,
    ServerControl, TokenRefused,
};
use compile::{Image, Loader};
use health::{Allow, Check, CheckKind, HealthService, HealthSettings};
use image::HashKey;
use listen::Tls;
use records::{RecordService, ServiceThreads};
use serde_json::Value;
use server_status::command::{
    AcceptedZone, Command, CommandOutcome, ReloadOutcome, ThreadFlushed, TokenOutcome, TokenRequest,
};
use server_status::explain::{ExplainedSubnet, Explanation};
use server_status::{AnycastStatus, ServerState, Status, UpstreamStatus, ZoneStatus};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use test_support::folder::Folder;
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use wire::{Name, NameBuf, Rtype};
use zone_manager::{HoldPolicy, Lane, PublisherThread, SourceKind, SourceSettings, ZonePublisher};

pub const PATIENCE: Duration = Duration::from_secs(20);

/// A zone from a file.
pub const OF_FILE: &str = "file.example.";

pub fn name(text: &str) -> NameBuf {
    NameBuf::from_text(text.as_bytes(), Name::ROOT).expect("a name")
}

/// A server with credentials and zones.
struct Fake(Arc<Credentials>, ZonePublisher);

impl ServerControl for Fake {
    fn status(&self) -> Status {
        let server = "192.0.2.53:53".into();
        Status {
            state: ServerState::Serving,
            zones: vec![ZoneStatus { name: OF_FILE.into(), ..ZoneStatus::default() }],
            anycast: Some(AnycastStatus {
                addresses: vec!["192.0.2.53".into()],
                is_announced: true,
                ..AnycastStatus::default()
            }),
            upstreams: vec![UpstreamStatus { server, ..UpstreamStatus::default() }],
            ..Status::default()
        }
    }

    fn served_zone(&self, origin: Name<'_>) -> Option<Arc<compile::Zone>> {
        self.1.image().zone(origin).cloned()
    }

    fn explain(&self, request: ExplainRequest) -> ControlFuture<'_, Result<Explanation, String>> {
        let ExplainRequest { name, rtype, client, subnet, location } = request;
        let subnet = subnet.map(|subnet| ExplainedSubnet {
            subnet: format!("{}/{}", subnet.address, subnet.source_len),
            is_trusted: false,
            scope: None,
        });
        Box::pin(async move {
            Ok(Explanation {
                name: name.to_string(),
                rtype: rtype.to_string(),
                client,
                subnet,
                network: None,
                view: None,
                location,
                denied: false,
                rule: None,
                zone: None,
                forward: None,
                rcode: Some("NOERROR".into()),
                answer: Vec::new(),
                sets: Vec::new(),
            })
        })
    }

    fn command(&self, command: Command) -> ControlFuture<'_, Result<CommandOutcome, String>> {
        Box::pin(async move {
            match command {
                Command::Flush(_) => {
                    let thread = "worker-0".into();
                    let flushed = ThreadFlushed { thread, answers: 3, under_way: 0 };
                    Ok(CommandOutcome::Flushed(vec![flushed]))
                }
                Command::Show { .. } => Ok(CommandOutcome::Shown(Vec::new())),
                Command::Drain { .. } => Ok(CommandOutcome::Drained(vec![".".into()])),
            }
        })
    }

    fn withdraw(&self, reason: Option<String>, _: bool) -> Result<(), String> {
        match reason.as_deref() {
            Some("full disk") => Err("anycast.state cannot be saved".into()),
            _ => Ok(()),
        }
    }

    fn reload(&self, _: bool) -> ControlFuture<'_, ReloadOutcome> {
        let errors = vec!["dunlin.toml:1:1: no".into()];
        Box::pin(async { ReloadOutcome::Refused { errors } })
    }

    fn accept(&self, zone: Option<String>) -> ControlFuture<'_, Result<Vec<AcceptedZone>, String>> {
        let zones = zone.into_iter();
        let accepted =
            zones.map(|zone| AcceptedZone { zone, had: 40, has: 10, serial: Some(7), waits: None });
        let accepted = accepted.collect();
        Box::pin(async { Ok(accepted) })
    }

    fn manage_tokens(
        &self,
        request: TokenRequest,
    ) -> ControlFuture<'_, Result<TokenOutcome, TokenRefused>> {
        let outcome = self.0.handle(request);
        Box::pin(async { outcome })
    }
}

/// A server, stopped when dropped.
pub struct Scene {
    pub api: Api,
    pub address: SocketAddr,
    pub store: MemoryStore,
    pub control: ZonePublisher,
    /// A token with all grants.
    pub root: String,
    pub counters: Arc<ApiCounters>,
    pub records: RecordService,
    opened: Arc<OnceLock<RecordService>>,
    pub credentials: Arc<Credentials>,
    _folder: Folder,
    stop: Option<oneshot::Sender<()>>,
    server: Option<JoinHandle<()>>,
    _serving: ServiceThreads,
    _running: PublisherThread,
}

/// A response.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Reply {
    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|why| panic!("{why}: {self:?}"))
    }

    /// A header field.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    /// The body of a successful response as JSON.
    #[track_caller]
    pub fn done(self) -> Value {
        assert_eq!(self.status, 200, "{} {}", self.head, String::from_utf8_lossy(&self.body));
        self.json()
    }

    /// The field and the rule in the problem of a response with this status.
    #[track_caller]
    pub fn refused(&self, status: u16) -> (String, String) {
        assert_eq!(self.status, status, "{} {}", self.head, String::from_utf8_lossy(&self.body));
        assert_eq!(self.field("content-type"), Some("application/problem+json"), "{self:?}");
        let told = self.json();
        assert_eq!(told["status"], status);
        assert!(told["detail"].as_str().is_some_and(|detail| !detail.is_empty()), "{told}");
        let text = |key: &str| told[key].as_str().unwrap_or_default().to_owned();
        (text("field"), text("rule"))
    }
}

/// A prober with the check `web`.
fn prober(control: &ZonePublisher, folder: &std::path::Path) -> HealthService {
    let settings = HealthSettings {
        checks: vec![check("web")],
        allow: Some(Allow::default()),
        ttl_max: Duration::from_secs(30),
        folder: Some(folder.to_owned()),
        find_user: |_| Err("there are no scripts here".into()),
        // The config reads all kinds; here is one of them.
        read_check: |name, keys| match (keys["kind"].as_str(), keys.get("port")) {
            (Some("tcp"), Some(port)) => {
                Ok(Check { port: port.as_u64().unwrap_or_default() as u16, ..check(name) })
            }
            _ => Err("it is not a port of TCP".into()),
        },
        api_checks: health::checks_in(Some(folder)),
        endpoints: health::endpoints_in(Some(folder)),
        fleet: None,
        webhook: None,
        avoided_cpus: Vec::new(),
    };
    HealthService::start(control, settings).expect("a thread")
}

fn check(name: &str) -> Check {
    Check {
        name: name.into(),
        kind: CheckKind::Tcp,
        port: 80,
        interval: Duration::from_secs(3_600),
        timeout: Duration::from_secs(1),
        rise: 2,
        fall: 3,
        jitter: 10,
    }
}

impl Scene {
    /// A server with the zone example.org, and another one from a file.
    pub fn new() -> Self {
        let scene = Self::bare(|_| None);
        scene.put("/v1/zones/example.org", r#"{"nameservers":["ns1"]}"#).done();
        scene
    }

    /// A server without a zone in its store; `tls` is created in its own folder.
    pub fn bare(tls: impl FnOnce(&std::path::Path) -> Option<Arc<Tls>>) -> Self {
        Self::start(tls, 1_000_000, false)
    }

    /// A server with a rate for each principal.
    pub fn of_rate(requests_per_second: u32) -> Self {
        Self::start(|_| None, requests_per_second, false)
    }

    /// A server whose store is not open yet.
    pub fn late() -> Self {
        Self::start(|_| None, 1_000_000, true)
    }

    /// Opens the store.
    pub fn open(&self) {
        let _ = self.opened.set(self.records.clone());
    }

    fn start(
        tls: impl FnOnce(&std::path::Path) -> Option<Arc<Tls>>,
        requests_per_second: u32,
        is_late: bool,
    ) -> Self {
        let folder = Folder::new("api");
        let key = Arc::new(HashKey::new(std::array::from_fn(|n| n as u64 * 77 + 5)));
        let (control, running) =
            ZonePublisher::start(Image::new(Arc::clone(&key))).expect("a thread");
        let (kind, lane, hold) = (SourceKind::File, Lane::Normal, HoldPolicy::Never);
        let files = SourceSettings { name: "files".into(), kind, lane, hold };
        let files = control.start_source(files);
        files.claim(name(OF_FILE), Some("/etc/dunlin/file.zone".into()));
        files.sync_zone(of_file(&key), None).wait().expect("it is published");
        let store = MemoryStore::default();
        let started = RecordService::start(&control, Box::new(store.clone()));
        let (records, serving) = started.expect("threads");
        let kept = Some(folder.join("credentials.json"));
        let credentials = Arc::new(Credentials::open(CredentialFile::at(kept)));
        let opened = Arc::new(OnceLock::new());
        if !is_late {
            let _ = opened.set(records.clone());
        }
        let counters = Arc::new(ApiCounters::default());
        let api = Api {
            health: Some(prober(&control, &folder)),
            records: Some(Arc::clone(&opened)),
            credentials: Arc::clone(&credentials),
            operator: Arc::new(Fake(Arc::clone(&credentials), control.clone())),
            counters: Arc::clone(&counters),
            requests_per_second,
            powerdns: true,
            spool: folder.to_path_buf(),
        };
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let (stop, stopped) = oneshot::channel();
        let tls = tls(&folder);
        let served = api.clone();
        let server = thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
            let ended = async { drop(stopped.await) };
            runtime.block_on(api::serve(listener, served, tls, ended)).expect("served");
        });
        let mut scene = Self {
            api,
            address,
            store,
            control,
            root: String::new(),
            records,
            opened,
            counters,
            credentials,
            _folder: folder,
            stop: Some(stop),
            server: Some(server),
            _serving: serving,
            _running: running,
        };
        scene.root = scene.token("root", &["read,write,zones,operate *"]);
        scene
    }

    /// The token of a new principal.
    pub fn token(&self, principal: &str, grants: &[&str]) -> String {
        self.create(principal, grants, None).expect("a token")
    }

    /// Creates a principal, and returns its token if it has one.
    pub fn create(&self, name: &str, grants: &[&str], subject: Option<&str>) -> Option<String> {
        let grants = grants.iter().map(|grant| (*grant).to_owned()).collect();
        let (principal, subject) = (name.to_owned(), subject.map(str::to_owned));
        let new = NewCredential { principal, grants, subject, tsig: None, lifetime: None };
        self.credentials.create(new).expect("a principal")
    }

    pub fn revoke(&self, principal: &str) {
        self.credentials.revoke(principal).expect("it was there");
    }

    pub fn get(&self, path: &str) -> Reply {
        self.ask("GET", path, &self.root, &[], b"")
    }

    pub fn put(&self, path: &str, body: &str) -> Reply {
        self.with("PUT", path, &[], body)
    }

    pub fn patch(&self, path: &str, body: &str) -> Reply {
        self.with("PATCH", path, &[], body)
    }

    pub fn delete(&self, path: &str) -> Reply {
        self.ask("DELETE", path, &self.root, &[], b"")
    }

    /// Sends a JSON body, with more header fields.
    pub fn with(&self, method: &str, path: &str, fields: &[&str], body: &str) -> Reply {
        let fields = [fields, &["Content-Type: application/json"]].concat();
        self.ask(method, path, &self.root, &fields, body.as_bytes())
    }

    /// Sends a request with a token.
    pub fn ask(
        &self,
        method: &str,
        path: &str,
        token: &str,
        fields: &[&str],
        body: &[u8],
    ) -> Reply {
        let mut text = format!("{method} {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n");
        if !token.is_empty() {
            text += &format!("Authorization: Bearer {token}\r\n");
        }
        for field in fields {
            text += &format!("{field}\r\n");
        }
        text += &format!("Content-Length: {}\r\n\r\n", body.len());
        let request = [text.as_bytes(), body].concat();
        let mut stream = self.connect();
        // A request that is refused early still gets its response.
        let sent = stream.write_all(&request);
        receive(&mut stream).unwrap_or_else(|| panic!("{method} {path}: no reply, {sent:?}"))
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("a listener");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream.set_write_timeout(Some(PATIENCE)).expect("a timeout");
        stream
    }

    /// Opens a connection and sends the head of a request on it, with further fields.
    pub fn begin(&self, request: &str, token: &str, fields: &[&str]) -> TcpStream {
        let mut stream = self.connect();
        let fields: String = fields.iter().map(|field| format!("{field}\r\n")).collect();
        let authorized = format!("Host: a\r\nAuthorization: Bearer {token}");
        let head = format!("{request} HTTP/1.1\r\n{authorized}\r\n{fields}\r\n");
        stream.write_all(head.as_bytes()).expect("sent");
        stream
    }

    /// The answer of the snapshot: the bytes of each record.
    pub fn answered(&self, zone: &str, owner: &str, rtype: Rtype) -> Vec<Vec<u8>> {
        let image = self.control.image();
        let found = image.zone(name(zone).as_name());
        let set = found.and_then(|zone| zone.set(name(owner).as_name(), rtype));
        set.map(|set| set.records().map(<[u8]>::to_vec).collect()).unwrap_or_default()
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        drop(self.stop.take());
        let ended = self.server.take().map(JoinHandle::join);
        if !thread::panicking() {
            ended.expect("it runs").expect("it did not panic");
        }
    }
}

fn of_file(key: &Arc<HashKey>) -> compile::Zone {
    let origin = name(OF_FILE);
    let mut loader = Loader::new(Arc::clone(key), origin.as_name(), None);
    let mut text = &b"@ 60 SOA ns admin 7 1 1 1 1\n@ 60 NS ns\nns 60 A 192.0.2.1\n"[..];
    zonefile::read_stream(&mut text, origin.as_name(), &mut |record| {
        loader.add(record.owner, record.rtype, record.ttl, record.rdata, 0)
    })
    .expect("a zone file");
    loader.finish().unwrap_or_else(|_| panic!("a zone"))
}

/// Reads a response to its end, and joins its chunks.
pub fn receive(stream: &mut impl Read) -> Option<Reply> {
    let mut bytes = Vec::new();
    // A reset after the response does no harm.
    let _ = stream.read_to_end(&mut bytes);
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = String::from_utf8(bytes[..end].to_vec()).expect("text");
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let rest = &bytes[end + 4..];
    let mut reply = Reply { status, head, body: Vec::new() };
    reply.body = match reply.field("transfer-encoding") {
        Some("chunked") => unchunk(rest)?,
        _ => rest.to_vec(),
    };
    Some(reply)
}

fn unchunk(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let end = rest.windows(2).position(|two| two == b"\r\n")?;
        let len = usize::from_str_radix(std::str::from_utf8(&rest[..end]).ok()?, 16).ok()?;
        rest = &rest[end + 2..];
        if len == 0 {
            return Some(body);
        }
        body.extend_from_slice(rest.get(..len)?);
        rest = rest.get(len + 2..)?;
    }
}
