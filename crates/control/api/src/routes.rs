//! The paths of the API. The description and the router come from the same list.
use crate::caller::admit;
use crate::description::{Description, describe_tags};
use crate::problem::Problem;
use crate::state::{Api, ApiState};
use crate::{
    anycast, bulk, checks, dump, endpoints, explain, fleet, import, journal, manage, operate,
    powerdns, revert, sets, sites, snapshot, store, zones,
};
use axum::Router;
use axum::routing::get;
use hyper::header::CONTENT_TYPE;
use hyper::{StatusCode, Uri};
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

fn all() -> OpenApiRouter<ApiState> {
    OpenApiRouter::with_openapi(Description::openapi())
        .routes(routes!(zones::list_zones))
        .routes(routes!(zones::get_zone, zones::put_zone, zones::delete_zone))
        .routes(routes!(sets::list_sets, sets::patch_sets))
        .routes(routes!(sets::get_set, sets::put_set, sets::delete_set))
        .routes(routes!(bulk::export))
        .routes(routes!(dump::dump))
        .routes(routes!(import::import))
        .routes(routes!(journal::list_journal))
        .routes(routes!(revert::revert))
        .routes(routes!(snapshot::take_snapshot, snapshot::restore_snapshot))
        .routes(routes!(operate::status))
        .routes(routes!(operate::lifecycle))
        .routes(routes!(operate::show_cache))
        .routes(routes!(operate::flush_cache))
        .routes(routes!(operate::list_upstreams))
        .routes(routes!(operate::put_upstream))
        .routes(routes!(anycast::show_anycast, anycast::put_anycast))
        .routes(routes!(checks::list_checks))
        .routes(routes!(checks::get_check, checks::put_check, checks::delete_check))
        .routes(routes!(endpoints::list_health))
        .routes(routes!(endpoints::put_endpoint))
        .routes(routes!(explain::explain))
        .routes(routes!(fleet::show))
        .routes(routes!(fleet::adopt))
        .routes(routes!(fleet::show_cluster, fleet::retire_cluster))
        .routes(routes!(sites::show_sites))
        .routes(routes!(sites::accept_site))
        .routes(routes!(store::show_store))
        .routes(routes!(store::upgrade_store))
        .routes(routes!(manage::reload))
        .routes(routes!(manage::accept_zones))
        .routes(routes!(manage::list_credentials, manage::create_credential))
        .routes(routes!(manage::rotate_credential))
        .routes(routes!(manage::revoke_credential))
}

/// The description of all paths (OpenAPI 3.1).
pub fn openapi() -> utoipa::openapi::OpenApi {
    let mut description = all().to_openapi();
    describe_tags(&mut description);
    description
}

/// The router of all paths.
pub fn router(api: Api) -> Router {
    let state = ApiState::new(api);
    let description = serde_json::to_vec(&openapi()).expect("a description is JSON");
    let description = bytes::Bytes::from(description);
    let describe = move || {
        let description = description.clone();
        async move { ([(CONTENT_TYPE, "application/json")], description) }
    };
    let (mut router, _) = all().split_for_parts();
    let has_dialect = state.api.powerdns;
    if has_dialect {
        router = router.merge(powerdns::router());
    }
    let router = router
        .fallback(refuse_path)
        .method_not_allowed_fallback(refuse_method)
        .layer(axum::middleware::from_fn_with_state(state.clone(), admit))
        .with_state(state)
        // A client without a credential reads here how to get one.
        .route("/v1/openapi.json", get(describe).fallback(refuse_method));
    match has_dialect {
        true => router.layer(axum::middleware::from_fn(powerdns::write_errors)),
        false => router,
    }
}

async fn refuse_path(uri: Uri) -> Problem {
    let path = uri.path();
    let help = match powerdns::is_dialect(path) {
        true => "`[api] powerdns = true` serves the PowerDNS paths that docs/powerdns.md lists",
        false => "/v1/openapi.json describes all paths",
    };
    Problem::missing(format!("there is no {path}: {help}"))
}

async fn refuse_method(method: hyper::Method) -> Problem {
    let detail = format!("{method} is not a method of this path: the field Allow lists them");
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method", detail)
}
