//! The faults of a server: every state in which something is wrong, found in its status.
//!
//! `dunlin status` prints them and exits with 1, the metric `dunlin_fault` has a series for each
//! kind, and `/readyz` names them. A new kind of fault is one line of [`RULES`].
use super::{
    DocumentsStatus, DpdkDeviceStatus, HealthStatus, KubernetesStatus, SecondaryStatus,
    ServerState, SiteStatus, Status, StoreStatus, UpstreamState, ZoneState, ZoneStatus,
    failed_threads,
};
use crate::limits::{FAULT_NAMES_MAX, PANIC_AGE_MAX};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Something that is wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Fault {
    /// Its kind, as in the metric `dunlin_fault`.
    pub kind: String,
    /// The fault, its object, and what to do.
    pub text: String,
}

/// Finds a fault of one kind, and says what is wrong.
type FindFault = fn(&Status) -> Option<String>;

/// Each kind of fault: its name, and what finds it. The most severe ones come first.
const RULES: &[(&str, FindFault)] = &[
    ("thread_ended", |status| failed_threads(&status.failed)),
    ("thread_stuck", |status| status.stuck.clone()),
    ("anycast_failed", |status| status.anycast.as_ref()?.fault.clone()),
    ("anycast_withdrawn", withdrawn_addresses),
    ("anycast_no_permit", |status| status.anycast.as_ref()?.no_permit.clone()),
    ("query_panicked", panicked_query),
    ("zone_unanswered", unanswered_zones),
    ("store_unusable", |status| store_fault(store(status)?)),
    ("store_zone_unanswered", |status| unanswered_store_zones(store(status)?)),
    ("store_list_incomplete", |status| incomplete_list(store(status)?)),
    ("store_writes_refused", |status| refused_writes(store(status)?)),
    ("fleet_not_member", |status| missing_membership(store(status)?)),
    ("fleet_not_saved", |status| store(status)?.fleet.as_ref()?.unsaved.clone()),
    ("fleet_key_unreadable", |status| store(status)?.fleet.as_ref()?.unreadable.clone()),
    ("fleet_content_differs", |status| store(status)?.fleet.as_ref()?.difference.clone()),
    ("site_not_followed", |status| of_sites(status, |site| site.fault.clone())),
    ("site_not_saved", |status| of_sites(status, |site| site.unsaved.clone())),
    ("site_key_unreadable", |status| of_sites(status, |site| site.unreadable.clone())),
    ("site_zone_refused", refused_zones_of_sites),
    ("site_zone_missing", missing_zones_of_sites),
    ("site_etcd_full", full_sites),
    ("secondary_expired", expired_secondaries),
    ("secondary_not_transferred", |status| of_secondaries(status, |zone| zone.fault.clone())),
    ("secondary_not_saved", |status| of_secondaries(status, |zone| zone.unsaved.clone())),
    ("secondary_superseded", superseded_secondaries),
    ("credentials_damaged", damaged_credentials),
    ("documents_damaged", damaged_documents),
    ("api_ended", |status| status.api.as_ref()?.ended.clone()),
    ("certificate_broken", broken_certificates),
    ("certificate_expiring", expiring_certificates),
    ("signatures_expired", expired_signatures),
    ("upstream_unanswered", unanswered_upstreams),
    ("upstream_file_refused", |status| status.config.server_file.clone()),
    ("kubernetes_unsynced", |status| unsynced(cluster(status)?)),
    ("kubernetes_stale", |status| stale(cluster(status)?)),
    ("kubernetes_unwatched", |status| unwatched(cluster(status)?)),
    ("kubernetes_outdated", |status| outdated(cluster(status)?)),
    ("kubernetes_skipped", |status| skipped(cluster(status)?)),
    ("kubernetes_not_saved", |status| cluster(status)?.saving.clone()),
    ("kubernetes_not_shared", |status| unshared(cluster(status)?)),
    ("kubernetes_parts_outdated", |status| outdated_parts(cluster(status)?)),
    ("health_no_prober", |status| without_prober(health(status)?)),
    ("health_none_up", |status| none_up(health(status)?)),
    ("health_open_set", |status| open_sets(health(status)?)),
    ("health_suspect", |status| suspicion(health(status)?)),
    ("health_certificate_expiring", |status| expiring_targets(health(status)?)),
    ("health_not_saved", |status| unsaved_health(health(status)?)),
    ("config_refused", refused_config),
    ("content_held", held_content),
    ("zone_outdated", outdated_zones),
    ("hosts_outdated", outdated_hosts),
    ("signatures_expiring", expiring_signatures),
    ("zones_not_saved", unsaved_zones),
    ("xdp_missing", missing_xdp),
    ("dpdk_missing", missing_dpdk),
    ("query_log_failed", |status| status.tap.log_fault.clone()),
    ("dnstap_no_reader", missing_reader),
];

/// The names of all kinds of faults.
pub fn fault_kinds() -> impl Iterator<Item = &'static str> {
    RULES.iter().map(|(kind, _)| *kind)
}

/// The faults that a status shows, at most one of each kind.
pub fn find_faults(status: &Status) -> Vec<Fault> {
    let found = RULES.iter().filter_map(|(kind, find)| Some((*kind, find(status)?)));
    found.map(|(kind, text)| Fault { kind: kind.to_owned(), text }).collect()
}

fn store(status: &Status) -> Option<&StoreStatus> {
    status.store.as_ref()
}

fn cluster(status: &Status) -> Option<&KubernetesStatus> {
    status.kubernetes.as_ref()
}

fn health(status: &Status) -> Option<&HealthStatus> {
    status.health.as_ref()
}

/// The first few of these names, and how many there are further; `None`: there is none.
fn some<T: AsRef<str>>(names: impl IntoIterator<Item = T>) -> Option<String> {
    let mut names = names.into_iter();
    let first: Vec<T> = names.by_ref().take(FAULT_NAMES_MAX).collect();
    let first: Vec<&str> = first.iter().map(AsRef::as_ref).collect();
    let named = first.join(", ");
    match names.count() {
        _ if first.is_empty() => None,
        0 => Some(named),
        more => Some(format!("{named} and {more} more")),
    }
}

fn plural(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// The zones of the config in one of these states.
fn zones_in(status: &Status, states: &[ZoneState]) -> Option<String> {
    let zones = status.zones.iter().filter(|zone| states.contains(&zone.state));
    some(zones.map(|zone| &zone.name))
}

fn withdrawn_addresses(status: &Status) -> Option<String> {
    let anycast = status.anycast.as_ref()?;
    let (why, addresses) = (anycast.reason.as_ref()?, some(&anycast.addresses)?);
    // A server that starts or drains is meant to be withdrawn.
    (status.state == ServerState::Serving).then(|| format!("not announced: {addresses}: {why}"))
}

fn panicked_query(status: &Status) -> Option<String> {
    let panics = &status.panics;
    let is_recent = |when: &f64| status.gathered_seconds - when < PANIC_AGE_MAX;
    panics.last_seconds.filter(is_recent)?;
    let last = panics.last.as_deref().unwrap_or("see the log");
    let number = plural(panics.count, "panic");
    Some(format!(
        "{number} in the handling of queries, which got SERVFAIL: a defect; report the last one: \
         {last}"
    ))
}

fn unanswered_zones(status: &Status) -> Option<String> {
    let zones = zones_in(status, &[ZoneState::Unloaded])?;
    Some(format!("answered with SERVFAIL, because their files were never loaded: {zones}"))
}

fn outdated_zones(status: &Status) -> Option<String> {
    let zones = zones_in(status, &[ZoneState::Behind, ZoneState::Saved])?;
    Some(format!("the old content of these is served, because their files are refused: {zones}"))
}

/// Zones whose signatures expire soon, after or before now.
fn old_signatures(status: &Status, have_expired: bool) -> Option<String> {
    let now = status.gathered_seconds;
    let is_one = |zone: &&ZoneStatus| {
        let span = zone.signatures.filter(|span| span.is_soon(now));
        span.is_some_and(|span| (span.left(now) < 0.0) == have_expired)
    };
    some(status.zones.iter().filter(is_one).map(|zone| &zone.name))
}

fn expired_signatures(status: &Status) -> Option<String> {
    let zones = old_signatures(status, true)?;
    Some(format!("validating resolvers answer SERVFAIL until they are signed again: {zones}"))
}

fn expiring_signatures(status: &Status) -> Option<String> {
    let zones = old_signatures(status, false)?;
    Some(format!("sign them again, their signatures expire soon: {zones}"))
}

fn outdated_hosts(status: &Status) -> Option<String> {
    let hosts = status.hosts.iter().filter(|hosts| hosts.state != ZoneState::Current);
    let files = some(hosts.map(|hosts| &hosts.file))?;
    Some(format!("served as they were, or not at all, because they are refused: {files}"))
}

fn held_content(status: &Status) -> Option<String> {
    let names = some(status.held.keys())?;
    Some(format!(
        "the old content of these is served, because the new one was cut off or lost most of its \
         names: {names}; `dunlin zones accept NAME` serves what is held"
    ))
}

fn refused_config(status: &Status) -> Option<String> {
    let first = status.config.errors.first()?;
    Some(format!("the last reload was refused, the previous config stays in use: {first}"))
}

fn unsaved_zones(status: &Status) -> Option<String> {
    let why = status.saving.as_ref()?;
    Some(format!("zones are not saved on disk: {why}"))
}

/// What is wrong with other sites.
fn of_sites(status: &Status, wrong: impl Fn(&SiteStatus) -> Option<String>) -> Option<String> {
    let faults = status.sites.iter().filter_map(|site| Some((site, wrong(site)?)));
    some(faults.map(|(site, why)| format!("the site {}: {why}", site.name)))
}

fn refused_zones_of_sites(status: &Status) -> Option<String> {
    of_sites(status, |site| {
        let zones = some(&site.refused)?;
        Some(format!("not served, a zone has one home, remove it from one of both: {zones}"))
    })
}

fn missing_zones_of_sites(status: &Status) -> Option<String> {
    of_sites(status, |site| {
        let zones = some(&site.missing)?;
        Some(format!("not there, create them or correct `[[site]] zones`: {zones}"))
    })
}

fn full_sites(status: &Status) -> Option<String> {
    of_sites(status, |site| {
        let how = site.fullness()?;
        Some(format!("its etcd is {how}: compact and defragment it, or raise its quota"))
    })
}

/// What is wrong with zones of primaries.
fn of_secondaries(
    status: &Status,
    wrong: impl Fn(&SecondaryStatus) -> Option<String>,
) -> Option<String> {
    let faults = status.secondaries.iter().filter(|zone| zone.superseded.is_none());
    let faults = faults.filter_map(|zone| Some((zone, wrong(zone)?)));
    some(faults.map(|(zone, why)| format!("{}: {why}", zone.name)))
}

fn expired_secondaries(status: &Status) -> Option<String> {
    let expired = status.secondaries.iter().filter(|zone| zone.is_expired);
    let zones = some(expired.map(|zone| &zone.name))?;
    Some(format!("no primary confirms them, SERVFAIL answers for: {zones}"))
}

fn superseded_secondaries(status: &Status) -> Option<String> {
    let all = status.secondaries.iter().filter_map(|zone| Some((zone, zone.superseded.as_ref()?)));
    let zones = some(all.map(|(zone, owner)| format!("{} (it is of {owner})", zone.name)))?;
    Some(format!("not followed, remove their `primaries` from the config: {zones}"))
}

fn store_fault(store: &StoreStatus) -> Option<String> {
    let why = store.fault.as_ref()?;
    Some(format!("the store of records cannot be used: {why}"))
}

fn unanswered_store_zones(store: &StoreStatus) -> Option<String> {
    let zones = some(store.servfail_zones.iter().map(|zone| &zone.name));
    let named = zones.map(|zones| format!(": {zones}")).unwrap_or_default();
    let number = plural(store.servfail, "zone");
    (store.servfail > 0).then(|| format!("SERVFAIL answers for {number} of the store{named}"))
}

fn incomplete_list(store: &StoreStatus) -> Option<String> {
    let why = store.list_fault.as_ref()?;
    Some(format!("the list of the store's zones is incomplete: {why}"))
}

fn refused_writes(store: &StoreStatus) -> Option<String> {
    let why = store.writes_refused.as_ref()?;
    Some(format!("the store's writes are refused: {why}"))
}

fn missing_membership(store: &StoreStatus) -> Option<String> {
    let why = store.fleet.as_ref()?.fault.as_ref()?;
    Some(format!("this server is not a member of the fleet: {why}"))
}

fn damaged_credentials(status: &Status) -> Option<String> {
    let why = status.api.as_ref()?.fault.as_ref()?;
    Some(format!("[api] accepts no clients: {why}"))
}

fn damaged_documents(status: &Status) -> Option<String> {
    let of_set = |set: &DocumentsStatus| match (&set.fault, set.unusable.first()) {
        (Some(why), _) => Some(format!("{}: {why}", set.name)),
        (None, Some(why)) => Some(format!("{}, ignored: {why}", set.name)),
        (None, None) => None,
    };
    some(status.documents.iter().filter_map(of_set))
}

fn broken_certificates(status: &Status) -> Option<String> {
    let faults = status.certificates.iter().filter_map(|one| one.fault.as_ref());
    some(faults)
}

fn expiring_certificates(status: &Status) -> Option<String> {
    let now = status.gathered_seconds;
    some(status.certificates.iter().filter_map(|certificate| certificate.expiry(now)))
}

fn unanswered_upstreams(status: &Status) -> Option<String> {
    let suffixes = some(unanswered_suffixes(status))?;
    Some(format!("no upstream answers for {suffixes}"))
}

/// Suffixes of forward rules without an answering server.
pub fn unanswered_suffixes(status: &Status) -> BTreeSet<&str> {
    let suffixes_of = |answers: bool| {
        let is_up = |state| matches!(state, UpstreamState::Up | UpstreamState::Drained);
        let servers = status.upstreams.iter();
        let servers = servers.filter(move |one| is_up(one.state) == answers);
        servers.map(|one| &*one.suffix).collect::<BTreeSet<&str>>()
    };
    suffixes_of(false).difference(&suffixes_of(true)).copied().collect()
}

fn unsynced(cluster: &KubernetesStatus) -> Option<String> {
    let text = "the cluster is not listed, and its names are answered with SERVFAIL";
    (!cluster.is_synced).then(|| text.to_owned())
}

fn stale(cluster: &KubernetesStatus) -> Option<String> {
    let text = "the names of the cluster are those of the saved state, until it is listed";
    (cluster.is_synced && cluster.is_saved).then(|| text.to_owned())
}

fn unwatched(cluster: &KubernetesStatus) -> Option<String> {
    let closed = cluster.streams.iter().filter(|stream| stream.open_seconds.is_none());
    let kinds = some(closed.clone().map(|stream| &stream.kind))?;
    let why = closed.filter_map(|stream| stream.error.as_ref()).next();
    let why = why.map(|why| format!(": {why}")).unwrap_or_default();
    Some(format!("the cluster's {kinds} are not watched, and stay as they were{why}"))
}

fn outdated(cluster: &KubernetesStatus) -> Option<String> {
    let outdated = cluster.streams.iter().filter(|stream| stream.is_stale);
    let kinds = some(outdated.map(|stream| &stream.kind))?;
    Some(format!("the cluster's {kinds} were not current for minutes: see its API server"))
}

fn skipped(cluster: &KubernetesStatus) -> Option<String> {
    let first = some(&cluster.skipped)?;
    Some(format!("objects of the cluster are not used: {first}"))
}

fn unshared(cluster: &KubernetesStatus) -> Option<String> {
    let why = cluster.fleet_fault.as_ref().map(|why| format!("objects cannot be written: {why}"));
    let ignored = || Some(format!("objects in etcd are ignored: {}", cluster.unusable.first()?));
    why.or_else(ignored)
}

fn outdated_parts(cluster: &KubernetesStatus) -> Option<String> {
    let parts = cluster.parts.as_ref()?;
    let why = parts.error.as_ref().map(|why| format!("parts of clusters are not followed: {why}"));
    why.or_else(|| Some(format!("parts of clusters are not saved: {}", parts.saving.as_ref()?)))
}

fn without_prober(health: &HealthStatus) -> Option<String> {
    let targets = health.up + health.down + health.unknown;
    let text = "no server probes the targets of health checks, so their states no longer change: \
                start one with the role `health`";
    (targets > 0 && health.probers == 0).then(|| text.to_owned())
}

fn none_up(health: &HealthStatus) -> Option<String> {
    let targets = plural(health.down, "target");
    let text = format!("no target of a health check is up, {targets} down: see `dunlin health`");
    (health.up == 0 && health.down > 0).then_some(text)
}

fn open_sets(health: &HealthStatus) -> Option<String> {
    let sets = plural(health.open_sets, "record set");
    let text = format!(
        "{sets} with addresses answered that are down, because too few others are up: see `dunlin \
         health`"
    );
    (health.open_sets > 0).then_some(text)
}

fn suspicion(health: &HealthStatus) -> Option<String> {
    let text =
        "all targets that were up fail at once: see whether the network of this host is down";
    health.suspects_itself.then(|| text.to_owned())
}

fn expiring_targets(health: &HealthStatus) -> Option<String> {
    let targets = plural(health.expiring, "target");
    let text = format!("the certificates of {targets} end soon: see `dunlin health`");
    (health.expiring > 0).then_some(text)
}

fn unsaved_health(health: &HealthStatus) -> Option<String> {
    let text = "the health of addresses is not saved on disk: `dunlin health` says why";
    (!health.is_saved).then(|| text.to_owned())
}

fn missing_xdp(status: &Status) -> Option<String> {
    let xdp = status.xdp.as_ref()?;
    let why = xdp.failed.as_ref()?;
    Some(format!("{} is served by sockets only: {why}", xdp.interface))
}

fn missing_dpdk(status: &Status) -> Option<String> {
    let dpdk = status.dpdk.as_ref()?;
    if let Some(why) = &dpdk.failed {
        return Some(format!("DPDK serves no device, and only sockets answer: {why}"));
    }
    let gone = |device: &&DpdkDeviceStatus| device.failed.is_some() || device.gone;
    let device = dpdk.devices.iter().find(gone)?;
    Some(match &device.failed {
        Some(why) => format!("a device is not served by DPDK: {why}"),
        None => format!("{} was removed: restart the server once it is back", device.name),
    })
}

fn missing_reader(status: &Status) -> Option<String> {
    let tap = &status.tap;
    let text = "[dnstap] has no reader connected, and its messages are lost";
    (tap.dnstap_wanted && !tap.dnstap_connected).then(|| text.to_owned())
}

#[cfg(test)]
mod tests;
