//! A cluster that an API server for tests describes, and a source that watches it.
use crate::filled::{naming, origin, publisher};
use compile::Zone;
use kube_api::lying::{LyingServer, Reply, block};
use serde_json::{Value, json};
use server_status::KubernetesStatus;
use source_kube::client::Access;
use source_kube::cluster::Exposed;
use source_kube::limits::Bounds;
use source_kube::source::KubernetesSource;
use source_kube::source::{FleetPart, Running, Settings};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;
use test_support::folder::Folder;
use test_support::wait;
use tokio::sync::oneshot;
use wire::{Name, NameBuf, Rtype};
use zone_manager::{PublisherThread, ZonePublisher};

pub const PATIENCE: Duration = Duration::from_secs(60);

type Override = Box<dyn Fn(&str) -> Option<Reply> + Send>;

/// What the server answers from.
pub struct State {
    /// The address of each service of the namespace `shop`.
    pub services: BTreeMap<String, String>,
    /// Imported services, in the version that has them.
    pub imports: Option<(&'static str, Vec<&'static str>)>,
    /// The number of Ingresses.
    pub ingresses: usize,
    /// Answers before anything else does.
    pub instead: Override,
    /// Without streaming lists.
    pub is_paged: bool,
    revision: u64,
}

/// The server.
pub struct World {
    pub server: LyingServer,
    /// Of the source that watches it.
    pub folder: Folder,
    state: Arc<Mutex<State>>,
    /// Dropped, the server ends.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for World {
    fn drop(&mut self) {
        drop(self.stop.take());
        self.thread.take().map(JoinHandle::join);
    }
}

fn list(kind: &str, items: &[Value], revision: u64) -> Reply {
    let meta = json!({ "resourceVersion": revision.to_string() });
    let list = json!({ "kind": kind, "metadata": meta, "items": items });
    Reply::Status(200, list.to_string())
}

pub fn line(kind: &str, object: &Value) -> String {
    format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n")
}

pub fn service(name: &str, ip: &str) -> Value {
    json!({
        "kind": "Service",
        "metadata": { "name": name, "namespace": "shop", "resourceVersion": "5" },
        "spec": { "clusterIP": ip },
    })
}

fn ingress(number: usize) -> Value {
    let name = format!("web-{number}");
    json!({
        "metadata": { "name": name, "namespace": "shop", "resourceVersion": "5" },
        "spec": { "rules": [{ "host": format!("{name}.shop.example") }] },
        "status": { "loadBalancer": { "ingress": [{ "ip": "192.0.2.1" }] } },
    })
}

/// The last line of a list.
pub fn list_end(revision: u64) -> String {
    let annotations = json!({ "k8s.io/initial-events-end": "true" });
    let meta = json!({ "resourceVersion": revision.to_string(), "annotations": annotations });
    line("BOOKMARK", &json!({ "metadata": meta }))
}

impl State {
    fn objects(&self, path: &str) -> Vec<Value> {
        let meta = |name: &str| json!({ "name": name, "resourceVersion": "5", "uid": "u" });
        let import = |name: &&str| {
            let mut meta = meta(name);
            meta["namespace"] = "shop".into();
            json!({ "metadata": meta, "spec": { "type": "ClusterSetIP", "ips": ["10.50.0.1"] } })
        };
        match path.rsplit('/').next() {
            Some("namespaces") => ["kube-system", "shop"]
                .iter()
                .map(|name| json!({ "metadata": meta(name) }))
                .collect(),
            Some("services") => self.services.iter().map(|(name, ip)| service(name, ip)).collect(),
            Some("ingresses") => (0..self.ingresses).map(ingress).collect(),
            Some("serviceimports") => {
                self.imports.iter().flat_map(|(_, names)| names.iter().map(import)).collect()
            }
            _ => Vec::new(),
        }
    }

    fn groups(&self) -> Value {
        let mut groups = vec![json!({ "name": "apps", "versions": [{ "version": "v1" }] })];
        if let Some((newest, _)) = self.imports {
            let all = ["v1alpha1", "v1beta1"].into_iter();
            let has = all.filter(|version| newest == "v1beta1" || *version == newest);
            let versions: Vec<_> = has.map(|version| json!({ "version": version })).collect();
            groups.push(json!({ "name": "multicluster.x-k8s.io", "versions": versions }));
        }
        json!({ "kind": "APIGroupList", "groups": groups })
    }

    fn answer(&self, request: &str) -> Reply {
        if let Some(reply) = (self.instead)(request) {
            return reply;
        }
        let target = request.strip_prefix("GET ").expect("a source only reads");
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let kind = match path.rsplit('/').next().unwrap_or_default() {
            "apis" => return Reply::Status(200, self.groups().to_string()),
            "v1alpha1" | "v1beta1" => {
                let resources = json!([{ "name": "serviceexports" }, { "name": "serviceimports" }]);
                let all = json!({ "kind": "APIResourceList", "resources": resources });
                return Reply::Status(200, all.to_string());
            }
            "namespaces" => "NamespaceList",
            "services" => "ServiceList",
            "endpointslices" => "EndpointSliceList",
            "serviceimports" => "ServiceImportList",
            "ingresses" => "IngressList",
            other => panic!("a request for {other}"),
        };
        let objects = self.objects(path);
        match query {
            query if !query.contains("watch=true") => list(kind, &objects, self.revision),
            query if query.contains("sendInitialEvents") && self.is_paged => {
                Reply::Status(400, "no streaming lists".into())
            }
            query if query.contains("sendInitialEvents") => {
                let lines: String = objects.iter().map(|object| line("ADDED", object)).collect();
                Reply::Stream(lines + &list_end(self.revision))
            }
            _ => {
                let revision = self.revision.to_string();
                let meta = json!({ "metadata": { "resourceVersion": revision } });
                Reply::Stream(line("BOOKMARK", &meta))
            }
        }
    }
}

impl World {
    /// A server with so many services: `web-0` with the address 10.96.0.0, and so on.
    pub fn start(services: u8) -> Self {
        let services =
            (0..services).map(|at| (format!("web-{at}"), format!("10.96.0.{at}"))).collect();
        let instead: Override = Box::new(|_| None);
        let imports = None;
        let state =
            State { services, imports, ingresses: 0, instead, is_paged: false, revision: 7 };
        let state = Arc::new(Mutex::new(state));
        let answering = Arc::clone(&state);
        let answer =
            move |request: &str, _: &str| answering.lock().expect("no panic").answer(request);
        let (started, server) = std::sync::mpsc::channel();
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = std::thread::spawn(move || {
            block(async move {
                started.send(LyingServer::start(PATIENCE, answer).await).expect("it is awaited");
                let _ = stopped.await;
            });
        });
        let server = server.recv().expect("it starts");
        let folder = Folder::new("peers");
        Self { server, folder, state, stop: Some(stop), thread: Some(thread) }
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic")
    }

    /// From now on each request gets this reply, and the open streams end.
    pub fn answer(&self, reply: impl Fn(&str) -> Option<Reply> + Send + 'static) {
        self.state().instead = Box::new(reply);
        self.server.end_streams();
    }

    /// The revisions that are known are of no use any more.
    pub fn forget_revisions(&self) {
        let old = format!("resourceVersion={}", self.state().revision);
        self.state().revision += 1_000_000;
        self.answer(move |request| {
            let is_old = request.contains("watch=true") && request.contains(&old);
            let gone = json!({ "code": 410, "message": "too old resource version" });
            is_old.then(|| Reply::Stream(line("ERROR", &gone)))
        });
    }

    /// The requests that contain a text.
    pub fn requests(&self, of: &str) -> usize {
        self.server.requests().iter().filter(|request| request.contains(of)).count()
    }
}

/// Bounds that make a test short.
pub fn short() -> Bounds {
    let milliseconds = Duration::from_millis;
    Bounds {
        response: (PATIENCE, PATIENCE),
        retry: (milliseconds(1), milliseconds(20)),
        connect_retry_max: milliseconds(20),
        unknown_retry: milliseconds(300),
        ..Bounds::default()
    }
}

/// A source that watches a server.
pub struct Watched {
    pub running: Running,
    pub manager: ZonePublisher,
    pub folder: PathBuf,
    thread: Option<PublisherThread>,
}

/// Writes a kubeconfig; `more` are lines of its cluster.
pub fn write_kubeconfig(file: &Path, server: &str, more: &str) {
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts:\n- name: c\n  context: \
         {{cluster: c, user: u}}\nclusters:\n- name: c\n  cluster:\n    server: {server}\n{more}\
         users:\n- name: u\n  user: {{}}\n"
    );
    let new = file.with_extension("new");
    std::fs::write(&new, text).expect("written");
    std::fs::rename(new, file).expect("renamed");
}

impl Watched {
    /// Starts a source in the folder of the world, which may have a saved state.
    pub fn start(world: &World, edit: impl FnOnce(&mut Settings)) -> Self {
        Self::start_in(None, world, edit)
    }

    /// The same, and waits until all its streams are open.
    pub fn open(world: &World) -> Self {
        let watched = Self::start(world, |_| {});
        watched.until_open();
        watched
    }

    /// The same in a fleet.
    pub fn start_in(
        fleet: Option<FleetPart>,
        world: &World,
        edit: impl FnOnce(&mut Settings),
    ) -> Self {
        let folder = world.folder.to_path_buf();
        let kubeconfig = folder.join("kubeconfig");
        write_kubeconfig(&kubeconfig, &format!("http://{}", world.server.address), "");
        let mut settings = Settings {
            access: Access { kubeconfig: Some(kubeconfig), context: String::new() },
            naming: naming(),
            exposed: Exposed::default(),
            labels: String::new(),
            namespace_labels: String::new(),
            pod_names: false,
            check: None,
            check_cluster_ips: false,
            folder: Some(folder.clone()),
            clients: None,
            shared: None,
            hold: Duration::from_secs(600),
            bounds: short(),
        };
        edit(&mut settings);
        let (manager, thread) = publisher();
        let running = manager.start_source(KubernetesSource { settings, fleet }).expect("a thread");
        Self { running, manager, folder, thread: Some(thread) }
    }

    pub fn status(&self) -> KubernetesStatus {
        self.running.status()
    }

    /// The addresses of a service; `None`: the name has none.
    pub fn answer(&self, service: &str) -> Option<usize> {
        self.answer_in(&origin(), service)
    }

    pub fn answer_in(&self, origin: &NameBuf, service: &str) -> Option<usize> {
        let name = format!("{service}.shop.svc");
        let name = NameBuf::from_text(name.as_bytes(), origin.as_name()).expect("a name");
        let image = self.manager.image();
        let zone: &Zone = image.zone(origin.as_name())?;
        zone.set(name.as_name(), Rtype::A).map(|set| set.records().count())
    }

    /// Whether the zone has content, so that it does not answer SERVFAIL.
    pub fn is_loaded(&self) -> bool {
        let image = self.manager.image();
        image.zone(origin().as_name()).is_some_and(|zone| zone.facts().loaded)
    }

    pub fn until(&self, what: &str, is_so: impl Fn(&KubernetesStatus) -> bool) {
        wait::until_value(what, || self.status(), is_so);
    }

    /// Waits until all streams are open.
    pub fn until_open(&self) {
        self.until("all streams are open", |status| {
            status.is_synced && status.streams.iter().all(|stream| stream.open_seconds.is_some())
        });
    }

    /// Waits until the streams of namespaces and of services have failed so often more.
    pub fn until_failed(&self, times: u64) {
        let failures = |status: &KubernetesStatus| [0, 1].map(|at| status.streams[at].failures);
        let before = failures(&self.status());
        self.until("streams fail", |status| {
            let now = failures(status);
            now.iter().zip(&before).all(|(now, before)| *now >= before + times)
        });
    }

    /// The saved state.
    pub fn saved(&self) -> Option<Vec<u8>> {
        std::fs::read(source_kube::saved::path(&self.folder)).ok()
    }

    /// Saves the state if it may be saved, and ends.
    pub fn stop(mut self) {
        self.running.stop();
        if let Some(thread) = self.thread.take() {
            thread.stop();
        }
    }
}

/// The name of a zone.
pub fn zone(text: &str) -> NameBuf {
    NameBuf::from_text(text.as_bytes(), Name::ROOT).expect("a name")
}
