//! The announced addresses.
use crate::body::Json;
use crate::caller::Caller;
use crate::condition;
use crate::description::Refusals;
use crate::problem::Problem;
use crate::state::ApiState;
use axum::extract::{Extension, State};
use hyper::HeaderMap;
use model::BrokenRule;
use serde::{Deserialize, Serialize};
use server_status::AnycastStatus;
use std::sync::Arc;
use store::limits::REASON_LEN_MAX;
use tokio::task::spawn_blocking;
use utoipa::ToSchema;

/// The announced addresses, and why they are not announced.
#[derive(Debug, Serialize, ToSchema)]
#[serde(transparent)]
#[schema(value_type = Object)]
pub struct AnycastBody(AnycastStatus);

/// Whether the addresses are withdrawn.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WithdrawnBody {
    /// `false`: the server decides again.
    withdrawn: bool,
    /// Why they are withdrawn.
    reason: Option<String>,
    /// Without a permit of the fleet.
    #[serde(default)]
    force: bool,
}

async fn read(state: &ApiState) -> Result<AnycastStatus, Problem> {
    let operator = Arc::clone(&state.api.operator);
    let status = spawn_blocking(move || operator.anycast()).await;
    let status = status.map_err(|why| Problem::later("not-done", why.to_string()))?;
    status.ok_or_else(|| Problem::missing("[anycast] names no addresses"))
}

/// The announced addresses, and why they are not announced.
#[utoipa::path(
    get, path = "/v1/anycast", tag = "operate",
    responses(
        (status = 200, body = AnycastBody, description = "The announcement"),
        Refusals,
    )
)]
pub async fn show_anycast(
    State(state): State<ApiState>,
    Extension(caller): Extension<Caller>,
) -> Result<axum::Json<AnycastBody>, Problem> {
    caller.check_operate()?;
    read(&state).await.map(AnycastBody).map(axum::Json)
}

/// Withdraws the addresses, also over restarts, or leaves them to the server again.
#[utoipa::path(
    put, path = "/v1/anycast", tag = "operate",
    request_body = WithdrawnBody,
    responses(
        (status = 200, body = AnycastBody, description = "The announcement a moment later"),
        Refusals,
    )
)]
pub async fn put_anycast(
    State(state): State<ApiState>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    Json(body, _room): Json<WithdrawnBody>,
) -> Result<axum::Json<AnycastBody>, Problem> {
    caller.check_operate()?;
    condition::none(&headers)?;
    let is_forced = body.force;
    let reason = match body {
        WithdrawnBody { withdrawn: false, reason: None, .. } => None,
        WithdrawnBody { withdrawn: true, reason: Some(reason), .. } if is_reason(&reason) => {
            Some(reason)
        }
        _ => {
            let what = "a withdrawal needs a reason, a line of text; an announcement has none";
            return Err(Problem::invalid("reason", BrokenRule::SYNTAX, what));
        }
    };
    read(&state).await?;
    let operator = Arc::clone(&state.api.operator);
    let done = spawn_blocking(move || operator.withdraw(reason, is_forced)).await;
    done.map_err(|why| Problem::later("not-done", why.to_string()))?
        .map_err(|why| Problem::later("not-done", why))?;
    read(&state).await.map(AnycastBody).map(axum::Json)
}

fn is_reason(text: &str) -> bool {
    (1..=REASON_LEN_MAX).contains(&text.len()) && !text.contains(char::is_control)
}
