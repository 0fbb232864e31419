//! Whether clients should use a server.
use crate::limits::{FAULTS_LEN_MAX, NAMED_MAX};
use server_status::{Fault, ServerState, Status, ZoneState, ZoneStatus};

/// Why the server is ready, or why not.
///
/// It is ready while it serves, has tried every zone and has listed its Kubernetes cluster. A
/// server of a fleet has read which zones there are, too. Faults, such as a refused zone or a store
/// that fails later, are named but do not matter: other zones must stay reachable.
pub fn judge(status: &Status) -> Result<String, String> {
    let is_untried =
        |zone: &&ZoneStatus| zone.state == ZoneState::Unloaded && zone.refused_seconds.is_none();
    let untried: Vec<&str> =
        status.zones.iter().filter(is_untried).map(|zone| zone.name.as_str()).collect();
    // It would refuse queries for zones that the other servers answer.
    let store = status.store.as_ref();
    let has_no_records = store.is_some_and(|store| store.fleet.is_some() && store.is_unread);
    let has_no_cluster = status.kubernetes.as_ref().is_some_and(|cluster| !cluster.is_synced);
    match status.state {
        ServerState::Draining => Err("draining: the server will stop soon".into()),
        ServerState::Starting if untried.is_empty() => Err("starting".into()),
        _ if !untried.is_empty() => Err(format!("starting: not loaded yet: {}", some(&untried))),
        _ if has_no_cluster => Err("starting: the cluster is not listed yet".into()),
        _ if has_no_records => Err("starting: the records are not read from etcd yet".into()),
        _ if status.faults.is_empty() => Ok("ready".into()),
        _ => Ok(format!("ready, with faults: {}", named(&status.faults))),
    }
}

/// The kinds and texts of faults, in one line of limited length.
fn named(faults: &[Fault]) -> String {
    let texts = faults.iter().map(|Fault { kind, text }| format!("{kind}: {text}"));
    let line = texts.collect::<Vec<_>>().join("; ");
    let line = line.replace(char::is_control, " ");
    match line.char_indices().nth(FAULTS_LEN_MAX) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// The first few, and how many more there are.
fn some(names: &[&str]) -> String {
    let named = names[..names.len().min(NAMED_MAX)].join(", ");
    match names.len().saturating_sub(NAMED_MAX) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use server_status::{FleetStatus, StoreStatus, find_faults};

    fn zone(name: &str, state: ZoneState, refused: bool) -> ZoneStatus {
        let refused_seconds = refused.then_some(1.0);
        ZoneStatus { name: name.into(), state, refused_seconds, ..ZoneStatus::default() }
    }

    /// Judges a status as a server gathers it, with its faults.
    fn judged(status: Status) -> Result<String, String> {
        judge(&Status { faults: find_faults(&status), ..status })
    }

    fn check(state: ServerState, zones: &[ZoneStatus], expected: Result<&str, &str>) {
        let judged = judged(Status { state, zones: zones.into(), ..Status::default() });
        assert_eq!(judged.as_deref().map_err(String::as_str), expected);
    }

    #[test]
    fn ready_means_serving_with_every_zone_tried() {
        let current = [zone("a.", ZoneState::Current, false)];
        let untried = [zone("b.", ZoneState::Unloaded, false)];
        check(ServerState::Serving, &[], Ok("ready"));
        check(ServerState::Serving, &current, Ok("ready"));
        check(ServerState::Starting, &current, Err("starting"));
        for state in [ServerState::Starting, ServerState::Serving] {
            let zones = [current.clone(), untried.clone()].concat();
            check(state, &zones, Err("starting: not loaded yet: b."));
        }
        check(ServerState::Draining, &current, Err("draining: the server will stop soon"));
    }

    #[test]
    fn failed_store_does_not_affect_readiness() {
        let store = StoreStatus { fault: Some("damaged".into()), ..StoreStatus::default() };
        let state = ServerState::Serving;
        let judged = judged(Status { state, store: Some(store), ..Status::default() });
        let expected =
            "ready, with faults: store_unusable: the store of records cannot be used: damaged";
        assert_eq!(judged, Ok(expected.into()));
    }

    #[test]
    fn server_of_a_fleet_is_ready_once_it_knows_the_zones() {
        let of = |fleet: Option<FleetStatus>, is_unread| {
            let fault = Some("etcd is away".into());
            let store = StoreStatus { fault, fleet, is_unread, ..StoreStatus::default() };
            let state = ServerState::Serving;
            judged(Status { state, store: Some(store), ..Status::default() })
        };
        let unread = Err("starting: the records are not read from etcd yet".into());
        let fleet = Some(FleetStatus::default());
        assert_eq!(of(fleet.clone(), true), unread);
        assert!(of(fleet, false).is_ok(), "it answers from what it has read");
        assert!(of(None, true).is_ok(), "no other server has its zones");
    }

    #[test]
    fn refused_zone_is_reported_and_does_not_affect_readiness() {
        let zones = [
            zone("a.", ZoneState::Unloaded, true),
            zone("b.", ZoneState::Behind, true),
            zone("c.", ZoneState::Saved, true),
            zone("d.", ZoneState::Behind, true),
            zone("e.", ZoneState::Current, false),
        ];
        let expected = "ready, with faults: zone_unanswered: answered with SERVFAIL, because their \
                        files were never loaded: a.; zone_outdated: served as they were, because \
                        their files are refused: b., c., d.";
        check(ServerState::Serving, &zones, Ok(expected));
    }

    #[test]
    fn many_long_faults_are_one_line_of_limited_length() {
        let saving = Some("no\nroom ".repeat(1_000));
        let judged = judged(Status { state: ServerState::Serving, saving, ..Status::default() });
        let line = judged.expect("ready");
        assert!(line.len() < 1_200 && line.ends_with('…') && !line.contains('\n'), "{line}");
    }
}
