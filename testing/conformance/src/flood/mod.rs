//! Floods: what hostile clients do to a server, at a rate that is kept.

mod datagrams;
pub mod raw;
pub mod streams;

use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::Result;
use crate::random::Random;

/// What is done to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Queries for unique names, from a few clients.
    UniqueNames,
    /// Connections that are opened, and closed or reset a moment later without a word.
    Connects,
    /// Connections that ask for large answers and do not read them.
    SlowReaders,
    /// SYNs from addresses that never answer.
    HalfOpen,
    /// Queries from addresses that did not send them, drawn at random.
    SpoofedSources,
    /// Datagrams that are not messages, or nearly are.
    Malformed,
    /// Connections that ask for answers of 64 KiB and read them as fast as they come.
    LargeAnswers,
    /// Connections of many clients, each misbehaving in a way of its own.
    Hostile,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::UniqueNames,
        Self::Connects,
        Self::SlowReaders,
        Self::HalfOpen,
        Self::SpoofedSources,
        Self::Malformed,
        Self::LargeAnswers,
        Self::Hostile,
    ];

    /// Its name in commands and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::UniqueNames => "unique-names",
            Self::Connects => "connects",
            Self::SlowReaders => "slow-readers",
            Self::HalfOpen => "half-open",
            Self::SpoofedSources => "spoofed-sources",
            Self::Malformed => "malformed",
            Self::LargeAnswers => "large-answers",
            Self::Hostile => "hostile",
        }
    }

    /// The kind called `name`.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Whether it comes over connections: then its rate counts what is done on them, a tenth of
    /// the datagrams' rate.
    pub fn is_stream(self) -> bool {
        matches!(self, Self::Connects | Self::SlowReaders | Self::LargeAnswers | Self::Hostile)
    }
}

/// A network of clients whose addresses this machine may use, all of a /16.
#[derive(Clone, Copy, Debug)]
pub struct Clients(pub Ipv4Addr);

impl Clients {
    /// The `index`-th address, from 1 on, around after 65,000.
    pub fn at(self, index: usize) -> Ipv4Addr {
        let host = 256 + (index % 65_000) as u32;
        Ipv4Addr::from(u32::from(self.0) + host)
    }
}

/// Whom to flood, from where, how fast and for how long.
#[derive(Clone, Copy, Debug)]
pub struct Flood {
    /// What is done.
    pub kind: Kind,
    /// To whom.
    pub server: SocketAddrV4,
    /// From where, as far as the addresses are real.
    pub clients: Clients,
    /// Datagrams a second, or ten times the steps on connections.
    pub rate: u32,
    /// How long.
    pub time: Duration,
}

impl Flood {
    /// Floods; returns how many datagrams were sent, or steps done on connections.
    pub fn run(&self) -> Result<u64> {
        raise_descriptors()?;
        let rate = if self.kind.is_stream() { self.rate / 10 } else { self.rate };
        let mut pace = Pace::new(rate.max(1), self.time);
        let mut random = Random::new(self.kind as u64);
        let done = match self.kind {
            Kind::UniqueNames => datagrams::unique_names(self, &mut pace, &mut random),
            Kind::Malformed => datagrams::malformed(self, &mut pace, &mut random),
            Kind::SpoofedSources => raw::spoofed_queries(self, &mut pace, &mut random),
            Kind::HalfOpen => raw::half_open(self, &mut pace, &mut random),
            Kind::Connects => streams::connects(self, &mut pace),
            Kind::SlowReaders => streams::slow_readers(self, &mut pace),
            Kind::LargeAnswers => streams::large_answers(self, &mut pace),
            Kind::Hostile => streams::hostile(self, &mut pace, &mut random),
        };
        done.map_err(|error| format!("{}: {error}", self.kind.name()))
    }
}

/// As many descriptors as this process may have.
fn raise_descriptors() -> Result<()> {
    let maximum = getrlimit(Resource::Nofile).maximum;
    let all = Rlimit { current: maximum, maximum };
    setrlimit(Resource::Nofile, all).map_err(|e| e.to_string())
}

/// Keeps a rate. It catches up after a pause, but only so far that the pause does not become a
/// burst, which every client in the queue would wait for: at 50,000 datagrams a second, ten
/// milliseconds are five hundred datagrams, some milliseconds of work.
#[derive(Debug)]
pub struct Pace {
    due: Instant,
    end: Instant,
    rate: u32,
    steps: u64,
}

const LATE_MAX: Duration = Duration::from_micros(200);
/// Shorter waits are spent awake: a sleep takes longer.
const AWAKE_MAX: Duration = Duration::from_micros(200);

impl Pace {
    /// This many steps a second, for this long.
    pub fn new(rate: u32, time: Duration) -> Self {
        let now = Instant::now();
        Self { due: now, end: now + time, rate, steps: 0 }
    }

    /// Waits until the next step is due; false: the time is over.
    pub fn step(&mut self) -> bool {
        loop {
            let now = Instant::now();
            if now >= self.end {
                return false;
            }
            let wait = self.due.saturating_duration_since(now);
            if wait.is_zero() {
                let next = self.due + Duration::from_secs(1) / self.rate;
                self.due = next.max(now - LATE_MAX);
                self.steps += 1;
                return true;
            }
            if wait > AWAKE_MAX {
                std::thread::sleep(wait - AWAKE_MAX);
            } else {
                std::hint::spin_loop();
            }
        }
    }

    /// Steps a second.
    fn rate(&self) -> usize {
        self.rate as usize
    }

    /// Steps taken.
    pub fn steps(&self) -> u64 {
        self.steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pace_is_exact_and_ends() {
        let mut pace = Pace::new(1000, Duration::from_millis(200));
        while pace.step() {}
        assert!((1..=201).contains(&pace.steps()), "{}", pace.steps());
    }

    #[test]
    fn clients_stay_within_their_network() {
        let clients = Clients(Ipv4Addr::new(10, 98, 0, 0));
        assert_eq!(clients.at(0), Ipv4Addr::new(10, 98, 1, 0));
        assert!((0..100_000).all(|index| clients.at(index).octets()[..2] == [10, 98]));
    }

    #[test]
    fn kinds_have_names_of_their_own() {
        for kind in Kind::ALL {
            assert_eq!(Kind::named(kind.name()), Some(kind));
        }
    }
}
