//! `/v1/fleet`: the store that many servers share.
use crate::caller::Caller;
use crate::condition;
use crate::description::Refusals;
use crate::principal::Verb;
use crate::problem::{Problem, plainly};
use crate::receipt::Receipt;
use crate::state::ApiState;
use axum::extract::{Extension, State};
use hyper::HeaderMap;

/// Accept what the shared store has, although it is older than what this server has, or another
/// one. It becomes a new write, so serials and entity tags never go back. Needs `operate`, and
/// `write` and `zones` for all zones, names and types.
#[utoipa::path(
    post, path = "/v1/fleet/adopt", tag = "operate",
    responses(
        (status = 200, body = Receipt, description = "Adopted, on the disk"),
        Refusals,
    )
)]
pub async fn adopt(
    State(state): State<ApiState>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
) -> Result<axum::Json<Receipt>, Problem> {
    caller.check_operate()?;
    caller.check_everything(Verb::Write)?;
    caller.check_everything(Verb::Zones)?;
    condition::none(&headers)?;
    let adopted = state.records()?.adopt().await.map_err(|why| Problem::refused(why, plainly))?;
    caller.note_revision(adopted.revision);
    Ok(axum::Json(Receipt::new(adopted.revision, adopted.revision, false)))
}
