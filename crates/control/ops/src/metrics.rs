//! The metrics of a status. Names follow Prometheus' conventions: base units, `_total`, and times
//! as seconds since 1970, so that `time() - …` is an age.
mod anycast;
mod dpdk;
mod health;
mod kubernetes;
mod networks;
mod signatures;
mod sites;
mod transfer;

use crate::exposition::{Exposition, Format, Kind};
use crate::limits::ZONE_SERIES_MAX;
use Kind::{Counter, Gauge, Info};
use packet::DropReason;
use server_status::{
    Fault, HostsStatus, ServerState, ShardStatus, Status, ThreadStatus, UpstreamState,
    UpstreamStatus, XdpStatus, ZoneState, ZoneStatus, fault_kinds,
};
use std::collections::BTreeMap;
use wire::Rcode;

/// Counters of this crate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestCounts {
    /// Handled requests, with refused ones.
    pub requests: u64,
    /// Connections of denied clients.
    pub denied: u64,
    /// Connections closed at the maximum.
    pub full: u64,
}

/// Writes all metrics.
pub fn write(status: &Status, healthy: bool, asked: RequestCounts, format: Format) -> String {
    let mut out = Exposition::new(format);
    server(&mut out, status);
    out.family("dunlin_healthy", Gauge, "0 while a thread hangs or has ended: see /healthz.")
        .sample(&[], u8::from(healthy));
    faults(&mut out, &status.faults);
    threads(&mut out, &status.threads);
    networks::write(&mut out, &status.networks);
    zones(&mut out, &status.zones, status.held.len(), status.saving.is_none());
    signatures::write(&mut out, &status.zones, status.gathered_seconds);
    hosts(&mut out, &status.hosts);
    streams(&mut out, status);
    others(&mut out, status);
    records(&mut out, status);
    samples(&mut out, status);
    status.anycast.iter().for_each(|of_addresses| anycast::write(&mut out, of_addresses));
    sites::write(&mut out, status);
    transfer::write(&mut out, status.transfer.as_ref());
    if let Some(of_targets) = &status.health {
        health::write(&mut out, of_targets);
    }
    if let Some(bypass) = &status.xdp {
        xdp(&mut out, bypass);
    }
    if let Some(devices) = &status.dpdk {
        dpdk::write(&mut out, devices);
    }
    process(&mut out, status);
    out.family("dunlin_ops_requests", Counter, "Requests answered on the address of [ops].")
        .sample(&[], asked.requests);
    out.family("dunlin_ops_refused", Counter, "Connections to [ops] refused, by reason.")
        .sample(&[("reason", "denied")], asked.denied)
        .sample(&[("reason", "full")], asked.full);
    out.finish()
}

fn server(out: &mut Exposition, status: &Status) {
    out.family("dunlin_build", Info, "The running binary.")
        .sample(&[("version", &status.version)], 1);
    let mut family = out.family("dunlin_state", Gauge, "1 for the state the server is in.");
    for state in ServerState::ALL {
        family.sample(&[("state", state.name())], u8::from(state == status.state));
    }
    out.family("dunlin_workers_imbalance_ratio", Gauge, "Most received by a worker over the mean.")
        .sample(&[], status.imbalance);
    out.family("dunlin_generation", Gauge, "Number of the served image.")
        .sample(&[], status.generation);
    out.family("dunlin_generation_timestamp_seconds", Gauge, "When it was published.")
        .sample(&[], status.generation_seconds);
    let config = &status.config;
    out.family("dunlin_config_reloads", Counter, "Reloads of the config, by result.")
        .sample(&[("result", "applied")], config.reloads)
        .sample(&[("result", "refused")], config.reloads_refused);
    out.family("dunlin_config_last_reload_successful", Gauge, "0 if the last reload was refused.")
        .sample(&[], u8::from(config.errors.is_empty()));
    out.family(
        "dunlin_config_last_reload_success_timestamp_seconds",
        Gauge,
        "When the config was last loaded.",
    )
    .sample(&[], config.loaded_seconds);
    out.family("dunlin_config_keys_waiting", Gauge, "Changed keys that wait for a restart.")
        .sample(&[], config.restart_needed.len());
}

/// A series for each kind of fault: one that appears with its first fault has no history.
fn faults(out: &mut Exposition, faults: &[Fault]) {
    let help = "1 while something of this kind is wrong: `dunlin status` says what.";
    let mut family = out.family("dunlin_fault", Gauge, help);
    for kind in fault_kinds() {
        let exists = faults.iter().any(|fault| fault.kind == kind);
        family.sample(&[("kind", kind)], u8::from(exists));
    }
}

fn xdp(out: &mut Exposition, status: &XdpStatus) {
    let interface = ("interface", status.interface.as_str());
    let mut family = out.family("dunlin_xdp_state", Gauge, "1 for how the interface is served.");
    for mode in ["native", "generic", "socket"] {
        let is_so = status.mode == mode || status.mode.is_empty() && mode == "socket";
        family.sample(&[interface, ("mode", mode)], u8::from(is_so));
    }
    let help = "1 if the program runs in a dispatcher with others.";
    out.family("dunlin_xdp_joined", Gauge, help).sample(&[interface], u8::from(status.joined));
    let help = "1 if driver and server share frames without copies.";
    out.family("dunlin_xdp_zero_copy", Gauge, help)
        .sample(&[interface], u8::from(status.zero_copy));
    let help =
        "Packets to a served address, by result: taken, or the reason to leave them to sockets.";
    let mut family = out.family("dunlin_xdp_packets", Counter, help);
    for (result, count) in status.passed.iter().filter(|(result, _)| *result != "unchecked") {
        family.sample(&[interface, ("result", result)], *count);
    }
    if let Some(unchecked) = status.passed.get("unchecked") {
        let help = "Packets taken although the kernel did not confirm the route of replies.";
        out.family("dunlin_xdp_unchecked", Counter, help).sample(&[interface], *unchecked);
    }
    let mut family = out.family("dunlin_xdp_lost", Counter, "Frames lost at a queue, by reason.");
    for queue in &status.queues {
        let number = queue.queue.to_string();
        for (reason, count) in &queue.lost {
            let labels = [interface, ("queue", number.as_str()), ("reason", reason.as_str())];
            family.sample(&labels, *count);
        }
    }
}

fn threads(out: &mut Exposition, threads: &[ThreadStatus]) {
    type Count = fn(&ThreadStatus) -> u64;
    let counts: [(&'static str, &'static str, Count); 5] = [
        ("dunlin_messages_received", "Messages received.", |thread| thread.received),
        ("dunlin_messages_replied", "Messages replied to.", |thread| thread.replied),
        ("dunlin_responses_truncated", "Responses with TC set.", |thread| thread.truncated),
        ("dunlin_query_panics", "Panics, each of which cost one query.", |thread| thread.panics),
        ("dunlin_bursts", "Bursts with at least one message.", |thread| thread.bursts),
    ];
    for (name, help, count) in counts {
        let mut family = out.family(name, Counter, help);
        for thread in threads {
            family.sample(&labels(thread), count(thread));
        }
    }
    let reasons = DropReason::ALL.map(DropReason::name);
    let mut family = out.family("dunlin_messages_dropped", Counter, "Messages without a reply.");
    for thread in threads {
        for (reason, count) in with_all(&reasons, &thread.dropped) {
            family.sample(&[&labels(thread)[..], &[("reason", reason)]].concat(), count);
        }
    }
    let rcodes = Rcode::ALL.map(Rcode::name);
    let mut family = out.family("dunlin_responses", Counter, "Responses, by response code.");
    for thread in threads {
        for (rcode, count) in with_all(&rcodes, &thread.rcodes) {
            family.sample(&[&labels(thread)[..], &[("rcode", rcode)]].concat(), count);
        }
    }
    let mut family = out.family("dunlin_queries", Counter, "Queries with a reply, by type.");
    for thread in threads {
        for (qtype, count) in &thread.types {
            family.sample(&[&labels(thread)[..], &[("type", qtype)]].concat(), count);
        }
    }
    let help = "NOTIFY messages, by what became of them.";
    let mut family = out.family("dunlin_notifies", Counter, help);
    for thread in threads {
        for (result, count) in &thread.notifies {
            family.sample(&[&labels(thread)[..], &[("result", result)]].concat(), count);
        }
    }
    let help = "From reading a message to passing its reply to the kernel.";
    let mut family = out.family("dunlin_reply_duration_seconds", Kind::Histogram, help);
    for thread in threads.iter().filter(|thread| !thread.latency.counts.is_empty()) {
        family.histogram(&labels(thread), &thread.latency);
    }
}

fn labels(thread: &ThreadStatus) -> [(&'static str, &str); 2] {
    [("thread", &thread.name), ("transport", &thread.transport)]
}

/// All known keys, with 0 where nothing was counted: a series that appears with its first count has
/// no rate.
fn with_all<'a>(known: &[&'a str], counted: &'a BTreeMap<String, u64>) -> BTreeMap<&'a str, u64> {
    let mut all: BTreeMap<&str, u64> = known.iter().map(|name| (*name, 0)).collect();
    all.extend(counted.iter().map(|(name, count)| (name.as_str(), *count)));
    all
}

fn zones(out: &mut Exposition, zones: &[ZoneStatus], held: usize, saving: bool) {
    let mut family = out.family("dunlin_zones", Gauge, "Zones of the config, by state.");
    for state in ZoneState::ALL {
        let count = zones.iter().filter(|zone| zone.state == state).count();
        family.sample(&[("state", state.name())], count);
    }
    let help = "Zones and hosts files whose new content lost most of its names, or may be cut, and \
                is not served until it is accepted.";
    out.family("dunlin_zones_held", Gauge, help).sample(&[], held);
    let help = "0 while good zones cannot be saved to disk.";
    out.family("dunlin_zones_saving_successful", Gauge, help).sample(&[], u8::from(saving));
    let listed = &zones[..zones.len().min(ZONE_SERIES_MAX)];
    let help = "Zones without their own series, because there are too many.";
    out.family("dunlin_zones_without_series", Gauge, help).sample(&[], zones.len() - listed.len());

    let mut family =
        out.family("dunlin_zone_current", Gauge, "1 if the content of its file is served.");
    for zone in listed {
        family.sample(&[("zone", &zone.name)], u8::from(zone.state == ZoneState::Current));
    }
    let mut family = out.family("dunlin_zone_serial", Gauge, "The served serial.");
    for (zone, serial) in listed.iter().filter_map(|zone| Some((zone, zone.serial?))) {
        family.sample(&[("zone", &zone.name)], serial);
    }
    let mut family = out.family("dunlin_zone_records", Gauge, "Served records.");
    for zone in listed {
        family.sample(&[("zone", &zone.name)], zone.records);
    }
    let help = "When the served content was loaded.";
    let mut family = out.family("dunlin_zone_loaded_timestamp_seconds", Gauge, help);
    for (zone, time) in listed.iter().filter_map(|zone| Some((zone, zone.loaded_seconds?))) {
        family.sample(&[("zone", &zone.name)], time);
    }
}

fn hosts(out: &mut Exposition, hosts: &[HostsStatus]) {
    let mut family =
        out.family("dunlin_hosts_current", Gauge, "1 if the content of the file is served.");
    for file in hosts {
        family.sample(&[("file", &file.file)], u8::from(file.state == ZoneState::Current));
    }
    let mut family = out.family("dunlin_hosts_names", Gauge, "Names served from a hosts file.");
    for file in hosts {
        family.sample(&[("file", &file.file)], file.names);
    }
}

fn streams(out: &mut Exposition, status: &Status) {
    let streams = &status.streams;
    out.family("dunlin_streams_open", Gauge, "Stream connections open.").sample(&[], streams.open);
    out.family("dunlin_streams_open_limit", Gauge, "Maximum open stream connections.")
        .sample(&[], streams.open_max);
    out.family("dunlin_streams_buffered_bytes", Gauge, "Bytes of their buffers.")
        .sample(&[], streams.buffered_bytes);
    out.family("dunlin_streams_buffered_limit_bytes", Gauge, "Maximum bytes of their buffers.")
        .sample(&[], streams.buffered_bytes_max);
    out.family("dunlin_streams_accepted", Counter, "Stream connections accepted.")
        .sample(&[], streams.accepted);
    let mut family =
        out.family("dunlin_streams_closed", Counter, "Stream connections closed, by reason.");
    for (reason, count) in &streams.closed {
        family.sample(&[("reason", reason)], count);
    }
}

/// Cache misses passed between threads.
fn homes(out: &mut Exposition, homes: &ShardStatus) {
    let help = "Cache misses passed to the thread that owns the name, by result.";
    let mut family = out.family("dunlin_cache_shard_lookups", Counter, help);
    family.sample(&[("result", "answered")], homes.answered);
    for (why, count) in homes.alone() {
        family.sample(&[("result", why)], count);
    }
}

/// Upstreams, and the cache.
fn others(out: &mut Exposition, status: &Status) {
    if let Some(cache) = &status.cache {
        out.family("dunlin_cache_lookups", Counter, "Cache look-ups, by result.")
            .sample(&[("result", "hit")], cache.hits)
            .sample(&[("result", "stale")], cache.stale)
            .sample(&[("result", "miss")], cache.misses);
        out.family("dunlin_cache_entries", Gauge, "Cached answers.").sample(&[], cache.entries);
        out.family("dunlin_cache_bytes", Gauge, "Bytes of cached answers.")
            .sample(&[], cache.bytes);
        out.family("dunlin_cache_limit_bytes", Gauge, "Maximum bytes of cached answers.")
            .sample(&[], cache.bytes_max);
        out.family("dunlin_clients_waiting", Gauge, "Clients waiting for upstreams.")
            .sample(&[], cache.waiting);
        let help = "Queries refused because their client has too many waiting.";
        out.family("dunlin_clients_crowded", Counter, help).sample(&[], cache.crowded);
        homes(out, &cache.homes);
    }
    let servers = &status.upstreams;
    if servers.is_empty() {
        return;
    }
    type Count = fn(&UpstreamStatus) -> u64;
    let counts: [(&'static str, &'static str, Count); 7] = [
        ("dunlin_upstream_questions", "Queries sent to an upstream.", |server| server.sent),
        ("dunlin_upstream_answers", "Usable replies.", |server| server.answered),
        ("dunlin_upstream_refusals", "Replies that the upstream could not answer.", |server| {
            server.refused
        }),
        ("dunlin_upstream_timeouts", "Queries without a reply in time.", |server| server.late),
        ("dunlin_upstream_mismatches", "Messages that match no query.", |server| server.mismatched),
        ("dunlin_upstream_connections_opened", "Connections opened to an upstream.", |server| {
            server.connections_opened
        }),
        (
            "dunlin_upstream_connections_full",
            "Queries that found no room on a connection.",
            |server| server.connections_full,
        ),
    ];
    for (name, help, count) in counts {
        let mut family = out.family(name, Counter, help);
        for server in servers {
            family.sample(&whose(server), count(server));
        }
    }
    let mut family = out.family("dunlin_upstream_state", Gauge, "1 for the state of an upstream.");
    for server in servers {
        for state in UpstreamState::ALL {
            let labels = [&whose(server)[..], &[("state", state.name())]].concat();
            family.sample(&labels, u8::from(state == server.state));
        }
    }
    let mut family =
        out.family("dunlin_upstream_connections", Gauge, "Open connections to an upstream.");
    for server in servers {
        family.sample(&whose(server), server.connections);
    }
    let help = "Smoothed round-trip time of an upstream.";
    let mut family = out.family("dunlin_upstream_round_trip_seconds", Gauge, help);
    for server in servers {
        if let Some(seconds) = server.round_trip_seconds {
            family.sample(&whose(server), seconds);
        }
    }
}

/// The store, and the API.
fn records(out: &mut Exposition, status: &Status) {
    if let Some(store) = &status.store {
        out.family("dunlin_store_usable", Gauge, "0 while the store cannot be used.")
            .sample(&[], u8::from(store.fault.is_none()));
        let is_writable = store.fault.is_none() && store.writes_refused.is_none();
        out.family("dunlin_store_writable", Gauge, "0 while writes to the store are refused.")
            .sample(&[], u8::from(is_writable));
        if let Some(fleet) = &store.fleet {
            out.family("dunlin_fleet_member", Gauge, "0 while other servers do not see this one.")
                .sample(&[], u8::from(fleet.fault.is_none()));
        }
        out.family(
            "dunlin_store_zones_servfail",
            Gauge,
            "Zones of the store that answer SERVFAIL.",
        )
        .sample(&[], store.servfail);
        out.family("dunlin_store_revision", Gauge, "Revision of the newest write.")
            .sample(&[], store.revision);
        out.family("dunlin_store_zones", Gauge, "Zones in the store.").sample(&[], store.zones);
        out.family("dunlin_store_record_sets", Gauge, "Record sets in the store.")
            .sample(&[], store.rrsets);
        out.family("dunlin_store_bytes", Gauge, "Bytes of the store's files.")
            .sample(&[], store.bytes);
        out.family("dunlin_store_free_bytes", Gauge, "Free bytes on its disk.")
            .sample(&[], store.free_bytes);
    }
    if let Some(cluster) = &status.kubernetes {
        kubernetes::write(out, cluster);
    }
    let Some(api) = &status.api else { return };
    out.family("dunlin_api_connections", Gauge, "Open connections to [api].")
        .sample(&[], api.connections);
    out.family("dunlin_api_connections_accepted", Counter, "Connections to [api] accepted.")
        .sample(&[], api.connections_accepted);
    out.family(
        "dunlin_api_connections_full",
        Counter,
        "Connections to [api] refused at the maximum.",
    )
    .sample(&[], api.connections_full);
    out.family(
        "dunlin_api_connections_evicted",
        Counter,
        "Idle connections to [api] closed to make room for others.",
    )
    .sample(&[], api.connections_evicted);
    let help = "Requests to [api], by status code; 499: the client disconnected.";
    let mut family = out.family("dunlin_api_requests", Counter, help);
    for (code, count) in with_all(&["200", "401", "403", "429", "503", "507"], &api.requests) {
        family.sample(&[("code", code)], count);
    }
    let help = "From accepting a write until it is durable, or every worker serves it.";
    let mut family = out.family("dunlin_api_write_duration_seconds", Kind::Histogram, help);
    for (until, took) in [("durable", &api.durable), ("live", &api.live)] {
        family.histogram(&[("until", until)], took);
    }
}

fn whose(server: &UpstreamStatus) -> [(&'static str, &str); 2] {
    [("suffix", &server.suffix), ("server", &server.server)]
}

fn samples(out: &mut Exposition, status: &Status) {
    let tap = &status.tap;
    out.family("dunlin_samples", Counter, "Queries sampled for the query log and dnstap.")
        .sample(&[], tap.sampled);
    out.family(
        "dunlin_samples_lost",
        Counter,
        "Sampled queries lost because the reader was too slow.",
    )
    .sample(&[], tap.lost);
    out.family("dunlin_query_log_lines", Counter, "Lines of the query log.")
        .sample(&[("result", "written")], tap.logged)
        .sample(&[("result", "lost")], tap.log_lost);
    out.family("dunlin_dnstap_frames", Counter, "Frames for the dnstap reader.")
        .sample(&[("result", "sent")], tap.dnstap_sent)
        .sample(&[("result", "lost")], tap.dnstap_lost);
    out.family("dunlin_dnstap_connected", Gauge, "1 while a dnstap reader is connected.")
        .sample(&[], u8::from(tap.dnstap_connected));
    out.family("dunlin_dnstap_reconnects", Counter, "Reconnections to the dnstap reader.")
        .sample(&[], tap.dnstap_reconnects);
}

/// The metrics that Prometheus expects of any process.
fn process(out: &mut Exposition, status: &Status) {
    let process = &status.process;
    out.family("process_start_time_seconds", Gauge, "When the process started.")
        .sample(&[], status.started_seconds);
    out.family("process_cpu_seconds", Counter, "CPU time of the process.")
        .sample(&[], process.cpu_seconds);
    out.family("process_resident_memory_bytes", Gauge, "Resident memory of the process.")
        .sample(&[], process.resident_bytes);
    out.family(
        "dunlin_socket_dropped_datagrams",
        Counter,
        "Datagrams that the kernel dropped because a listening socket was full.",
    )
    .sample(&[], process.dropped_datagrams);
    out.family("process_open_fds", Gauge, "Open file descriptors.").sample(&[], process.open_files);
    out.family("process_max_fds", Gauge, "Maximum open file descriptors.")
        .sample(&[], process.open_files_max);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::RESPONSES_LEN_MAX;
    use server_status::{SignatureSpan, StatusHistogram};

    /// The largest possible status: all workers and zones, with the longest names.
    fn largest() -> Status {
        let zone = |n: usize| ZoneStatus {
            // Each byte of a name takes up to four, and its backslash one more (RFC 4343).
            name: format!("{n:05}") + &"\\000".repeat(245),
            serial: Some(u32::MAX),
            records: u64::MAX,
            loaded_seconds: Some(1.0 / 3.0),
            signatures: Some(SignatureSpan {
                expires_seconds: i64::from(u32::MAX),
                validity_seconds: i64::from(u32::MAX),
            }),
            ..ZoneStatus::default()
        };
        let thread = |n: usize| ThreadStatus {
            name: format!("streams-{n}"),
            transport: "udp".into(),
            received: u64::MAX / 2,
            dropped: DropReason::ALL
                .iter()
                .map(|reason| (reason.name().into(), u64::MAX / 2))
                .collect(),
            types: (0..40).map(|n| (format!("TYPE{n:05}"), u64::MAX / 2)).collect(),
            latency: StatusHistogram {
                bounds_seconds: (0..40).map(|n| f64::from(n) / 3.0).collect(),
                counts: vec![u64::MAX / 100; 41],
                sum_seconds: 1.0 / 3.0,
            },
            ..ThreadStatus::default()
        };
        Status {
            zones: (0..1 << 16).map(zone).collect(),
            threads: (0..320).map(thread).collect(),
            ..Status::default()
        }
    }

    #[test]
    fn several_largest_responses_fit_at_once() {
        let text = write(&largest(), true, RequestCounts::default(), Format::Text);
        assert!(3 * text.len() <= RESPONSES_LEN_MAX, "{}", text.len());
    }
}
