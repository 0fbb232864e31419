//! The regular client: a few queries a second over UDP and TCP, whose answers and their times are
//! what the server owes its clients, flood or no flood.

use std::fmt;
use std::io::{self, ErrorKind};
use std::net::{SocketAddrV4, UdpSocket};
use std::time::{Duration, Instant};

use crate::Result;
use crate::client::{connect_from, exchange};
use crate::flood::Clients;
use crate::limits::POLITE_TIMEOUT;
use crate::load::Asked;
use crate::random::Random;

/// Between two datagrams.
const UDP_INTERVAL: Duration = Duration::from_millis(5);
/// Between two queries over TCP.
const TCP_INTERVAL: Duration = Duration::from_millis(25);
/// Queries from one address, which is not seen again: some clients are always new.
const UDP_PER_CLIENT: usize = 50;
/// Queries over one connection.
const TCP_PER_CLIENT: usize = 20;

/// Whom to ask, from where, how long.
#[derive(Clone, Copy, Debug)]
pub struct RegularClient {
    /// The server.
    pub server: SocketAddrV4,
    /// Whose addresses are taken, one after the other.
    pub clients: Clients,
    /// The first of them.
    pub first: usize,
    /// How long.
    pub time: Duration,
}

/// How a client was served over one transport.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Service {
    /// Queries asked.
    pub sent: u64,
    /// Right answers in time.
    pub answered: u64,
    /// Microseconds until the answer, from before the connection was opened where one was: the
    /// median, the 99th percentile, the most.
    pub p50: u64,
    /// As before.
    pub p99: u64,
    /// As before.
    pub most: u64,
}

impl RegularClient {
    /// Asks; returns the service over UDP and over TCP.
    pub fn run(&self) -> Result<(Service, Service)> {
        std::thread::scope(|scope| {
            let streams = scope.spawn(|| self.ask_streams());
            let datagrams = self.ask_datagrams().map_err(|e| format!("regular, UDP: {e}"))?;
            let streams = streams.join().map_err(|_| "the regular client panicked")?;
            Ok((datagrams, streams))
        })
    }

    fn ask_datagrams(&self) -> io::Result<Service> {
        let end = Instant::now() + self.time;
        let (mut random, mut sent, mut times) = (Random::new(1), 0, Vec::new());
        let mut client = self.first;
        while Instant::now() < end {
            let socket = UdpSocket::bind((self.clients.at(client), 0))?;
            socket.connect(self.server)?;
            client += 1;
            let mut pending: Vec<(u16, Asked, Instant)> = Vec::new();
            let mut due = Instant::now();
            for _ in 0..UDP_PER_CLIENT {
                let (id, asked) = (random.bits() as u16, Asked::address(&mut random));
                // Refused or without room: no answer comes, and that is what counts.
                let begun = Instant::now();
                let _ = socket.send(&asked.packet(id));
                sent += 1;
                pending.push((id, asked, begun));
                due += UDP_INTERVAL;
                receive(&socket, &mut pending, due, false, &mut times)?;
            }
            let last = Instant::now() + POLITE_TIMEOUT;
            receive(&socket, &mut pending, last, true, &mut times)?;
        }
        Ok(Service::new(sent, times))
    }

    fn ask_streams(&self) -> Service {
        let end = Instant::now() + self.time;
        let (mut random, mut sent, mut times) = (Random::new(2), 0, Vec::new());
        let mut client = self.first + 10_000;
        while Instant::now() < end {
            let mut begun = Instant::now();
            let mut stream =
                connect_from(self.clients.at(client), self.server, POLITE_TIMEOUT).ok();
            client += 1;
            for _ in 0..TCP_PER_CLIENT {
                let (id, asked) = (random.bits() as u16, Asked::address(&mut random));
                sent += 1;
                let Some(open) = &mut stream else { break };
                match exchange(open, &asked.packet(id), POLITE_TIMEOUT) {
                    Ok(answer) if asked.is_right(id, &answer) => times.push(begun.elapsed()),
                    _ => stream = None,
                }
                std::thread::sleep(
                    (begun + TCP_INTERVAL).saturating_duration_since(Instant::now()),
                );
                begun = Instant::now();
            }
        }
        Service::new(sent, times)
    }
}

/// Takes answers in until `due`; or, with `early`, until none is under way.
fn receive(
    socket: &UdpSocket,
    pending: &mut Vec<(u16, Asked, Instant)>,
    due: Instant,
    early: bool,
    times: &mut Vec<Duration>,
) -> io::Result<()> {
    let mut buffer = [0; 2048];
    loop {
        let now = Instant::now();
        if now >= due || early && pending.is_empty() {
            return Ok(());
        }
        if pending.is_empty() {
            std::thread::sleep(due - now);
            continue;
        }
        socket.set_read_timeout(Some(due - now))?;
        match socket.recv(&mut buffer) {
            Ok(len) => {
                let answer = &buffer[..len];
                let id = answer.first_chunk().map(|id| u16::from_be_bytes(*id));
                let asked = pending.iter().position(|asked| Some(asked.0) == id);
                let Some((id, asked, begun)) = asked.map(|at| pending.swap_remove(at)) else {
                    continue;
                };
                let took = begun.elapsed();
                if asked.is_right(id, answer) && took <= POLITE_TIMEOUT {
                    times.push(took);
                }
            }
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::ConnectionRefused
                ) => {}
            Err(error) => return Err(error),
        }
    }
}

impl Service {
    fn new(sent: u64, mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        let at = |percent: usize| -> u64 {
            let index = (times.len() * percent / 100).min(times.len().saturating_sub(1));
            times.get(index).map_or(u64::MAX, |time| time.as_micros() as u64)
        };
        let answered = times.len() as u64;
        Self { sent, answered, p50: at(50), p99: at(99), most: at(100) }
    }

    /// Answers a query, 0 to 1.
    pub fn share(&self) -> f64 {
        self.answered as f64 / self.sent.max(1) as f64
    }

    /// What [`fmt::Display`] wrote.
    pub fn parse(line: &str) -> Option<Self> {
        let mut numbers = line.split_whitespace().map(|word| word.parse().ok());
        let mut next = || numbers.next().flatten();
        let (sent, answered, p50, p99, most) = (next()?, next()?, next()?, next()?, next()?);
        Some(Self { sent, answered, p50, p99, most })
    }
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {} {} {}", self.sent, self.answered, self.p50, self.p99, self.most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_the_times() {
        let times = (1..=100).rev().map(Duration::from_micros).collect();
        let service = Service::new(200, times);
        assert_eq!((service.p50, service.p99, service.most), (51, 100, 100));
        assert_eq!(service.share(), 0.5);
        assert_eq!(Service::parse(&service.to_string()), Some(service));
        assert_eq!(Service::new(5, Vec::new()).p99, u64::MAX);
    }
}
