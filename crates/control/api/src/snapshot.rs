//! `/v1/snapshot`: all zones of the store as one stream.
use crate::body::{QueryParams, media, piece};
use crate::caller::Caller;
use crate::condition::{expected, tag};
use crate::description::{Refusals, WriteCondition};
use crate::limits::{RESTORE_TIME_MAX, SNAPSHOT_LEN_MAX, SNAPSHOT_PIECE_LEN};
use crate::principal::Verb;
use crate::problem::{Problem, plainly};
use crate::receipt::{Receipt, WaitQuery, wait_for};
use crate::state::{ApiState, blocking};
use crate::stream::{ChunkWriter, StreamedResponse};
use axum::body::Body;
use axum::extract::{Extension, Request, State};
use axum::response::{IntoResponse, Response};
use durable::files::Folder;
use hyper::StatusCode;
use hyper::header::{CONTENT_TYPE, ETAG, HeaderValue};
use model::BrokenRule;
use records::{Refused, Revision, WriteContext};
use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, BufReader, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use store::snapshot;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;
use utoipa::ToSchema;

/// The media type of a snapshot.
const BYTES: &str = "application/octet-stream";

/// All zones of the store at one moment, with a checksum at the end.
#[derive(ToSchema)]
#[schema(value_type = String, format = Binary)]
#[expect(dead_code, reason = "it is there for the description")]
pub struct Snapshot(Vec<u8>);

/// One at a time: a snapshot keeps pages from being reused, a restore occupies the writer.
fn turn(state: &ApiState) -> Result<OwnedSemaphorePermit, Problem> {
    Arc::clone(&state.snapshots).try_acquire_owned().map_err(|_| {
        Problem::later("busy", "another snapshot or restore is in progress: try again later")
    })
}

/// All zones of the store at one moment, streamed while they are served and written. Needs `read`
/// for all zones, names and types. The entity tag is the newest revision of the store.
#[utoipa::path(
    get, path = "/v1/snapshot", tag = "zones",
    responses(
        (status = 200, content((Snapshot = "application/octet-stream")),
            description = "The snapshot", headers(("ETag" = String))),
        Refusals,
    )
)]
pub async fn take_snapshot(
    State(state): State<ApiState>,
    Extension(caller): Extension<Caller>,
) -> Result<Response, Problem> {
    caller.check_everything(Verb::Read)?;
    let turn = turn(&state)?;
    let records = state.records()?.clone();
    let write = move |pieces: &mut ChunkWriter| records.snapshot(pieces).map(drop);
    let streamed = StreamedResponse::start(turn, write).await?;
    let revision = snapshot::revision(&streamed.first);
    let mut response = streamed.body().into_response();
    if let Some(revision) = revision.filter(|revision| *revision != Revision::NONE) {
        response.headers_mut().insert(ETAG, tag(revision));
    }
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(BYTES));
    Ok(response)
}

/// Replaces the content of the store by a snapshot, as a whole. The restore gets a new revision, so
/// serials and entity tags never go back. Needs `write` and `zones` for all zones, names and types.
#[utoipa::path(
    put, path = "/v1/snapshot", tag = "zones",
    params(
        WaitQuery,
        WriteCondition,
    ),
    request_body(content((Snapshot = "application/octet-stream"))),
    responses(
        (status = 200, body = Receipt, description = "Restored, on the disk",
            headers(("ETag" = String))),
        Refusals,
    )
)]
pub async fn restore_snapshot(
    State(state): State<ApiState>,
    Extension(caller): Extension<Caller>,
    QueryParams(query): QueryParams<WaitQuery>,
    request: Request,
) -> Result<Response, Problem> {
    caller.check_everything(Verb::Write)?;
    caller.check_everything(Verb::Zones)?;
    let context = query.context(&caller, expected(request.headers())?)?;
    if media(request.headers()) != BYTES {
        return Err(Problem::media(&[BYTES]));
    }
    let turn = turn(&state)?;
    let records = state.records()?.clone();
    // The snapshot is read to the disk first, so a slow client delays no writer.
    let spooled = spool(&state.api.spool, request.into_body()).await?;
    // The restore continues if the client hangs up.
    let restoring = tokio::spawn(async move {
        let _turn = turn;
        restore(&records, spooled, context).await
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
    caller.note_revision(revision);
    if let Some(wait) = query.wait {
        wait_for(&state, wait, revision).await?;
    }
    let receipt = Receipt::new(revision, revision, query.wait.is_some());
    Ok(([(ETAG, tag(revision))], axum::Json(receipt)).into_response())
}

/// Restores a verified snapshot.
async fn restore(
    records: &records::RecordService,
    spooled: File,
    context: WriteContext,
) -> Result<Revision, Problem> {
    let file = blocking(move || check(spooled)).await??;
    let from = Box::new(BufReader::with_capacity(SNAPSHOT_PIECE_LEN, file));
    let restored = records.restore(from, context).await;
    Ok(restored.map_err(|why| Problem::refused(why, plainly))?.revision)
}

/// An unpredictable name: without `[server] data_dir` the folder may be world-writable.
fn spool_name() -> String {
    format!(".restore-{:016x}.spool", RandomState::new().build_hasher().finish())
}

/// Writes a body into an anonymous file.
async fn spool(folder: &Path, mut body: Body) -> Result<File, Problem> {
    let folder = folder.to_owned();
    let opened = blocking(move || {
        let folder = Folder::create(&folder)?;
        let name = PathBuf::from(spool_name());
        let file = folder.create_new(&name, 0o600)?;
        folder.remove(&name)?;
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
                let detail = format!("a snapshot has {SNAPSHOT_LEN_MAX} bytes at most");
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

/// Verifies the snapshot before anything is changed.
fn check(mut file: File) -> Result<File, Problem> {
    let failed = |why: io::Error| unwritten(&why);
    file.rewind().map_err(failed)?;
    let mut reader = BufReader::with_capacity(SNAPSHOT_PIECE_LEN, &file);
    snapshot::read(&mut reader, &mut |_| Ok(())).map_err(|why| {
        // The client may be gone.
        tracing::warn!("a snapshot was refused: {why}");
        Problem::invalid("body", BrokenRule::DATA, why.to_string())
    })?;
    file.rewind().map_err(failed)?;
    Ok(file)
}
