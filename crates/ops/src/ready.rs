//! Whether clients should be sent to a server.
use crate::limits::NAMED_MAX;
use control::status::{State, Status, ZoneState, ZoneStatus};

/// Says why it is ready, or why not.
///
/// It is while it serves and every zone was tried: a zone whose file is refused must not take the
/// others off the network with it, so it is told, and no more.
pub fn judge(status: &Status) -> Result<String, String> {
    let among = |wanted: fn(&&ZoneStatus) -> bool| -> Vec<&str> {
        status.zones.iter().filter(wanted).map(|zone| zone.name.as_str()).collect()
    };
    let untried = among(|zone| zone.state == ZoneState::Unloaded && zone.refused_seconds.is_none());
    let refused = among(|zone| zone.refused_seconds.is_some());
    match status.state {
        State::Draining => Err("draining: it will end soon".into()),
        State::Starting if untried.is_empty() => Err("starting".into()),
        _ if !untried.is_empty() => Err(format!("starting: not loaded yet: {}", some(&untried))),
        _ if !refused.is_empty() => Ok(format!("ready, with zones refused: {}", some(&refused))),
        _ => Ok("ready".into()),
    }
}

/// The first few of them, and how many more there are.
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

    fn zone(name: &str, state: ZoneState, refused: bool) -> ZoneStatus {
        let refused_seconds = refused.then_some(1.0);
        ZoneStatus { name: name.into(), state, refused_seconds, ..ZoneStatus::default() }
    }

    fn check(state: State, zones: &[ZoneStatus], expected: Result<&str, &str>) {
        let judged = judge(&Status { state, zones: zones.into(), ..Status::default() });
        assert_eq!(judged.as_deref().map_err(String::as_str), expected);
    }

    #[test]
    fn ready_means_serving_with_every_zone_tried() {
        let current = [zone("a.", ZoneState::Current, false)];
        let untried = [zone("b.", ZoneState::Unloaded, false)];
        check(State::Serving, &[], Ok("ready"));
        check(State::Serving, &current, Ok("ready"));
        check(State::Starting, &current, Err("starting"));
        for state in [State::Starting, State::Serving] {
            let zones = [current.clone(), untried.clone()].concat();
            check(state, &zones, Err("starting: not loaded yet: b."));
        }
        check(State::Draining, &current, Err("draining: it will end soon"));
    }

    #[test]
    fn a_refused_zone_is_told_and_keeps_nobody_away() {
        let zones = [
            zone("a.", ZoneState::Unloaded, true),
            zone("b.", ZoneState::Behind, true),
            zone("c.", ZoneState::Saved, true),
            zone("d.", ZoneState::Behind, true),
            zone("e.", ZoneState::Current, false),
        ];
        check(State::Serving, &zones, Ok("ready, with zones refused: a., b., c. and 1 more"));
    }
}
