//! Reasons not to announce the addresses of the server.
use super::{Server, lock};
use announcer::probe_targets;
use anycast::now;
use server_status::{ServerState, Status, ZoneState, ZoneStatus, hindrance};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Between two reads of the states of all zones.
const ZONES_INTERVAL: Duration = Duration::from_secs(1);

/// The known state of the zones, each with the time it was read.
#[derive(Default)]
struct ZoneCounts {
    start: Option<Duration>,
    zones: Option<Duration>,
    failed_zones: Option<String>,
}

/// Whether zones are to be read again.
fn is_due(looked: Option<Duration>) -> bool {
    looked.is_none_or(|at| now().saturating_sub(at) >= ZONES_INTERVAL)
}

/// Why too many zones answer SERVFAIL; `None`: not more than this percentage.
fn failed_zones(status: &Status, percent_max: u8) -> Option<String> {
    let is_failed = |zone: &&ZoneStatus| zone.state == ZoneState::Unloaded;
    let (stored, of_store) =
        status.store.as_ref().map_or((0, 0), |store| (store.zones, store.servfail));
    let all = status.zones.len() as u64 + stored;
    let failed = status.zones.iter().filter(is_failed).count() as u64 + of_store;
    let text = format!(
        "{failed} of {all} zones answer SERVFAIL, more than fail_zones = {percent_max} (percent)"
    );
    (failed * 100 > all * u64::from(percent_max)).then_some(text)
}

impl Server {
    /// Starts to decide about the announcement, if there is one.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn start_announcing(self: &Arc<Self>) -> io::Result<()> {
        let Some(announcer) = &self.supervision.announcer else { return Ok(()) };
        let (targets, percent_max) = {
            let live = lock(&self.live);
            let config = live.started();
            let targets = probe_targets(config, self.plane.addresses(), announcer.own_query());
            (targets, config.anycast.fail_zones)
        };
        let (server, mut known) = (Arc::clone(self), ZoneCounts::default());
        announcer.start(targets, move || {
            let own = server.own_hindrance(&mut known.start);
            own.or_else(|| server.zone_hindrance(percent_max, &mut known))
        })
    }

    /// Why the server is not ready. The complete status is only needed until it was ready once.
    fn own_hindrance(&self, looked: &mut Option<Duration>) -> Option<String> {
        let state = self.stage.state();
        if state == ServerState::Serving && !self.stage.was_ready() {
            if is_due(*looked) {
                *looked = Some(now());
                return hindrance(&self.status());
            }
            return Some("starting".into());
        }
        let (stuck, was_ready) = (self.plane.silent_thread(), self.stage.was_ready());
        hindrance(&Status { state, stuck, was_ready, ..Status::default() })
    }

    /// Why too many zones fail, read once in a while.
    fn zone_hindrance(&self, percent_max: u8, known: &mut ZoneCounts) -> Option<String> {
        if percent_max < 100 && is_due(known.zones) {
            let mut status = Status::default();
            self.sources.fill_status(&mut status);
            known.failed_zones = failed_zones(&status, percent_max);
            known.zones = Some(now());
        }
        known.failed_zones.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use server_status::StoreStatus;

    #[test]
    fn share_of_failed_zones_withdraws_above_its_maximum() {
        let zone = |state| ZoneStatus { state, ..ZoneStatus::default() };
        let states = [ZoneState::Unloaded, ZoneState::Saved, ZoneState::Current];
        let mut status = Status { zones: states.map(zone).into(), ..Status::default() };
        status.store = Some(StoreStatus { zones: 1, servfail: 1, ..StoreStatus::default() });
        let told = failed_zones(&status, 49).expect("too many");
        assert!(told.starts_with("2 of 4 zones answer SERVFAIL"), "{told}");
        assert_eq!(failed_zones(&status, 50), None);
        assert_eq!(failed_zones(&Status::default(), 1), None, "a forwarder");
    }
}
