//! Opens a stream and reads it.
use super::lines::{Line, Lines, object_name};
use super::list::{Budget, Page};
use super::{Closed, End, Sink, Stream, StreamEvent};
use crate::body::{ReadError, read_whole};
use crate::cluster::ObjectName;
use crate::failure::{Cause, Failure};
use crate::limits::{
    ANSWER_LEN_MAX, OBJECT_LEN_MAX, PROVEN_AFTER, SILENCE_MAX, STREAM_SECONDS, UNPROVEN_AFTER,
};
use crate::names::is_label;
use crate::objects::{Kind, Meta, Namespaces, Raw};
use http_body_util::BodyExt;
use kube::client::Body;
use kube_api::encode;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use tokio::time::{Instant, timeout};

/// The namespace that every cluster has.
const IDENTITY: &str = "/api/v1/namespaces?fieldSelector=metadata.name%3Dkube-system";

#[derive(Deserialize)]
struct Event<R> {
    #[serde(rename = "type")]
    kind: Box<str>,
    object: R,
}

/// The type of a line and, of an error, its status.
#[derive(Deserialize)]
pub(super) struct EventHead {
    #[serde(rename = "type")]
    kind: Box<str>,
    object: Status,
}

/// A `Status`, or the metadata of a bookmark.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    code: u16,
    message: String,
    details: Details,
    metadata: Meta,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Details {
    retry_after_seconds: Option<u64>,
}

/// What a line of a stream says.
pub(super) enum Parsed<R> {
    /// A bookmark or an error.
    Head(EventHead),
    /// An object is there as it is now, or is gone.
    Object { is_gone: bool, object: R },
}

/// Parses a line of a stream.
pub(super) fn parse<K: Kind>(line: &[u8]) -> Result<Parsed<K::Raw>, Failure> {
    let malformed = |why: &dyn std::fmt::Display| {
        Failure::new(Cause::Malformed, format!("a line is not an event: {why}"))
    };
    // An object may be large: its type comes first in the line.
    let begins = |kind: &str| {
        let head = line.get(..64).unwrap_or(line);
        head.windows(kind.len()).any(|window| window == kind.as_bytes())
    };
    if begins("\"BOOKMARK\"") || begins("\"ERROR\"") {
        let head = serde_json::from_slice(line).map_err(|error| malformed(&error))?;
        return Ok(Parsed::Head(head));
    }
    let Event { kind, object } =
        serde_json::from_slice::<Event<K::Raw>>(line).map_err(|error| malformed(&error))?;
    let is_gone = match &*kind {
        "ADDED" | "MODIFIED" => false,
        "DELETED" => true,
        other => return Err(malformed(&format!("its type is {other:?}"))),
    };
    let meta = K::meta(&object);
    if meta.name.is_empty() || meta.resource_version.is_empty() {
        return Err(malformed(&"its object has no name or no revision"));
    }
    Ok(Parsed::Object { is_gone, object })
}

/// What a stream has brought so far.
struct Progress {
    opened: Instant,
    /// The remaining budget of the list that it begins with; `None`: that is complete.
    list: Option<Budget>,
    /// Whether it was reported as open.
    is_announced: bool,
}

impl<K: Kind> Stream<K> {
    /// Lists and watches until something fails.
    pub(super) async fn run<E>(&mut self, sink: &mut Sink<K::Entry, E>) -> End {
        match self.list_and_follow(sink).await {
            Ok(()) => End::Routine,
            Err(end) => end,
        }
    }

    async fn list_and_follow<E>(&mut self, sink: &mut Sink<K::Entry, E>) -> Result<(), End> {
        self.identify().await?;
        if self.revision.is_some() {
            return self.follow(sink).await;
        }
        if let Some(optional) = K::OPTIONAL {
            self.discover(optional).await?;
        }
        if !self.is_paged {
            match self.list_streaming(sink).await {
                // A server that knows no streaming lists.
                Err(End::Failed(failure)) if matches!(failure.status(), Some(400 | 422)) => {
                    tracing::info!(kind = K::RESOURCE, "no streaming lists: listed by pages");
                }
                ended => return ended,
            }
        }
        let listed = self.list_pages(sink).await;
        self.is_paged = listed.is_ok();
        listed?;
        self.follow(sink).await
    }

    /// Finds out whether the revision still is one of this cluster. A server that was restored
    /// from an older state, or emptied, accepts a later revision and then stays silent.
    async fn identify(&mut self) -> Result<(), End> {
        if self.revision.is_some() && !self.was_broken {
            return Ok(());
        }
        let page: Page<Raw<IgnoredAny>> =
            match self.get_small(IDENTITY, "list", Namespaces::RESOURCE).await {
                // Who may not know continues without.
                Err(failure) if failure.status() == Some(403) => return Ok(()),
                page => page?,
            };
        let (namespaces, meta) = page.objects(Namespaces::LIST)?;
        let identity = namespaces.first().map(|namespace| namespace.metadata.uid.clone());
        let number = |revision: &str| revision.parse::<u64>().ok();
        let newest = number(&meta.resource_version);
        let is_ahead = self.revision.as_deref().and_then(number) > newest;
        let is_other = self.identity.is_some() && self.identity != identity;
        self.was_broken = false;
        self.identity = identity;
        if self.revision.is_some() && (is_ahead || is_other) {
            let what = "the API server has an older state, or another: all is listed again";
            return Err(Failure::new(Cause::OtherState, what).into());
        }
        Ok(())
    }

    /// Gets a small response of JSON.
    pub(super) async fn get_small<T: DeserializeOwned>(
        &mut self,
        path: &str,
        verb: &'static str,
        resource: &str,
    ) -> Result<T, Failure> {
        let body = self.open(path, verb, resource).await?;
        let bytes = match read_whole(body, ANSWER_LEN_MAX).await {
            Err(ReadError::Failed(failure)) => return Err(failure),
            Err(ReadError::TooLong) => {
                let what = format!("the response to {path} has more than {ANSWER_LEN_MAX} bytes");
                return Err(Failure::new(Cause::Endless, what));
            }
            Ok(bytes) => bytes,
        };
        serde_json::from_slice(&bytes).map_err(|error| {
            let what = format!("the response to {path} is not that of an API server: {error}");
            Failure::new(Cause::Malformed, what)
        })
    }

    /// The path with its selectors and more of a query.
    pub(super) fn path(&self, more: &str) -> String {
        let mut path = format!("{}?{more}", self.base);
        for (key, value) in
            [("labelSelector", &*self.selection.labels), ("fieldSelector", self.selection.fields)]
        {
            if !value.is_empty() {
                path += &format!("&{key}={}", encode(value));
            }
        }
        path
    }

    /// Goes on from the revision.
    async fn follow<E>(&mut self, sink: &mut Sink<K::Entry, E>) -> Result<(), End> {
        let seconds = STREAM_SECONDS + fastrand::u64(..STREAM_SECONDS);
        let revision = self.revision.as_deref().unwrap_or_default();
        let path = self.path(&format!(
            "watch=true&allowWatchBookmarks=true&timeoutSeconds={seconds}&resourceVersion={}",
            encode(revision)
        ));
        let body = match self.open(&path, "watch", K::RESOURCE).await {
            // Another version of an optional kind may have taken its place.
            Err(failure) if failure.status() == Some(404) && K::OPTIONAL.is_some() => {
                self.revision = None;
                return Err(failure.into());
            }
            body => body?,
        };
        let is_announced = self.failed_streams < UNPROVEN_AFTER;
        if is_announced {
            sink.send(StreamEvent::State(Ok(()))).await?;
        }
        let progress = Progress { opened: Instant::now(), list: None, is_announced };
        self.read(body, progress, sink).await
    }

    /// A list as the begin of a stream.
    async fn list_streaming<E>(&mut self, sink: &mut Sink<K::Entry, E>) -> Result<(), End> {
        let seconds = STREAM_SECONDS + fastrand::u64(..STREAM_SECONDS);
        let path = self.path(&format!(
            "watch=true&allowWatchBookmarks=true&sendInitialEvents=true\
             &resourceVersionMatch=NotOlderThan&resourceVersion=&timeoutSeconds={seconds}"
        ));
        let body = self.open(&path, "watch", K::RESOURCE).await?;
        sink.send(StreamEvent::ListBegins).await?;
        let list = Some(Budget::new(&self.bounds));
        let progress = Progress { opened: Instant::now(), list, is_announced: false };
        self.read(body, progress, sink).await
    }

    /// Sends a request and waits for the head of its response: twice as long after one that was
    /// late, and about as long as the last one took.
    pub(super) async fn open(
        &mut self,
        path: &str,
        verb: &'static str,
        resource: &str,
    ) -> Result<Body, Failure> {
        let (least, most) = self.bounds.response;
        let began = Instant::now();
        let opened = self.connection.get(path, verb, resource);
        match timeout(self.patience, opened).await {
            Ok(opened) => {
                self.patience = (began.elapsed() * 2).clamp(least, most);
                opened
            }
            Err(_) => {
                let waited = self.patience.as_secs_f64();
                self.patience = (self.patience * 2).min(most);
                let next = self.patience.as_secs_f64();
                let what = format!(
                    "cannot {verb} {resource}: no response within {waited:.0} s; the next is \
                     waited for {next:.0} s"
                );
                Err(Failure::new(Cause::Late, what))
            }
        }
    }

    /// Reads lines until the stream ends.
    async fn read<E>(
        &mut self,
        body: Body,
        mut progress: Progress,
        sink: &mut Sink<K::Entry, E>,
    ) -> Result<(), End> {
        self.failed_streams = self.failed_streams.saturating_add(1);
        let mut lines = Lines::default();
        let ended = self.read_lines(body, &mut lines, &mut progress, sink).await;
        let lasted = progress.opened.elapsed();
        ended?;
        if progress.list.is_none() && !lines.is_within() && lasted >= self.bounds.stable {
            self.works();
            return Ok(());
        }
        let seconds = lasted.as_secs_f64();
        let what = format!("the server ended the stream after {seconds:.1} s");
        let (cause, what) = match (progress.list.is_some(), lines.is_within()) {
            (true, _) => (Cause::Broken, format!("{what}, before the list was complete")),
            (false, true) => (Cause::Broken, format!("{what}, within a line")),
            (false, false) => (Cause::Ended, what),
        };
        Err(Failure::new(cause, what).into())
    }

    /// The stream works: the next failure is a first one.
    const fn works(&mut self) {
        self.backoff.reset();
        self.failed_streams = 0;
    }

    async fn read_lines<E>(
        &mut self,
        mut body: Body,
        lines: &mut Lines,
        progress: &mut Progress,
        sink: &mut Sink<K::Entry, E>,
    ) -> Result<(), End> {
        loop {
            let is_unproven = !progress.is_announced && progress.list.is_none();
            let wait = if is_unproven { PROVEN_AFTER } else { SILENCE_MAX };
            let Ok(frame) = timeout(wait, body.frame()).await else {
                if is_unproven {
                    progress.is_announced = true;
                    sink.send(StreamEvent::State(Ok(()))).await?;
                    continue;
                }
                let what = format!("the stream was silent for {} s", SILENCE_MAX.as_secs());
                return Err(Failure::new(Cause::Silent, what).into());
            };
            let Some(frame) = frame else { return Ok(()) };
            let frame = frame.map_err(|error| {
                Failure::new(Cause::Broken, format!("the stream ended early: {error}"))
            })?;
            let Ok(data) = frame.into_data() else { continue };
            if let Some(list) = &mut progress.list {
                list.take(data.len(), 0)?;
            }
            lines.push(&data);
            while let Some(line) = lines.next() {
                match line {
                    Line::Whole(line) => self.line(&line, progress, sink).await?,
                    Line::TooLong(head) => skip_long::<K, E>(&head, sink).await?,
                }
                if !progress.is_announced && progress.list.is_none() {
                    progress.is_announced = true;
                    sink.send(StreamEvent::State(Ok(()))).await?;
                }
            }
            if progress.opened.elapsed() >= self.bounds.stable {
                self.works();
            }
        }
    }

    async fn line<E>(
        &mut self,
        line: &[u8],
        progress: &mut Progress,
        sink: &mut Sink<K::Entry, E>,
    ) -> Result<(), End> {
        let (is_gone, object) = match parse::<K>(line)? {
            Parsed::Head(head) => return self.bookmark_or_error(head, progress, sink).await,
            Parsed::Object { is_gone, object } => (is_gone, object),
        };
        let meta = K::meta(&object);
        match &mut progress.list {
            Some(list) => list.take(0, 1)?,
            None => self.revision = Some(meta.resource_version.clone()),
        }
        if is_gone {
            let name = ObjectName::new(&meta.namespace, &meta.name);
            return Ok(sink.send(StreamEvent::Put(name, None)).await?);
        }
        Ok(self.put(object, sink).await?)
    }

    async fn bookmark_or_error<E>(
        &mut self,
        head: EventHead,
        progress: &mut Progress,
        sink: &mut Sink<K::Entry, E>,
    ) -> Result<(), End> {
        let Status { code, message, details, metadata } = head.object;
        if &*head.kind == "ERROR" {
            let cause = Cause::ErrorLine(code);
            return Err(Failure::with_code(cause, &message, details.retry_after_seconds).into());
        }
        if metadata.resource_version.is_empty() {
            let what = "a bookmark has no revision";
            return Err(Failure::new(Cause::Malformed, what).into());
        }
        if progress.list.is_some() && metadata.ends_list() {
            progress.list = None;
            sink.send(StreamEvent::ListEnds).await?;
        }
        if progress.list.is_none() {
            self.revision = Some(metadata.resource_version);
            sink.send(StreamEvent::Current).await?;
        }
        Ok(())
    }

    /// Sends an object.
    pub(super) async fn put<E>(
        &self,
        raw: K::Raw,
        sink: &mut Sink<K::Entry, E>,
    ) -> Result<(), Closed> {
        let meta = K::meta(&raw);
        let object = ObjectName::new(&meta.namespace, &meta.name);
        if K::IS_LABEL && !is_label(&object.name) {
            let why = "its name is not a label of a DNS name (RFC 1123)";
            return sink.send(StreamEvent::Skipped(object, why.into())).await;
        }
        let kept = K::keep(raw, self.selection.naming);
        sink.send(StreamEvent::Put(object, kept)).await
    }
}

/// Reports an object whose line is too long.
async fn skip_long<K: Kind, E>(head: &[u8], sink: &mut Sink<K::Entry, E>) -> Result<(), Closed> {
    // Objects of a definition have their fields in another order.
    let named = object_name(head).filter(|_| K::OPTIONAL.is_none());
    let (namespace, name) = named.unwrap_or_else(|| (String::new(), "?".into()));
    let why = format!("it has more than {OBJECT_LEN_MAX} bytes; what was known of it stays");
    sink.send(StreamEvent::Skipped(ObjectName::new(&namespace, &name), why)).await
}
