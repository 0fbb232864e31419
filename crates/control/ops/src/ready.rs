//! Whether clients should use a server.
use crate::limits::FAULTS_LEN_MAX;
use server_status::{Fault, Status, hindrance};

/// Why the server is ready, or why not. Faults, such as a refused zone or a store that fails later,
/// are named but do not matter: other zones must stay reachable.
pub fn judge(status: &Status) -> Result<String, String> {
    match hindrance(status) {
        Some(why) => Err(why),
        None if status.faults.is_empty() => Ok("ready".into()),
        None => Ok(format!("ready, with faults: {}", named(&status.faults))),
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

#[cfg(test)]
mod tests {
    use super::*;
    use server_status::{
        FleetStatus, ServerState, StoreStatus, ZoneState, ZoneStatus, find_faults,
    };

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

    /// One common fault must not take all servers out of service.
    #[test]
    fn server_that_was_ready_is_unready_only_for_a_drain_or_a_silent_thread() {
        let zones = vec![zone("new.", ZoneState::Unloaded, false)];
        let kubernetes = Some(server_status::KubernetesStatus::default());
        let store = StoreStatus {
            fleet: Some(FleetStatus::default()),
            is_unread: true,
            ..StoreStatus::default()
        };
        let status = Status {
            state: ServerState::Serving,
            was_ready: true,
            zones,
            kubernetes,
            store: Some(store),
            ..Status::default()
        };
        assert!(judge(&status).is_ok());
        let silent = Status { stuck: Some("worker-1 is silent".into()), ..status.clone() };
        assert_eq!(judge(&silent), Err("worker-1 is silent".into()));
        assert!(judge(&Status { state: ServerState::Draining, ..status }).is_err());
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
                        files were never loaded: a.; zone_outdated: the old content of these is \
                        served, because their files are refused: b., c., d.";
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
