//! The metrics of zones that are transferred from primaries.
use crate::exposition::Kind::{Counter, Gauge};
use crate::exposition::{Exposition, Kind};
use server_status::SecondaryStatus;

/// A value of a zone, if it is known.
type Value = fn(&SecondaryStatus) -> Option<f64>;

/// Each metric: its name, kind and help.
const METRICS: [(&str, Kind, &str, Value); 6] = [
    ("dunlin_secondary_serial", Gauge, "The served serial of the zone.", |zone| {
        zone.serial.map(f64::from)
    }),
    (
        "dunlin_secondary_contact_timestamp_seconds",
        Gauge,
        "When a primary confirmed the zone last.",
        |zone| zone.contact_seconds,
    ),
    (
        "dunlin_secondary_expires_seconds",
        Gauge,
        "Seconds until the zone expires without a contact; 0: it has expired.",
        |zone| zone.expires_seconds.or(zone.is_expired.then_some(0.0)),
    ),
    ("dunlin_secondary_transfers_whole", Counter, "Transfers of the whole zone.", |zone| {
        Some(zone.whole_transfers as f64)
    }),
    ("dunlin_secondary_transfers_differences", Counter, "Transfers of differences.", |zone| {
        Some(zone.difference_transfers as f64)
    }),
    ("dunlin_secondary_failures", Counter, "Refreshes that no primary answered.", |zone| {
        Some(zone.failures as f64)
    }),
];

/// Writes how far each zone is followed.
pub fn write(out: &mut Exposition, zones: &[SecondaryStatus]) {
    for (name, kind, help, value) in METRICS.into_iter().filter(|_| !zones.is_empty()) {
        let mut family = out.family(name, kind, help);
        for zone in zones {
            if let Some(value) = value(zone) {
                family.sample(&[("zone", &zone.name)], value);
            }
        }
    }
}
