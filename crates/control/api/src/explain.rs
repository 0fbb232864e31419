//! Why a client gets an answer.
use crate::body::QueryParams;
use crate::caller::Caller;
use crate::description::Refusals;
use crate::problem::Problem;
use crate::state::{ApiState, ExplainRequest};
use crate::text::{read_name, read_type};
use axum::extract::{Extension, State};
use limit::Prefix;
use model::BrokenRule;
use serde::{Deserialize, Serialize};
use server_status::explain::Explanation;
use std::net::IpAddr;
use utoipa::{IntoParams, ToSchema};
use wire::ClientSubnet;

/// The query to explain.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct ExplainQuery {
    /// The name.
    name: String,
    /// The type; absent: A.
    #[serde(rename = "type")]
    rtype: Option<String>,
    /// The address of the client.
    client: String,
    /// The client subnet option of the query, such as `10.1.0.0/16`: the network of its client
    /// that a resolver names.
    ecs: Option<String>,
    /// Where the client is, such as `eu/fra1`; absent: where its network is.
    location: Option<String>,
}

/// An answer, and what became of the members of its sets.
#[derive(Debug, Serialize, ToSchema)]
#[serde(transparent)]
#[schema(value_type = Object)]
pub struct ExplanationBody(Explanation);

/// Why a client gets an answer: the answer by the code that answers queries, and why members of its
/// sets are not in it.
#[utoipa::path(
    get, path = "/v1/explain", tag = "operate",
    params(ExplainQuery),
    responses(
        (status = 200, body = ExplanationBody, description = "The answer and its sets"),
        Refusals,
    )
)]
pub async fn explain(
    State(state): State<ApiState>,
    Extension(caller): Extension<Caller>,
    QueryParams(query): QueryParams<ExplainQuery>,
) -> Result<axum::Json<ExplanationBody>, Problem> {
    caller.check_operate()?;
    let name = read_name(&query.name, "name")?;
    let rtype = read_type(query.rtype.as_deref().unwrap_or("A"), "type")?;
    let client: IpAddr = query.client.parse().map_err(|_| {
        let what = format!("{:?} is no address, such as 192.0.2.1", query.client);
        Problem::invalid("client", BrokenRule::SET_RULES, what)
    })?;
    if let Some(path) = &query.location {
        image::Location::parse(path).map_err(|why| {
            let what = format!("{path:?} is none: {why}");
            Problem::invalid("location", BrokenRule::SET_RULES, what)
        })?;
    }
    let subnet = query.ecs.as_deref().map(read_subnet).transpose()?;
    let request = ExplainRequest { name, rtype, client, subnet, location: query.location };
    let explained = state.api.operator.explain(request).await;
    explained.map(ExplanationBody).map(axum::Json).map_err(|why| Problem::later("ending", why))
}

/// `10.1.0.0/16`
fn read_subnet(text: &str) -> Result<ClientSubnet, Problem> {
    let prefix: Prefix = text.parse().map_err(|why| {
        Problem::invalid("ecs", BrokenRule::SET_RULES, format!("{text:?} is none: {why}"))
    })?;
    Ok(ClientSubnet { address: prefix.address(), source_len: prefix.len() })
}
