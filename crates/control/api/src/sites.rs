//! `/v1/sites`: other sites whose zones this server serves.
use crate::body::PathParams;
use crate::caller::Caller;
use crate::condition;
use crate::description::Refusals;
use crate::problem::{Problem, plainly};
use crate::receipt::Receipt;
use crate::state::ApiState;
use axum::extract::{Extension, State};
use hyper::HeaderMap;
use serde::Serialize;
use server_status::SiteStatus;
use std::sync::Arc;
use tokio::task::spawn_blocking;
use utoipa::ToSchema;

/// The sites, in the order of the config.
#[derive(Debug, Serialize, ToSchema)]
pub struct SiteList {
    #[schema(value_type = Vec<Object>)]
    sites: Vec<SiteStatus>,
}

/// Other sites whose zones are served: how far each is followed, and how full its etcd is.
#[utoipa::path(
    get, path = "/v1/sites", tag = "operate",
    responses(
        (status = 200, body = SiteList, description = "The sites"),
        Refusals,
    )
)]
pub async fn show_sites(
    State(state): State<ApiState>,
    Extension(caller): Extension<Caller>,
) -> Result<axum::Json<SiteList>, Problem> {
    caller.check_operate()?;
    let operator = Arc::clone(&state.api.operator);
    let status = spawn_blocking(move || operator.status()).await;
    let status = status.map_err(|why| Problem::later("not-done", why.to_string()))?;
    Ok(axum::Json(SiteList { sites: status.sites }))
}

/// Accept what the etcd of a site has, although it is another one, or has lost most records. One
/// that is older is refused: no serial goes back. Nothing is written there.
#[utoipa::path(
    post, path = "/v1/sites/{site}/accept", tag = "operate",
    params(("site" = String, Path, description = "The name of the site")),
    responses(
        (status = 200, body = Receipt, description = "Accepted, and served"),
        Refusals,
    )
)]
pub async fn accept_site(
    State(state): State<ApiState>,
    Extension(caller): Extension<Caller>,
    PathParams(site): PathParams<String>,
    headers: HeaderMap,
) -> Result<axum::Json<Receipt>, Problem> {
    caller.check_operate()?;
    condition::none(&headers)?;
    let accepting = state.api.operator.accept_site(&site);
    let missing = || Problem::missing(format!("no [[site]] has the name {site:?}"));
    let accepted = accepting.ok_or_else(missing)?.await;
    let accepted = accepted.map_err(|why| Problem::refused(why, plainly))?;
    Ok(axum::Json(Receipt::new(accepted.revision, accepted.revision, false)))
}
