//! What operators' tools ask over HTTP: metrics, health, readiness.
//!
//! `/metrics` is for Prometheus, `/healthz` and `/readyz` for whoever restarts the server or sends
//! clients to it. Everything is gathered when it is asked for, one gathering at a time.
#![forbid(unsafe_code)]

mod answer;
mod exposition;
pub mod limits;
mod metrics;
mod ready;
mod server;

pub use server::serve;

use control::status::Status;
use std::net::IpAddr;
use std::sync::Arc;

/// What is asked for, and who may ask. All of it is called from threads that may wait.
#[derive(Clone)]
pub struct Ops {
    /// What the server tells of itself.
    pub status: Arc<dyn Fn() -> Status + Send + Sync>,
    /// Whether the process's loops are alive; if not, which is not, and why.
    pub health: Arc<dyn Fn() -> Result<(), String> + Send + Sync>,
    /// Who may ask. IPv4 addresses come as such, never mapped into IPv6. Must not wait.
    pub allow: Arc<dyn Fn(IpAddr) -> bool + Send + Sync>,
}
