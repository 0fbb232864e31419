//! `/v1/snapshot`: all zones of the store as one stream, and back.
use crate::body::{Ask, media, piece};
use crate::caller::Caller;
use crate::limits::{RESTORE_TIME_MAX, SNAPSHOT_LEN_MAX, SNAPSHOT_PIECE_LEN, SNAPSHOT_PIECES_MAX};
use crate::principal::Verb;
use crate::problem::{Problem, plainly};
use crate::routes::{Desk, Receipt, Wait, WaitQuery, blocking, wait_live};
use axum::body::Body;
use axum::extract::{Extension, Request, State};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use hyper::StatusCode;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use model::Rule;
use records::{Refused, Revision, snapshot};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use utoipa::ToSchema;

/// The media type of a snapshot.
const OCTETS: &str = "application/octet-stream";
/// What a snapshot that is restored is put into: it is gone from its folder at once.
const SPOOL: &str = "restore.spool";

/// All zones of the store at one moment, with a checksum at the end.
#[derive(ToSchema)]
#[schema(value_type = String, format = Binary)]
#[expect(dead_code, reason = "it is there for the description")]
pub struct Snapshot(Vec<u8>);

/// What is written becomes a stream of pieces, of which few wait.
struct Pieces {
    piece: Vec<u8>,
    to: mpsc::Sender<Result<Bytes, Refused>>,
}

impl Pieces {
    fn send(&mut self) -> io::Result<()> {
        let piece = std::mem::take(&mut self.piece).into();
        // Who asked may have hung up.
        self.to.blocking_send(Ok(piece)).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

impl Write for Pieces {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        self.piece.extend_from_slice(octets);
        if self.piece.len() >= SNAPSHOT_PIECE_LEN {
            self.send()?;
        }
        Ok(octets.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.piece.is_empty() { Ok(()) } else { self.send() }
    }
}

/// One at a time: each keeps what it reads from being tidied up, or the writer from others.
fn turn(desk: &Desk) -> Result<OwnedSemaphorePermit, Problem> {
    Arc::clone(&desk.snapshots)
        .try_acquire_owned()
        .map_err(|_| Problem::later("busy", "another snapshot is taken or restored: come later"))
}

/// All zones of the store as they are at one moment, streamed while they are served and written.
/// It needs `read` for all zones, names and types.
#[utoipa::path(
    get, path = "/v1/snapshot", tag = "zones",
    responses(
        (status = 200, content((Snapshot = "application/octet-stream"))),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
        (status = "5XX", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn take_snapshot(
    State(desk): State<Desk>,
    Extension(caller): Extension<Caller>,
) -> Result<Response, Problem> {
    caller.check_everything(Verb::Read)?;
    let turn = turn(&desk)?;
    let records = desk.records()?.clone();
    let (to, mut from) = mpsc::channel(SNAPSHOT_PIECES_MAX);
    spawn_blocking(move || {
        let mut pieces = Pieces { piece: Vec::new(), to };
        let taken = records.snapshot(&mut pieces);
        // Who has seen the end may take the next one.
        drop(turn);
        if let Err(why) = taken {
            // Who asked may have hung up; else the stream ends without its end.
            let _ = pieces.to.blocking_send(Err(why));
        }
    });
    // What keeps it from beginning is still told as a problem; what comes later cuts it off.
    let first = match from.recv().await {
        Some(Ok(piece)) => piece,
        Some(Err(why)) => return Err(Problem::refused(why, plainly)),
        None => return Err(Problem::later("stopping", "the server ends: ask again later")),
    };
    let pieces = stream::unfold((Some(first), from), |(first, mut from)| async move {
        let piece = match first {
            Some(piece) => Ok(piece),
            None => from.recv().await?.map_err(io::Error::other),
        };
        Some((piece, (None, from)))
    });
    let mut response = Body::from_stream(pieces).into_response();
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(OCTETS));
    Ok(response)
}

/// Takes what a snapshot holds for all that is in the store: all of it, or nothing. It gets a
/// revision of its own, so that serials and entity tags never go back. It needs `write` and
/// `zones` for all zones, names and types.
#[utoipa::path(
    put, path = "/v1/snapshot", tag = "zones", params(WaitQuery),
    request_body(content((Snapshot = "application/octet-stream"))),
    responses(
        (status = 200, body = Receipt),
        (status = "4XX", body = Problem, content_type = "application/problem+json"),
        (status = "5XX", body = Problem, content_type = "application/problem+json"),
    )
)]
pub async fn restore_snapshot(
    State(desk): State<Desk>,
    Extension(caller): Extension<Caller>,
    Ask(query): Ask<WaitQuery>,
    request: Request,
) -> Result<axum::Json<Receipt>, Problem> {
    caller.check_everything(Verb::Write)?;
    caller.check_everything(Verb::Zones)?;
    if media(request.headers()) != OCTETS {
        return Err(Problem::media(&[OCTETS]));
    }
    let turn = turn(&desk)?;
    let records = desk.records()?.clone();
    // Whoever sends slowly, or something else, holds up nobody who writes.
    let spooled = spool(&desk.api.spool, request.into_body()).await?;
    // It goes on, and has its turn, though nobody waits for it any more.
    let restoring = tokio::spawn(async move {
        let _turn = turn;
        restore(&records, spooled, caller.name()).await
    });
    let restored = timeout(RESTORE_TIME_MAX, restoring).await.map_err(|_| {
        let seconds = RESTORE_TIME_MAX.as_secs();
        let detail = format!(
            "not done after {seconds} s, and goes on: once it is done every zone of the store has \
             another revision in /v1/zones; if it fails, the log tells why"
        );
        Problem::new(StatusCode::GATEWAY_TIMEOUT, "under-way", detail)
    })?;
    let ends = |_| Problem::later("stopping", "the server ends: ask again later");
    let revision = restored.map_err(ends)??;
    let live = query.wait == Some(Wait::Live);
    if live {
        wait_live(&desk, revision).await?;
    }
    Ok(axum::Json(Receipt { revision: revision.0, live }))
}

/// Takes a snapshot that is whole for all there is.
async fn restore(
    records: &records::Desk,
    spooled: File,
    by: Arc<str>,
) -> Result<Revision, Problem> {
    let file = blocking(move || check(spooled)).await??;
    let from = Box::new(BufReader::with_capacity(SNAPSHOT_PIECE_LEN, file));
    let restored = records.restore(from, by, SystemTime::now()).await;
    Ok(restored.map_err(|why| Problem::refused(why, plainly))?.revision)
}

/// Puts a body into a file that nobody else sees, and that is gone with it.
async fn spool(folder: &Path, mut body: Body) -> Result<File, Problem> {
    let path = folder.join(SPOOL);
    let opened = blocking(move || {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true).mode(0o600);
        let file = options.open(&path)?;
        fs::remove_file(&path)?;
        Ok(file)
    });
    let mut file = opened.await?.map_err(|why| unwritten(&why))?;
    let (mut waiting, mut len) = (Vec::new(), 0);
    loop {
        let came = piece(&mut body).await?;
        waiting.extend_from_slice(came.as_deref().unwrap_or_default());
        let is_over = came.is_none();
        if waiting.len() >= SNAPSHOT_PIECE_LEN || is_over {
            len += waiting.len() as u64;
            if len > SNAPSHOT_LEN_MAX {
                let detail = format!("a snapshot has {SNAPSHOT_LEN_MAX} octets at most");
                return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too-long", detail));
            }
            let full = std::mem::take(&mut waiting);
            let written = blocking(move || file.write_all(&full).map(|()| file)).await?;
            file = written.map_err(|why| unwritten(&why))?;
        }
        if is_over {
            return Ok(file);
        }
    }
}

fn unwritten(why: &io::Error) -> Problem {
    match why.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            Problem::refused(Refused::Full, plainly)
        }
        _ => Problem::later("store-failed", format!("[server] data_dir cannot be written: {why}")),
    }
}

/// Reads it once before anything is touched: what is damaged is refused for what it is.
fn check(mut file: File) -> Result<File, Problem> {
    let failed = |why: io::Error| unwritten(&why);
    file.rewind().map_err(failed)?;
    let mut reader = BufReader::with_capacity(SNAPSHOT_PIECE_LEN, &file);
    snapshot::read(&mut reader, &mut |_| Ok(())).map_err(|why| {
        // Who sent it may not wait any more.
        tracing::warn!("a snapshot was refused: {why}");
        Problem::invalid("body", Rule::DATA, why.to_string())
    })?;
    file.rewind().map_err(failed)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_that_nobody_takes_ends() {
        let (to, from) = mpsc::channel(SNAPSHOT_PIECES_MAX);
        drop(from);
        let mut pieces = Pieces { piece: Vec::new(), to };
        let told = pieces.write_all(&vec![0; SNAPSHOT_PIECE_LEN]).expect_err("nobody is there");
        assert_eq!(told.kind(), io::ErrorKind::BrokenPipe);
    }
}
