//! The status of upstreams and of the cache.
use crate::forward_table::ForwardTable;
use config::Cache;
use server_status::{CacheStatus, ShardStatus, UpstreamState, UpstreamStatus};
use upstream::{ResolverCounts, ShardCounts, StatusView};

/// The status of the upstreams, from all threads.
pub fn upstreams(table: &ForwardTable, views: &[StatusView]) -> Vec<UpstreamStatus> {
    if views.is_empty() {
        return Vec::new();
    }
    table
        .servers()
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
        for UpstreamStatus { suffix, server, fault, .. } in self.changed(servers) {
            match fault {
                Some(fault) => {
                    tracing::warn!(server, suffix, "an upstream has a fault: {fault}")
                }
                None => tracing::info!(server, suffix, "the fault of an upstream is over"),
            }
        }
    }

    /// The upstreams whose fault is another than at the last call.
    fn changed<'a>(&mut self, servers: &'a [UpstreamStatus]) -> Vec<&'a UpstreamStatus> {
        self.0.resize(servers.len(), None);
        let pairs = self.0.iter_mut().zip(servers);
        let changed = pairs.filter(|(before, server)| **before != server.fault);
        changed
            .map(|(before, server)| {
                before.clone_from(&server.fault);
                server
            })
            .collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_of_an_upstream_is_logged_once_and_its_end_once() {
        let mut log = UpstreamLog::default();
        let server = |fault: Option<&str>| UpstreamStatus {
            fault: fault.map(str::to_owned),
            ..UpstreamStatus::default()
        };
        let mut logged = |faults: [Option<&str>; 2]| log.changed(&faults.map(server)).len();
        let looks = [[None, None], [Some("a"), None], [Some("a"), None], [Some("b"), Some("a")]];
        assert_eq!(looks.map(&mut logged), [0, 1, 0, 2]);
        assert_eq!([[None, Some("a")], [None, Some("a")]].map(logged), [1, 0]);
    }
}
