//! `/v1/checks`: the checks that addresses are probed by.
use crate::body::{Json, PathParams};
use crate::caller::Caller;
use crate::condition;
use crate::description::Refusals;
use crate::endpoints::prober;
use crate::problem::Problem;
use crate::state::ApiState;
use axum::extract::{Extension, State};
use health::{CheckRefused, DefinedCheck};
use hyper::{HeaderMap, StatusCode};
use model::BrokenRule;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// The keys of a check, which are those of `[check]` in the config. Absent: the default.
#[derive(Debug, Default, Deserialize, Serialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
#[schema(example = json!({ "kind": "http", "port": 8080, "path": "/healthz" }))]
pub struct CheckKeys {
    /// `tcp`, `http`, `https`, `grpc`, `dns` or `icmp`. The config alone defines a `script`.
    kind: String,
    /// The port; `dns`: 53 if absent; `icmp`: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    port: Option<u16>,
    /// The time between two probes, such as `10s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    interval: Option<String>,
    /// The longest time of a probe, such as `2s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout: Option<String>,
    /// Passed probes in a row until an address is up again.
    #[serde(skip_serializing_if = "Option::is_none")]
    rise: Option<u8>,
    /// Failed probes in a row until an address is down.
    #[serde(skip_serializing_if = "Option::is_none")]
    fall: Option<u8>,
    /// How much later a probe may be, in percent of the interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    jitter: Option<u8>,
    /// `http`, `https`: the path.
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    /// `http`, `https`, `grpc`: the name of the host that is sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<String>,
    /// `http`, `https`: the accepted status, a number or ranges such as `200-299,404`.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Value>,
    /// `http`, `https`: a text that the response contains.
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<String>,
    /// `grpc`: the service.
    #[serde(skip_serializing_if = "Option::is_none")]
    service: Option<String>,
    /// `grpc`: whether TLS is used.
    #[serde(skip_serializing_if = "Option::is_none")]
    tls: Option<bool>,
    /// With TLS: the name in the certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    sni: Option<String>,
    /// With TLS: how long before its end a certificate is a warning.
    #[serde(skip_serializing_if = "Option::is_none")]
    expiry_warning: Option<String>,
    /// With TLS: the file of CA certificates, which the config alone can name.
    #[serde(skip_serializing_if = "Option::is_none")]
    ca: Option<String>,
    /// `dns`: the name in the query.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// `dns`: the type in the query.
    #[serde(skip_serializing_if = "Option::is_none")]
    r#type: Option<String>,
    /// `dns`: the expected response code.
    #[serde(skip_serializing_if = "Option::is_none")]
    rcode: Option<String>,
    /// `script`: the program and its arguments, which the config alone can name.
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<Vec<String>>,
    /// `script`: the user of the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<String>,
}

/// A check.
#[derive(Debug, Serialize, ToSchema)]
pub struct CheckBody {
    /// Its name.
    check: String,
    /// `config` or `api`: where it is defined, and can be changed.
    defined_in: &'static str,
    /// Its keys, also those with their default.
    keys: CheckKeys,
}

/// All checks.
#[derive(Debug, Serialize, ToSchema)]
pub struct CheckList {
    /// By name.
    checks: Vec<CheckBody>,
}

/// A check that does not exist any more.
#[derive(Debug, Serialize, ToSchema)]
pub struct DeletedCheck {
    /// Its name.
    deleted: String,
}

fn write(one: &DefinedCheck) -> Result<CheckBody, Problem> {
    let keys = serde_json::from_value(Value::Object(one.check.keys()));
    let keys = keys.map_err(|why| {
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", why.to_string())
    })?;
    let defined_in = if one.is_configured { "config" } else { "api" };
    Ok(CheckBody { check: one.check.name.clone(), defined_in, keys })
}

fn refused(name: &str, why: &CheckRefused) -> Problem {
    let detail = format!("the check {name}: {why}");
    match why {
        CheckRefused::Configured => Problem::new(StatusCode::CONFLICT, "configured", detail),
        CheckRefused::InUse(_) => Problem::new(StatusCode::CONFLICT, "in-use", detail),
        CheckRefused::Missing => Problem::missing(detail),
        CheckRefused::Invalid(_) => Problem::invalid("body", BrokenRule::CONFIG_VALUE, detail),
        CheckRefused::TooMany => Problem::invalid("check", BrokenRule::LIMIT, detail),
        CheckRefused::NotSaved(_) => Problem::later("not-saved", detail),
        CheckRefused::NoSpace(_) => Problem::no_space(detail),
        CheckRefused::Unknown(_) => Problem::unknown(detail),
        CheckRefused::Ended => Problem::later("stopping", detail),
    }
}

/// All checks, those of the config and those of this API.
#[utoipa::path(
    get, path = "/v1/checks", tag = "operate",
    responses((status = 200, body = CheckList, description = "The checks"), Refusals)
)]
pub async fn list_checks(
    State(state): State<ApiState>,
    Extension(caller): Extension<Caller>,
) -> Result<axum::Json<CheckList>, Problem> {
    caller.check_operate()?;
    let checks = prober(&state)?.checks().iter().map(write).collect::<Result<_, _>>()?;
    Ok(axum::Json(CheckList { checks }))
}

/// A check.
#[utoipa::path(
    get, path = "/v1/checks/{check}", tag = "operate",
    params(("check" = String, Path, description = "The name of the check")),
    responses((status = 200, body = CheckBody, description = "The check"), Refusals)
)]
pub async fn get_check(
    State(state): State<ApiState>,
    Extension(caller): Extension<Caller>,
    PathParams(name): PathParams<String>,
) -> Result<axum::Json<CheckBody>, Problem> {
    caller.check_operate()?;
    let found = prober(&state)?.check(&name);
    let found = found.ok_or_else(|| refused(&name, &CheckRefused::Missing))?;
    Ok(axum::Json(write(&found)?))
}

/// Defines or changes a check. Durable when it is answered. Its targets keep their states.
#[utoipa::path(
    put, path = "/v1/checks/{check}", tag = "operate",
    params(("check" = String, Path, description = "The name of the check")),
    request_body = CheckKeys,
    responses(
        (status = 200, body = CheckBody, description = "The changed check"),
        (status = 201, body = CheckBody, description = "The new check"),
        Refusals,
    )
)]
pub async fn put_check(
    State(state): State<ApiState>,
    Extension(caller): Extension<Caller>,
    PathParams(name): PathParams<String>,
    headers: HeaderMap,
    Json(body, _room): Json<CheckKeys>,
) -> Result<(StatusCode, axum::Json<CheckBody>), Problem> {
    caller.check_operate()?;
    state.check_shared_write()?;
    condition::none(&headers)?;
    let prober = prober(&state)?;
    let Ok(Value::Object(keys)) = serde_json::to_value(&body) else {
        return Err(Problem::unreadable("body", "is not an object"));
    };
    let is_new = prober.put_check(name.clone(), keys).await.map_err(|why| refused(&name, &why))?;
    let found = prober.check(&name);
    let found = found.ok_or_else(|| refused(&name, &CheckRefused::Missing))?;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, axum::Json(write(&found)?)))
}

/// Deletes a check that no record set names. Durable when it is answered.
#[utoipa::path(
    delete, path = "/v1/checks/{check}", tag = "operate",
    params(("check" = String, Path, description = "The name of the check")),
    responses(
        (status = 200, body = DeletedCheck, description = "It is deleted"),
        Refusals,
    )
)]
pub async fn delete_check(
    State(state): State<ApiState>,
    Extension(caller): Extension<Caller>,
    PathParams(name): PathParams<String>,
    headers: HeaderMap,
) -> Result<axum::Json<DeletedCheck>, Problem> {
    caller.check_operate()?;
    state.check_shared_write()?;
    condition::none(&headers)?;
    let done = prober(&state)?.delete_check(name.clone()).await;
    done.map_err(|why| refused(&name, &why))?;
    Ok(axum::Json(DeletedCheck { deleted: name }))
}
