//! A client that asks at a steady pace, each query once, and keeps what came of each.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::time::{Duration, Instant};

use domain::base::Message;
use domain::base::iana::Rtype;
use domain::base::opt::ExtendedError;
use test_support::wait;

use crate::Result;
use crate::client::ask_udp;
use crate::faulty_link::wait_for_input;
use crate::limits::{Patience, STEADY_TIMEOUT};
use crate::names::name;
use crate::queries::{Edns, Query, RD};
use crate::reply::Reply;
use crate::server::Server;

/// What came of a query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// When its answer came, from when it was sent; nothing: never.
    pub took: Option<Duration>,
    /// The code of the answer.
    pub rcode: u16,
    /// The code of its Extended DNS Error (RFC 8914).
    pub error: Option<u16>,
    /// Addresses in its answer.
    pub addresses: Vec<Ipv4Addr>,
}

/// What a query's answer tells about staleness (RFC 8914 §4.4).
const STALE_ANSWER: u16 = 3;

impl Outcome {
    /// Whether it is right: an address, and none but these.
    pub fn is_right(&self, addresses: &[Ipv4Addr]) -> bool {
        let known = |address| addresses.contains(address);
        self.rcode == 0 && !self.addresses.is_empty() && self.addresses.iter().all(known)
    }

    /// Whether it has addresses that are not these.
    pub fn is_wrong(&self, addresses: &[Ipv4Addr]) -> bool {
        self.took.is_some() && self.rcode == 0 && !self.is_right(addresses)
    }

    /// Whether it says that the server could not answer.
    pub fn is_failure(&self) -> bool {
        self.took.is_some() && self.rcode == 2
    }

    /// Whether it says that it is too old.
    pub fn is_stale(&self) -> bool {
        self.error == Some(STALE_ANSWER)
    }
}

/// Asks a server for the addresses of names, so many a second, from one port after the other.
///
/// # Errors
/// This host has no socket left.
pub fn ask(server: SocketAddrV4, names: &[String], rate: u32) -> io::Result<Vec<Outcome>> {
    let sockets: Vec<UdpSocket> = (0..8).map(|_| open(server)).collect::<io::Result<_>>()?;
    let mut outcomes = vec![Outcome::default(); names.len()];
    let mut sent: Vec<Instant> = Vec::with_capacity(names.len());
    let (begun, mut open) = (Instant::now(), 0);
    while sent.len() < names.len() {
        let due = begun + Duration::from_secs(1) * sent.len() as u32 / rate;
        receive(&sockets, &sent, &mut outcomes, &mut open);
        if Instant::now() < due {
            wait_for_input(&sockets, Some(due));
            continue;
        }
        let mut packet = query(&names[sent.len()]);
        packet[..2].copy_from_slice(&(sent.len() as u16).to_be_bytes());
        // Refused or without room: no answer comes, and that is what counts.
        let _ = sockets[sent.len() % sockets.len()].send(&packet);
        sent.push(Instant::now());
        open += 1;
    }
    let until = Instant::now() + STEADY_TIMEOUT;
    while open > 0 && Instant::now() < until {
        receive(&sockets, &sent, &mut outcomes, &mut open);
        wait_for_input(&sockets, Some(until));
    }
    Ok(outcomes)
}

/// Waits until a server has an address for a name.
///
/// # Errors
/// It has ended, or never does.
pub fn wait_for(server: &mut Server, name: &str) -> Result<()> {
    let patience = Patience { timeout: Duration::from_millis(100), tries: 1 };
    let has_address = |server: &mut Server| -> Result<bool> {
        server.check_alive()?;
        let replies = ask_udp(server.address, &[query(name)], patience)?;
        Ok(replies.iter().flatten().any(|reply| !read(reply).addresses.is_empty()))
    };
    let found =
        wait::try_until_ok(&format!("an address of {name}"), || match has_address(server) {
            Ok(false) => Err("none"),
            other => Ok(other.map(|_| ())),
        });
    found.map_err(|why| {
        let upstreams = server.status().map(|status| status["upstreams"].to_string());
        format!("{why}; {upstreams:?}\n{}", server.log_end())
    })?
}

fn open(server: SocketAddrV4) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    socket.connect(server)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// A query for the addresses of a name.
pub fn query(text: &str) -> Vec<u8> {
    let mut query = Query::new(name(text), Rtype::A);
    (query.flags, query.edns) = (RD, Some(Edns::new(1232)));
    query.to_wire()
}

/// A query of [`query`]'s form, with the address 192.0.2.1 in the place of its OPT record.
pub fn answer(query: &[u8], ttl: u32) -> Vec<u8> {
    let mut answer = query[..query.len() - OPT_LEN].to_vec();
    answer[2..4].copy_from_slice(&[0x84, 0x80]);
    (answer[7], answer[11]) = (1, 0);
    answer.extend([0xc0, 12, 0, 1, 0, 1]);
    answer.extend(ttl.to_be_bytes());
    answer.extend([0, 4, 192, 0, 2, 1]);
    answer
}

/// Bytes of an OPT record without options.
const OPT_LEN: usize = 11;

/// Takes what has come.
fn receive(sockets: &[UdpSocket], sent: &[Instant], outcomes: &mut [Outcome], open: &mut usize) {
    let mut buffer = [0; 4096];
    for (nth, socket) in sockets.iter().enumerate() {
        loop {
            let len = match socket.recv(&mut buffer) {
                Ok(len) => len,
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => continue,
                Err(_) => break,
            };
            let Some(id) = buffer[..len].first_chunk().map(|id| u16::from_be_bytes(*id)) else {
                continue;
            };
            // The last query of this socket with this id.
            let mut all = (usize::from(id)..sent.len()).step_by(1 << 16);
            let Some(number) = all.rfind(|at| at % sockets.len() == nth) else { continue };
            if outcomes[number].took.is_none() {
                outcomes[number] = read(&buffer[..len]);
                outcomes[number].took = Some(sent[number].elapsed());
                *open -= 1;
            }
        }
    }
}

fn read(bytes: &[u8]) -> Outcome {
    let reply = Reply::read(bytes);
    let addresses = reply.answer.iter().filter(|record| record.rtype == Rtype::A);
    let addresses = addresses
        .filter_map(|record| record.data.first_chunk::<4>().map(|bytes| Ipv4Addr::from(*bytes)));
    let (addresses, error) = (addresses.collect(), extended_error(bytes));
    Outcome { took: None, rcode: reply.rcode, error, addresses }
}

/// The first Extended DNS Error of a message.
fn extended_error(bytes: &[u8]) -> Option<u16> {
    let opt = Message::from_slice(bytes).ok()?.opt()?;
    let error = opt.opt().iter::<ExtendedError<_>>().flatten().next()?;
    Some(error.code().to_int())
}

/// What came of many queries.
#[derive(Clone, Debug, Default)]
pub struct Sum {
    /// Queries.
    pub all: usize,
    /// Never answered.
    pub silent: usize,
    /// With wrong addresses.
    pub wrong: usize,
    /// SERVFAIL, and of these with an Extended DNS Error.
    pub failed: usize,
    /// As before.
    pub explained: usize,
    /// Too old, and marked as stale.
    pub stale: usize,
    /// Answered later than after 100 ms.
    pub late: usize,
    /// When answers came: the median, the 99th percentile, the last.
    pub p50: Duration,
    /// As before.
    pub p99: Duration,
    /// As before.
    pub most: Duration,
}

/// What takes longer is late.
pub const LATE: Duration = Duration::from_millis(100);

impl Sum {
    /// Of outcomes, of which these addresses are the right ones.
    pub fn of(outcomes: &[Outcome], right: &[Ipv4Addr]) -> Self {
        let count = |is: &dyn Fn(&Outcome) -> bool| outcomes.iter().filter(|one| is(one)).count();
        let mut times: Vec<Duration> = outcomes.iter().filter_map(|one| one.took).collect();
        times.sort_unstable();
        let at = |percent: usize| {
            let nth = (times.len() * percent / 100).min(times.len().saturating_sub(1));
            times.get(nth).copied().unwrap_or_default()
        };
        Self {
            all: outcomes.len(),
            silent: count(&|one| one.took.is_none()),
            wrong: count(&|one| one.is_wrong(right)),
            failed: count(&Outcome::is_failure),
            explained: count(&|one| one.is_failure() && one.error.is_some()),
            stale: count(&Outcome::is_stale),
            late: count(&|one| one.took.is_none_or(|took| took > LATE)),
            p50: at(50),
            p99: at(99),
            most: at(100),
        }
    }

    /// So many of all, in per cent.
    pub fn percent(&self, count: usize) -> f64 {
        100.0 * count as f64 / self.all.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_judged_and_summed() {
        let right = [Ipv4Addr::new(192, 0, 2, 1)];
        let told = |ms: u64, rcode, last: u8| Outcome {
            took: Some(Duration::from_millis(ms)),
            rcode,
            addresses: if last > 0 { vec![Ipv4Addr::new(192, 0, 2, last)] } else { Vec::new() },
            error: None,
        };
        let failed = Outcome { error: Some(22), ..told(1, 2, 0) };
        let all = [told(1, 0, 1), told(200, 0, 66), told(3, 0, 0), failed, Outcome::default()];
        let sum = Sum::of(&all, &right);
        assert_eq!((sum.all, sum.silent, sum.wrong), (5, 1, 2));
        assert_eq!((sum.failed, sum.explained, sum.late), (1, 1, 2));
        assert_eq!(sum.most, Duration::from_millis(200));
        assert_eq!(sum.percent(1), 20.0);
    }
}
