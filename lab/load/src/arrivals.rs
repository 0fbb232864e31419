//! *When*: the times at which queries are due, decided before anything is sent.
//!
//! A rate is a function of time. Its integral says how many queries are due by then; a query is
//! due when that reaches the next whole number (even spacing), or the next event of a Poisson
//! process of one event a unit. So every shape has both spacings, and a thread's share of a load
//! is every n-th query of it, or a process of an n-th of its rate.

use crate::capture;
use crate::limits::{BURST_MAX, PERIOD_MIN_NS, RATE_MAX, STEPS_MAX, TIMES_MAX};
use crate::random::Random;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

const SECOND: f64 = 1e9;

/// The rate of a load over time, in queries per second.
#[derive(Clone, Debug, PartialEq)]
pub enum Rate {
    /// Constant: `50k`.
    Constant(f64),
    /// From one rate to another, evenly over the whole time: `ramp:1k-50k`.
    Ramp(f64, f64),
    /// One after the other, the time divided evenly among them: `steps:10k,20k,40k`.
    Steps(Vec<f64>),
    /// In turns, each for half a period in nanoseconds: `square:1k,50k,2s`.
    Square(f64, f64, u64),
    /// Offsets in nanoseconds, in order: `times:FILE`, a list or a capture.
    Captured(Arc<[u64]>),
}

/// The spacing of queries at a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spacing {
    /// Even.
    Even,
    /// Like many independent clients: a Poisson process.
    Poisson,
}

/// The times of a load.
#[derive(Clone, Debug, PartialEq)]
pub struct Arrivals {
    /// The rate.
    pub rate: Rate,
    /// The spacing. Captured times ignore it.
    pub spacing: Spacing,
    /// This many are due at each time, 1 to [`BURST_MAX`]; the rate stays.
    pub burst: u32,
}

/// A load's part for one of its threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadShare {
    /// Which one, from 0.
    pub index: usize,
    /// Of how many.
    pub of: usize,
}

/// A period over which the rate changes linearly.
#[derive(Clone, Copy, Debug)]
struct RateSegment {
    length_ns: f64,
    from: f64,
    to: f64,
}

impl RateSegment {
    /// Queries that are due within it.
    fn queries(self) -> f64 {
        (self.from + self.to) / 2.0 * self.length_ns / SECOND
    }

    /// The time, in nanoseconds from its beginning, at which this many have been due.
    fn time_of(self, queries: f64) -> f64 {
        let slope = (self.to - self.from) / self.length_ns * SECOND; // a second, each second
        // The root of from·t + slope·t²/2 = queries in the form that cancels nothing out.
        let root = (self.from * self.from + 2.0 * slope * queries).max(0.0).sqrt();
        if queries == 0.0 { 0.0 } else { 2.0 * queries / (self.from + root) * SECOND }
    }
}

impl Rate {
    /// Its pieces over `length_ns`, as an iterator without end where it repeats.
    fn segments(&self, length_ns: u64) -> RateSegments {
        let length_ns = length_ns as f64;
        let flat = |length_ns: f64, rate: f64| RateSegment { length_ns, from: rate, to: rate };
        let (segments, repeats) = match self {
            Self::Constant(rate) => (vec![flat(length_ns, *rate)], false),
            Self::Ramp(from, to) => (vec![RateSegment { length_ns, from: *from, to: *to }], false),
            Self::Steps(rates) => {
                let each = length_ns / rates.len() as f64;
                (rates.iter().map(|rate| flat(each, *rate)).collect(), false)
            }
            Self::Square(low, high, period) => {
                let half = *period as f64 / 2.0;
                (vec![flat(half, *low), flat(half, *high)], true)
            }
            Self::Captured(_) => (Vec::new(), false),
        };
        RateSegments { segments, next: 0, repeats }
    }

    /// Queries due within `length_ns`, in the mean.
    pub fn queries(&self, length_ns: u64) -> f64 {
        match self {
            Self::Captured(times) => times.partition_point(|time| *time < length_ns) as f64,
            Self::Square(low, high, period) => {
                let (whole, rest) = (length_ns / period, (length_ns % period) as f64);
                let half = *period as f64 / 2.0;
                let behind = low * rest.min(half) + high * (rest - half).max(0.0);
                (whole as f64 * (low + high) * half + behind) / SECOND
            }
            _ => self.segments(length_ns).segments.iter().map(|segment| segment.queries()).sum(),
        }
    }
}

#[derive(Clone, Debug)]
struct RateSegments {
    segments: Vec<RateSegment>,
    next: usize,
    repeats: bool,
}

impl Iterator for RateSegments {
    type Item = RateSegment;

    fn next(&mut self) -> Option<RateSegment> {
        if self.repeats && self.next == self.segments.len() {
            self.next = 0;
        }
        let segment = *self.segments.get(self.next)?;
        self.next += 1;
        Some(segment)
    }
}

/// The times at which one thread's queries are due, in nanoseconds from the beginning, in order.
/// The same seed gives the same times.
#[derive(Clone, Debug)]
pub struct Plan {
    source: Source,
    length_ns: u64,
    burst: u32,
    /// The number of further queries that are due at `time`.
    again: u32,
    time: u64,
}

#[derive(Clone, Debug)]
enum Source {
    Rate(Cursor),
    Captured { times: Arc<[u64]>, next: usize, step: usize },
}

/// The position of a plan within its rate.
#[derive(Clone, Debug)]
struct Cursor {
    segments: RateSegments,
    segment: Option<RateSegment>,
    /// Where the piece begins: in time, and in queries.
    begins_ns: f64,
    before: f64,
    /// The integral at the next query.
    target: f64,
    /// The step to the next query; with Poisson spacing the mean of steps.
    step: f64,
    random: Option<Random>,
}

impl Cursor {
    /// Returns the time of the target, and advances to the next one.
    fn advance(&mut self) -> Option<u64> {
        loop {
            let segment = self.segment?;
            let (within, queries) = (self.target - self.before, segment.queries());
            if within < queries {
                let time = self.begins_ns + segment.time_of(within);
                self.target += match &mut self.random {
                    Some(random) => self.step * random.exponential(),
                    None => self.step,
                };
                return Some(time as u64);
            }
            self.begins_ns += segment.length_ns;
            self.before += queries;
            self.segment = self.segments.next();
        }
    }
}

impl Plan {
    /// A thread's share of `arrivals` over `length_ns`.
    pub fn new(arrivals: &Arrivals, length_ns: u64, share: ThreadShare, seed: u64) -> Self {
        let source = match &arrivals.rate {
            Rate::Captured(times) => {
                Source::Captured { times: times.clone(), next: share.index, step: share.of }
            }
            rate => {
                let mut segments = rate.segments(length_ns);
                let burst = f64::from(arrivals.burst);
                let step = share.of as f64 * burst;
                let mut random = match arrivals.spacing {
                    Spacing::Even => None,
                    Spacing::Poisson => Some(Random::new(seed, share.index as u64)),
                };
                let target = match &mut random {
                    Some(random) => step * random.exponential(),
                    None => share.index as f64 * burst,
                };
                let segment = segments.next();
                let (begins_ns, before) = (0.0, 0.0);
                Source::Rate(Cursor { segments, segment, begins_ns, before, target, step, random })
            }
        };
        Self { source, length_ns, burst: arrivals.burst, again: 0, time: 0 }
    }
}

impl Iterator for Plan {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        if self.again == 0 {
            self.time = match &mut self.source {
                Source::Rate(cursor) => cursor.advance()?,
                Source::Captured { times, next, step } => {
                    let time = *times.get(*next)?;
                    *next += *step;
                    time
                }
            };
            self.again = self.burst;
        }
        if self.time >= self.length_ns {
            return None;
        }
        self.again -= 1;
        Some(self.time)
    }
}

/// Reads a rate, `50k`, `1.5M`: queries a second.
///
/// # Errors
/// It is not a rate, or not above 0 and at most [`RATE_MAX`].
pub fn read_number(text: &str) -> Result<f64, String> {
    let (digits, unit) = match text.as_bytes().last() {
        Some(b'k' | b'K') => (&text[..text.len() - 1], 1e3),
        Some(b'M' | b'm') => (&text[..text.len() - 1], 1e6),
        _ => (text, 1.0),
    };
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let number = digits.parse::<f64>().ok().filter(|_| plain).map(|number| number * unit);
    number.filter(|number| *number > 0.0 && *number <= RATE_MAX).ok_or_else(|| {
        format!("`{text}` is not a rate above 0 and up to {RATE_MAX:.0}, such as 500, 50k or 1.5M")
    })
}

/// Reads a time with its unit: `250ms`, `2s`, `1m`.
pub fn read_time_ns(text: &str) -> Option<u64> {
    let at = text.find(|c: char| !c.is_ascii_digit())?;
    let unit: u64 = match &text[at..] {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    };
    text[..at].parse::<u64>().ok()?.checked_mul(unit)
}

impl FromStr for Rate {
    type Err = String;

    /// Parses the notation shown at the variants; `times:FILE` reads that file.
    fn from_str(text: &str) -> Result<Self, String> {
        let Some((shape, values)) = text.split_once(':') else {
            return read_number(text).map(Self::Constant);
        };
        let all = |text: &str| text.split(',').map(read_number).collect::<Result<Vec<_>, _>>();
        match shape {
            "ramp" => {
                let (from, to) = values.split_once('-').ok_or("a ramp is as in ramp:1k-50k")?;
                Ok(Self::Ramp(read_number(from)?, read_number(to)?))
            }
            "steps" => {
                let rates = all(values)?;
                match rates.len() {
                    ..=STEPS_MAX => Ok(Self::Steps(rates)),
                    many => Err(format!("{many} steps are more than {STEPS_MAX}")),
                }
            }
            "square" => {
                let form =
                    "a square wave is as in square:1k,50k,2s (low, high, period; 1ms or more)";
                let (rates, period) = values.rsplit_once(',').ok_or(form)?;
                let period = read_time_ns(period).filter(|ns| *ns >= PERIOD_MIN_NS).ok_or(form)?;
                match all(rates)?[..] {
                    [low, high] => Ok(Self::Square(low, high, period)),
                    _ => Err(form.into()),
                }
            }
            "times" => read_times(values),
            _ => Err(format!("`{shape}` is not a shape: ramp, steps, square or times")),
        }
    }
}

/// Offsets from a file: a number of seconds each line, in order; `#` begins a comment. Or those of
/// the queries of a capture. The first is the beginning.
fn read_times(path: &str) -> Result<Rate, String> {
    if capture::is_capture(path.as_ref())? {
        return captured(path);
    }
    let text = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    times(&text).map_err(|(line, why)| format!("{path}:{line}: {why}"))
}

fn captured(path: &str) -> Result<Rate, String> {
    let mut times = Vec::new();
    capture::read(path.as_ref(), &mut |time, _, _| {
        times.push(time);
        match times.len() {
            ..=TIMES_MAX => Ok(()),
            _ => Err(format!("the time is one too many: at most {TIMES_MAX} queries")),
        }
    })?;
    // Packets that several CPUs received may be out of order.
    times.sort_unstable();
    let first =
        *times.first().ok_or_else(|| format!("{path}: there is no query over UDP in it"))?;
    times.iter_mut().for_each(|time| *time -= first);
    Ok(Rate::Captured(times.into()))
}

fn times(text: &str) -> Result<Rate, (usize, String)> {
    let mut times = Vec::new();
    let mut first = None;
    for (index, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let wrong = |why: &str| (index + 1, format!("`{line}` {why}"));
        let time = nanoseconds(line).ok_or_else(|| wrong("is no time in seconds, as 1.250000"))?;
        let offset = time.checked_sub(*first.get_or_insert(time));
        let offset = offset.filter(|offset| times.last().is_none_or(|last| last <= offset));
        times.push(offset.ok_or_else(|| wrong("is before the time above it: sort the file"))?);
        if times.len() > TIMES_MAX {
            return Err(wrong(&format!("is one too many: at most {TIMES_MAX} times")));
        }
    }
    match times.len() {
        0 => Err((1, "the file has no time".into())),
        _ => Ok(Rate::Captured(times.into())),
    }
}

/// Seconds with up to nine digits behind the point, as whole nanoseconds: exactly, since times of
/// a capture count from 1970 and a float would round them.
fn nanoseconds(text: &str) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(part) || part.len() > 9 {
        return None;
    }
    let seconds = whole.parse::<u64>().ok()?.checked_mul(1_000_000_000)?;
    seconds.checked_add(format!("{part:0<9}").parse().ok()?)
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Constant(rate) => write!(f, "{rate}/s"),
            Self::Ramp(from, to) => write!(f, "from {from}/s to {to}/s"),
            Self::Steps(rates) => {
                let rates: Vec<_> = rates.iter().map(f64::to_string).collect();
                write!(f, "steps of {}/s", rates.join("/s, "))
            }
            Self::Square(low, high, period) => {
                write!(f, "{low}/s and {high}/s in turns, {} s each", *period as f64 / 2e9)
            }
            Self::Captured(times) => write!(f, "{} captured times", times.len()),
        }
    }
}

impl fmt::Display for Arrivals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.rate.fmt(f)?;
        if self.spacing == Spacing::Poisson {
            f.write_str(", Poisson")?;
        }
        match self.burst {
            1 => Ok(()),
            burst => write!(f, ", in bursts of {burst}"),
        }
    }
}

/// Whether a burst is within its limits.
pub fn is_burst(burst: u32) -> bool {
    (1..=BURST_MAX).contains(&burst)
}

#[cfg(test)]
mod tests;
