//! One stream of one kind of object: a list, and what changes after it.
//!
//! Where the server has streaming lists (WatchList), the list is the begin of the stream; else it
//! comes in pages. A stream that breaks goes on at its last revision. HTTP 410, or a revision that
//! the server does not know, begins with a list again.
use crate::client::{Connection, Failure};
use crate::cluster::ObjectName;
use crate::limits::{
    OBJECT_LEN_MAX, PAGE_LEN_MAX, PAGE_MAX, PAGE_OBJECTS, RESPONSE_MAX, RETRY, SILENCE_MAX,
    STREAM_SECONDS, UNKNOWN_RETRY,
};
use crate::objects::{EndpointNaming, Kind, Meta, Raw};
use http_body_util::BodyExt;
use kube::client::Body;
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

/// The namespace that every cluster has.
const IDENTITY: &str = "/api/v1/namespaces?fieldSelector=metadata.name%3Dkube-system";

/// What a stream reports of objects of one kind.
#[derive(Debug)]
pub enum StreamEvent<T> {
    /// A list begins: what it does not name by its end is gone.
    ListBegins,
    /// An object is there as it is now, or it was deleted, or nothing of it is kept (`None`).
    Put(ObjectName, Option<T>),
    /// The list is complete.
    ListEnds,
    /// The stream is open, or it is not and why.
    State(Result<(), String>),
}

/// The receiver of events is gone.
#[derive(Clone, Copy, Debug)]
pub struct Closed;

/// Sends the events of one stream to the receiver of all.
pub struct Sink<T, E> {
    /// Where all events go.
    pub sender: mpsc::Sender<E>,
    /// Says which stream an event is of.
    pub wrap: fn(StreamEvent<T>) -> E,
}

impl<T, E> Sink<T, E> {
    /// Waits for room.
    async fn send(&mut self, event: StreamEvent<T>) -> Result<(), Closed> {
        self.sender.send((self.wrap)(event)).await.map_err(|_| Closed)
    }
}

/// How a stream is opened.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// A label selector; empty: all.
    pub labels: String,
    /// A field selector; empty: all.
    pub fields: &'static str,
    /// How endpoints are named.
    pub naming: EndpointNaming,
}

/// Why a stream ended.
enum End {
    /// The receiver is gone.
    Closed,
    /// It can go on at its revision.
    Broken(String),
    /// The revision is of no use any more.
    Expired(String),
    /// The cluster does not know this kind of object.
    Unknown(String),
}

impl From<Closed> for End {
    fn from(_: Closed) -> Self {
        Self::Closed
    }
}

impl From<Failure> for End {
    fn from(failure: Failure) -> Self {
        match failure.status {
            _ if failure.is_expired => Self::Expired(failure.what),
            Some(404) => Self::Unknown(failure.what),
            _ => Self::Broken(failure.what),
        }
    }
}

/// Watches a kind of object until the receiver of its events is gone.
pub async fn watch<K: Kind, E: Send>(
    connection: Connection,
    selection: Selection,
    mut sink: Sink<K::Kept, E>,
) -> Closed {
    let mut stream = Stream::<K> {
        connection,
        selection,
        revision: None,
        identity: None,
        was_broken: false,
        is_paged: false,
        has_begun: false,
        kind: std::marker::PhantomData,
    };
    let mut retry = RETRY.0;
    loop {
        stream.has_begun = false;
        let mut pause = None;
        let why = match stream.run(&mut sink).await {
            End::Closed => return Closed,
            End::Broken(why) => {
                stream.was_broken = true;
                why
            }
            // There is no such object then.
            End::Unknown(why) => {
                for event in [StreamEvent::ListBegins, StreamEvent::ListEnds] {
                    if sink.send(event).await.is_err() {
                        return Closed;
                    }
                }
                stream.revision = None;
                pause = Some(UNKNOWN_RETRY);
                why
            }
            End::Expired(why) => {
                tracing::info!(kind = K::RESOURCE, why, "listed again");
                stream.revision = None;
                why
            }
        };
        if stream.has_begun {
            retry = RETRY.0;
        } else {
            let told = sink.send(StreamEvent::State(Err(why))).await;
            if told.is_err() {
                return Closed;
            }
            sleep(pause.unwrap_or(retry).mul_f64(0.5 + 0.5 * jitter())).await;
            retry = (retry * 2).min(RETRY.1);
        }
    }
}

/// A number from 0 to 1, so that servers that lost the same peer do not return together.
fn jitter() -> f64 {
    f64::from(fastrand::u32(..)) / f64::from(u32::MAX)
}

struct Stream<K> {
    connection: Connection,
    selection: Selection,
    /// The revision to go on from; `None`: a list comes first.
    revision: Option<Box<str>>,
    /// The cluster that the revision is of: the UID of its namespace `kube-system`.
    identity: Option<Box<str>>,
    /// The stream broke: another server, or an older state, may be in its place.
    was_broken: bool,
    /// The server has no streaming lists.
    is_paged: bool,
    /// Whether this try brought anything.
    has_begun: bool,
    kind: std::marker::PhantomData<fn() -> K>,
}

#[derive(Deserialize)]
struct Line<R> {
    #[serde(rename = "type")]
    kind: Box<str>,
    object: R,
}

/// The type of a line and, of an error, its status.
#[derive(Deserialize)]
struct LineHead {
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
    metadata: Meta,
}

#[derive(Deserialize)]
#[serde(bound = "R: serde::de::DeserializeOwned")]
struct Page<R> {
    #[serde(default)]
    metadata: PageMeta,
    #[serde(default = "Vec::new")]
    items: Vec<R>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PageMeta {
    resource_version: Box<str>,
    #[serde(rename = "continue")]
    next: Option<Box<str>>,
}

impl<K: Kind> Stream<K> {
    async fn run<E>(&mut self, sink: &mut Sink<K::Kept, E>) -> End {
        if let Err(end) = self.identify().await {
            return end;
        }
        let ended = match (&self.revision, self.is_paged) {
            (Some(_), _) => self.follow(sink).await,
            (None, true) => match self.list_pages(sink).await {
                Ok(()) => self.follow(sink).await,
                Err(end) => Err(end),
            },
            (None, false) => self.list_streaming(sink).await,
        };
        ended.err().unwrap_or_else(|| End::Broken("the server ended the stream".into()))
    }

    /// Finds out whether the revision still is one of this cluster. A server that was restored
    /// from an older state, or emptied, accepts a later revision and then stays silent.
    async fn identify(&mut self) -> Result<(), End> {
        if self.revision.is_some() && !self.was_broken {
            return Ok(());
        }
        let opened = self.connection.get(IDENTITY, "list", "namespaces");
        let body = match timeout(RESPONSE_MAX, opened).await {
            Err(_) => return Err(End::Broken("the API server does not answer".into())),
            // Who may not know goes on without.
            Ok(Err(failure)) if failure.status == Some(403) => return Ok(()),
            Ok(opened) => opened?,
        };
        let bytes = read_whole(body).await.map_err(End::Broken)?;
        let page: Page<Raw<IgnoredAny>> = serde_json::from_slice(&bytes)
            .map_err(|error| End::Broken(format!("the namespaces are not a list: {error}")))?;
        let identity = page.items.first().map(|namespace| namespace.metadata.uid.clone());
        let number = |revision: &str| revision.parse::<u64>().ok();
        let newest = number(&page.metadata.resource_version);
        let is_ahead = self.revision.as_deref().and_then(number) > newest;
        let is_other = self.identity.is_some() && self.identity != identity;
        self.was_broken = false;
        self.identity = identity;
        match self.revision.is_some() && (is_ahead || is_other) {
            true => Err(End::Expired("the API server has an older state, or another".into())),
            false => Ok(()),
        }
    }

    /// The path with its selectors and more of a query.
    fn path(&self, more: &str) -> String {
        let mut path = format!("{}?{more}", K::PATH);
        for (key, value) in
            [("labelSelector", &*self.selection.labels), ("fieldSelector", self.selection.fields)]
        {
            if !value.is_empty() {
                path += &format!("&{key}={}", escape(value));
            }
        }
        path
    }

    /// Goes on from the revision.
    async fn follow<E>(&mut self, sink: &mut Sink<K::Kept, E>) -> Result<(), End> {
        let seconds = STREAM_SECONDS + fastrand::u64(..STREAM_SECONDS);
        let revision = self.revision.as_deref().unwrap_or_default();
        let path = self.path(&format!(
            "watch=true&allowWatchBookmarks=true&timeoutSeconds={seconds}&resourceVersion={}",
            escape(revision)
        ));
        let body = self.open(&path, "watch").await?;
        sink.send(StreamEvent::State(Ok(()))).await?;
        self.read(body, false, sink).await
    }

    /// A list as the begin of a stream.
    async fn list_streaming<E>(&mut self, sink: &mut Sink<K::Kept, E>) -> Result<(), End> {
        let seconds = STREAM_SECONDS + fastrand::u64(..STREAM_SECONDS);
        let path = self.path(&format!(
            "watch=true&allowWatchBookmarks=true&sendInitialEvents=true\
             &resourceVersionMatch=NotOlderThan&resourceVersion=&timeoutSeconds={seconds}"
        ));
        match self.open(&path, "watch").await {
            Ok(body) => {
                sink.send(StreamEvent::State(Ok(()))).await?;
                sink.send(StreamEvent::ListBegins).await?;
                self.read(body, true, sink).await
            }
            // 400 and 422: a server that knows no streaming lists.
            Err(failure) if matches!(failure.status, Some(400 | 422)) => {
                tracing::info!(kind = K::RESOURCE, "the server has no streaming lists: by pages");
                self.is_paged = true;
                self.list_pages(sink).await?;
                self.follow(sink).await
            }
            Err(failure) => Err(failure.into()),
        }
    }

    async fn list_pages<E>(&mut self, sink: &mut Sink<K::Kept, E>) -> Result<(), End> {
        let mut next: Option<Box<str>> = None;
        sink.send(StreamEvent::ListBegins).await?;
        loop {
            let mut query = format!("limit={PAGE_OBJECTS}");
            if let Some(next) = &next {
                query += &format!("&continue={}", escape(next));
            }
            let body = self.open(&self.path(&query), "list").await?;
            let read = timeout(PAGE_MAX, read_whole(body)).await;
            let bytes = read.map_err(|_| End::Broken("a page took too long".into()))?;
            let page: Page<K::Raw> = serde_json::from_slice(&bytes.map_err(End::Broken)?)
                .map_err(|error| End::Broken(format!("a page is not a list: {error}")))?;
            self.has_begun = true;
            for object in page.items {
                self.put(object, sink).await?;
            }
            next = page.metadata.next.filter(|next| !next.is_empty());
            if next.is_none() {
                self.revision = Some(page.metadata.resource_version);
                return Ok(sink.send(StreamEvent::ListEnds).await?);
            }
        }
    }

    async fn open(&self, path: &str, verb: &'static str) -> Result<Body, Failure> {
        let opened = self.connection.get(path, verb, K::RESOURCE);
        let late = || Failure::of(format!("cannot {verb} {}: no answer in time", K::RESOURCE));
        timeout(RESPONSE_MAX, opened).await.unwrap_or_else(|_| Err(late()))
    }

    /// Reads lines until the stream ends.
    async fn read<E>(
        &mut self,
        mut body: Body,
        mut is_listing: bool,
        sink: &mut Sink<K::Kept, E>,
    ) -> Result<(), End> {
        let mut lines = Lines::default();
        loop {
            let frame = timeout(SILENCE_MAX, body.frame()).await;
            let frame = frame.map_err(|_| silent(SILENCE_MAX))?;
            let Some(frame) = frame else { return Ok(()) };
            let frame = frame.map_err(|error| End::Broken(format!("the stream broke: {error}")))?;
            let Ok(data) = frame.into_data() else { continue };
            lines.push(&data).map_err(End::Broken)?;
            while let Some(line) = lines.next() {
                self.has_begun = true;
                self.line(&line, &mut is_listing, sink).await?;
            }
        }
    }

    async fn line<E>(
        &mut self,
        line: &[u8],
        is_listing: &mut bool,
        sink: &mut Sink<K::Kept, E>,
    ) -> Result<(), End> {
        let broken = |error| End::Broken(format!("a line is not an event: {error}"));
        // An object may be large: its type comes first in the line.
        let begins = |kind: &str| {
            let head = line.get(..64).unwrap_or(line);
            head.windows(kind.len()).any(|window| window == kind.as_bytes())
        };
        if begins("\"BOOKMARK\"") || begins("\"ERROR\"") {
            let head: LineHead = serde_json::from_slice(line).map_err(broken)?;
            if &*head.kind == "ERROR" {
                let Status { code, message, .. } = head.object;
                return Err(Failure::with_status(code, message).into());
            }
            let meta = head.object.metadata;
            if *is_listing && meta.ends_list() {
                *is_listing = false;
                sink.send(StreamEvent::ListEnds).await?;
            }
            if !*is_listing {
                self.revision = Some(meta.resource_version);
            }
            return Ok(());
        }
        let line: Line<K::Raw> = serde_json::from_slice(line).map_err(broken)?;
        if !*is_listing {
            self.revision = Some(K::meta(&line.object).resource_version.clone());
        }
        if &*line.kind == "DELETED" {
            let meta = K::meta(&line.object);
            let object = ObjectName::new(&meta.namespace, &meta.name);
            return Ok(sink.send(StreamEvent::Put(object, None)).await?);
        }
        Ok(self.put(line.object, sink).await?)
    }

    async fn put<E>(&self, raw: K::Raw, sink: &mut Sink<K::Kept, E>) -> Result<(), Closed> {
        let meta = K::meta(&raw);
        let object = ObjectName::new(&meta.namespace, &meta.name);
        let kept = K::keep(raw, self.selection.naming);
        sink.send(StreamEvent::Put(object, kept)).await
    }
}

fn silent(time: Duration) -> End {
    End::Broken(format!("the stream was silent for {} s", time.as_secs()))
}

/// Reads a body up to its maximum.
async fn read_whole(mut body: Body) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| format!("the list broke: {error}"))?;
        if let Ok(data) = frame.into_data() {
            bytes.extend_from_slice(&data);
        }
        if bytes.len() > PAGE_LEN_MAX {
            return Err(format!("a page has more than {PAGE_LEN_MAX} bytes"));
        }
    }
    Ok(bytes)
}

/// Cuts bytes into lines.
#[derive(Default)]
struct Lines {
    bytes: Vec<u8>,
    /// The start of the first line that was not returned.
    start: usize,
}

impl Lines {
    fn push(&mut self, data: &[u8]) -> Result<(), String> {
        self.bytes.drain(..self.start);
        self.start = 0;
        if self.bytes.len() + data.len() > OBJECT_LEN_MAX {
            return Err(format!("an object has more than {OBJECT_LEN_MAX} bytes"));
        }
        self.bytes.extend_from_slice(data);
        Ok(())
    }

    fn next(&mut self) -> Option<Vec<u8>> {
        let rest = &self.bytes[self.start..];
        let end = rest.iter().position(|byte| *byte == b'\n')?;
        let line = rest[..end].to_vec();
        self.start += end + 1;
        Some(line)
    }
}

/// Text as a value in a query (RFC 3986 §2.1).
fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                escaped.push(byte.into());
            }
            _ => escaped += &format!("%{byte:02X}"),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_wherever_the_bytes_are() {
        let text = b"first\nsecond\n\nlast";
        for at in 0..text.len() {
            let mut lines = Lines::default();
            let mut found = Vec::new();
            for part in [&text[..at], &text[at..]] {
                lines.push(part).expect("room");
                found.extend(std::iter::from_fn(|| lines.next()));
            }
            assert_eq!(found, [b"first".to_vec(), b"second".to_vec(), Vec::new()], "cut at {at}");
        }
    }

    #[test]
    fn a_line_without_end_is_refused() {
        let mut lines = Lines::default();
        let refused = (0..=OBJECT_LEN_MAX >> 20).find(|_| lines.push(&[b'x'; 1 << 20]).is_err());
        assert_eq!(refused, Some(OBJECT_LEN_MAX >> 20));
    }

    #[test]
    fn selectors_are_escaped() {
        assert_eq!(escape("a in (b, c),d!=e"), "a%20in%20%28b%2C%20c%29%2Cd%21%3De");
    }
}
