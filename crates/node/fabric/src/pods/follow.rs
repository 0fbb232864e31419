//! Lists and watches Pods of this node, and all network policies.
use super::{FOREIGN, Kind, Metadata, Object, PodRules};
use crate::limits::{OBJECTS_MAX, OBJECTS_PAGE};
use futures_util::StreamExt;
use http::Request;
use kube::core::WatchEvent;
use kube_api::{Api, ApiError, ListOf, Messages, encode};
use serde::Deserialize;
use std::io;
use std::path::PathBuf;
use std::pin::pin;
use std::thread;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// The server ends a watch after this many seconds.
const WATCH_S: u64 = 240;
/// The server says at least once a minute how far a watch is.
const SILENCE_MAX: Duration = Duration::from_secs(90);
/// How long the next watch may take to begin; then nothing is sure.
const BEGIN_MAX: Duration = Duration::from_millis(500);
/// Pause after an error.
const PAUSE: Duration = Duration::from_secs(1);

/// How the API server is reached, and which node this is.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    pub kubeconfig: Option<PathBuf>,
    pub node: String,
}

#[derive(Deserialize)]
struct Groups {
    groups: Vec<Metadata>,
}

impl Kind {
    const fn path(self) -> &'static str {
        match self {
            Self::Pods => "/api/v1/pods",
            Self::Policies => "/apis/networking.k8s.io/v1/networkpolicies",
        }
    }

    fn selector(self, node: &str) -> String {
        match self {
            Self::Pods => format!("&fieldSelector={}", encode(&format!("spec.nodeName={node}"))),
            Self::Policies => String::new(),
        }
    }
}

impl PodRules {
    /// Starts a thread that follows both. It looks for an API server that is away again.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub fn start(access: Access) -> io::Result<Self> {
        let rules = Self::default();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let followed = rules.clone();
        let work = move || {
            runtime.block_on(async {
                let messages = Messages::new("dunlin fabric");
                let api = loop {
                    match Api::connect(access.kubeconfig.as_deref()).await {
                        Ok(api) => break api,
                        Err(why) => messages.tell(&format!("no Pod is switched: {why}")),
                    }
                    sleep(PAUSE).await;
                };
                let follow = |kind| followed.follow_always(&api, kind, &access.node, &messages);
                tokio::join!(follow(Kind::Pods), follow(Kind::Policies));
            });
        };
        thread::Builder::new().name("pod-rules".into()).spawn(work)?;
        Ok(rules)
    }

    async fn follow_always(&self, api: &Api, kind: Kind, node: &str, messages: &Messages) {
        loop {
            let ended = self.follow(api, kind, node, SILENCE_MAX).await;
            self.forget(kind);
            if let Err(error) = ended {
                messages.tell(&format!("no Pod is switched: {error}"));
                sleep(PAUSE).await;
            }
        }
    }

    /// One list, and watches until one fails or falls silent.
    pub(super) async fn follow(
        &self,
        api: &Api,
        kind: Kind,
        node: &str,
        silence_max: Duration,
    ) -> Result<(), ApiError> {
        if kind == Kind::Policies {
            refuse_foreign(api).await?;
        }
        let selector = kind.selector(node);
        let (all, mut version) = list(api, kind, &selector).await?;
        // Sure from the begin of a watch on: what has changed since the list comes at once.
        let mut all = Some(all);
        loop {
            let path = format!(
                "{}?watch=1&allowWatchBookmarks=true&timeoutSeconds={WATCH_S}\
                 &resourceVersion={version}{selector}",
                kind.path()
            );
            let what = format!("watch of {}", kind.path());
            let other = |why: &str| ApiError::Other(format!("{what}: {why}"));
            let request = Request::get(&path).body(Vec::new());
            let request = request.map_err(|error| other(&error.to_string()))?;
            let client = api.client().await?;
            let begun = timeout(BEGIN_MAX, client.request_events::<Object>(request)).await;
            let events = begun.map_err(|_| other("no answer"))?;
            let events = events.map_err(|error| api.told(&what, error))?;
            if let Some(all) = all.take() {
                self.replace(kind, all);
            }
            let mut events = pin!(events);
            loop {
                let event = timeout(silence_max, events.next()).await;
                match event.map_err(|_| other("silent"))? {
                    None => break,
                    Some(Err(error)) => return Err(api.told(&what, error)),
                    Some(Ok(WatchEvent::Added(one) | WatchEvent::Modified(one))) => {
                        version.clone_from(&one.metadata.version);
                        self.put(kind, one);
                    }
                    Some(Ok(WatchEvent::Deleted(one))) => {
                        self.remove(kind, &one);
                        version = one.metadata.version;
                    }
                    Some(Ok(WatchEvent::Bookmark(mark))) => {
                        version = mark.metadata.resource_version;
                    }
                    // The version is too old: list again, without a pause.
                    Some(Ok(WatchEvent::Error(status))) if status.code == 410 => return Ok(()),
                    Some(Ok(WatchEvent::Error(status))) => return Err(other(&status.message)),
                }
            }
        }
    }
}

/// All objects of a kind, and the revision of the list.
async fn list(api: &Api, kind: Kind, selector: &str) -> Result<(Vec<Object>, String), ApiError> {
    let mut all = Vec::new();
    let of = ListOf { path: kind.path(), selector, page: OBJECTS_PAGE, max: OBJECTS_MAX };
    let version = api.list(of, |object| all.push(object)).await?;
    Ok((all, version))
}

/// Fails where policies of other kinds may hold.
async fn refuse_foreign(api: &Api) -> Result<(), ApiError> {
    let all: Groups = api.get("/apis").await?;
    let found = all.groups.iter().find(|group| FOREIGN.contains(&group.name.as_str()));
    found.map_or(Ok(()), |group| {
        let name = &group.name;
        Err(ApiError::Other(format!("the cluster has policies of {name}, which are not followed")))
    })
}
