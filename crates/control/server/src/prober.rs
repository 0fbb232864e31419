//! Health checks: from the config to the prober.
use crate::documents::Documents;
use config::Config;
use health::{Allow, HealthService, HealthSettings};
use process::Identity;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use zone_manager::ZonePublisher;

/// Starts the prober, on none of these CPUs of workers if there are others. Saved states hold when
/// this returns.
///
/// # Errors
/// The thread cannot be started, or a check cannot be used.
pub fn start(
    config: &Config,
    manager: &ZonePublisher,
    documents: &Documents,
    worker_cpus: &[Option<usize>],
) -> io::Result<HealthService> {
    let settings = HealthSettings {
        checks: config.health.checks.clone(),
        allow: config
            .server
            .roles
            .health
            .then(|| Allow { prefixes: config.health.allow.clone(), own: own_addresses(config) }),
        ttl_max: config.health.ttl_max,
        folder: config.server.folder().map(Path::to_owned),
        find_user,
        read_check: config::read_check_keys,
        api_checks: Arc::clone(&documents.checks),
        endpoints: Arc::clone(&documents.endpoints),
        fleet: documents
            .states
            .as_ref()
            .map(|shared| (shared.states(), usize::from(config.health.vantage))),
        webhook: config.health.webhook.clone(),
        avoided_cpus: worker_cpus.iter().flatten().copied().collect(),
    };
    HealthService::start(manager, settings)
}

/// The numbers of the user of a script and of its group.
fn find_user(user: &str) -> Result<(u32, u32), String> {
    let identity = Identity::find(user, "").map_err(|error| {
        let text = error.to_string();
        text.strip_prefix("[server] user: ").unwrap_or(&text).to_owned()
    })?;
    match identity.uid {
        0 => Err("scripts do not run as root: name another user".into()),
        uid => Ok((uid, identity.gid)),
    }
}

/// The addresses that this server listens on.
fn own_addresses(config: &Config) -> Vec<SocketAddr> {
    let mut own = config.server.listen.clone();
    own.extend(config.ops.listen);
    own.extend(config.api.listen);
    own
}
