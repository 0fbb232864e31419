//! Whether clients should use a server.
use crate::limits::NAMED_MAX;
use zone_manager::status::{ServerState, Status, ZoneState, ZoneStatus};

/// Why the server is ready, or why not.
///
/// It is ready while it serves, has tried every zone and has listed its Kubernetes cluster. A
/// server of a fleet has read which zones there are, too. A refused zone, or a store that fails
/// later, is mentioned but does not matter: other zones must stay reachable.
pub fn judge(status: &Status) -> Result<String, String> {
    let among = |wanted: fn(&&ZoneStatus) -> bool| -> Vec<&str> {
        status.zones.iter().filter(wanted).map(|zone| zone.name.as_str()).collect()
    };
    let untried = among(|zone| zone.state == ZoneState::Unloaded && zone.refused_seconds.is_none());
    let refused = among(|zone| zone.refused_seconds.is_some());
    let has_store_fault = status.store.as_ref().is_some_and(|store| !store.is_fine());
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
        _ if !refused.is_empty() => Ok(format!("ready, with zones refused: {}", some(&refused))),
        _ if has_store_fault => Ok("ready, with a store at fault: see `dunlin status`".into()),
        _ => Ok("ready".into()),
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
    use zone_manager::status::{FleetStatus, StoreStatus};

    fn zone(name: &str, state: ZoneState, refused: bool) -> ZoneStatus {
        let refused_seconds = refused.then_some(1.0);
        ZoneStatus { name: name.into(), state, refused_seconds, ..ZoneStatus::default() }
    }

    fn check(state: ServerState, zones: &[ZoneStatus], expected: Result<&str, &str>) {
        let judged = judge(&Status { state, zones: zones.into(), ..Status::default() });
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
        let judged = judge(&Status { state, store: Some(store), ..Status::default() });
        assert_eq!(judged, Ok("ready, with a store at fault: see `dunlin status`".into()));
    }

    #[test]
    fn server_of_a_fleet_is_ready_once_it_knows_the_zones() {
        let judged = |fleet: Option<FleetStatus>, is_unread| {
            let fault = Some("etcd is away".into());
            let store = StoreStatus { fault, fleet, is_unread, ..StoreStatus::default() };
            let state = ServerState::Serving;
            judge(&Status { state, store: Some(store), ..Status::default() })
        };
        let unread = Err("starting: the records are not read from etcd yet".into());
        let fleet = Some(FleetStatus::default());
        assert_eq!(judged(fleet.clone(), true), unread);
        assert!(judged(fleet, false).is_ok(), "it answers from what it has read");
        assert!(judged(None, true).is_ok(), "no other server has its zones");
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
        check(ServerState::Serving, &zones, Ok("ready, with zones refused: a., b., c. and 1 more"));
    }
}
