//! The metrics of other sites, and of zones of other servers.
mod secondaries;

use super::Kind::{Counter, Gauge};
use crate::exposition::{Exposition, Kind};
use server_status::{SiteStatus, Status};

/// A value of a site, if it is known.
type Value = fn(&SiteStatus) -> Option<f64>;

/// Each metric: its name, kind and help.
const METRICS: [(&str, Kind, &str, Value); 8] = [
    ("dunlin_site_following", Gauge, "1 while changes of the site arrive.", |site| {
        Some(f64::from(u8::from(site.is_following)))
    }),
    (
        "dunlin_site_contact_timestamp_seconds",
        Gauge,
        "When the etcd of the site answered last.",
        |site| site.contact_seconds,
    ),
    ("dunlin_site_lag_seconds", Gauge, "How far what is served may be behind the site.", |site| {
        site.lag_seconds
    }),
    ("dunlin_site_revision", Gauge, "The served revision of the site.", |site| {
        Some(site.revision as f64)
    }),
    ("dunlin_site_zones", Gauge, "Zones of the site that are served.", |site| {
        Some(site.zones as f64)
    }),
    ("dunlin_site_bytes", Counter, "Bytes of keys and values from the site.", |site| {
        Some(site.bytes as f64)
    }),
    ("dunlin_site_etcd_bytes", Gauge, "Bytes of the etcd of the site.", |site| {
        Some(site.etcd_bytes as f64).filter(|bytes| *bytes > 0.0)
    }),
    ("dunlin_site_etcd_quota_bytes", Gauge, "Bytes that the etcd of the site may have.", |site| {
        Some(site.etcd_quota_bytes as f64)
    }),
];

/// Writes how far each site is followed, and how full its etcd is, and the same of zones.
pub fn write(out: &mut Exposition, status: &Status) {
    secondaries::write(out, &status.secondaries);
    let sites = &status.sites;
    for (name, kind, help, value) in METRICS.into_iter().filter(|_| !sites.is_empty()) {
        let mut family = out.family(name, kind, help);
        for site in sites {
            if let Some(value) = value(site) {
                family.sample(&[("site", &site.name)], value);
            }
        }
    }
}
