//! `/v1/fleet`: the store that many servers share.
use crate::body::PathParams;
use crate::caller::Caller;
use crate::condition;
use crate::description::Refusals;
use crate::principal::Verb;
use crate::problem::{Problem, plainly};
use crate::receipt::Receipt;
use crate::state::ApiState;
use axum::extract::{Extension, State};
use hyper::{HeaderMap, StatusCode};
use records::{Fleet, Refused};
use serde::Serialize;
use server_status::{FleetStatus, Member, StoredCluster};
use std::time::SystemTime;
use utoipa::ToSchema;

/// The servers that share a store.
#[derive(Debug, Serialize, ToSchema)]
pub struct FleetBody {
    /// The name of this server.
    name: String,
    /// Why the others do not see this server as a member, and what to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    fault: Option<String>,
    /// Which servers have other content than this one at the same revision, and what to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    difference: Option<String>,
    /// The newest revision that a member serves.
    revision: u64,
    /// The form of the store.
    form: u32,
    /// The living members, by name.
    members: Vec<MemberBody>,
}

/// A server of a fleet.
#[derive(Debug, Serialize, ToSchema)]
pub struct MemberBody {
    /// Its name.
    name: String,
    /// Where it answers DNS queries.
    addresses: Vec<String>,
    /// The version of its binary.
    version: String,
    /// Its parts: `dns`, `api`, `kubernetes`, `health`.
    roles: Vec<String>,
    /// Where it is, as its config says.
    location: String,
    /// The newest revision that it serves.
    revision: u64,
    /// The digest of all zones at this revision: members that serve the same one have the same
    /// digest. Empty: it does not know.
    digest: String,
    /// How many revisions it is behind the newest one.
    behind: u64,
    /// How long it has been a member.
    age_seconds: u64,
    /// The newest form of a store that it knows; 0: it does not say.
    form: u32,
    /// By how many seconds its clock is ahead of that of this server; negative: behind. Only a
    /// difference of more than a minute is noticed for certain.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    clock_ahead_seconds: Option<i64>,
}

impl MemberBody {
    fn new(member: Member, newest: u64, now: u64) -> Self {
        let clock_ahead_seconds = member.clock_difference(now);
        let Member { since, reported, revision, form, .. } = member;
        // By this clock, if both agree: a report can be half a minute old.
        let until = if clock_ahead_seconds.is_none() { now.max(reported) } else { reported };
        let age_seconds = until.saturating_sub(since) / 1_000;
        let behind = newest.saturating_sub(revision);
        Self {
            name: member.name,
            addresses: member.addresses,
            version: member.version,
            roles: member.roles,
            location: member.location,
            revision,
            digest: member.digest,
            behind,
            age_seconds,
            form,
            clock_ahead_seconds,
        }
    }
}

/// The servers that share the store, and which revision each serves. Needs `operate`.
#[utoipa::path(
    get, path = "/v1/fleet", tag = "operate",
    responses(
        (status = 200, body = FleetBody, description = "The fleet"),
        Refusals,
    )
)]
pub async fn show(
    State(state): State<ApiState>,
    Extension(caller): Extension<Caller>,
) -> Result<axum::Json<FleetBody>, Problem> {
    caller.check_operate()?;
    let refused = |why| Problem::refused(why, plainly);
    let records = state.fleet_records()?;
    let form = records.health().form.0;
    let fleet = records.fleet().ok_or_else(|| refused(Refused::NotShared))?;
    let FleetStatus { name, fault, difference, .. } = fleet.status();
    let members = fleet.members().await.map_err(refused)?;
    let revision = members.iter().map(|member| member.revision).max().unwrap_or_default();
    let now = store::codec::milliseconds(SystemTime::now());
    let members = members.into_iter().map(|member| MemberBody::new(member, revision, now));
    let members = members.collect();
    Ok(axum::Json(FleetBody { name, fault, difference, revision, form, members }))
}

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
    let adopted =
        state.fleet_records()?.adopt().await.map_err(|why| Problem::refused(why, plainly))?;
    caller.note_revision(adopted.revision);
    Ok(axum::Json(Receipt::new(adopted.revision, adopted.revision, false)))
}

/// What the store of a fleet has of a Kubernetes cluster.
#[derive(Debug, Serialize, ToSchema)]
pub struct ClusterBody {
    /// Its name.
    name: String,
    /// The server that writes its objects.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    leader: Option<String>,
    /// Its services, and those imported from other clusters.
    services: u64,
    /// Its EndpointSlices.
    slices: u64,
    /// All of its objects.
    objects: u64,
    /// When it was retired, in seconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    retired_seconds: Option<u64>,
}

impl From<StoredCluster> for ClusterBody {
    fn from(part: StoredCluster) -> Self {
        let StoredCluster { name, leader, services, slices, objects, retired_seconds, .. } = part;
        Self { name, leader, services, slices, objects, retired_seconds }
    }
}

/// The fleet of a request about the cluster of this name.
fn fleet_of<'s>(state: &'s ApiState, cluster: &str) -> Result<&'s dyn Fleet, Problem> {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if !(1..=63).contains(&cluster.len()) || !cluster.bytes().all(is_plain) {
        return Err(Problem::missing(format!("no cluster can have the name {cluster:?}")));
    }
    let fleet = state.fleet_records()?.fleet();
    fleet.ok_or_else(|| Problem::refused(Refused::NotShared, plainly))
}

/// What the store of the fleet has of a Kubernetes cluster. Needs `operate`.
#[utoipa::path(
    get, path = "/v1/fleet/clusters/{cluster}", tag = "operate",
    params(("cluster" = String, Path, description = "The name of the cluster")),
    responses(
        (status = 200, body = ClusterBody, description = "The cluster"),
        Refusals,
    )
)]
pub async fn show_cluster(
    State(state): State<ApiState>,
    Extension(caller): Extension<Caller>,
    PathParams(cluster): PathParams<String>,
) -> Result<axum::Json<ClusterBody>, Problem> {
    caller.check_operate()?;
    let part = fleet_of(&state, &cluster)?.cluster(&cluster).await;
    let part = part.map_err(|why| Problem::refused(why, plainly))?;
    Ok(axum::Json(part.into()))
}

/// Remove what the store of the fleet has of a Kubernetes cluster that is gone, all or nothing. It
/// is refused while a server writes its objects. Needs `operate`, and `write` and `zones` for all
/// zones, names and types.
#[utoipa::path(
    delete, path = "/v1/fleet/clusters/{cluster}", tag = "operate",
    params(("cluster" = String, Path, description = "The name of the cluster")),
    responses(
        (status = 200, body = ClusterBody, description = "Removed: what there was"),
        Refusals,
    )
)]
pub async fn retire_cluster(
    State(state): State<ApiState>,
    Extension(caller): Extension<Caller>,
    PathParams(cluster): PathParams<String>,
    headers: HeaderMap,
) -> Result<axum::Json<ClusterBody>, Problem> {
    caller.check_operate()?;
    caller.check_everything(Verb::Write)?;
    caller.check_everything(Verb::Zones)?;
    condition::none(&headers)?;
    let retired = fleet_of(&state, &cluster)?.retire(&cluster).await;
    let retired = retired.map_err(|why| Problem::refused(why, plainly))?;
    let refused = |why| Problem::new(StatusCode::CONFLICT, "cluster-not-gone", why);
    Ok(axum::Json(retired.map_err(refused)?.into()))
}
