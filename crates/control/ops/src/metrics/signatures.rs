//! Metrics of the validity of zones' signatures.
use super::{Exposition, Gauge, ZONE_SERIES_MAX, ZoneStatus};

/// The signatures of signed zones, as far as zones have series.
pub fn write(out: &mut Exposition, zones: &[ZoneStatus], now: f64) {
    let signed = || {
        let listed = zones.iter().take(ZONE_SERIES_MAX);
        listed.filter_map(|zone| Some((zone, zone.signatures?)))
    };
    let help = "Seconds until the first record set of a signed zone loses its last signature; \
                negative once it has.";
    let mut family = out.family("dunlin_zone_signature_expiry_seconds", Gauge, help);
    for (zone, span) in signed() {
        family.sample(&[("zone", &zone.name)], span.left(now));
    }
    let help = "Seconds from the start to the end of the validity of that signature.";
    let mut family = out.family("dunlin_zone_signature_validity_seconds", Gauge, help);
    for (zone, span) in signed() {
        family.sample(&[("zone", &zone.name)], span.validity_seconds);
    }
}
