//! `dunlin status`: prints the status of a running server.
mod kubernetes;

use crate::cli::{self, Output};
use crate::limits::{EVEN_QUERIES_MIN, STATUS_ERRORS_MAX, STATUS_ZONES_MAX};
use crate::local::LocalClient;
use crate::status_text::{self, quantile};
use crate::upstreams::write_upstreams;
use command_line::{Paint, Side, align, count, format_bytes, plain, plural, span};
use server_status::{
    ApiStatus, CacheStatus, Fault, HostsStatus, ServerState, Status, StatusHistogram, StoreStatus,
    TapStatus, ThreadStatus, ZoneState, ZoneStatus,
};
use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;

/// Prints the status of the server. The exit status is 0 if it is healthy.
///
/// # Errors
/// The server cannot be reached, or the status cannot be written.
pub fn run(command: &cli::Status) -> Result<ExitCode, Box<dyn Error>> {
    let status = LocalClient::new(&command.local)?.status()?;
    let mut out = io::stdout().lock();
    match command.output {
        Output::Json => {
            serde_json::to_writer_pretty(&mut out, &status)?;
            writeln!(out)?;
        }
        Output::Text => write(&mut out, &status, command.zones, Paint::of_stdout())?,
    }
    Ok(if is_healthy(&status) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Whether the server is ready, and nothing is wrong.
fn is_healthy(status: &Status) -> bool {
    status.state.is_ready() && status.faults.is_empty()
}

fn write(out: &mut impl Write, status: &Status, all_zones: bool, paint: Paint) -> io::Result<()> {
    let state = match status.state {
        ServerState::Starting => "starting",
        ServerState::Serving => "serving",
        ServerState::Draining => "draining: ends soon",
    };
    let up = span(status.gathered_seconds - status.started_seconds);
    let since = command_line::utc(status.started_seconds);
    let (version, pid) = (plain(&status.version), status.pid);
    writeln!(out, "dunlin {version}, {state}, up {up} since {since}, process {pid}\n")?;
    for (number, Fault { kind, text }) in status.faults.iter().enumerate() {
        let head = if number == 0 { "faults" } else { "" };
        writeln!(out, "{head:<12}{}: {}", paint.red(&plain(kind)), plain(text))?;
    }
    if !status.faults.is_empty() {
        writeln!(out)?;
    }
    write_facts(out, status)?;
    write_zones(out, status, all_zones)?;
    write_hosts(out, status)?;
    write_upstreams(out, status)?;
    write_threads(out, status)
}

/// Writes one line per fact, with its details below it.
fn write_facts(out: &mut impl Write, status: &Status) -> io::Result<()> {
    let ago = |seconds: f64| span(status.gathered_seconds - seconds) + " ago";
    let mut fact = |name: &str, text: &str| writeln!(out, "{name:<12}{text}");
    let listen: Vec<String> = status.listen.iter().map(|address| plain(address)).collect();
    for (index, some) in listen.chunks(3).enumerate() {
        fact(if index == 0 { "listen" } else { "" }, &some.join(", "))?;
    }
    let config = &status.config;
    let file =
        if config.file.is_empty() { "none, all defaults".into() } else { plain(&config.file) };
    let mut text = format!("{file}, read {}", ago(config.loaded_seconds));
    for (number, what) in [(config.reloads, "reloaded"), (config.reloads_refused, "refused")] {
        if number > 0 {
            text += &format!(", {what} {} times", count(number)).replace(" 1 times", " once");
        }
    }
    fact("config", &text)?;
    if !config.errors.is_empty() {
        fact("", "the last reload was refused; the previous config stays in effect:")?;
        for line in errors(&config.errors) {
            fact("", &format!("  {line}"))?;
        }
    }
    if !config.restart_needed.is_empty() {
        let keys: Vec<String> = config.restart_needed.iter().map(|key| plain(key)).collect();
        fact("", &format!("changed keys that need a restart: {}", keys.join(", ")))?;
    }
    let (generation, published) = (count(status.generation), ago(status.generation_seconds));
    fact("generation", &format!("{generation}, published {published}"))?;
    fact("streams", &stream_text(status))?;
    if let Some(anycast) = &status.anycast {
        fact("anycast", &status_text::anycast_text(anycast, &ago(anycast.since_seconds)))?;
    }
    if let Some(xdp) = &status.xdp {
        fact("xdp", &status_text::xdp_text(xdp))?;
    }
    let devices: Vec<_> = status.dpdk.iter().flat_map(status_text::dpdk_lines).collect();
    write_lines(&mut fact, "dpdk", &devices)?;
    if let Some(cache) = &status.cache {
        fact("cache", &cache_text(cache))?;
    }
    if status.tap.sampled > 0 || status.tap.dnstap_wanted {
        fact("samples", &sample_text(&status.tap))?;
    }
    if let Some(store) = &status.store {
        fact("store", &store_text(store))?;
        for line in unanswered_zones(store) {
            fact("", &line)?;
        }
    }
    write_lines(&mut fact, "documents", &status_text::documents_lines(&status.documents))?;
    if let Some(kubernetes) = &status.kubernetes {
        fact("kubernetes", &kubernetes::text(kubernetes))?;
        for line in kubernetes::faults(kubernetes) {
            fact("", &line)?;
        }
    }
    write_lines(&mut fact, "sites", &status_text::site_lines(&status.sites))?;
    let secondaries = status_text::secondary_lines(&status.secondaries, status.gathered_seconds);
    write_lines(&mut fact, "secondaries", &secondaries)?;
    if let Some(health) = &status.health {
        fact("health", &status_text::health_text(health))?;
    }
    if let Some(api) = &status.api {
        fact("api", &api_text(api))?;
    }
    let process = &status.process;
    let memory = format_bytes(process.resident_bytes);
    let files = format!("{} of {} files", count(process.open_files), count(process.open_files_max));
    fact("process", &format!("{memory} in RAM, {files}, {} of CPU", span(process.cpu_seconds)))
}

/// Writes lines of one fact.
fn write_lines(
    fact: &mut impl FnMut(&str, &str) -> io::Result<()>,
    name: &str,
    lines: &[String],
) -> io::Result<()> {
    let mut each = lines.iter().enumerate();
    each.try_for_each(|(number, line)| fact(if number == 0 { name } else { "" }, line))
}

fn stream_text(status: &Status) -> String {
    let streams = &status.streams;
    let mut text = format!(
        "{} of {} open, {} of {} buffered",
        count(streams.open),
        count(streams.open_max),
        format_bytes(streams.buffered_bytes),
        format_bytes(streams.buffered_bytes_max)
    );
    let closed = streams.closed.iter().filter(|(_, number)| **number > 0);
    let closed: Vec<String> =
        closed.map(|(reason, number)| format!("{} {}", count(*number), plain(reason))).collect();
    if !closed.is_empty() {
        text += &format!("; closed: {}", closed.join(", "));
    }
    text
}

/// The content of the store, or its fault.
fn store_text(store: &StoreStatus) -> String {
    let StoreStatus { file, bytes, free_bytes, revision, zones, rrsets, fault, .. } = store;
    if let Some(fault) = fault {
        // Most faults begin with their file. It may be the write-ahead log in the same folder.
        let folder = file.rsplit_once('/').map_or("", |(folder, _)| folder);
        let is_named = !folder.is_empty() && fault.starts_with(folder);
        return if is_named { plain(fault) } else { format!("{}: {}", plain(file), plain(fault)) };
    }
    let text = format!(
        "revision {revision}, {}, {}, {} ({} free)",
        plural(*zones as usize, "zone"),
        plural(*rrsets as usize, "record set"),
        format_bytes(*bytes),
        format_bytes(*free_bytes),
    );
    text + &form_text(store)
}

/// That the form of the store can be raised, and what was refused because of it.
fn form_text(store: &StoreStatus) -> String {
    let StoreStatus { form, form_newest, form_refusals, .. } = store;
    if form >= form_newest {
        return String::new();
    }
    let refused = match *form_refusals {
        0 => String::new(),
        refusals => format!(", {} that need it refused", plural(refusals as usize, "write")),
    };
    format!("; form {form}, and {form_newest} after `dunlin store upgrade`{refused}")
}

/// The zones of the store that are answered with SERVFAIL.
fn unanswered_zones(store: &StoreStatus) -> Vec<String> {
    if store.servfail == 0 {
        return Vec::new();
    }
    let zones = plural(store.servfail as usize, "zone");
    let mut lines = vec![format!("{zones} answered with SERVFAIL:")];
    let shown = store.servfail_zones.iter().take(STATUS_ERRORS_MAX);
    lines.extend(shown.map(|zone| match store.fault {
        Some(_) => format!("  {}", plain(&zone.name)),
        None => format!("  {}: {}", plain(&zone.name), plain(&zone.reason)),
    }));
    if store.servfail as usize > STATUS_ERRORS_MAX {
        lines.push("  and more: `dunlin status -o json`".into());
    }
    lines
}

/// The requests to the API, and the time of its writes.
fn api_text(api: &ApiStatus) -> String {
    let sum = |begins: &str| -> u64 {
        let of = api.requests.iter().filter(|(code, _)| code.starts_with(begins));
        of.map(|(_, count)| count).sum()
    };
    let mut text = format!(
        "{}, {}",
        plural(api.connections as usize, "connection"),
        plural(sum("") as usize, "request")
    );
    for (begins, what) in [("4", "refused"), ("5", "failed")] {
        match sum(begins) {
            0 => {}
            number => text += &format!(", {} {what}", count(number)),
        }
    }
    if api.connections_full > 0 {
        let refused = plural(api.connections_full as usize, "connection");
        text += &format!("; {refused} over the limit");
    }
    match api.durable.counts.iter().sum::<u64>() {
        0 => {}
        writes => {
            let (half, most) = (quantile(&api.durable, 0.5), quantile(&api.durable, 0.99));
            let writes = plural(writes as usize, "write");
            text += &format!("; {writes}, durable in {half}, 99 % in {most}");
        }
    }
    text
}

/// The size of the cache and its hit rate.
fn cache_text(cache: &CacheStatus) -> String {
    let CacheStatus { hits, stale, misses, entries, bytes, bytes_max, .. } = *cache;
    let CacheStatus { waiting, crowded, homes, .. } = *cache;
    let mut text = format!(
        "{} answers, {} of {}",
        count(entries),
        format_bytes(bytes),
        format_bytes(bytes_max)
    );
    let all = hits + stale + misses;
    if all > 0 {
        let rate = hits as f64 * 100.0 / all as f64;
        text += &format!("; {rate:.1} % of {} lookups hit", count(all));
    }
    if waiting > 0 {
        text += &format!("; {} clients wait", count(waiting));
    }
    if crowded > 0 {
        text += &format!("; {} refused at the limit of their client", count(crowded));
    }
    if homes.answered > 0 {
        text += &format!("; {} answered by the owner shard", count(homes.answered));
    }
    let alone = homes.alone().into_iter().filter(|(_, number)| *number > 0);
    let alone: Vec<String> =
        alone.map(|(why, number)| format!("{} {why}", count(number))).collect();
    if !alone.is_empty() {
        text += &format!("; forwarded without the owner shard: {}", alone.join(", "));
    }
    text
}

/// The counters of sampled queries.
fn sample_text(tap: &TapStatus) -> String {
    let lost = |number: u64| match number {
        0 => String::new(),
        _ => format!(", {} lost", count(number)),
    };
    let mut text = format!("{} taken{}", count(tap.sampled), lost(tap.lost));
    if tap.logged + tap.log_lost > 0 {
        text += &format!("; {} logged{}", count(tap.logged), lost(tap.log_lost));
    }
    if tap.dnstap_wanted || tap.dnstap_sent + tap.dnstap_lost > 0 {
        let reader = if tap.dnstap_connected { "" } else { ", no reader connected" };
        text += &format!("; {} to dnstap{}{reader}", count(tap.dnstap_sent), lost(tap.dnstap_lost));
    }
    text
}

/// The first few errors, and the command that lists all.
fn errors(all: &[String]) -> Vec<String> {
    let shown = all.len().min(STATUS_ERRORS_MAX);
    let mut lines: Vec<String> = all[..shown].iter().map(|line| plain(line)).collect();
    if all.len() > shown {
        lines.push("and more: `dunlin check` lists all".into());
    }
    lines
}

/// How many zones are in which state.
fn zone_counts(status: &Status) -> String {
    let mut counts = Vec::new();
    for (state, word) in [
        (ZoneState::Current, "current"),
        (ZoneState::Behind, "behind their file"),
        (ZoneState::Saved, "served from a saved copy"),
        (ZoneState::Unloaded, "not loaded, answered with SERVFAIL"),
    ] {
        let number = status.zones.iter().filter(|zone| zone.state == state).count();
        if number > 0 {
            counts.push(format!("{} {word}", count(number as u64)));
        }
    }
    if let Some(zones @ 1..) = status.store.as_ref().map(|store| store.zones) {
        counts.push(format!("{} of the store", count(zones)));
    }
    if counts.is_empty() {
        counts.push("none".into());
    }
    if let number @ 1.. = status.held.len() {
        counts.push(format!("{} held (`dunlin zones accept`)", count(number as u64)));
    }
    counts.join(", ")
}

fn write_zones(out: &mut impl Write, status: &Status, all: bool) -> io::Result<()> {
    writeln!(out, "{:<12}{}", "zones", zone_counts(status))?;
    let is_file = |name: &str| {
        status.zones.iter().any(|zone| zone.name == name)
            || status.hosts.iter().any(|hosts| hosts.file == name)
    };
    for (name, held) in status.held.iter().filter(|(name, _)| !is_file(name)) {
        let line = status_text::held_content("its source", name, *held);
        writeln!(out, "{:<12}{}: {line}", "", plain(name))?;
    }

    let every = all || status.zones.len() <= STATUS_ZONES_MAX;
    let is_shown = |zone: &&ZoneStatus| {
        every
            || zone.state != ZoneState::Current
            || zone.writing_seconds.is_some()
            || zone.has_old_signatures(status.gathered_seconds)
    };
    let mut shown: Vec<&ZoneStatus> = status.zones.iter().filter(is_shown).collect();
    // Also where thousands of zones are behind, the table fits on a screen.
    let left_out = if all { 0 } else { shown.len().saturating_sub(STATUS_ZONES_MAX) };
    shown.truncate(shown.len() - left_out);
    if shown.is_empty() {
        return Ok(());
    }
    let head = ["STATE", "SERIAL", "RECORDS", "LOADED", "ZONE"].map(str::to_owned);
    let rows = shown.iter().map(|zone| zone_row(zone, status.gathered_seconds));
    let rows: Vec<_> = [head].into_iter().chain(rows).collect();
    use Side::{Left, Right};
    let mut lines = align([Left, Right, Right, Right, Left], &rows).into_iter();
    writeln!(out)?;
    if let Some(head) = lines.next() {
        writeln!(out, "{head}")?;
    }
    for (line, zone) in lines.zip(shown) {
        writeln!(out, "{line}")?;
        let signatures = status_text::signatures(zone, status.gathered_seconds);
        let lines = [status_text::writing(zone), status_text::held(zone), signatures];
        for line in lines.into_iter().flatten() {
            writeln!(out, "    {line}")?;
        }
        if let Some(refused) = zone.refused_seconds {
            let ago = span(status.gathered_seconds - refused);
            writeln!(out, "    its file was refused {ago} ago:")?;
        }
        for error in errors(&zone.errors) {
            writeln!(out, "    {error}")?;
        }
    }
    if left_out > 0 {
        writeln!(out, "and {} more: `dunlin status --zones` lists all", plural(left_out, "zone"))?;
    }
    Ok(())
}

fn zone_row(zone: &ZoneStatus, now: f64) -> [String; 5] {
    let nothing = || "-".to_owned();
    [
        zone.state.name().into(),
        zone.serial.map_or_else(nothing, |serial| serial.to_string()),
        if zone.state == ZoneState::Unloaded { nothing() } else { count(zone.records) },
        zone.loaded_seconds.map_or_else(nothing, |loaded| span(now - loaded) + " ago"),
        plain(&zone.name),
    ]
}

fn write_hosts(out: &mut impl Write, status: &Status) -> io::Result<()> {
    if status.hosts.is_empty() {
        return Ok(());
    }
    let head = ["STATE", "NAMES", "LOADED", "HOSTS FILE"].map(str::to_owned);
    let row = |hosts: &HostsStatus| {
        let loaded = hosts.loaded_seconds.map(|at| span(status.gathered_seconds - at) + " ago");
        let loaded = loaded.unwrap_or_else(|| "-".into());
        [hosts.state.name().into(), count(hosts.names), loaded, plain(&hosts.file)]
    };
    let rows: Vec<_> = [head].into_iter().chain(status.hosts.iter().map(row)).collect();
    use Side::{Left, Right};
    let mut lines = align([Left, Right, Right, Left], &rows).into_iter();
    writeln!(out, "\n{}", lines.next().unwrap_or_default())?;
    for (line, hosts) in lines.zip(&status.hosts) {
        writeln!(out, "{line}")?;
        if let Some(held) = hosts.held {
            let line = status_text::held_content("the file", &hosts.file, held);
            writeln!(out, "    {line}")?;
        }
        if let Some(refused) = hosts.refused_seconds {
            let ago = span(status.gathered_seconds - refused);
            writeln!(out, "    it was refused {ago} ago:")?;
        }
        for error in errors(&hosts.errors) {
            writeln!(out, "    {error}")?;
        }
    }
    Ok(())
}

fn write_threads(out: &mut impl Write, status: &Status) -> io::Result<()> {
    if status.threads.is_empty() {
        return Ok(());
    }
    let head = ["THREAD", "CPU", "RECEIVED", "REPLIED", "DROPPED", "P50", "P99"];
    let mut rows = vec![head.map(str::to_owned)];
    rows.extend(status.threads.iter().map(thread_row));
    if status.threads.len() > 1 {
        let mut all = ThreadStatus { name: "all".into(), ..ThreadStatus::default() };
        for thread in &status.threads {
            all.received += thread.received;
            all.replied += thread.replied;
            for (reason, number) in &thread.dropped {
                *all.dropped.entry(reason.clone()).or_default() += number;
            }
            all.latency.add(&thread.latency);
        }
        rows.push(thread_row(&all));
    }
    use Side::{Left, Right};
    writeln!(out)?;
    for line in align([Left, Right, Right, Right, Right, Right, Right], &rows) {
        writeln!(out, "{line}")?;
    }
    let mut notes = Vec::new();
    let workers = status.threads.iter().filter(|thread| thread.transport == "udp");
    let (workers, received) =
        workers.fold((0, 0), |(count, sum), thread| (count + 1, sum + thread.received));
    // Few queries are never even.
    if workers > 1 && received >= workers * EVEN_QUERIES_MIN {
        notes.push(format!("the busiest worker has {:.2} times the mean load", status.imbalance));
    }
    notes.extend(dropped(&status.threads).map(|dropped| format!("dropped: {dropped}")));
    if notes.is_empty() { Ok(()) } else { writeln!(out, "{}", notes.join("; ")) }
}

fn thread_row(thread: &ThreadStatus) -> [String; 7] {
    let latency: &StatusHistogram = &thread.latency;
    [
        plain(&thread.name),
        thread.cpu.map_or_else(|| "-".into(), |cpu| cpu.to_string()),
        count(thread.received),
        count(thread.replied),
        count(thread.dropped.values().sum()),
        quantile(latency, 0.5),
        quantile(latency, 0.99),
    ]
}

/// Dropped queries by reason, the commonest first; `None` without any.
fn dropped(threads: &[ThreadStatus]) -> Option<String> {
    let mut reasons = std::collections::BTreeMap::<&str, u64>::new();
    for (reason, number) in threads.iter().flat_map(|thread| &thread.dropped) {
        *reasons.entry(reason).or_default() += number;
    }
    let mut reasons: Vec<_> = reasons.into_iter().filter(|(_, number)| *number > 0).collect();
    reasons.sort_by_key(|(_, number)| std::cmp::Reverse(*number));
    let counts: Vec<String> = reasons
        .into_iter()
        .map(|(reason, number)| format!("{} {}", count(number), plain(reason)))
        .collect();
    (!counts.is_empty()).then(|| counts.join(", "))
}

#[cfg(test)]
mod tests;
