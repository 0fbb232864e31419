//! Accepts, limits and ends the connections of clients.
//!
//! [`accept()`] admits them within [limits](ConnectionLimits), [`serve_http`] reads their requests,
//! and [`Tls`] has the certificates that a server shows to them. It knows nothing of what is
//! served.
#![forbid(unsafe_code)]

mod accept;
mod connection_limiter;
mod host;
mod http;
pub mod limits;
mod stall_timeout;
mod tls;

pub use accept::{AcceptedConnection, Admission, ConnectionService, accept};
pub use connection_limiter::{
    ConnectionLimiter, ConnectionLimits, ConnectionPermit, RequestGuard, client,
};
pub use host::is_expected_host;
pub use http::{HttpLimits, serve_http};
pub use tls::{Certificates, Handshake, Protocol, Tls, certificate_status, client_config};
