//! `/v1/health` and `/v1/endpoints/{address}`: the health of addresses, and what operators set.
use crate::body::{Json, PathParams, QueryParams, page_limit};
use crate::caller::Caller;
use crate::condition;
use crate::description::Refusals;
use crate::problem::Problem;
use crate::state::ApiState;
use crate::text::{SetBody, read_name, write_set};
use axum::extract::{Extension, State};
use documents::ChangeError;
use health::{
    HealthReport, HealthService, OperatorState, Override, OverrideKey, StateFilter, TargetFilter,
};
use hyper::{HeaderMap, StatusCode};
use model::{BrokenRule, CHECK_OFF};
use records::{Refused, SetKey, SetValue, StoredSet, View};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::time::SystemTime;
use utoipa::{IntoParams, ToSchema};
use wire::{NameBuf, Rtype};
use zone_manager::HealthTarget;

/// Query parameters of the health.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct HealthQuery {
    /// Only the addresses of this name.
    name: Option<String>,
    /// Only targets of this check.
    check: Option<String>,
    /// Only this address.
    #[param(value_type = Option<String>)]
    address: Option<IpAddr>,
    /// Only targets of this state: `up`, `down`, `unknown` or `not-probed`.
    state: Option<String>,
    /// Only targets after this cursor: `next` of the page before.
    after: Option<String>,
    /// Maximum number of targets.
    #[param(minimum = 1, maximum = 1000, default = 100)]
    limit: Option<usize>,
}

/// The targets of checks, with their states.
#[derive(Debug, Serialize, ToSchema)]
pub struct HealthBody {
    /// The record sets of the name with a check.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    sets: Vec<SetBody>,
    #[serde(flatten)]
    #[schema(value_type = Object)]
    report: HealthReport,
}

/// A state that an operator sets for an address.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({ "state": "drain", "reason": "rack 7 moves" }))]
pub struct EndpointBody {
    /// `drain`, `force-down`, `force-up`, or `auto`: as its checks say.
    state: String,
    /// Only for this check; absent: for all.
    check: Option<String>,
    /// Why.
    #[serde(default)]
    #[schema(max_length = 255)]
    reason: String,
    /// Also if all other members of a set are down or drained.
    #[serde(default)]
    even_last: bool,
    /// Also if no record set with a check has the address.
    #[serde(default)]
    any: bool,
}

/// The set state of an address.
#[derive(Debug, Serialize, ToSchema)]
pub struct EndpointState {
    /// The address.
    #[schema(value_type = String)]
    address: IpAddr,
    /// `drain`, `force-down`, `force-up` or `auto`.
    state: String,
    /// Only for this check; absent: for all.
    #[serde(skip_serializing_if = "Option::is_none")]
    check: Option<String>,
}

/// The prober.
///
/// # Errors
/// There is none.
pub fn prober(state: &ApiState) -> Result<&HealthService, Problem> {
    state.api.health.as_ref().ok_or_else(|| Problem::missing("this server makes no health checks"))
}

fn ended(_: health::Ended) -> Problem {
    Problem::later("stopping", "the prober has ended: try again later")
}

/// Refuses a set whose check does not exist.
pub fn check_known(state: &ApiState, value: &SetValue, place: &str) -> Result<(), Problem> {
    let Some(check) = value.policy.rules().map(|rules| &*rules.check) else { return Ok(()) };
    let is_known = |health: &HealthService| health.has_check(check);
    if check.is_empty() || check == CHECK_OFF || state.api.health.as_ref().is_some_and(is_known) {
        return Ok(());
    }
    let what = format!("there is no check {check}: `dunlin checks set {check} …` defines one");
    Err(Problem::invalid(format!("{place}check"), BrokenRule::SET_RULES, what))
}

/// The addresses that checks probe, with their states.
#[utoipa::path(
    get, path = "/v1/health", tag = "operate",
    params(HealthQuery),
    responses(
        (status = 200, body = HealthBody, description = "The targets of checks"),
        Refusals,
    )
)]
pub async fn list_health(
    State(state): State<ApiState>,
    Extension(caller): Extension<Caller>,
    QueryParams(query): QueryParams<HealthQuery>,
) -> Result<axum::Json<HealthBody>, Problem> {
    caller.check_operate()?;
    let prober = prober(&state)?;
    let mut filter = TargetFilter {
        check: query.check,
        addresses: query.address.into_iter().collect(),
        state: query.state.as_deref().map(read_state).transpose()?,
        after: query.after.as_deref().map(read_cursor).transpose()?,
        limit: page_limit(query.limit)?,
    };
    let mut sets = Vec::new();
    if let Some(text) = &query.name {
        let name = read_name(text, "name")?;
        sets = state.read(move |records| sets_of(records, &name)).await?;
        filter.addresses = sets.iter().flat_map(addresses).collect();
        if sets.is_empty() {
            let detail = format!("{text} has no record set with a check in the store");
            return Err(Problem::missing(detail));
        }
    }
    let report = prober.list(filter).await.map_err(ended)?;
    Ok(axum::Json(HealthBody { sets: sets.iter().map(write_set).collect(), report }))
}

fn read_state(text: &str) -> Result<StateFilter, Problem> {
    StateFilter::from_word(text).ok_or_else(|| {
        let what = "is one of up, down, unknown and not-probed";
        Problem::invalid("state", BrokenRule::SYNTAX, what)
    })
}

fn read_cursor(text: &str) -> Result<HealthTarget, Problem> {
    HealthTarget::from_cursor(text)
        .ok_or_else(|| Problem::unreadable("after", "is not the value of `next` of a page before"))
}

/// The sets with a check of a name, in the zone of the store that it is in.
fn sets_of(records: &records::RecordService, name: &NameBuf) -> Result<Vec<StoredSet>, Refused> {
    let mut zone = name.clone();
    loop {
        let key =
            |rtype| SetKey { zone: zone.clone(), name: name.clone(), rtype, view: View::DEFAULT };
        let found = [Rtype::A, Rtype::AAAA].map(|rtype| records.set(&key(rtype)));
        match found {
            [Err(Refused::NoSuchZone), _] => {}
            found => {
                let mut sets = Vec::new();
                for set in found {
                    let is_checked = |set: &StoredSet| {
                        set.value.policy.rules().is_some_and(|rules| !rules.check.is_empty())
                    };
                    sets.extend(set?.filter(is_checked));
                }
                return Ok(sets);
            }
        }
        let bytes = zone.as_name().as_bytes();
        let len = usize::from(bytes[0]);
        match (len, wire::Name::parse(&bytes[(1 + len).min(bytes.len())..])) {
            (1.., Ok(above)) => zone = above.into(),
            _ => return Ok(Vec::new()),
        }
    }
}

fn addresses(set: &StoredSet) -> Vec<IpAddr> {
    set.value.data.iter().filter_map(|data| model::address_of(data)).collect()
}

/// The state that a request sets, if it may be set; `None`: that of its checks.
async fn check_wanted(
    prober: &HealthService,
    caller: &Caller,
    key: &OverrideKey,
    body: &EndpointBody,
) -> Result<Option<OperatorState>, Problem> {
    let address = key.address;
    if let Some(check) = body.check.as_ref().filter(|check| !prober.has_check(check)) {
        return Err(Problem::missing(format!("there is no check {check}")));
    }
    if !body.any && !prober.is_known(address) {
        let detail = format!(
            "no record set with a check has the address {address}, so nothing would change now: is \
             it misspelled? `dunlin health` shows all; --any (`any` over REST) sets it nevertheless"
        );
        return Err(Problem::missing(detail).of_field("address"));
    }
    let wanted = OperatorState::from_word(&body.state);
    if wanted.is_none() && body.state != "auto" {
        let what = "is one of drain, force-down, force-up and auto";
        return Err(Problem::invalid("state", BrokenRule::SYNTAX, what));
    }
    if wanted == Some(OperatorState::Drain) && !body.even_last {
        let last = prober.last_member_of(key).await.map_err(ended)?;
        if !last.is_empty() {
            // Only operators may see the sets of all zones.
            let sets = if caller.may_operate() { last.join(", ") } else { "record sets".into() };
            let detail = format!(
                "{address} is the last member of {sets} that is neither down nor drained: without \
                 it, members that are down are answered, or none if their set is closed"
            );
            return Err(Problem::new(StatusCode::CONFLICT, "last-member", detail));
        }
    }
    Ok(wanted)
}

/// Drains an address, forces it up or down, or returns it to its health checks. Durable when it is
/// answered. Needs `operate`, or `endpoints` for a prefix of the address.
#[utoipa::path(
    put, path = "/v1/endpoints/{address}", tag = "operate",
    params(("address" = String, Path, description = "An address of record sets with a check")),
    request_body = EndpointBody,
    responses(
        (status = 200, body = EndpointState, description = "What is set"),
        (status = 409, body = Problem, description = "All other members of record sets are down \
            or drained"),
        Refusals,
    )
)]
pub async fn put_endpoint(
    State(state): State<ApiState>,
    Extension(caller): Extension<Caller>,
    PathParams(address): PathParams<String>,
    headers: HeaderMap,
    Json(body, _room): Json<EndpointBody>,
) -> Result<axum::Json<EndpointState>, Problem> {
    let address: IpAddr = address
        .parse()
        .map_err(|_| Problem::invalid("address", BrokenRule::DATA, "is not an address"))?;
    caller.check_endpoint(address)?;
    state.check_shared_write()?;
    condition::none(&headers)?;
    let prober = prober(&state)?;
    let key = OverrideKey { address, check: body.check.as_deref().map(Box::from) };
    let wanted = check_wanted(prober, &caller, &key, &body).await?;
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let set = wanted.map(|state| Override {
        state,
        by: (&*caller.name()).into(),
        why: body.reason.as_str().into(),
        since: since.as_secs(),
    });
    let done = prober.set(key, set).await.map_err(ended)?;
    done.map_err(|why| match why {
        ChangeError::Refused(why) | ChangeError::NotSaved(why) => {
            Problem::later("not-saved", format!("{address} stays as it is: {why}"))
        }
        ChangeError::NoSpace(why) => Problem::no_space(format!("{address} stays as it is: {why}")),
        ChangeError::Unknown(why) => Problem::unknown(why),
    })?;
    Ok(axum::Json(EndpointState { address, state: body.state, check: body.check }))
}
