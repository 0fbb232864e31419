//! The processes of a cluster.
use crate::access::{self, ADMIN_TOKEN};
use crate::client::{Answer, ApiClient};
use crate::guard::Guard;
use crate::objects::{self, collection};
use crate::{Result, binaries};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::fs::File;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use test_support::{ports, skip, wait};

/// A process of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The store of the API server.
    Etcd,
    /// The API server.
    ApiServer,
    /// The controllers.
    Controllers,
    /// What gives Pods a node, where there is one with a kubelet.
    Scheduler,
}

/// What a cluster without a kubelet consists of.
const PARTS: [Part; 3] = [Part::Etcd, Part::ApiServer, Part::Controllers];

/// A cluster that runs, until it is dropped.
pub struct Cluster {
    pub(crate) folder: PathBuf,
    pub(crate) binaries: PathBuf,
    pub(crate) etcd: [SocketAddrV4; 2],
    pub(crate) api: SocketAddrV4,
    children: [Option<Child>; 4],
    client: ApiClient,
    pub(crate) guard: Guard,
    /// Whether [`Cluster::add_node`] may add a node.
    pub(crate) has_kubelet: bool,
}

impl Cluster {
    /// Starts a cluster and waits until it serves. Without the binaries the test is skipped, or
    /// fails where nothing may be skipped.
    ///
    /// # Panics
    /// A part does not start; its log is in the message.
    pub fn start_or_skip() -> Option<Self> {
        Self::started(Self::start)
    }

    /// The same with a scheduler and all controllers, and without a node: [`Cluster::add_node`]
    /// adds one with a kubelet.
    ///
    /// # Panics
    /// A part does not start; its log is in the message.
    pub fn start_for_kubelet_or_skip() -> Option<Self> {
        Self::started(|binaries| Self::start_parts(binaries, true))
    }

    fn started(start: impl Fn(PathBuf) -> Result<Self>) -> Option<Self> {
        match binaries::find() {
            Ok(binaries) => Some(start(binaries).unwrap_or_else(|why| panic!("{why}"))),
            Err(why) => {
                skip::skip(&why);
                None
            }
        }
    }

    /// Starts a cluster from binaries in this folder and waits until it serves.
    ///
    /// # Errors
    /// What does not start, and the end of its log.
    pub fn start(binaries: PathBuf) -> Result<Self> {
        let cluster = Self::start_parts(binaries, false)?;
        cluster.create(&objects::node(objects::NODE));
        Ok(cluster)
    }

    fn start_parts(binaries: PathBuf, has_kubelet: bool) -> Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = format!("dunlin-cluster-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        let told = |error| format!("{} cannot be used: {error}", folder.display());
        std::fs::create_dir(&folder).map_err(told)?;
        let guard = Guard::start(&folder).map_err(told)?;
        access::write(&folder)?;
        let free = || ports::free_address(Ipv4Addr::LOCALHOST);
        let (etcd, api) = ([free(), free()], free());
        let server = format!("https://{api}");
        access::write_kubeconfig(&folder, &folder.join("admin.conf"), &server, ADMIN_TOKEN)?;
        let client = ApiClient::new(&folder.join("admin.conf"))?;
        let children = [None, None, None, None];
        let mut cluster =
            Self { folder, binaries, etcd, api, children, client, guard, has_kubelet };
        for part in PARTS.into_iter().chain(has_kubelet.then_some(Part::Scheduler)) {
            cluster.start_part(part)?;
        }
        cluster.wait_for("the namespace `default`", |cluster| {
            cluster.get("/api/v1/namespaces/default/serviceaccounts/default").is_ok()
        })?;
        Ok(cluster)
    }

    /// The files of the cluster. They are gone when it is dropped.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// A kubeconfig of an administrator.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.join("admin.conf")
    }

    /// The address of the API server.
    pub fn api(&self) -> SocketAddrV4 {
        self.api
    }

    /// A kubeconfig for a service account, whose token is good for this many seconds (at least
    /// 600).
    ///
    /// # Errors
    /// The API server issues no token for it.
    pub fn kubeconfig_of(&self, namespace: &str, account: &str, seconds: u32) -> Result<PathBuf> {
        let token = self.token_of(namespace, account, seconds)?;
        let file = self.folder.join(format!("{namespace}-{account}.conf"));
        access::write_kubeconfig(&self.folder, &file, &format!("https://{}", self.api), &token)?;
        Ok(file)
    }

    /// A token of a service account.
    ///
    /// # Errors
    /// The API server issues none.
    pub fn token_of(&self, namespace: &str, account: &str, seconds: u32) -> Result<String> {
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token");
        let body = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
                           "spec": { "expirationSeconds": seconds } });
        let issued = self.request("POST", &path, &body)?.done()?;
        let token = issued["status"]["token"].as_str();
        token.map(str::to_owned).ok_or_else(|| format!("no token for {namespace}/{account}"))
    }

    /// Sends a request as an administrator.
    ///
    /// # Errors
    /// There is no answer.
    pub fn request(&self, method: &str, path: &str, body: &Value) -> Result<Answer> {
        let kind = match method {
            "PATCH" => "application/merge-patch+json",
            _ => "application/json",
        };
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.client.request(method, path, kind, body.as_bytes())
    }

    /// An object, or a list.
    ///
    /// # Errors
    /// There is no answer, or the API server refuses.
    pub fn get(&self, path: &str) -> Result<Value> {
        self.request("GET", path, &Value::Null)?.done()
    }

    /// Watches objects by a path, such as `/api/v1/services?watch=true`: each line as it comes,
    /// until the function returns `false` or the stream ends.
    ///
    /// # Errors
    /// There is no answer, or the stream breaks.
    pub fn watch(&self, path: &str, each: impl FnMut(&[u8]) -> bool) -> Result<()> {
        self.client.lines(path, each)
    }

    /// Creates an object.
    ///
    /// # Panics
    /// The API server refuses it.
    pub fn create(&self, object: &Value) -> Value {
        let path = collection(object).expect("an object has a kind");
        let answer = self.request("POST", &path, object).and_then(Answer::done);
        answer.unwrap_or_else(|why| panic!("{path}: {why}\n{object:#}"))
    }

    /// Replaces an object.
    ///
    /// # Panics
    /// The API server refuses it.
    pub fn replace(&self, object: &Value) -> Value {
        let path = path_of(object);
        let answer = self.request("PUT", &path, object).and_then(Answer::done);
        answer.unwrap_or_else(|why| panic!("{path}: {why}\n{object:#}"))
    }

    /// Merges a patch into the object at a path, such as `/api/v1/namespaces/a/pods/b/status`.
    ///
    /// # Panics
    /// The API server refuses it.
    pub fn patch(&self, path: &str, patch: &Value) -> Value {
        let answer = self.request("PATCH", path, patch).and_then(Answer::done);
        answer.unwrap_or_else(|why| panic!("{path}: {why}\n{patch:#}"))
    }

    /// Deletes an object; one that is not there is not an error.
    ///
    /// # Panics
    /// The API server refuses.
    pub fn delete(&self, object: &Value) {
        let path = path_of(object);
        let answer = self.request("DELETE", &path, &Value::Null);
        let answer = answer.unwrap_or_else(|why| panic!("{why}"));
        assert!(answer.status == 404 || answer.done().is_ok(), "DELETE {path}");
    }

    /// Runs kubectl as an administrator with this input; what it writes.
    ///
    /// # Errors
    /// What it says when it fails.
    pub fn kubectl(&self, arguments: &[&str], input: &str) -> Result<String> {
        let mut command = Command::new(self.binaries.join("kubectl"));
        command.arg("--kubeconfig").arg(self.kubeconfig()).args(arguments);
        command.env("HOME", &self.folder);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let run = || {
            let mut child = command.spawn()?;
            child.stdin.take().map(|mut stdin| stdin.write_all(input.as_bytes())).transpose()?;
            child.wait_with_output()
        };
        let output = { run }().map_err(|error| format!("kubectl does not run: {error}"))?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match output.status.success() {
            true => Ok(text(&output.stdout)),
            false => Err(text(&[output.stdout, output.stderr].concat())),
        }
    }

    /// Stops a part where it is (SIGSTOP): its connections stay open and are silent.
    pub fn pause(&self, part: Part) {
        self.signal(part, Signal::STOP);
    }

    /// Lets a paused part continue.
    pub fn resume(&self, part: Part) {
        self.signal(part, Signal::CONT);
    }

    /// Kills a part at once and waits until it is gone.
    pub fn kill(&mut self, part: Part) {
        self.signal(part, Signal::KILL);
        if let Some(mut child) = self.children[part as usize].take() {
            let _ = child.wait();
        }
    }

    /// Removes all that etcd holds. It must not run.
    ///
    /// # Panics
    /// It runs, or its folder cannot be removed.
    pub fn empty_etcd(&self) {
        assert!(self.children[Part::Etcd as usize].is_none(), "etcd runs");
        std::fs::remove_dir_all(self.folder.join("etcd")).expect("the folder of etcd");
    }

    /// Has etcd forget all old revisions, so that who continues from one of them gets HTTP 410.
    ///
    /// # Panics
    /// The API server does not answer.
    pub fn compact(&self) {
        let list = self.get("/api/v1/namespaces").expect("a list");
        let revision = list["metadata"]["resourceVersion"].as_str().expect("a revision");
        let body = json!({ "revision": revision, "physical": true }).to_string();
        let sent = post_plain(self.etcd[0], "/v3/kv/compaction", &body);
        assert!(sent.as_deref().is_ok_and(|answer| answer.contains("200 OK")), "{sent:?}");
    }

    /// Starts a part that does not run, and waits until it serves.
    ///
    /// # Errors
    /// It does not; the end of its log.
    pub fn start_part(&mut self, part: Part) -> Result<()> {
        let (binary, arguments) = self.command_of(part);
        let log = self.log_of(part);
        let told = |error: std::io::Error| format!("{binary} does not start: {error}");
        let out = File::options().create(true).append(true).open(&log).map_err(told)?;
        let mut command = Command::new(self.binaries.join(binary));
        command.args(arguments).stdin(Stdio::null()).current_dir(&self.folder);
        // Nothing here outlives the machine, so etcd need not wait for its disk.
        command.env("ETCD_UNSAFE_NO_FSYNC", "true");
        command.stdout(out.try_clone().map_err(told)?).stderr(out);
        let child = self.guard.adopt(&mut command).spawn().map_err(told)?;
        self.children[part as usize] = Some(child);
        match part {
            Part::Etcd => {
                let client = self.etcd[0];
                self.wait_for("etcd", move |_| TcpStream::connect(client).is_ok())
            }
            Part::ApiServer => self.wait_for("kube-apiserver", |cluster| {
                let answer = cluster.request("GET", "/readyz", &Value::Null);
                answer.is_ok_and(|answer| answer.status == 200)
            }),
            Part::Controllers | Part::Scheduler => Ok(()),
        }
    }

    /// Waits until something is so.
    ///
    /// # Errors
    /// It is not within the deadline, or a part has ended; the end of its log.
    pub fn wait_for(&mut self, what: &str, is_so: impl Fn(&Self) -> bool) -> Result<()> {
        self.wait_within(wait::deadline(), what, is_so)
    }

    /// The same for at most this time.
    ///
    /// # Errors
    /// As of [`Cluster::wait_for`].
    pub fn wait_within(
        &mut self,
        max: Duration,
        what: &str,
        is_so: impl Fn(&Self) -> bool,
    ) -> Result<()> {
        wait::try_until_ok_within(max, what, || match self.check_alive() {
            Ok(()) if is_so(self) => Ok(Ok(())),
            Ok(()) => Err(self.end_of_log(Part::ApiServer)),
            Err(ended) => Ok(Err(ended)),
        })?
    }

    fn check_alive(&mut self) -> Result<()> {
        for part in [Part::Etcd, Part::ApiServer, Part::Controllers, Part::Scheduler] {
            let child = self.children[part as usize].as_mut();
            let ended = child.and_then(|child| child.try_wait().ok().flatten());
            if let Some(status) = ended {
                return Err(format!("{part:?} ended ({status}):\n{}", self.end_of_log(part)));
            }
        }
        Ok(())
    }

    fn signal(&self, part: Part, signal: Signal) {
        if let Some(child) = &self.children[part as usize] {
            kill_process(Pid::from_child(child), signal).expect("it runs");
        }
    }

    fn log_of(&self, part: Part) -> PathBuf {
        self.folder.join(format!("{part:?}.log"))
    }

    fn end_of_log(&self, part: Part) -> String {
        let text = std::fs::read_to_string(self.log_of(part)).unwrap_or_default();
        let lines: Vec<&str> = text.lines().rev().take(20).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n")
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // The controllers first: they would only log that the others are gone.
        for child in self.children.iter_mut().rev().flatten() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The path of an object.
fn path_of(object: &Value) -> String {
    let path = collection(object).expect("an object has a kind");
    format!("{path}/{}", object["metadata"]["name"].as_str().expect("an object has a name"))
}

/// Sends a request without TLS; the answer with its head.
fn post_plain(server: SocketAddrV4, path: &str, body: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(server)?;
    stream.set_read_timeout(Some(wait::deadline()))?;
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: etcd\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes())?;
    std::io::read_to_string(stream)
}
