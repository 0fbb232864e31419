//! A zone of any source as it is served, as a zone file. A piece of it is made when the client has
//! room, so that nothing waits in memory: a client that does not read stops the walk, and is cut
//! off by the [rate](listen::limits::READ_RATE_MIN) of every connection.
use crate::body::PathParams;
use crate::bulk::{ZONE_FILE, begin_export};
use crate::caller::Caller;
use crate::description::{Refusals, ZonePath};
use crate::limits::DUMP_PIECE_LEN;
use crate::principal::Verb;
use crate::problem::{Problem, plainly};
use crate::state::ApiState;
use crate::text::read_name;
use axum::body::Body;
use axum::extract::{Extension, State};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use compile::{RecordWalk, Zone};
use futures_util::stream;
use hyper::header::CONTENT_TYPE;
use records::Refused;
use std::convert::Infallible;
use std::fmt::Write;
use std::sync::Arc;
use wire::NameBuf;

/// The lines of a zone file, in pieces of about [`DUMP_PIECE_LEN`] bytes.
pub struct ZoneText {
    walk: RecordWalk,
    /// The text before the first record.
    head: String,
    /// The owner of the last record, below the origin, and as text.
    owner: (Vec<u8>, String),
    is_over: bool,
}

impl ZoneText {
    /// The text of a zone.
    pub fn new(zone: Arc<Zone>) -> Self {
        let (origin, serial) = (zone.origin().to_string(), zone.serial().unwrap_or_default());
        let head = format!("; {origin} as served, serial {serial}\n");
        let (walk, owner) = (RecordWalk::new(zone), (Vec::new(), origin));
        Self { walk, head, owner, is_over: false }
    }
}

impl Iterator for ZoneText {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        if self.is_over {
            return None;
        }
        let mut piece = String::with_capacity(DUMP_PIECE_LEN);
        piece.push_str(&std::mem::take(&mut self.head));
        let origin = NameBuf::from(self.walk.zone().origin());
        let (name, owner) = &mut self.owner;
        self.is_over = !self.walk.advance(|record| {
            if piece.len() >= DUMP_PIECE_LEN {
                return false;
            }
            if record.name != *name {
                name.clear();
                name.extend_from_slice(record.name);
                owner.clear();
                if let Ok(full) = NameBuf::joined(record.name, origin.as_name()) {
                    write!(owner, "{full}").expect("a String takes all");
                }
            }
            write!(piece, "{owner} {} IN {} ", record.ttl, record.rtype).expect("the same");
            zonefile::write_data(record.rtype, record.data, &mut piece);
            piece.push('\n');
            true
        });
        Some(piece.into())
    }
}

/// A body that takes each piece when the client has room for it. `turn` is dropped with it.
fn pulled(pieces: impl Iterator<Item = Bytes> + Send + 'static, turn: impl Send + 'static) -> Body {
    Body::from_stream(stream::iter(pieces.map(move |piece| {
        let _ = &turn;
        Ok::<_, Infallible>(piece)
    })))
}

/// All records of a zone as DNS serves them at this moment, as a zone file: also of a zone of a
/// file or of a cluster, also without a store, and of sets with checks only the chosen members.
/// Needs `read` for the whole zone.
#[utoipa::path(
    get, path = "/v1/zones/{zone}/dump", tag = "zones", params(ZonePath),
    responses(
        (status = 200, content((String = "text/dns")), description = "The zone"),
        Refusals,
    )
)]
pub async fn dump(
    State(state): State<ApiState>,
    Extension(caller): Extension<Caller>,
    PathParams(ZonePath { zone }): PathParams<ZonePath>,
) -> Result<Response, Problem> {
    let origin = read_name(&zone, "zone")?;
    caller.check_all_of(Verb::Read, origin.as_name())?;
    let turn = begin_export(&state, &caller)?;
    let Some(found) = state.api.operator.served_zone(origin.as_name()) else {
        if state.api.records.is_some() {
            // While the store is opened, no zone is known to be missing.
            state.records()?;
        }
        return Err(Problem::refused(Refused::NoSuchZone, plainly));
    };
    if found.serial().is_none() {
        return Err(Problem::refused(Refused::Unloaded, plainly));
    }
    let body = pulled(ZoneText::new(found), turn);
    Ok(([(CONTENT_TYPE, ZONE_FILE)], body).into_response())
}

#[cfg(test)]
mod tests;
