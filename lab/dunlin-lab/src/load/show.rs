//! The text report of a load.
use command_line::{Side, align, count, format_bytes, percent, rate, short};
use lab::verdict::{Ceiling, Measurements};
use lab_load::{LoadMode, Options, Path, Quantile, QueryCounts, QuerySource, Report, Thread};
use std::fmt::Write;

/// The shares that are shown.
const SHARES: [(&str, f64); 5] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0)];

/// `1.5 ms`, `> 5 s` where it is among timeouts.
pub fn quantile(quantile: Quantile) -> String {
    match quantile {
        Quantile::None => "-".into(),
        Quantile::Of(ns) => time(ns as f64),
        Quantile::MoreThan(ns) => format!("> {}", time(ns as f64)),
    }
}

/// Three digits at least: `12.3 µs`.
fn time(ns: f64) -> String {
    let (value, unit) = match ns {
        ..999.5 => return format!("{ns:.0} ns"),
        ..999.5e3 => (ns / 1e3, "µs"),
        ..999.5e6 => (ns / 1e6, "ms"),
        _ => (ns / 1e9, "s"),
    };
    let digits = match value {
        ..9.995 => 2,
        ..99.95 => 1,
        _ => 0,
    };
    let text = format!("{value:.digits$}");
    let text = if digits > 0 { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text} {unit}")
}

/// The whole report, in lines.
pub fn report(options: &Options, report: &Report) -> String {
    let mut text = String::new();
    let mut line = |line: String| writeln!(text, "{line}").expect("a String takes all");
    line(head(options));
    if report.stopped {
        line("Stopped before its end: what was under way then counts as timed out.".into());
    }
    line(String::new());
    counts(options, report).into_iter().for_each(&mut line);
    line(String::new());
    times(report).into_iter().for_each(&mut line);
    line(String::new());
    generator(report).into_iter().for_each(&mut line);
    text
}

/// Which loop it is, and what that means for its times.
pub fn when(options: &Options) -> String {
    let mut text = match &options.when {
        LoadMode::Open(arrivals) => format!("Open loop, {arrivals}"),
        LoadMode::Closed { outstanding, rate_max } => {
            let most = rate_max.map_or(String::new(), |rate| format!(", at most {rate}/s"));
            format!(
                "Closed loop, {outstanding} under way{most}: what slow answers kept from being \
                 sent is in no time"
            )
        }
    };
    if options.spin_ns > 0 {
        let wasted = short(options.spin_ns as f64 / 1e9);
        text += &format!("; slowed by {wasted} a query, as asked for (--spin-ns)");
    }
    text
}

/// Its options.
fn head(options: &Options) -> String {
    let when = when(options);
    let what = match &options.asks {
        QuerySource::Questions(what) => {
            format!("{} queries to draw from", count(what.set.len() as u64))
        }
        QuerySource::Lookups(names) => format!("{} names to look up", count(names.len() as u64)),
    };
    let how = match options.path {
        Path::Udp { segments: true } => "UDP, equal queries joined",
        Path::Udp { segments: false } => "UDP",
        Path::Uring { segments: true } => "UDP by io_uring, equal queries joined",
        Path::Uring { segments: false } => "UDP by io_uring",
        Path::Xdp => "UDP by AF_XDP",
        Path::Dpdk => "UDP by DPDK",
        Path::Tcp { .. } => "TCP",
    };
    format!("{when}\n{how} to {}; {what}; seed {}", options.server, options.seed)
}

/// A row: what, how many, and what more there is to say.
type Row = [String; 3];

fn counts(options: &Options, report: &Report) -> Vec<String> {
    let counts = &report.counts;
    let mut rows: Vec<Row> = Vec::new();
    let mut row = |what: &str, number: u64, more: String| {
        rows.push([what.into(), count(number), more]);
    };
    let of_sent = |number: u64| percent(number as f64 / counts.sent.max(1) as f64);
    let crowded = match counts.crowded {
        0 => String::new(),
        crowded => format!("{} of them for want of a place (--places)", count(crowded)),
    };
    row("planned", counts.planned, String::new());
    row("sent", counts.sent, format!("{}/s", rate(report.sent_rate())));
    row("unsent", counts.unsent, crowded);
    row("answered", counts.answered, format!("{}/s", rate(report.rate())));
    row("timeouts", counts.timeouts, of_sent(counts.timeouts));
    row("late", counts.late, "after their timeout".into());
    let checked = match options.oracle {
        Some(_) => format!("of {} that were compared", count(counts.checked)),
        None => "content was not compared (--check)".into(),
    };
    row("wrong", counts.wrong, checked);
    row("unexpected", counts.unexpected, String::new());
    if counts.truncated > 0 {
        row("truncated", counts.truncated, String::new());
    }
    for (rcode, number) in counts.rcodes() {
        let of_answers = number as f64 / (counts.answered + counts.wrong).max(1) as f64;
        row(rcode, number, percent(of_answers));
    }
    more_counts(counts, &mut row);
    align([Side::Left, Side::Right, Side::Left], &rows)
}

/// Rows that only some loads have.
fn more_counts(counts: &QueryCounts, row: &mut impl FnMut(&str, u64, String)) {
    if counts.lookups > 0 {
        row("lookups", counts.lookups, String::new());
        row("found", counts.lookups_found, String::new());
        row("failed", counts.lookups_failed, String::new());
    }
    if counts.connections > 0 {
        row("connections", counts.connections, format!("{} cut while in use", count(counts.cut)));
    }
}

fn times(report: &Report) -> Vec<String> {
    let mut rows: Vec<[String; 7]> = Vec::new();
    let mut head = vec![String::new(), "mean".into()];
    head.extend(SHARES.map(|(name, _)| name.into()));
    rows.push(head.try_into().expect("as many as there are columns"));
    let histograms = [
        ("response, from when due", &report.times.response),
        ("service, from when sent", &report.times.service),
        ("lateness of sending", &report.times.lateness),
        ("lookup, whole", &report.times.lookup),
    ];
    for (name, histogram) in histograms.into_iter().filter(|(_, times)| !times.is_empty()) {
        let is_lateness = std::ptr::eq(histogram, &report.times.lateness);
        // How late a query was sent is known, however long that is.
        let censored = if is_lateness { u64::MAX } else { report.timeout_ns };
        let mean = match is_lateness {
            true => Some(histogram.mean()),
            false => report.mean_of_answered(histogram),
        };
        let mut row = vec![name.to_owned(), mean.map_or("-".into(), time)];
        row.extend(SHARES.map(|(_, share)| quantile(Quantile::of(histogram, share, censored))));
        rows.push(row.try_into().expect("as many as there are columns"));
    }
    let [left, right] = [Side::Left, Side::Right];
    let mut lines = align([left, right, right, right, right, right, right], &rows);
    if report.counts.timeouts + report.counts.unsent > 0 {
        lines.push(
            "Means are of what was answered; percentiles are of all, timeouts too, and response \
             times also of what was due and not sent."
                .into(),
        );
    }
    lines
}

/// Packet counts of both kernels and the echo's rate: the other inputs of a verdict.
pub fn measurements(measurements: &Measurements) -> String {
    let counts = measurements.balance.places().map(|(place, number)| {
        let number = number.map_or("not known".into(), count);
        format!("{number} {place}")
    });
    let mut text = format!("packets    {}\n", counts.join(", "));
    if let Some(ceiling) = &measurements.ceiling {
        let Ceiling { model, before, after } = ceiling;
        let share = measurements.load.rate() / ceiling.middle().max(f64::EPSILON);
        let (before, after, share) = (rate(*before), rate(*after), percent(share));
        text += &format!(
            "ceiling    {before}/s before and {after}/s after, of an echo ({model}); this is \
             {share} of it\n"
        );
    }
    text
}

/// CPU time and memory of the generator.
fn generator(report: &Report) -> Vec<String> {
    let threads: Vec<String> = report
        .threads
        .iter()
        .map(|thread| {
            let busy = thread.cpu_ns as f64 / report.whole_ns.max(1) as f64;
            let cpu = thread.cpu.map_or(String::new(), |cpu| format!(" on CPU {cpu}"));
            format!("{} busy{cpu}, waited for it {}", percent(busy), time(thread.delay_ns as f64))
        })
        .collect();
    let table: usize = report.threads.iter().map(|thread| thread.table_bytes).sum();
    let mut lines = vec![
        format!("threads    {}", threads.join("; ")),
        format!(
            "CPU        {} a query; {} for queries under way; {} s in all",
            time(report.cpu_ns_a_query()),
            format_bytes(table as u64),
            (report.whole_ns as f64 / 1e7).round() / 100.0,
        ),
    ];
    lines.extend(past_the_stack(report));
    lines
}

/// Answers that did not arrive through the AF_XDP rings.
fn past_the_stack(report: &Report) -> Option<String> {
    let sum = |of: fn(&Thread) -> u64| report.threads.iter().map(of).sum::<u64>();
    let (detoured, dropped) = (sum(|thread| thread.detoured), sum(|thread| thread.dropped));
    (detoured + dropped > 0).then(|| {
        format!(
            "detours    {} answers came through the network stack (by another queue than they \
             were asked by, or longer than a frame); {} found the rings full",
            count(detoured),
            count(dropped),
        )
    })
}
