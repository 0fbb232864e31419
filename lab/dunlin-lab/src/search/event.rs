//! Something that happens under load: how long answers fail, and when the change is seen.
use super::at_rate;
use clap::ValueEnum;
use lab::servers::ask_bytes;
use lab_load::{Options, Snapshot};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};
use wire::{Name, NameBuf};

/// Before the event, in which the load is as ever.
const BEFORE: Duration = Duration::from_secs(2);
/// After it.
const AFTER: Duration = Duration::from_secs(8);
/// An interval of the load.
const INTERVAL: Duration = Duration::from_millis(20);
/// Between two questions for the watched name.
const WATCH: Duration = Duration::from_millis(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Event {
    Reload,
    ZoneChange,
    UpstreamDeath,
    Restart,
}

/// An interval of a load: its end in seconds, answers, and queries without a right answer.
#[derive(Clone, Copy, Debug)]
struct Seen {
    until_s: f64,
    answered: u64,
    failed: u64,
}

/// Seconds with errors, and the longest time without any answer, seconds.
fn judge(seen: &[Seen], end_s: f64) -> (f64, f64) {
    let (mut errors_s, mut longest_s, mut since_s, mut begin_s) = (0.0, 0.0f64, 0.0, 0.0);
    for interval in seen.iter().filter(|interval| interval.until_s <= end_s) {
        if interval.failed > 0 {
            errors_s += interval.until_s - begin_s;
        }
        if interval.answered > 0 {
            longest_s = longest_s.max(begin_s - since_s);
            since_s = interval.until_s;
        }
        begin_s = interval.until_s;
    }
    (errors_s, longest_s.max(end_s - since_s))
}

/// Runs the command under load; with what came of it in a line.
///
/// # Errors
/// The command or the load cannot be run, or the watched name has no answer before the event.
pub fn run(
    event: Event,
    words: &str,
    watch: Option<&str>,
    load: &Options,
    rate: f64,
    stop: &AtomicBool,
) -> Result<String, String> {
    let length_ns = (BEFORE + AFTER).as_nanos() as u64;
    let interval_ns = INTERVAL.as_nanos() as u64;
    let options = Options { interval_ns, ..at_rate(load, rate, length_ns, 0) };
    let mut seen = Vec::new();
    let over = &AtomicBool::new(false);
    let (report, happened) = std::thread::scope(|scope| {
        let happen = scope.spawn(|| happen(words, watch, load, over));
        let report = lab_load::run(&options, stop, &mut |snapshot: &Snapshot| {
            let counts = &snapshot.counts;
            seen.push(Seen {
                until_s: snapshot.until_ns as f64 / 1e9,
                answered: counts.answered,
                failed: counts.timeouts + counts.wrong,
            });
        });
        over.store(true, Ordering::Relaxed);
        (report, happen.join().unwrap_or_else(|_| Err("the event panicked".into())))
    });
    let (counts, (took, staleness)) = (report?.counts, happened?);
    let (errors_s, gap_s) = judge(&seen, (BEFORE + AFTER).as_secs_f64());
    let staleness = match (watch, staleness) {
        (None, _) => String::new(),
        (Some(name), Some(time)) => {
            format!("; {name} was right after {:.0} ms", time.as_secs_f64() * 1e3)
        }
        (Some(name), None) => format!("; {name} never changed within {AFTER:?}"),
    };
    Ok(format!(
        "event {event:?} at {rate:.0} queries/s: its command took {:.0} ms; {errors_s:.2} s with \
         errors, {} of {} queries failed, the longest gap {:.0} ms{staleness}",
        took.as_secs_f64() * 1e3,
        counts.timeouts + counts.wrong,
        counts.planned,
        gap_s * 1e3
    ))
}

/// Runs the command; how long it took, and the time from its start to the first changed answer.
fn happen(
    words: &str,
    watch: Option<&str>,
    load: &Options,
    over: &AtomicBool,
) -> Result<(Duration, Option<Duration>), String> {
    let name = |text: &str| {
        let name: Result<NameBuf, _> = NameBuf::from_text(text.as_bytes(), Name::ROOT);
        name.map_err(|why| format!("--watch {text}: {why}"))
    };
    let watch = watch.map(name).transpose()?;
    let ask = |name: &NameBuf| {
        let asked = ask_bytes(load.netns.as_deref(), load.server, name.as_name().as_bytes());
        asked.ok().filter(|reply| reply.len() > 12 && reply[3] & 0x0f == 0)
    };
    sleep(BEFORE);
    let before = watch.as_ref().map(|name| ask(name).ok_or("--watch: no answer for this name"));
    let before = before.transpose()?;
    let begun = Instant::now();
    let mut parts = words.split_whitespace();
    let program = parts.next().ok_or("--event-command is empty")?;
    let mut command = Command::new(program);
    command.args(parts).stdin(Stdio::null()).stdout(Stdio::null());
    let mut child = command.spawn().map_err(|error| format!("{program}: {error}"))?;
    let (mut took, mut changed) = (None, None);
    while !over.load(Ordering::Relaxed) && (took.is_none() || changed.is_none()) {
        if took.is_none() && child.try_wait().map_err(|error| error.to_string())?.is_some() {
            took = Some(begun.elapsed());
        }
        let now = watch.as_ref().and_then(&ask);
        if changed.is_none() && now.is_some() && now != before {
            changed = Some(begun.elapsed());
        }
        if watch.is_none() && took.is_some() {
            break;
        }
        sleep(WATCH);
    }
    let status = child.wait().map_err(|error| error.to_string())?;
    match status.success() {
        true => Ok((took.unwrap_or_else(|| begun.elapsed()), changed)),
        false => Err(format!("--event-command `{words}`: {status}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_and_gaps_are_measured_in_time() {
        let interval = |number: u32| {
            let (answered, failed) = match number {
                10..=14 => (0, 5),
                20 => (3, 2),
                _ => (5, 0),
            };
            Seen { until_s: f64::from(number) * 0.1, answered, failed }
        };
        let seen: Vec<Seen> = (1..=50).map(interval).collect();
        let (errors_s, gap_s) = judge(&seen, 5.0);
        assert!((errors_s - 0.6).abs() < 1e-9 && (gap_s - 0.5).abs() < 1e-9, "{errors_s} {gap_s}");
        let (_, gap_s) = judge(&seen[..9], 5.0);
        assert!((gap_s - 4.1).abs() < 1e-9, "no answer until the end: {gap_s}");
    }
}
