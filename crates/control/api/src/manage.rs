//! Management of the server: reloads, held zones, and the credentials of the API.
use crate::body::{Json, PathParams, QueryParams};
use crate::caller::Caller;
use crate::condition;
use crate::credentials::TokenRefused;
use crate::description::Refusals;
use crate::problem::Problem;
use crate::state::ApiState;
use axum::extract::{Extension, State};
use hyper::{HeaderMap, StatusCode};
use model::BrokenRule;
use serde::{Deserialize, Serialize};
use server_status::command::{AcceptedZone, Credential, ReloadOutcome, TokenOutcome, TokenRequest};
use utoipa::{IntoParams, ToSchema};

/// Query parameters of a reload.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct ReloadQuery {
    /// `true`: apply a config also if it removes most of the zones.
    #[serde(default)]
    #[param(default = false)]
    accept: bool,
}

/// The outcome of a reload: `applied` with the changes, `refused` with the errors, `held` if the
/// config removes more than half of the zones, and at least 20, or `not-now` with the reason.
#[derive(Debug, Serialize, ToSchema)]
#[serde(transparent)]
#[schema(value_type = Object)]
pub struct ReloadBody(ReloadOutcome);

/// The held content to accept.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AcceptBody {
    /// The zone, or the hosts file as the status names it; without it, all that are held.
    #[schema(min_length = 1)]
    zone: Option<String>,
}

/// The zones whose held content was accepted.
#[derive(Debug, Serialize, ToSchema)]
pub struct AcceptedZones {
    #[schema(value_type = Vec<Object>)]
    accepted: Vec<AcceptedZone>,
}

/// A new principal.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CredentialBody {
    /// Its name.
    principal: String,
    /// Its grants: `VERBS [ZONE [NAMES [TYPES]]]` each.
    grants: Vec<String>,
    /// The name in its certificate; without it, the principal gets a token.
    #[schema(nullable = false)]
    subject: Option<String>,
    /// The algorithm of its TSIG key, such as `hmac-sha256`: instead of a token it gets a key,
    /// which signs DNS messages.
    #[schema(nullable = false)]
    tsig: Option<String>,
    /// Seconds until the credential expires; without it, it does not.
    #[schema(nullable = false)]
    lifetime_seconds: Option<u32>,
}

/// A new token.
#[derive(Serialize, ToSchema)]
pub struct TokenBody {
    /// The token, or the TSIG key in the form of `named.conf`, shown only now. A principal with a
    /// certificate has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    token: Option<String>,
}

/// All principals with their credentials, without secrets.
#[derive(Debug, Serialize, ToSchema)]
pub struct CredentialList {
    #[schema(value_type = Vec<Object>)]
    credentials: Vec<Credential>,
}

/// Reload the config and every zone file, and wait for the result.
#[utoipa::path(
    post, path = "/v1/reload", tag = "operate",
    params(ReloadQuery),
    responses(
        (status = 200, body = ReloadBody, description = "The outcome"),
        Refusals,
    )
)]
pub async fn reload(
    State(state): State<ApiState>,
    Extension(caller): Extension<Caller>,
    QueryParams(query): QueryParams<ReloadQuery>,
    headers: HeaderMap,
) -> Result<axum::Json<ReloadBody>, Problem> {
    caller.check_operate()?;
    condition::none(&headers)?;
    Ok(axum::Json(ReloadBody(state.api.operator.reload(query.accept).await)))
}

/// Serve the held content of a zone, or of every held zone.
#[utoipa::path(
    post, path = "/v1/accept", tag = "operate", request_body = AcceptBody,
    responses(
        (status = 200, body = AcceptedZones, description = "The accepted zones"),
        Refusals,
    )
)]
pub async fn accept_zones(
    State(state): State<ApiState>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    Json(body, _room): Json<AcceptBody>,
) -> Result<axum::Json<AcceptedZones>, Problem> {
    caller.check_operate()?;
    condition::none(&headers)?;
    if body.zone.as_ref().is_some_and(String::is_empty) {
        return Err(Problem::invalid("zone", BrokenRule::NAME, "is empty"));
    }
    let accepted = state.api.operator.accept(body.zone).await.map_err(not_done)?;
    Ok(axum::Json(AcceptedZones { accepted }))
}

/// List the principals and their grants. Only over the local socket.
#[utoipa::path(
    get, path = "/v1/credentials", tag = "operate",
    responses(
        (status = 200, body = CredentialList, description = "The principals"),
        Refusals,
    )
)]
pub async fn list_credentials(
    State(state): State<ApiState>,
    Extension(caller): Extension<Caller>,
) -> Result<axum::Json<CredentialList>, Problem> {
    match manage(&state, &caller, TokenRequest::List).await? {
        TokenOutcome::Listed(credentials) => Ok(axum::Json(CredentialList { credentials })),
        other => Err(unexpected(&other)),
    }
}

/// Create a principal with a token, or with the name in its certificate. Only over the local
/// socket.
#[utoipa::path(
    post, path = "/v1/credentials", tag = "operate", request_body = CredentialBody,
    responses(
        (status = 200, body = TokenBody, description = "The principal was created"),
        Refusals,
    )
)]
pub async fn create_credential(
    State(state): State<ApiState>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    Json(body, _room): Json<CredentialBody>,
) -> Result<axum::Json<TokenBody>, Problem> {
    condition::none(&headers)?;
    let CredentialBody { principal, grants, subject, tsig, lifetime_seconds } = body;
    let request = TokenRequest::Create { principal, grants, subject, tsig, lifetime_seconds };
    token(manage(&state, &caller, request).await?)
}

/// Give a principal a new token; its grants stay. Only over the local socket.
#[utoipa::path(
    post, path = "/v1/credentials/{principal}/rotate", tag = "operate",
    params(("principal" = String, Path, description = "The principal's name")),
    responses(
        (status = 200, body = TokenBody, description = "The new token"),
        Refusals,
    )
)]
pub async fn rotate_credential(
    State(state): State<ApiState>,
    Extension(caller): Extension<Caller>,
    PathParams(principal): PathParams<String>,
    headers: HeaderMap,
) -> Result<axum::Json<TokenBody>, Problem> {
    condition::none(&headers)?;
    token(manage(&state, &caller, TokenRequest::Rotate { principal }).await?)
}

/// Revoke a principal's credentials, effective immediately. Only over the local socket.
#[utoipa::path(
    delete, path = "/v1/credentials/{principal}", tag = "operate",
    params(("principal" = String, Path, description = "The principal's name")),
    responses(
        (status = 204, description = "The credentials are revoked"),
        Refusals,
    )
)]
pub async fn revoke_credential(
    State(state): State<ApiState>,
    Extension(caller): Extension<Caller>,
    PathParams(principal): PathParams<String>,
    headers: HeaderMap,
) -> Result<StatusCode, Problem> {
    condition::none(&headers)?;
    match manage(&state, &caller, TokenRequest::Revoke { principal }).await? {
        TokenOutcome::Revoked => Ok(StatusCode::NO_CONTENT),
        other => Err(unexpected(&other)),
    }
}

/// A token could otherwise create another with more grants than its own.
async fn manage(
    state: &ApiState,
    caller: &Caller,
    request: TokenRequest,
) -> Result<TokenOutcome, Problem> {
    caller.check_local()?;
    if !matches!(request, TokenRequest::List) {
        state.check_shared_write()?;
    }
    state.api.operator.manage_tokens(request).await.map_err(|why| match why {
        TokenRefused::NotDone(why) => not_done(why),
        TokenRefused::NotSaved(why) => Problem::later("not-saved", why),
        TokenRefused::NoSpace(why) => Problem::no_space(why),
        TokenRefused::Unknown(why) => Problem::unknown(why),
    })
}

fn token(outcome: TokenOutcome) -> Result<axum::Json<TokenBody>, Problem> {
    match outcome {
        TokenOutcome::Created { token } => Ok(axum::Json(TokenBody { token })),
        other => Err(unexpected(&other)),
    }
}

fn not_done(why: String) -> Problem {
    Problem::new(StatusCode::CONFLICT, "not-done", why)
}

fn unexpected(outcome: &TokenOutcome) -> Problem {
    Problem::later("not-done", format!("unexpected outcome: {outcome:?}"))
}
