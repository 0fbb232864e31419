//! Text output of the echo.
use command_line::{Side, align, count, format_bytes, percent, rate, short};
use lab_echo::{Counts, Echo, Reason, Snapshot, Thread};
use rustix::termios::tcgetwinsize;
use std::io::{self, Write};
use std::time::Duration;

/// Lines that are written over those written before.
#[derive(Default)]
pub struct Lines {
    written: usize,
}

impl Lines {
    /// Writes `lines` in the place of the last. Of more than a screen has rows, the first are
    /// shown, and the very last.
    pub fn write(&mut self, out: &mut impl Write, mut lines: Vec<String>) -> io::Result<()> {
        let rows =
            tcgetwinsize(io::stdout()).map_or(usize::MAX, |size| usize::from(size.ws_row).max(4));
        // One row is the cursor's.
        if lines.len() >= rows {
            let hidden = rows - 3..lines.len() - 1;
            let told = format!("… and {} more", hidden.len());
            lines.splice(hidden, [told]);
        }
        if self.written > 0 {
            // Up to the first of them, and from there everything away.
            write!(out, "\x1b[{}A\x1b[J", self.written)?;
        }
        for line in &lines {
            writeln!(out, "{line}")?;
        }
        self.written = lines.len();
        out.flush()
    }
}

/// The running echo, and settings that differ from the requested ones.
pub fn write_head(out: &mut impl Write, echo: &Echo) -> io::Result<()> {
    let options = echo.options();
    let (receive, send) = echo.queues();
    let sockets = if options.shared { "one socket for all" } else { "a socket each" };
    let cpus = options.cpus.as_ref().map_or("any CPU".into(), |cpus| format!("CPUs {cpus}"));
    writeln!(
        out,
        "echo on {} by {}: processes: {}, threads of each: {}, {sockets}, batches of {} at most, \
         {cpus}, queues of {} and {}",
        echo.address(),
        options.model.name(),
        options.processes,
        options.threads,
        options.batch(),
        format_bytes(receive as u64),
        format_bytes(send as u64),
    )?;
    if !options.spin.is_zero() {
        let spin = short(options.spin.as_secs_f64());
        writeln!(out, "made slow: spends {spin} on each query")?;
    }
    if !options.busy_poll.is_zero() {
        let time = short(options.busy_poll.as_secs_f64());
        writeln!(out, "sockets poll their device for {time} while they are waited for")?;
    }
    for (what, asked, got, sysctl) in [
        ("receive", options.receive_buffer, receive, "rmem_max"),
        ("send", options.send_buffer, send, "wmem_max"),
    ] {
        if got < asked {
            writeln!(
                out,
                "the {what} queues have {}, not {}: sysctl -w net.core.{sysctl}={}, or be root",
                format_bytes(got as u64),
                format_bytes(asked as u64),
                asked / 2,
            )?;
        }
    }
    out.flush()
}

/// The same threads, before they did anything.
pub fn nothing_of(snapshot: &Snapshot) -> Snapshot {
    let nothing = |thread: &Thread| Thread {
        counts: Counts::default(),
        cpu_time: thread.cpu_time.map(|_| Duration::ZERO),
        ..thread.clone()
    };
    let threads = snapshot.threads.iter().map(nothing).collect();
    Snapshot { elapsed: Duration::ZERO, threads }
}

/// Rates a second and shares of a period.
struct Rates {
    received: f64,
    answered: f64,
    dropped: f64,
    /// Datagrams a burst.
    burst: Option<f64>,
    /// CPUs used.
    cpus: Option<f64>,
}

impl Rates {
    fn of(seconds: f64, counts: &Counts, cpu_time: Option<Duration>) -> Self {
        let rate = |number: u64| if seconds > 0.0 { number as f64 / seconds } else { 0.0 };
        Self {
            received: rate(counts.received),
            answered: rate(counts.answered),
            dropped: rate(counts.dropped()),
            burst: (counts.bursts > 0).then(|| counts.received as f64 / counts.bursts as f64),
            cpus: cpu_time.filter(|_| seconds > 0.0).map(|time| time.as_secs_f64() / seconds),
        }
    }

    fn cells(&self) -> [String; 5] {
        let known =
            |value: Option<f64>, show: &dyn Fn(f64) -> String| value.map_or("-".into(), show);
        [
            rate(self.received),
            rate(self.answered),
            rate(self.dropped),
            known(self.burst, &|burst| format!("{burst:.1}")),
            known(self.cpus, &percent),
        ]
    }
}

fn cpu_time_since(before: Option<Duration>, now: Option<Duration>) -> Option<Duration> {
    before.zip(now).map(|(before, now)| now.saturating_sub(before))
}

fn rates(before: &Snapshot, now: &Snapshot) -> Rates {
    let seconds = now.elapsed.saturating_sub(before.elapsed).as_secs_f64();
    let cpu_time = cpu_time_since(before.cpu_time(), now.cpu_time());
    Rates::of(seconds, &now.total().since(&before.total()), cpu_time)
}

/// A row for each thread, and one for all.
pub fn table(before: &Snapshot, now: &Snapshot) -> Vec<String> {
    const HEAD: [&str; 8] =
        ["PROCESS", "THREAD", "CPU", "RECEIVED/s", "ANSWERED/s", "DROPPED/s", "A BURST", "ON CPU"];
    let seconds = now.elapsed.saturating_sub(before.elapsed).as_secs_f64();
    let mut rows = vec![HEAD.map(str::to_owned)];
    for (before, now) in before.threads.iter().zip(&now.threads) {
        let cpu_time = cpu_time_since(before.cpu_time, now.cpu_time);
        let rates = Rates::of(seconds, &now.counts.since(&before.counts), cpu_time);
        let place = [now.process.to_string(), now.number.to_string()];
        let cpu = now.cpu.map_or("any".into(), |cpu| cpu.to_string());
        rows.push(row(place, cpu, &rates));
    }
    if now.threads.len() > 1 {
        rows.push(row(["all".into(), String::new()], String::new(), &rates(before, now)));
    }
    align([Side::Right; 8], &rows)
}

fn row([process, thread]: [String; 2], cpu: String, rates: &Rates) -> [String; 8] {
    let [received, answered, dropped, burst, on_cpu] = rates.cells();
    [process, thread, cpu, received, answered, dropped, burst, on_cpu]
}

/// The columns of the lines, as wide as their widest.
const LOG_WIDTHS: [usize; 6] = [8, 12, 12, 10, 8, 7];

pub fn write_log_head(out: &mut impl Write) -> io::Result<()> {
    let head = ["SECONDS", "RECEIVED/s", "ANSWERED/s", "DROPPED/s", "A BURST", "ON CPU"];
    write_log_line(out, head.map(str::to_owned))
}

/// A line of what all threads did between two looks.
pub fn write_log(out: &mut impl Write, before: &Snapshot, now: &Snapshot) -> io::Result<()> {
    let [received, answered, dropped, burst, on_cpu] = rates(before, now).cells();
    let seconds = format!("{:.1}", now.elapsed.as_secs_f64());
    write_log_line(out, [seconds, received, answered, dropped, burst, on_cpu])
}

fn write_log_line(out: &mut impl Write, cells: [String; 6]) -> io::Result<()> {
    for (cell, width) in cells.iter().zip(LOG_WIDTHS) {
        write!(out, "{cell:>width$}")?;
    }
    writeln!(out)?;
    out.flush()
}

/// Totals.
pub fn write_sum(out: &mut impl Write, sum: &Snapshot) -> io::Result<()> {
    let (total, seconds) = (sum.total(), sum.elapsed.as_secs_f64());
    writeln!(
        out,
        "answered {} of {} received in {seconds:.1} s: {} a second",
        count(total.answered),
        count(total.received),
        rate(total.answered as f64 / seconds.max(f64::MIN_POSITIVE)),
    )?;
    let dropped: Vec<_> = Reason::ALL
        .into_iter()
        .map(|reason| (total.dropped[reason as usize], reason.name()))
        .filter(|(number, _)| *number > 0)
        .map(|(number, name)| format!("{} {name}", count(number)))
        .collect();
    if !dropped.is_empty() {
        writeln!(out, "dropped {}: {}", count(total.dropped()), dropped.join(", "))?;
    }
    let each = || sum.threads.iter().map(|thread| thread.counts.answered);
    if let (Some(least), Some(most), true) = (each().min(), each().max(), sum.threads.len() > 1) {
        let share = |number: u64| percent(number as f64 / total.answered.max(1) as f64);
        writeln!(out, "of which each thread answered {} to {}", share(least), share(most))?;
    }
    if let Some(time) = sum.cpu_time() {
        let each = time.as_secs_f64() / total.answered.max(1) as f64;
        let each =
            if total.answered > 0 { format!(", {} an answer", short(each)) } else { String::new() };
        writeln!(out, "CPU time of its threads: {:.2} s{each}", time.as_secs_f64())?;
    }
    out.flush()
}
