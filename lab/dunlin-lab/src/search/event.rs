//! Something that happens under load: how long answers fail, and when the change is seen.
use super::at_rate;
use clap::ValueEnum;
use lab::servers::ask_bytes;
use lab_load::{Options, Snapshot};
use lab_report::event::{EventInterval, EventRecord, EventResult};
use std::net::Ipv4Addr;
use std::process::{Command, Stdio};
use std::str::FromStr;
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
/// Interval between two queries for the watched name.
const WATCH: Duration = Duration::from_millis(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Event {
    Reload,
    ZoneChange,
    UpstreamDeath,
    Restart,
}

impl Event {
    fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

/// What is watched: a name, and its right address; without one, any other answer is right.
#[derive(Clone, Debug)]
pub struct Watch {
    text: String,
    name: NameBuf,
    address: Option<Ipv4Addr>,
}

impl FromStr for Watch {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, address) = match text.split_once('=') {
            Some((name, address)) => (name, Some(address)),
            None => (text, None),
        };
        let told = |_| "expected NAME or NAME=ADDRESS, such as www.example=192.0.2.7".to_owned();
        let address = address.map(|address| address.parse().map_err(told)).transpose()?;
        let name = NameBuf::from_text(name.as_bytes(), Name::ROOT);
        let name = name.map_err(|why| format!("{text}: {why}"))?;
        Ok(Self { text: text.into(), name, address })
    }
}

impl Watch {
    /// The reply of the server, if it has no error.
    fn ask(&self, load: &Options) -> Option<Vec<u8>> {
        let name = self.name.as_name().as_bytes();
        let asked = ask_bytes(load.netns.as_deref(), load.server, name);
        asked.ok().filter(|reply| reply.len() > 12 && reply[3] & 0x0f == 0)
    }

    /// Whether a reply is right, beside that from before the event.
    fn is_right(&self, before: &[u8], now: &[u8]) -> bool {
        let Some(address) = self.address else { return before != now };
        has_address(now, address)
    }
}

/// Whether a reply has an A record of class IN with this address.
fn has_address(reply: &[u8], address: Ipv4Addr) -> bool {
    reply.windows(14).any(|record| {
        record[..4] == [0, 1, 0, 1] && record[8..10] == [0, 4] && record[10..] == address.octets()
    })
}

/// When the command began, how long it took, and the time to the first right answer.
struct CommandRun {
    at_s: f64,
    took: Duration,
    staleness: Option<Duration>,
}

/// Runs the command under load.
///
/// # Errors
/// The command or the load cannot be run, or the watched name has no answer before the event, or
/// the right one already.
pub fn run(
    event: Event,
    words: &str,
    watch: Option<&Watch>,
    load: &Options,
    rate: f64,
    stop: &AtomicBool,
) -> Result<EventRecord, String> {
    let length_ns = (BEFORE + AFTER).as_nanos() as u64;
    let interval_ns = INTERVAL.as_nanos() as u64;
    let options = Options { interval_ns, ..at_rate(load, rate, length_ns, 0) };
    let mut intervals = Vec::new();
    let over = &AtomicBool::new(false);
    let (report, command_run) = std::thread::scope(|scope| {
        let happen = scope.spawn(|| happen(words, watch, load, over));
        let report = lab_load::run(&options, stop, &mut |snapshot: &Snapshot| {
            let counts = &snapshot.counts;
            intervals.push(EventInterval {
                until_s: snapshot.until_ns as f64 / 1e9,
                answered: counts.answered,
                failed: counts.timeouts + counts.wrong,
            });
        });
        over.store(true, Ordering::Relaxed);
        (report, happen.join().unwrap_or_else(|_| Err("the event panicked".into())))
    });
    report?;
    let CommandRun { at_s, took, staleness } = command_run?;
    let seconds = (BEFORE + AFTER).as_secs_f64();
    Ok(EventRecord {
        name: event.name(),
        command: words.into(),
        rate,
        seconds,
        at_s,
        took_s: took.as_secs_f64(),
        watch: watch.map(|watch| watch.text.clone()),
        staleness_s: staleness.map(|time| time.as_secs_f64()),
        result: EventResult::of(&intervals, seconds),
        intervals,
    })
}

/// Runs the command, and asks for the watched name until its answer is right.
fn happen(
    words: &str,
    watch: Option<&Watch>,
    load: &Options,
    over: &AtomicBool,
) -> Result<CommandRun, String> {
    let start = Instant::now();
    sleep(BEFORE);
    let watch = watch.map(|watch| match watch.ask(load) {
        None => Err(format!("--watch {}: the name has no answer before the event", watch.text)),
        Some(reply) if watch.address.is_some() && watch.is_right(&[], &reply) => {
            Err(format!("--watch {}: the answer is right before the event", watch.text))
        }
        Some(reply) => Ok((watch, reply)),
    });
    let watch = watch.transpose()?;
    let (begun, at_s) = (Instant::now(), start.elapsed().as_secs_f64());
    let mut parts = words.split_whitespace();
    let program = parts.next().ok_or("--event-command is empty")?;
    let mut command = Command::new(program);
    command.args(parts).stdin(Stdio::null()).stdout(Stdio::null());
    let mut child = command.spawn().map_err(|error| format!("{program}: {error}"))?;
    let (mut took, mut staleness) = (None, None);
    while !over.load(Ordering::Relaxed) {
        if took.is_none() && child.try_wait().map_err(|error| error.to_string())?.is_some() {
            took = Some(begun.elapsed());
        }
        if let (Some((watch, before)), None) = (&watch, staleness) {
            let reply = watch.ask(load);
            let is_right = reply.is_some_and(|reply| watch.is_right(before, &reply));
            staleness = is_right.then(|| begun.elapsed());
        }
        if took.is_some() && (watch.is_none() || staleness.is_some()) {
            break;
        }
        sleep(WATCH);
    }
    let status = child.wait().map_err(|error| error.to_string())?;
    match status.success() {
        true => Ok(CommandRun { at_s, took: took.unwrap_or_else(|| begun.elapsed()), staleness }),
        false => Err(format!("--event-command `{words}`: {status}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_right_by_its_address_or_by_being_another() {
        let reply = |last: u8| {
            let mut reply = vec![0; 12];
            reply.extend([1, b'a', 0, 0, 1, 0, 1]);
            reply.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 30, 0, 4, 192, 0, 2, last]);
            reply
        };
        let watch: Watch = "a=192.0.2.7".parse().unwrap();
        assert!(watch.is_right(&reply(6), &reply(7)) && !watch.is_right(&reply(6), &reply(8)));
        let watch: Watch = "a".parse().unwrap();
        assert!(watch.is_right(&reply(6), &reply(8)) && !watch.is_right(&reply(6), &reply(6)));
        assert!("a=b".parse::<Watch>().unwrap_err().contains("NAME=ADDRESS"));
        assert_eq!(Event::UpstreamDeath.name(), "upstream-death");
    }
}
