//! Responses that are streamed from one snapshot of the store. Each has a thread, and keeps pages
//! of the store from being reused, so each has a maximum time.
use crate::limits::{SNAPSHOT_PIECE_LEN, SNAPSHOT_PIECES_MAX, STREAM_TIME_MAX};
use crate::problem::{Problem, plainly};
use axum::body::Body;
use bytes::Bytes;
use futures_util::stream;
use records::{Refused, Revision};
use std::any::Any;
use std::future::poll_fn;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::sleep;

/// Messages of the writing thread.
enum Part {
    /// The next chunk.
    Piece(Bytes),
    /// The end of the stream.
    End,
    /// The stream is aborted because of this.
    Failed(Refused),
}

/// Writes chunks, of which only few wait for the client.
pub struct ChunkWriter {
    piece: Vec<u8>,
    /// The revision of the content, once known.
    pub revision: Revision,
    to: mpsc::Sender<(Revision, Part)>,
}

impl ChunkWriter {
    fn tell(&mut self, part: Part) -> io::Result<()> {
        // The client hung up, or timed out.
        let told = self.to.blocking_send((self.revision, part));
        told.map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    fn send(&mut self) -> io::Result<()> {
        let piece = std::mem::take(&mut self.piece).into();
        self.tell(Part::Piece(piece))
    }
}

impl Write for ChunkWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.piece.extend_from_slice(bytes);
        if self.piece.len() >= SNAPSHOT_PIECE_LEN {
            self.send()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.piece.is_empty() { Ok(()) } else { self.send() }
    }
}

/// A value that a response holds until it ends, such as a permit.
type Turn = Arc<dyn Any + Send + Sync>;

/// The receiver of chunks, and the permit of the response.
struct Waiting {
    from: mpsc::Receiver<(Revision, Part)>,
    _turn: Turn,
}

/// The waiting chunks, until the response ends or the client is gone or times out.
struct Source {
    waiting: Arc<Mutex<Option<Waiting>>>,
    timer: JoinHandle<()>,
}

impl Source {
    fn new(from: mpsc::Receiver<(Revision, Part)>, turn: Turn) -> Self {
        let waiting = Arc::new(Mutex::new(Some(Waiting { from, _turn: turn })));
        let theirs = Arc::clone(&waiting);
        let timer = tokio::spawn(async move {
            sleep(STREAM_TIME_MAX).await;
            // The thread can no longer send, and ends.
            drop(take(&theirs));
        });
        Self { waiting, timer }
    }

    /// The next chunk. `None`: it takes too long, or the thread ended.
    async fn next(&self) -> Option<(Revision, Part)> {
        poll_fn(|context| {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            match &mut *waiting {
                Some(waiting) => waiting.from.poll_recv(context),
                None => Poll::Ready(None),
            }
        })
        .await
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        self.timer.abort();
        drop(take(&self.waiting));
    }
}

fn take(waiting: &Mutex<Option<Waiting>>) -> Option<Waiting> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// A response in progress.
pub struct StreamedResponse {
    /// The revision of the content, if the writer has set it.
    pub revision: Revision,
    /// The first chunk.
    pub first: Bytes,
    is_over: bool,
    source: Source,
}

impl StreamedResponse {
    /// Starts a thread that writes a response, and waits for the first chunk. `turn` is dropped
    /// when the thread is done and the response is read or aborted.
    ///
    /// # Errors
    /// Why the thread could not begin.
    pub async fn start(
        turn: impl Send + Sync + 'static,
        write: impl FnOnce(&mut ChunkWriter) -> Result<(), Refused> + Send + 'static,
    ) -> Result<Self, Problem> {
        let (to, from) = mpsc::channel(SNAPSHOT_PIECES_MAX);
        let turn: Turn = Arc::new(turn);
        let source = Source::new(from, Arc::clone(&turn));
        spawn_blocking(move || {
            let mut pieces = ChunkWriter { piece: Vec::new(), revision: Revision::NONE, to };
            let written = write(&mut pieces);
            // Dropped before the end is sent: the client may start the next one at once.
            drop(turn);
            // Without its end a stream counts as aborted; a client that is gone does not matter.
            let _ = match written {
                Ok(()) => pieces.flush().and_then(|()| pieces.tell(Part::End)),
                Err(why) => pieces.tell(Part::Failed(why)),
            };
        });
        let (revision, first, is_over) = match source.next().await {
            Some((revision, Part::Piece(first))) => (revision, first, false),
            Some((revision, Part::End)) => (revision, Bytes::new(), true),
            Some((_, Part::Failed(why))) => return Err(Problem::refused(why, plainly)),
            None => return Err(Problem::later("stopping", "the server ends: ask again later")),
        };
        Ok(Self { revision, first, is_over, source })
    }

    /// The body of the response. A later error aborts it.
    pub fn body(self) -> Body {
        let Self { first, is_over, source, .. } = self;
        let state = (Some(first), is_over, source);
        Body::from_stream(stream::unfold(state, |(first, is_over, source)| async move {
            let (piece, is_over) = match first {
                Some(piece) => (Ok(piece), is_over),
                None if is_over => return None,
                None => match source.next().await {
                    Some((_, Part::Piece(piece))) => (Ok(piece), false),
                    Some((_, Part::End)) => return None,
                    Some((_, Part::Failed(why))) => (Err(io::Error::other(why)), true),
                    None => (Err(io::ErrorKind::TimedOut.into()), true),
                },
            };
            Some((piece, (None, is_over, source)))
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt;
    use std::sync::mpsc::channel;
    use tokio::sync::{OwnedSemaphorePermit, Semaphore};

    fn turn(turns: &Arc<Semaphore>) -> OwnedSemaphorePermit {
        Arc::clone(turns).try_acquire_owned().expect("a turn")
    }

    #[test]
    fn stream_whose_client_hung_up_ends() {
        let (to, from) = mpsc::channel(SNAPSHOT_PIECES_MAX);
        drop(from);
        let mut pieces = ChunkWriter { piece: Vec::new(), revision: Revision::NONE, to };
        let told = pieces.write_all(&vec![0; SNAPSHOT_PIECE_LEN]).expect_err("no client");
        assert_eq!(told.kind(), io::ErrorKind::BrokenPipe);
    }

    #[tokio::test]
    async fn stream_that_fails_is_cut_off_and_one_that_ends_is_not() {
        let turns = Arc::new(Semaphore::new(2));
        let bytes = |fails: bool| {
            let write = move |pieces: &mut ChunkWriter| {
                pieces.write_all(&vec![7; 2 * SNAPSHOT_PIECE_LEN]).expect("a client");
                if fails { Err(Refused::Busy) } else { Ok(()) }
            };
            StreamedResponse::start(turn(&turns), write)
        };
        let whole = bytes(false).await.expect("begun").body().collect().await.expect("whole");
        assert_eq!(whole.to_bytes().len(), 2 * SNAPSHOT_PIECE_LEN);
        bytes(true).await.expect("begun").body().collect().await.expect_err("cut off");
    }

    /// The chunks of a short response stay in memory after its thread has ended.
    #[tokio::test]
    async fn turn_lasts_until_the_response_is_taken_or_its_client_hangs_up() {
        let turns = Arc::new(Semaphore::new(1));
        for is_taken in [true, false] {
            let (done, is_done) = channel();
            let write = move |pieces: &mut ChunkWriter| {
                pieces.write_all(b"short").expect("a client");
                done.send(()).expect("a receiver");
                Ok(())
            };
            let body = StreamedResponse::start(turn(&turns), write).await.expect("begun").body();
            is_done.recv().expect("the thread is done");
            assert_eq!(turns.available_permits(), 0);
            match is_taken {
                true => drop(body.collect().await.expect("whole")),
                false => drop(body),
            }
            drop(Arc::clone(&turns).acquire_owned().await.expect("it is given back"));
        }
    }

    /// A client that does not read cannot keep a snapshot of the store for longer than this.
    #[tokio::test(start_paused = true)]
    async fn stream_that_is_not_taken_ends_in_time() {
        let turns = Arc::new(Semaphore::new(1));
        let (ended, has_ended) = channel();
        let write = move |pieces: &mut ChunkWriter| {
            let piece = vec![7; SNAPSHOT_PIECE_LEN];
            while pieces.write_all(&piece).is_ok() {}
            ended.send(()).expect("a receiver");
            Ok(())
        };
        let streamed = StreamedResponse::start(turn(&turns), write).await.expect("begun");
        tokio::time::advance(STREAM_TIME_MAX).await;
        let turn = Arc::clone(&turns).acquire_owned().await.expect("the thread gave it back");
        has_ended.try_recv().expect("the thread has ended");
        drop(turn);
        streamed.body().collect().await.expect_err("cut off");
    }
}
