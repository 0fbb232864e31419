//! The server: status, state, cache, and upstreams.
use crate::body::{Json, PathParams, QueryParams};
use crate::caller::Caller;
use crate::condition;
use crate::description::Refusals;
use crate::limits::STATUS_TIME_MAX;
use crate::problem::Problem;
use crate::state::ApiState;
use axum::extract::{Extension, State};
use hyper::HeaderMap;
use model::BrokenRule;
use serde::{Deserialize, Serialize};
use server_status::command::{
    Command, CommandOutcome, FlushScope, ThreadCacheEntry, ThreadFlushed,
};
use server_status::{ServerState as Stage, Status, UpstreamStatus, ZoneState};
use std::sync::Arc;
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use utoipa::{IntoParams, ToSchema};

/// The status of the server, as `dunlin status -o json` shows it.
#[derive(Debug, Serialize, ToSchema)]
#[serde(transparent)]
#[schema(value_type = Object)]
pub struct StatusBody(Status);

/// The state of the server.
#[derive(Debug, Serialize, ToSchema)]
pub struct Lifecycle {
    /// `init` until every zone was tried, `running`, then `ending`.
    state: LifecycleState,
    /// Whether clients should use it.
    ready: bool,
    /// Zones of files and of the store that were never loaded: they answer SERVFAIL.
    unloaded: Vec<String>,
}

/// The state in one word.
#[derive(Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum LifecycleState {
    /// It loads its zones, and does not answer.
    Init,
    /// It answers.
    Running,
    /// It answers, and will end soon.
    Ending,
}

/// Query parameters of the cache.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct CacheQuery {
    /// The name.
    name: String,
    /// Only this type.
    #[serde(rename = "type")]
    rtype: Option<String>,
}

/// The scope of a flush.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct FlushQuery {
    /// The name; absent: all names.
    name: Option<String>,
    /// Also all names below it.
    subtree: Option<bool>,
}

/// The cache entries of a name, for each thread.
#[derive(Debug, Serialize, ToSchema)]
pub struct CacheEntries {
    #[schema(value_type = Vec<Object>)]
    threads: Vec<ThreadCacheEntry>,
}

/// The flushed entries, for each thread.
#[derive(Debug, Serialize, ToSchema)]
pub struct CacheFlushed {
    /// Flushed answers of all threads.
    answers: u64,
    #[schema(value_type = Vec<Object>)]
    threads: Vec<ThreadFlushed>,
}

/// The upstreams, with their state.
#[derive(Debug, Serialize, ToSchema)]
pub struct Upstreams {
    #[schema(value_type = Vec<Object>)]
    upstreams: Vec<UpstreamStatus>,
}

/// The new state of an upstream.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UpstreamBody {
    /// Whether it is drained.
    drained: bool,
}

/// The suffixes whose upstream was drained or restored.
#[derive(Debug, Serialize, ToSchema)]
pub struct Drained {
    suffixes: Vec<String>,
}

pub async fn gather(state: &ApiState) -> Result<Status, Problem> {
    let (operator, gathering) = (Arc::clone(&state.api.operator), Arc::clone(&state.gathering));
    let gathered = async {
        // One status at a time: frequent requests delay only each other.
        let turn = gathering.lock_owned().await;
        spawn_blocking(move || {
            let status = operator.status();
            drop(turn);
            status
        })
        .await
    };
    match timeout(STATUS_TIME_MAX, gathered).await {
        Ok(Ok(status)) => Ok(status),
        Ok(Err(_)) => Err(Problem::later("status", "the status cannot be gathered: see the log")),
        Err(_) => Err(Problem::later("status", "the status takes too long to gather")),
    }
}

/// The complete status of the server.
#[utoipa::path(
    get, path = "/v1/status", tag = "operate",
    responses(
        (status = 200, body = StatusBody, description = "The status"),
        Refusals,
    )
)]
pub async fn status(
    State(state): State<ApiState>,
    Extension(caller): Extension<Caller>,
) -> Result<axum::Json<StatusBody>, Problem> {
    caller.check_operate()?;
    gather(&state).await.map(StatusBody).map(axum::Json)
}

/// The state of the server, and whether clients should use it. Needs any valid credential.
#[utoipa::path(
    get, path = "/v1/lifecycle", tag = "operate",
    responses(
        (status = 200, body = Lifecycle, description = "The lifecycle"),
        Refusals,
    )
)]
pub async fn lifecycle(
    State(state): State<ApiState>,
    Extension(caller): Extension<Caller>,
) -> Result<axum::Json<Lifecycle>, Problem> {
    let status = gather(&state).await?;
    let state = match status.state {
        Stage::Starting => LifecycleState::Init,
        Stage::Serving => LifecycleState::Running,
        Stage::Draining => LifecycleState::Ending,
    };
    let unloaded = status.zones.into_iter().filter(|zone| zone.state == ZoneState::Unloaded);
    let of_store = status.store.into_iter().flat_map(|store| store.servfail_zones);
    let unloaded = unloaded.map(|zone| zone.name).chain(of_store.map(|zone| zone.name));
    // Only operators see which zones exist.
    let unloaded = match caller.check_operate() {
        Ok(()) => unloaded.collect(),
        Err(_) => Vec::new(),
    };
    Ok(axum::Json(Lifecycle { ready: status.state.is_ready(), state, unloaded }))
}

async fn command(
    state: &ApiState,
    field: &str,
    command: Command,
) -> Result<CommandOutcome, Problem> {
    let told = state.api.operator.command(command).await;
    told.map_err(|why| Problem::later("not-done", why).of_field(field))
}

fn unexpected(outcome: &CommandOutcome) -> Problem {
    Problem::later("not-done", format!("it did something else: {outcome:?}"))
}

fn name(text: &str) -> Result<(), Problem> {
    crate::text::read_name(text, "name").map(drop)
}

/// The cache entries of a name.
#[utoipa::path(
    get, path = "/v1/cache", tag = "operate", params(CacheQuery),
    responses(
        (status = 200, body = CacheEntries, description = "The cached answers"),
        Refusals,
    )
)]
pub async fn show_cache(
    State(state): State<ApiState>,
    Extension(caller): Extension<Caller>,
    QueryParams(query): QueryParams<CacheQuery>,
) -> Result<axum::Json<CacheEntries>, Problem> {
    caller.check_operate()?;
    name(&query.name)?;
    if let Some(text) = &query.rtype {
        crate::text::read_type(text, "type")?;
    }
    let asked = Command::Show { name: query.name, rtype: query.rtype };
    match command(&state, "name", asked).await? {
        CommandOutcome::Shown(threads) => Ok(axum::Json(CacheEntries { threads })),
        other => Err(unexpected(&other)),
    }
}

/// Flushes a name, a name with all names below it, or everything, in every thread.
#[utoipa::path(
    delete, path = "/v1/cache", tag = "operate", params(FlushQuery),
    responses(
        (status = 200, body = CacheFlushed, description = "What was removed"),
        Refusals,
    )
)]
pub async fn flush_cache(
    State(state): State<ApiState>,
    Extension(caller): Extension<Caller>,
    QueryParams(query): QueryParams<FlushQuery>,
    headers: HeaderMap,
) -> Result<axum::Json<CacheFlushed>, Problem> {
    caller.check_operate()?;
    condition::none(&headers)?;
    if let Some(text) = &query.name {
        name(text)?;
    }
    let scope = match (query.name, query.subtree == Some(true)) {
        (Some(name), false) => FlushScope::Name(name),
        (Some(name), true) => FlushScope::Subtree(name),
        (None, false) => FlushScope::All,
        (None, true) => {
            let what = "needs a name that the subtree is below";
            return Err(Problem::invalid("subtree", BrokenRule::SYNTAX, what));
        }
    };
    match command(&state, "name", Command::Flush(scope)).await? {
        CommandOutcome::Flushed(threads) => {
            let answers = threads.iter().map(|thread| thread.answers).sum();
            Ok(axum::Json(CacheFlushed { answers, threads }))
        }
        other => Err(unexpected(&other)),
    }
}

/// The upstreams of the forward rules, and whether they answer.
#[utoipa::path(
    get, path = "/v1/upstreams", tag = "operate",
    responses(
        (status = 200, body = Upstreams, description = "The upstreams"),
        Refusals,
    )
)]
pub async fn list_upstreams(
    State(state): State<ApiState>,
    Extension(caller): Extension<Caller>,
) -> Result<axum::Json<Upstreams>, Problem> {
    caller.check_operate()?;
    Ok(axum::Json(Upstreams { upstreams: gather(&state).await?.upstreams }))
}

/// Drains or restores an upstream.
#[utoipa::path(
    put, path = "/v1/upstreams/{server}", tag = "operate",
    params(("server" = String, Path, description = "The server, as the list has it")),
    request_body = UpstreamBody,
    responses(
        (status = 200, body = Drained, description = "The rules that use it"),
        Refusals,
    )
)]
pub async fn put_upstream(
    State(state): State<ApiState>,
    Extension(caller): Extension<Caller>,
    PathParams(server): PathParams<String>,
    headers: HeaderMap,
    Json(body, _room): Json<UpstreamBody>,
) -> Result<axum::Json<Drained>, Problem> {
    caller.check_operate()?;
    condition::none(&headers)?;
    let status = gather(&state).await?;
    let is_it = |upstream: &UpstreamStatus| {
        upstream.server == server || upstream.server.strip_suffix(":53") == Some(&server)
    };
    if status.upstreams.is_empty() {
        return Err(Problem::missing("[forward] has no rule with servers"));
    }
    if !status.upstreams.iter().any(is_it) {
        let mut known: Vec<&str> = status.upstreams.iter().map(|one| &*one.server).collect();
        known.dedup();
        let known = known.join(", ");
        let detail = format!("[forward] names no server {server}; those that it names: {known}");
        return Err(Problem::missing(detail));
    }
    match command(&state, "server", Command::Drain { server, drained: body.drained }).await? {
        CommandOutcome::Drained(suffixes) => Ok(axum::Json(Drained { suffixes })),
        other => Err(unexpected(&other)),
    }
}
