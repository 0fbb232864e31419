//! `dunlin status`: one look at a running server.
use crate::cli::{self, Output};
use crate::health;
use crate::human::{self, Side, align, count, plain, plural, quantile, span};
use crate::limits::{STATUS_ERRORS_MAX, STATUS_ZONES_MAX};
use control::status::{
    ApiStatus, CacheStatus, Histogram, HostsStatus, State, Status, StoreStatus, TapStatus,
    ThreadStatus, XdpStatus, ZoneState, ZoneStatus,
};
use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;

/// Asks the server, and tells what it says. The exit status says whether all is well.
///
/// # Errors
/// When the server cannot be reached, or the answer not be written.
pub fn run(command: &cli::Status) -> Result<ExitCode, Box<dyn Error>> {
    let status = admin::Client::connect(&command.socket)?.status()?;
    let mut out = io::stdout().lock();
    match command.output {
        Output::Json => {
            serde_json::to_writer_pretty(&mut out, &status)?;
            writeln!(out)?;
        }
        Output::Text => write(&mut out, &status, command.zones)?,
    }
    Ok(if is_fine(&status) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Whether nothing is behind or refused, and clients may come.
fn is_fine(status: &Status) -> bool {
    status.state.is_ready()
        && status.failed.is_empty()
        && status.config.errors.is_empty()
        && status.store.as_ref().is_none_or(|store| store.fault.is_none())
        && status.zones.iter().all(|zone| zone.state == ZoneState::Current)
        && status.hosts.iter().all(|hosts| hosts.state == ZoneState::Current)
}

fn write(out: &mut impl Write, status: &Status, all_zones: bool) -> io::Result<()> {
    let state = match status.state {
        State::Starting => "starting",
        State::Serving => "serving",
        State::Draining => "draining: it will end soon",
    };
    let up = span(status.gathered_seconds - status.started_seconds);
    let since = human::utc(status.started_seconds);
    let (version, pid) = (plain(&status.version), status.pid);
    writeln!(out, "dunlin {version}, {state}, up {up} since {since}, process {pid}\n")?;
    write_facts(out, status)?;
    write_zones(out, status, all_zones)?;
    write_hosts(out, status)?;
    write_upstreams(out, status)?;
    write_threads(out, status)
}

/// A fact a line, and what belongs to it below it.
fn write_facts(out: &mut impl Write, status: &Status) -> io::Result<()> {
    let ago = |seconds: f64| span(status.gathered_seconds - seconds) + " ago";
    let mut fact = |name: &str, told: &str| writeln!(out, "{name:<12}{told}");
    let listen: Vec<String> = status.listen.iter().map(|address| plain(address)).collect();
    for (index, some) in listen.chunks(3).enumerate() {
        fact(if index == 0 { "listen" } else { "" }, &some.join(", "))?;
    }
    if let Some(failed) = health::tell(&status.failed) {
        fact("failed", &plain(&failed))?;
    }
    let config = &status.config;
    let file =
        if config.file.is_empty() { "none, all defaults".into() } else { plain(&config.file) };
    let mut told = format!("{file}, read {}", ago(config.loaded_seconds));
    for (number, what) in [(config.reloads, "reloaded"), (config.reloads_refused, "refused")] {
        if number > 0 {
            told += &format!(", {what} {} times", count(number)).replace(" 1 times", " once");
        }
    }
    fact("config", &told)?;
    if !config.errors.is_empty() {
        fact("", "the last reload was refused; what was before goes on:")?;
        for line in errors(&config.errors) {
            fact("", &format!("  {line}"))?;
        }
    }
    if !config.restart_needed.is_empty() {
        let keys: Vec<String> = config.restart_needed.iter().map(|key| plain(key)).collect();
        fact("", &format!("new values that wait for a restart: {}", keys.join(", ")))?;
    }
    let (generation, published) = (count(status.generation), ago(status.generation_seconds));
    fact("generation", &format!("{generation}, published {published}"))?;
    fact("streams", &streams(status))?;
    if let Some(bypass) = &status.xdp {
        fact("xdp", &xdp(bypass))?;
    }
    if let Some(cache) = &status.cache {
        fact("cache", &kept(cache))?;
    }
    if status.tap.sampled > 0 || status.tap.dnstap_wanted {
        fact("samples", &samples(&status.tap))?;
    }
    if let Some(store) = &status.store {
        fact("store", &stored(store))?;
    }
    if let Some(api) = &status.api {
        fact("api", &asked(api))?;
    }
    if let Some(trouble) = &status.saving {
        fact("copies", &format!("zones are not kept on disk: {}", plain(trouble)))?;
    }
    let process = &status.process;
    let memory = human::octets(process.resident_octets);
    let files = format!("{} of {} files", count(process.open_files), count(process.open_files_max));
    fact("process", &format!("{memory} in RAM, {files}, {} of CPU", span(process.cpu_seconds)))
}

/// How an interface is served past the kernel, and what came there.
fn xdp(status: &XdpStatus) -> String {
    let interface = plain(&status.interface);
    if let Some(failed) = &status.failed {
        return format!("{interface} is served by sockets alone: {}", plain(failed));
    }
    let copied = if status.zero_copy { "zero copy" } else { "copied" };
    let joined = if status.joined { ", in a dispatcher" } else { "" };
    let count_of = |name: &str| status.passed.get(name).copied().unwrap_or_default();
    let left: u64 = ["route", "neighbour", "long", "socket"].map(count_of).iter().sum();
    let lost: u64 = status.queues.iter().flat_map(|queue| queue.lost.values()).sum();
    format!(
        "{interface}, {}{joined}, {copied}, {}; {} taken, {} left to sockets, {} lost",
        plain(&status.mode),
        plural(status.queues.len(), "queue"),
        count(count_of("taken")),
        count(left),
        count(lost)
    )
}

fn streams(status: &Status) -> String {
    let streams = &status.streams;
    let mut told = format!(
        "{} of {} open, {} of {} buffered",
        count(streams.open),
        count(streams.open_max),
        human::octets(streams.buffered_octets),
        human::octets(streams.buffered_octets_max)
    );
    let closed = streams.closed.iter().filter(|(_, number)| **number > 0);
    let closed: Vec<String> =
        closed.map(|(reason, number)| format!("{} {}", count(*number), plain(reason))).collect();
    if !closed.is_empty() {
        told += &format!("; closed: {}", closed.join(", "));
    }
    told
}

/// What is in the store, or why nobody knows.
fn stored(store: &StoreStatus) -> String {
    let StoreStatus { file, octets, free_octets, revision, zones, rrsets, fault } = store;
    if let Some(fault) = fault {
        return format!("{}: {}", plain(file), plain(fault));
    }
    format!(
        "revision {revision}, {}, {}, {} ({} free)",
        plural(*zones as usize, "zone"),
        plural(*rrsets as usize, "record set"),
        human::octets(*octets),
        human::octets(*free_octets),
    )
}

/// Who writes, and how long that takes.
fn asked(api: &ApiStatus) -> String {
    let sum = |begins: &str| -> u64 {
        let of = api.requests.iter().filter(|(code, _)| code.starts_with(begins));
        of.map(|(_, count)| count).sum()
    };
    let mut told = format!(
        "{}, {}",
        plural(api.connections as usize, "connection"),
        plural(sum("") as usize, "request")
    );
    for (begins, what) in [("4", "refused"), ("5", "failed")] {
        match sum(begins) {
            0 => {}
            number => told += &format!(", {} {what}", count(number)),
        }
    }
    if api.connections_full > 0 {
        told += &format!("; no place for {}", plural(api.connections_full as usize, "connection"));
    }
    match api.durable.counts.iter().sum::<u64>() {
        0 => told,
        writes => {
            let (half, most) = (quantile(&api.durable, 0.5), quantile(&api.durable, 0.99));
            let writes = plural(writes as usize, "write");
            told + &format!("; {writes}, durable in {half}, 99 % in {most}")
        }
    }
}

/// What is kept of others' answers, and how often that helped.
fn kept(cache: &CacheStatus) -> String {
    let CacheStatus { hits, stale, misses, entries, octets, octets_max, waiting, homes } = *cache;
    let mut told = format!(
        "{} answers, {} of {}",
        count(entries),
        human::octets(octets),
        human::octets(octets_max)
    );
    let all = hits + stale + misses;
    if all > 0 {
        told += &format!("; {:.1} % of {} found", hits as f64 * 100.0 / all as f64, count(all));
    }
    if waiting > 0 {
        told += &format!("; {} clients wait", count(waiting));
    }
    if homes.answered > 0 {
        told += &format!("; {} told by another thread", count(homes.answered));
    }
    let alone = homes.alone().into_iter().filter(|(_, number)| *number > 0);
    let alone: Vec<String> =
        alone.map(|(why, number)| format!("{} {why}", count(number))).collect();
    if !alone.is_empty() {
        told += &format!("; asked alone: {}", alone.join(", "));
    }
    told
}

/// What became of sampled queries.
fn samples(tap: &TapStatus) -> String {
    let lost = |number: u64| match number {
        0 => String::new(),
        _ => format!(", {} lost", count(number)),
    };
    let mut told = format!("{} taken{}", count(tap.sampled), lost(tap.lost));
    if tap.logged + tap.log_lost > 0 {
        told += &format!("; {} logged{}", count(tap.logged), lost(tap.log_lost));
    }
    if tap.dnstap_wanted || tap.dnstap_sent + tap.dnstap_lost > 0 {
        let alone = if tap.dnstap_connected { "" } else { ", no reader is there" };
        told += &format!("; {} to dnstap{}{alone}", count(tap.dnstap_sent), lost(tap.dnstap_lost));
    }
    told
}

/// The first few errors, and where the others are told.
fn errors(all: &[String]) -> Vec<String> {
    let shown = all.len().min(STATUS_ERRORS_MAX);
    let mut lines: Vec<String> = all[..shown].iter().map(|line| plain(line)).collect();
    if all.len() > shown {
        lines.push("and more: `dunlin check` tells all".into());
    }
    lines
}

fn write_zones(out: &mut impl Write, status: &Status, all: bool) -> io::Result<()> {
    let mut told = Vec::new();
    for (state, word) in [
        (ZoneState::Current, "current"),
        (ZoneState::Behind, "behind their file"),
        (ZoneState::Saved, "as saved by an earlier process"),
        (ZoneState::Unloaded, "not loaded, answered with SERVFAIL"),
    ] {
        let number = status.zones.iter().filter(|zone| zone.state == state).count();
        if number > 0 {
            told.push(format!("{} {word}", count(number as u64)));
        }
    }
    if told.is_empty() {
        told.push("none".into());
    }
    writeln!(out, "{:<12}{}", "zones", told.join(", "))?;

    let every = all || status.zones.len() <= STATUS_ZONES_MAX;
    let is_shown = |zone: &&ZoneStatus| every || zone.state != ZoneState::Current;
    let mut shown: Vec<&ZoneStatus> = status.zones.iter().filter(is_shown).collect();
    // As many may be behind as there are: also then, one look is enough.
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

/// The servers that others' names are asked of.
pub fn write_upstreams(out: &mut impl Write, status: &Status) -> io::Result<()> {
    if status.upstreams.is_empty() {
        return Ok(());
    }
    let head = ["FORWARD", "SERVER", "STATE", "RTT", "SENT", "ANSWERED", "REFUSED", "LATE"];
    let mut rows = vec![head.map(str::to_owned)];
    rows.extend(status.upstreams.iter().map(|upstream| {
        let took = upstream.round_trip_seconds.map(human::short);
        [
            plain(&upstream.suffix),
            plain(&upstream.server),
            upstream.state.name().to_owned(),
            took.unwrap_or_else(|| "-".into()),
            count(upstream.sent),
            count(upstream.answered),
            count(upstream.refused),
            count(upstream.late),
        ]
    }));
    use Side::{Left, Right};
    writeln!(out)?;
    for line in align([Left, Left, Left, Right, Right, Right, Right, Right], &rows) {
        writeln!(out, "{line}")?;
    }
    for upstream in &status.upstreams {
        if let Some(fault) = &upstream.fault {
            writeln!(out, "{}: {}", plain(&upstream.server), plain(fault))?;
        }
    }
    let strange: u64 = status.upstreams.iter().map(|upstream| upstream.mismatched).sum();
    match strange {
        0 => Ok(()),
        _ => writeln!(out, "{} messages were no reply to what was asked", count(strange)),
    }
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
    let mut told = Vec::new();
    let workers = status.threads.iter().filter(|thread| thread.transport == "udp").count();
    if workers > 1 {
        told.push(format!("the busiest worker has {:.2} times the mean", status.imbalance));
    }
    told.extend(dropped(&status.threads).map(|dropped| format!("dropped: {dropped}")));
    if told.is_empty() { Ok(()) } else { writeln!(out, "{}", told.join("; ")) }
}

fn thread_row(thread: &ThreadStatus) -> [String; 7] {
    let latency: &Histogram = &thread.latency;
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

/// What was dropped, the commonest reason first; nothing where nothing was.
fn dropped(threads: &[ThreadStatus]) -> Option<String> {
    let mut reasons = std::collections::BTreeMap::<&str, u64>::new();
    for (reason, number) in threads.iter().flat_map(|thread| &thread.dropped) {
        *reasons.entry(reason).or_default() += number;
    }
    let mut reasons: Vec<_> = reasons.into_iter().filter(|(_, number)| *number > 0).collect();
    reasons.sort_by_key(|(_, number)| std::cmp::Reverse(*number));
    let told: Vec<String> = reasons
        .into_iter()
        .map(|(reason, number)| format!("{} {}", count(number), plain(reason)))
        .collect();
    (!told.is_empty()).then(|| told.join(", "))
}

#[cfg(test)]
mod tests;
