//! Which paths there are. The description and the router are made of the same list.
use crate::Api;
use crate::caller::admit;
use crate::failures::Failures;
use crate::limits::{BODIES_LEN_MAX, IMPORTS_MAX, LIVE_TIME_MAX, SNAPSHOTS_MAX, WRITE_TIME_MAX};
use crate::problem::{Problem, plainly};
use crate::rates::Rates;
use crate::{bulk, import, journal, operate, sets, snapshot, zones};
use axum::Router;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use hyper::header::{CONTENT_TYPE, ETAG};
use hyper::{StatusCode, Uri};
use records::{Pending, Refused, Revision, Written};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::{IntoParams, Modify, OpenApi, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// What all handlers share.
#[derive(Clone)]
pub struct Desk {
    pub api: Arc<Api>,
    pub failures: Arc<Failures>,
    pub rates: Arc<Rates>,
    /// KiB that bodies read as a whole may yet take.
    pub room: Arc<Semaphore>,
    /// Imports that may yet begin.
    pub imports: Arc<Semaphore>,
    /// Snapshots that may yet be taken or restored.
    pub snapshots: Arc<Semaphore>,
    /// Held by who has a status gathered: one after the other.
    pub gathering: Arc<tokio::sync::Mutex<()>>,
}

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Dunlin",
        description = "Zones and record sets, and what operators ask for. Errors are \
                       `application/problem+json` with the field and the rule."
    ),
    security(("token" = [])),
    modifiers(&Token),
    tags(
        (name = "zones", description = "Zones, and who says what they hold"),
        (name = "rrsets", description = "Record sets"),
        (name = "operate", description = "The server itself"),
    )
)]
struct Description;

struct Token;

impl Modify for Token {
    fn modify(&self, openapi: &mut utoipa::openapi::OpenApi) {
        let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer);
        let scheme = scheme.description(Some("Made by `dunlin token create`."));
        let components = openapi.components.get_or_insert_default();
        components.add_security_scheme("token", SecurityScheme::Http(scheme.build()));
    }
}

fn all() -> OpenApiRouter<Desk> {
    OpenApiRouter::with_openapi(Description::openapi())
        .routes(routes!(zones::list_zones))
        .routes(routes!(zones::get_zone, zones::put_zone, zones::delete_zone))
        .routes(routes!(sets::list_sets, sets::patch_sets))
        .routes(routes!(sets::get_set, sets::put_set, sets::delete_set))
        .routes(routes!(bulk::export))
        .routes(routes!(import::import))
        .routes(routes!(journal::list_journal))
        .routes(routes!(snapshot::take_snapshot, snapshot::restore_snapshot))
        .routes(routes!(operate::status))
        .routes(routes!(operate::lifecycle))
        .routes(routes!(operate::show_cache))
        .routes(routes!(operate::flush_cache))
        .routes(routes!(operate::list_upstreams))
        .routes(routes!(operate::put_upstream))
}

/// The description of all paths (OpenAPI 3.1).
pub fn openapi() -> utoipa::openapi::OpenApi {
    all().to_openapi()
}

/// The router of all paths.
pub fn router(api: Api) -> Router {
    let desk = Desk {
        failures: Arc::default(),
        rates: Arc::new(Rates::new(api.requests_per_second)),
        room: Arc::new(Semaphore::new(BODIES_LEN_MAX >> 10)),
        imports: Arc::new(Semaphore::new(IMPORTS_MAX)),
        snapshots: Arc::new(Semaphore::new(SNAPSHOTS_MAX)),
        gathering: Arc::default(),
        api: Arc::new(api),
    };
    let (router, description) = all().split_for_parts();
    let description = serde_json::to_vec(&description).expect("a description is JSON");
    let description = bytes::Bytes::from(description);
    let told = move || {
        let description = description.clone();
        async move { ([(CONTENT_TYPE, "application/json")], description) }
    };
    router
        .fallback(nowhere)
        .method_not_allowed_fallback(not_so)
        .layer(axum::middleware::from_fn_with_state(desk.clone(), admit))
        .with_state(desk)
        // Who has no credential yet is told how to come by one.
        .route("/v1/openapi.json", get(told).fallback(not_so))
}

async fn nowhere(uri: Uri) -> Problem {
    let path = uri.path();
    Problem::missing(format!("nothing is at {path}: /v1/openapi.json tells what is where"))
}

async fn not_so(method: hyper::Method) -> Problem {
    let detail = format!("{method} is not for this path: the field Allow tells which are");
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method", detail)
}

impl Desk {
    /// Where zones are read and written.
    ///
    /// # Errors
    /// While the store is opened.
    pub fn records(&self) -> Result<&records::Desk, Problem> {
        self.api.desk.get().ok_or_else(|| {
            Problem::later(
                "starting",
                "the server loads what it holds: /v1/lifecycle tells how far",
            )
        })
    }
}

/// How long a write is waited for.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct WaitQuery {
    /// `live`: until every worker serves it. Without it, until no crash can undo it.
    #[param(inline)]
    pub wait: Option<Wait>,
}

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Wait {
    /// Until every worker serves it.
    Live,
}

/// What was written is on the disk.
#[derive(Debug, Serialize, ToSchema)]
pub struct Receipt {
    /// Its place in the line of all writes. It is the entity tag of each set it wrote.
    pub revision: u64,
    /// Whether every worker serves it: false, where nobody waited for that.
    pub live: bool,
}

/// Waits for a write, and as long as is wished until it is live.
pub async fn receipt(
    desk: &Desk,
    writing: Pending<Written>,
    wait: Option<Wait>,
    field: impl FnMut(usize, &str) -> String,
) -> Result<Receipt, Problem> {
    let begun = Instant::now();
    let revision = written(writing, field).await?;
    desk.api.counts.durable(begun.elapsed());
    let live = wait == Some(Wait::Live);
    if live {
        wait_live(desk, revision).await?;
        desk.api.counts.live(begun.elapsed());
    }
    Ok(Receipt { revision: revision.0, live })
}

/// Waits until no crash can undo a write. `field` names an edit's place in the request.
pub async fn written(
    writing: Pending<Written>,
    field: impl FnMut(usize, &str) -> String,
) -> Result<Revision, Problem> {
    let Ok(written) = timeout(WRITE_TIME_MAX, writing).await else {
        let seconds = WRITE_TIME_MAX.as_secs();
        let detail = format!("not on the disk after {seconds} s; it may be later: GET tells");
        return Err(Problem::later("slow-disk", detail));
    };
    Ok(written.map_err(|refused| Problem::refused(refused, field))?.revision)
}

/// Waits until every worker serves a revision.
///
/// # Errors
/// When one still does not after a while. It is on the disk all the same.
pub async fn wait_live(desk: &Desk, revision: Revision) -> Result<(), Problem> {
    match timeout(LIVE_TIME_MAX, desk.records()?.wait_live(revision)).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(refused)) => Err(Problem::refused(refused, plainly)),
        Err(_) => {
            let seconds = LIVE_TIME_MAX.as_secs();
            let detail = format!(
                "written as revision {revision}, but a worker did not serve it {seconds} s later"
            );
            Err(Problem::new(StatusCode::GATEWAY_TIMEOUT, "not-live", detail))
        }
    }
}

impl Receipt {
    /// The same as a response, with the entity tag of what was written.
    pub fn tagged(self) -> Response {
        let tag = crate::condition::tag(Revision(self.revision));
        ([(ETAG, tag)], axum::Json(self)).into_response()
    }
}

/// Does what may wait for the disk without holding up others.
///
/// # Errors
/// When the server ends.
pub async fn blocking<T: Send + 'static>(
    run: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Problem> {
    let done = spawn_blocking(run).await;
    done.map_err(|_| Problem::later("stopping", "the server ends: ask again later"))
}

/// Reads from the desk, which may wait for the disk, without holding up others.
pub async fn read<T: Send + 'static>(
    desk: &Desk,
    read: impl FnOnce(&records::Desk) -> Result<T, Refused> + Send + 'static,
) -> Result<T, Problem> {
    let records = desk.records()?.clone();
    let read = blocking(move || read(&records)).await?;
    read.map_err(|refused| Problem::refused(refused, plainly))
}
