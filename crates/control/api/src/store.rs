//! `/v1/store`: the form of the store.
use crate::caller::Caller;
use crate::condition;
use crate::description::Refusals;
use crate::principal::Verb;
use crate::problem::{Problem, plainly};
use crate::state::ApiState;
use axum::extract::{Extension, State};
use hyper::HeaderMap;
use records::{Form, RecordService};
use serde::Serialize;
use utoipa::ToSchema;

/// The form of the store: what an older version can read.
#[derive(Debug, Serialize, ToSchema)]
pub struct StoreBody {
    /// The form that the store has.
    form: u32,
    /// The newest form that this server knows.
    newest: u32,
    /// The oldest form that this server reads.
    oldest: u32,
    /// Servers of the fleet that do not know the newest form: the store keeps its form until they
    /// are upgraded.
    held_back_by: Vec<HoldoutBody>,
}

/// A server that does not know the newest form.
#[derive(Debug, Serialize, ToSchema)]
pub struct HoldoutBody {
    /// Its name.
    name: String,
    /// The version of its binary.
    version: String,
    /// The newest form that it knows; 0: it does not say.
    form: u32,
}

async fn body(records: &RecordService) -> Result<StoreBody, Problem> {
    let members = match records.fleet() {
        None => Vec::new(),
        Some(fleet) => fleet.members().await.map_err(|why| Problem::refused(why, plainly))?,
    };
    let behind = members.into_iter().filter(|member| member.form < Form::NEWEST.0);
    let held_back_by = behind.map(|member| HoldoutBody {
        name: member.name,
        version: member.version,
        form: member.form,
    });
    Ok(StoreBody {
        form: records.health().form.0,
        newest: Form::NEWEST.0,
        oldest: Form::OLDEST.0,
        held_back_by: held_back_by.collect(),
    })
}

/// The form of the store, and the newest one that the server knows. Needs `operate`.
#[utoipa::path(
    get, path = "/v1/store", tag = "operate",
    responses(
        (status = 200, body = StoreBody, description = "The form"),
        Refusals,
    )
)]
pub async fn show_store(
    State(state): State<ApiState>,
    Extension(caller): Extension<Caller>,
) -> Result<axum::Json<StoreBody>, Problem> {
    caller.check_operate()?;
    body(state.records()?).await.map(axum::Json)
}

/// Raise the form of the store to the newest one, so that everything can be written. A version that
/// does not know it cannot use the store any more. In a fleet, all servers have to know it. Needs
/// `operate`, and `write` and `zones` for all zones, names and types.
#[utoipa::path(
    post, path = "/v1/store/upgrade", tag = "operate",
    responses(
        (status = 200, body = StoreBody, description = "Raised, on the disk"),
        Refusals,
    )
)]
pub async fn upgrade_store(
    State(state): State<ApiState>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
) -> Result<axum::Json<StoreBody>, Problem> {
    caller.check_operate()?;
    caller.check_everything(Verb::Write)?;
    caller.check_everything(Verb::Zones)?;
    condition::none(&headers)?;
    let records = state.records()?;
    records.upgrade().await.map_err(|why| Problem::refused(why, plainly))?;
    body(records).await.map(axum::Json)
}
