//! Forwarding from the config: rules for the handlers, and the status of upstreams.
use answer::TtlLimits;
use config::{Cache, Config, Diagnostic, Forward, Mode};
use handler::Forwarding;
use image::ForwardRule;
use std::error::Error;
use std::path::Path;
use std::time::Duration;
use upstream::{
    ResolverCounts, ResolverPlan, ServerMarks, ShardCounts, StatusView, TrustAnchors,
    UpstreamServers,
};
use zone_manager::status::{CacheStatus, ShardStatus, UpstreamState, UpstreamStatus};

/// The forwarding rules of a config, for so many threads; `None` without rules.
pub fn forwarding(
    config: &Config,
    threads: usize,
    trust: Option<TrustAnchors>,
) -> Option<Forwarding> {
    let Config { forwards, cache, .. } = config;
    let groups = forwards.iter().filter(|forward| forward.mode.asks());
    let off = forwards.iter().filter(|forward| forward.mode == Mode::Off);
    let rule = |forward: &Forward, group| ForwardRule { suffix: forward.suffix.clone(), group };
    let mut rules: Vec<_> =
        groups.enumerate().map(|(group, forward)| rule(forward, group as u16)).collect();
    if rules.is_empty() {
        return None;
    }
    rules.extend(off.map(|forward| rule(forward, ForwardRule::NO_GROUP)));
    Some(Forwarding::new(rules, ResolverPlan { trust, ..plan(forwards, cache, threads) }))
}

/// The forwarding rules of a config file, for one thread without TLS: for tests that run a handler
/// without a server.
///
/// # Errors
/// The file has an error.
pub fn forwarding_of_file(file: &Path) -> Result<Option<Forwarding>, Box<dyn Error>> {
    let lines = |errors: Vec<Diagnostic>| -> String {
        errors.iter().map(|error| format!("{error}\n")).collect()
    };
    Ok(forwarding(&Config::load(Some(file)).map_err(lines)?, 1, None))
}

/// The upstreams of a config: number in a thread's plan, suffix, and name.
fn servers(forwards: &[Forward]) -> impl Iterator<Item = (u16, String, String)> {
    let servers = forwards.iter().flat_map(|forward| {
        let suffix = forward.suffix.as_name();
        forward.servers.iter().map(move |server| (suffix.to_string(), server.to_string()))
    });
    (0..).zip(servers).map(|(number, (suffix, server))| (number, suffix, server))
}

/// The numbers of an upstream, one for each suffix. A port of 53 may be left out.
///
/// # Errors
/// The config has no such upstream; the error lists those that it has.
pub fn find_server(forwards: &[Forward], text: &str) -> Result<Vec<(u16, String)>, String> {
    let texts = [text.to_owned(), format!("{text}:53"), format!("[{text}]:53")];
    let found: Vec<_> = servers(forwards)
        .filter(|(_, _, server)| texts.contains(server))
        .map(|(number, suffix, _)| (number, suffix))
        .collect();
    if found.is_empty() {
        let mut known: Vec<String> = servers(forwards).map(|(_, _, server)| server).collect();
        known.sort_unstable();
        known.dedup();
        let known = known.join(", ");
        return Err(format!("[forward] names no server {text}; those that it names: {known}"));
    }
    Ok(found)
}

/// The status of the upstreams, from all threads.
pub fn upstreams(forwards: &[Forward], views: &[StatusView]) -> Vec<UpstreamStatus> {
    if views.is_empty() {
        return Vec::new();
    }
    servers(forwards)
        .map(|(number, suffix, server)| {
            let known = StatusView::server(views, number.into());
            let state = match (known.up, known.down) {
                _ if known.drained > 0 => UpstreamState::Drained,
                (_, 0) => UpstreamState::Up,
                (0, _) => UpstreamState::Down,
                _ => UpstreamState::Failing,
            };
            let heard = known.round_trip_micros > 0;
            UpstreamStatus {
                suffix,
                server,
                state,
                round_trip_seconds: heard.then_some(known.round_trip_micros as f64 / 1e6),
                sent: known.counts.sent,
                answered: known.counts.answered,
                refused: known.counts.refused,
                late: known.counts.late,
                mismatched: known.counts.mismatched,
                connections: known.connections,
                connections_opened: known.opened,
                connections_full: known.full,
                fault: known.fault.what().map(str::to_owned),
            }
        })
        .collect()
}

/// The faults of upstreams that were logged.
#[derive(Debug, Default)]
pub struct UpstreamLog(Vec<Option<String>>);

impl UpstreamLog {
    /// Logs each new fault of an upstream and its end, once, however many queries fail.
    pub fn look(&mut self, servers: &[UpstreamStatus]) {
        self.0.resize(servers.len(), None);
        for (before, server) in self.0.iter_mut().zip(servers) {
            if *before == server.fault {
                continue;
            }
            let UpstreamStatus { suffix, server, fault, .. } = server;
            match fault {
                Some(fault) => {
                    tracing::warn!(server, suffix, "an upstream has a fault: {fault}")
                }
                None => tracing::info!(server, suffix, "the fault of an upstream is over"),
            }
            before.clone_from(fault);
        }
    }
}

/// The status of the cache, from all threads.
pub fn cache(cache: &Cache, views: &[StatusView]) -> Option<CacheStatus> {
    let ResolverCounts {
        hits,
        stale,
        misses,
        entries,
        used,
        waiting,
        crowded,
        owner_shards: homes,
    } = StatusView::own(views);
    let (bytes, bytes_max) = (used, cache.memory);
    let ShardCounts { answered, full, late, refused } = homes;
    let homes = ShardStatus { answered, full, late, refused };
    let known =
        CacheStatus { hits, stale, misses, entries, bytes, bytes_max, ..Default::default() };
    let status = CacheStatus { waiting, crowded, homes, ..known };
    (!views.is_empty()).then_some(status)
}

fn plan(forwards: &[Forward], cache: &Cache, threads: usize) -> ResolverPlan {
    let seconds = |time: Duration| u32::try_from(time.as_secs()).unwrap_or(u32::MAX);
    let servers = |forward: &Forward| UpstreamServers {
        suffix: forward.suffix.clone(),
        addresses: forward.servers.iter().map(|server| server.address.clone()).collect(),
        mixes_case: forward.mix_case,
        fixed_ports: forward.fixed_ports,
        caches: forward.mode == Mode::Cache,
    };
    let groups: Vec<_> =
        forwards.iter().filter(|forward| forward.mode.asks()).map(servers).collect();
    ResolverPlan {
        marks: ServerMarks::new(groups.iter().map(|group| group.addresses.len()).sum()),
        groups,
        cache_len: usize::try_from(cache.memory).unwrap_or(usize::MAX) / threads.max(1),
        lifetimes: TtlLimits {
            ttl_min: seconds(cache.ttl_min),
            ttl_max: seconds(cache.ttl_max),
            negative_ttl_max: seconds(cache.negative_ttl_max),
        },
        stale_max: seconds(cache.stale),
        failure_ttl: seconds(cache.failure_ttl),
        trust: None,
    }
}
