//! One stream of one kind of object: a list, and what changes after it.
//!
//! Where the server has streaming lists (WatchList), the stream begins with the list; otherwise the
//! list is read in pages. A stream that breaks continues at its last revision. HTTP 410, or a
//! revision that the server does not know, begins with a list again.
#[cfg(test)]
#[path = "../../../../testing/fuzz/checks/corpus.rs"]
mod corpus;
mod discovery;
#[cfg(any(test, feature = "fuzz"))]
#[path = "../../../../testing/fuzz/checks/watch.rs"]
pub mod fuzz;
mod lines;
mod list;
mod stream;

use crate::client::Connection;
use crate::cluster::ObjectName;
use crate::failure::{Backoff, Cause, Failure};
use crate::limits::{ABSENCES_MIN, Bounds, PAGE_OBJECTS};
use crate::objects::{EndpointNaming, Kind};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::sleep;

/// What a stream reports of objects of one kind.
#[derive(Debug)]
pub enum StreamEvent<T> {
    /// A list begins: what it does not name by its end is gone.
    ListBegins,
    /// An object is there as it is now, or it was deleted, or nothing of it is kept (`None`).
    Put(ObjectName, Option<T>),
    /// An object is there and is not used, and why. What was known of it before stays.
    Skipped(ObjectName, String),
    /// The list is complete.
    ListEnds,
    /// Nothing has changed up to now.
    Current,
    /// The stream is open, or it is not and why.
    State(Result<(), Failure>),
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
    /// Bounds of requests and lists.
    pub bounds: Bounds,
}

/// Why a stream ended.
enum End {
    /// The receiver is gone.
    Closed,
    /// A request or the stream failed.
    Failed(Failure),
    /// The server ended the stream after it has worked, as it ends each.
    Routine,
    /// The cluster does not have this kind of object.
    Absent(Failure),
}

impl From<Closed> for End {
    fn from(_: Closed) -> Self {
        Self::Closed
    }
}

impl From<Failure> for End {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// Watches a kind of object until the receiver of its events is gone.
pub async fn watch<K: Kind, E: Send>(
    connection: Connection,
    selection: Selection,
    mut sink: Sink<K::Entry, E>,
) -> Closed {
    let bounds = selection.bounds;
    let mut stream = Stream::<K>::new(connection, selection);
    loop {
        let (failure, pause) = match stream.run(&mut sink).await {
            End::Closed => return Closed,
            End::Routine => {
                stream.was_broken = true;
                let failure = Failure::new(Cause::Ended, "the server ended the stream");
                sleep(stream.backoff.wait(&failure, &bounds, jitter())).await;
                continue;
            }
            End::Failed(failure) => {
                if failure.is_expired {
                    stream.revision = None;
                }
                let pause = stream.backoff.wait(&failure, &bounds, jitter());
                (failure, pause)
            }
            // There is no such object then. A server that starts may not know all definitions yet.
            End::Absent(failure) => {
                stream.absences = stream.absences.saturating_add(1);
                let is_gone = !stream.was_found || stream.absences >= ABSENCES_MIN;
                let list = [StreamEvent::ListBegins, StreamEvent::ListEnds];
                for event in list.into_iter().filter(|_| is_gone) {
                    if sink.send(event).await.is_err() {
                        return Closed;
                    }
                }
                stream.revision = None;
                (failure, bounds.unknown_retry.mul_f64(0.5 + 0.5 * jitter()))
            }
        };
        stream.was_broken = true;
        if sink.send(StreamEvent::State(Err(failure))).await.is_err() {
            return Closed;
        }
        sleep(pause).await;
    }
}

/// A number from 0 to 1, so that servers that lost the same peer do not return together.
fn jitter() -> f64 {
    f64::from(fastrand::u32(..)) / f64::from(u32::MAX)
}

struct Stream<K> {
    connection: Connection,
    selection: Selection,
    bounds: Bounds,
    /// The path of all objects of the kind.
    base: String,
    /// The revision to continue from; `None`: a list comes first.
    revision: Option<Box<str>>,
    /// The cluster that the revision is of: the UID of its namespace `kube-system`.
    identity: Option<Box<str>>,
    /// The stream broke: another server, or an older state, may be in its place.
    was_broken: bool,
    /// The server has no streaming lists.
    is_paged: bool,
    /// Objects of a page.
    page_objects: usize,
    /// How long the head of a response is waited for.
    patience: Duration,
    backoff: Backoff,
    /// The definition of an optional kind was there.
    was_found: bool,
    /// How often one after the other it was not.
    absences: u32,
    /// Streams that were opened and failed, one after the other.
    failed_streams: u32,
    kind: std::marker::PhantomData<fn() -> K>,
}

impl<K: Kind> Stream<K> {
    fn new(connection: Connection, selection: Selection) -> Self {
        let bounds = selection.bounds;
        Self {
            connection,
            selection,
            bounds,
            base: K::PATH.into(),
            revision: None,
            identity: None,
            was_broken: false,
            is_paged: false,
            page_objects: PAGE_OBJECTS,
            patience: bounds.response.0,
            backoff: Backoff::default(),
            was_found: false,
            absences: 0,
            failed_streams: 0,
            kind: std::marker::PhantomData,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube_api::encode;

    #[test]
    fn fuzz_corpus_of_watches_passes() {
        corpus::replay("watch", fuzz::check);
        corpus::search("watch", fuzz::check);
    }

    #[test]
    fn selectors_are_escaped() {
        assert_eq!(encode("a in (b, c),d!=e"), "a%20in%20%28b%2C%20c%29%2Cd%21%3De");
    }
}
