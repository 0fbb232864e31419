//! `PowerDNS`' API under `/api/v1`, for its clients. One more caller of the record service:
//! credentials, grants, conditions, the journal and the audit log are those of `/v1`.
mod form;
mod read;
mod write;

pub use form::{is_dialect, write_errors};

use crate::state::ApiState;
use axum::Router;
use axum::routing::{get, put};

/// The paths. A path that is missing here is refused like one of `/v1`.
pub fn router() -> Router<ApiState> {
    let zone = "/api/v1/servers/localhost/zones/{zone}";
    Router::new()
        .route("/api", get(read::versions))
        .route("/api/v1/servers", get(read::servers))
        .route("/api/v1/servers/localhost", get(read::server))
        .route("/api/v1/servers/localhost/config", get(read::none))
        .route("/api/v1/servers/localhost/zones", get(read::list_zones).post(write::create_zone))
        .route(
            zone,
            get(read::get_zone)
                .patch(write::patch_zone)
                .put(write::put_zone)
                .delete(write::delete_zone),
        )
        .route(&format!("{zone}/notify"), put(write::notify))
        .route(&format!("{zone}/rectify"), put(write::rectify))
        .route(&format!("{zone}/cryptokeys"), get(read::keys))
}
