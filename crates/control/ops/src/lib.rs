//! The HTTP interface for operators' tools: metrics, health, readiness.
//!
//! `/metrics` is for Prometheus, `/healthz` and `/readyz` for supervisors and load balancers. Each
//! request collects the data again, one at a time.
#![forbid(unsafe_code)]

mod answer;
mod exposition;
pub mod limits;
mod metrics;
mod ready;
mod response;
mod server;

pub use answer::serve;
pub use exposition::{Exposition, Family, Format, Kind, Labels};
pub use response::respond;
pub use server::{Respond, serve_pages};

use server_status::Status;
use std::net::IpAddr;
use std::sync::Arc;

/// The sources of data, and the access check. Called from threads that may block.
#[derive(Clone)]
pub struct Ops {
    /// The server's status.
    pub status: Arc<dyn Fn() -> Status + Send + Sync>,
    /// Whether the process's loops are alive; the error names the one that is not.
    pub health: Arc<dyn Fn() -> Result<(), String> + Send + Sync>,
    /// Whether a client may make requests. IPv4 addresses are never mapped into IPv6. Must not
    /// block.
    pub allow: Arc<dyn Fn(IpAddr) -> bool + Send + Sync>,
    /// Names that requests over a loopback address may have in their Host, besides `localhost` and
    /// addresses.
    pub hosts: Arc<[String]>,
}
