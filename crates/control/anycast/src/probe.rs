//! Queries of the server to itself through each announced address, as clients send them, over UDP
//! and TCP. The server knows them by a token, and answers with it.
use crate::limits::{MISSING_MAX, PROBE_INTERVAL, PROBE_TIME_MAX};
use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

const HEADER_LEN: usize = 12;

/// The probed addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeTarget {
    /// An announced address, and the port of the server.
    pub at: SocketAddr,
    /// The query after its number: `id.server. CH TXT` (RFC 4892) with a token.
    pub query: Vec<u8>,
    /// The text of the answer.
    pub text: Vec<u8>,
}

/// A thread that probes. It counts a wrong answer at once; a missing one only after some in a row
/// during which no socket of the machine has dropped anything, because overload is no reason to
/// leave others alone with the load.
pub struct Prober {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    failure: Mutex<Option<String>>,
    is_ended: AtomicBool,
}

impl Shared {
    fn failure(&self) -> MutexGuard<'_, Option<String>> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Prober {
    /// Starts to probe.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(targets: Vec<ProbeTarget>) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        *shared.failure() = Some("the announced addresses are not probed yet".into());
        let of_thread = Arc::clone(&shared);
        let run = move || probe_until_end(&targets, &of_thread);
        let thread = thread::Builder::new().name("anycast-probe".into()).spawn(run)?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// The fault of an address; `None`: all answer.
    pub fn failure(&self) -> Option<String> {
        self.shared.failure().clone()
    }
}

impl Drop for Prober {
    fn drop(&mut self) {
        self.shared.is_ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A panic of the thread is in the log.
            let _ = thread.join();
        }
    }
}

fn probe_until_end(targets: &[ProbeTarget], shared: &Shared) {
    let mut rows: Vec<[MissingRow; 2]> = vec![Default::default(); targets.len()];
    while !shared.is_ended.load(Ordering::Relaxed) {
        let begun = Instant::now();
        let mut failure = None;
        for (target, [udp, tcp]) in targets.iter().zip(&mut rows) {
            let of_udp = udp.count_result(probe_udp(target), "UDP", target, socket_drops);
            let of_tcp = tcp.count_result(probe_tcp(target), "TCP", target, socket_drops);
            failure = failure.or(of_udp).or(of_tcp);
        }
        *shared.failure() = failure;
        thread::park_timeout(PROBE_INTERVAL.saturating_sub(begun.elapsed()));
    }
}

/// The result of one probe.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Probed {
    Right,
    /// Not what the server answers: what it was.
    Wrong(String),
    /// No answer, and why.
    Missing(String),
}

/// Missing answers in a row.
#[derive(Clone, Debug, Default)]
struct MissingRow {
    count: u32,
    /// What the sockets had dropped when it began.
    drops: u64,
}

impl MissingRow {
    /// Counts a result; returns what is wrong.
    fn count_result(
        &mut self,
        probed: Probed,
        transport: &str,
        target: &ProbeTarget,
        drops: impl Fn() -> u64,
    ) -> Option<String> {
        let at = target.at;
        let (what, why) = match probed {
            Probed::Right => {
                self.count = 0;
                return None;
            }
            Probed::Wrong(why) => ("answers", why),
            Probed::Missing(why) => {
                let dropped = drops();
                if self.count == 0 || dropped > self.drops {
                    (self.count, self.drops) = (0, dropped);
                }
                self.count += 1;
                if self.count < MISSING_MAX {
                    return None;
                }
                ("does not answer", why)
            }
        };
        Some(format!("{at} {what} `id.server. CH TXT` over {transport}: {why}"))
    }
}

/// The query with this number.
fn query(target: &ProbeTarget) -> Vec<u8> {
    [&number(target.at).to_be_bytes()[..], &target.query].concat()
}

/// Judges a message; `None`: it is no response to this query.
fn judge(response: &[u8], query: &[u8], text: &[u8]) -> Option<Probed> {
    let is_response = response.len() >= HEADER_LEN && response[2] & 0x80 != 0;
    if !is_response || response[..2] != query[..2] {
        return None;
    }
    let rcode = response[3] & 0xf;
    if rcode != 0 {
        return Some(Probed::Wrong(format!("response code {rcode}")));
    }
    // The data of the record, with its length; OPT follows.
    let len = text.len() as u8;
    let data = [&[0, len + 1, len], text].concat();
    match response[HEADER_LEN..].windows(data.len()).any(|part| part == data) {
        true => Some(Probed::Right),
        false => Some(Probed::Wrong("not what this server answers: another one has it".into())),
    }
}

fn missing(why: &io::Error) -> Probed {
    Probed::Missing(match why.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => {
            format!("nothing within {} ms", PROBE_TIME_MAX.as_millis())
        }
        _ => why.to_string(),
    })
}

/// The number of a query: unpredictable is not needed, the sender is this machine.
fn number(at: SocketAddr) -> u16 {
    at.port().rotate_left(3) ^ std::process::id() as u16
}

fn probe_udp(target: &ProbeTarget) -> Probed {
    let query = query(target);
    let ask = || {
        // From the address itself, which no other machine has.
        let socket = UdpSocket::bind((target.at.ip(), 0))?;
        socket.connect(target.at)?;
        socket.send(&query)?;
        let deadline = Instant::now() + PROBE_TIME_MAX;
        let mut buffer = [0; 512];
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(ErrorKind::TimedOut.into());
            }
            socket.set_read_timeout(Some(left))?;
            let len = socket.recv(&mut buffer)?;
            if let Some(probed) = judge(&buffer[..len], &query, &target.text) {
                return Ok(probed);
            }
        }
    };
    ask().unwrap_or_else(|why| missing(&why))
}

fn probe_tcp(target: &ProbeTarget) -> Probed {
    let query = query(target);
    let ask = || {
        let mut stream = TcpStream::connect_timeout(&target.at, PROBE_TIME_MAX)?;
        stream.set_read_timeout(Some(PROBE_TIME_MAX))?;
        stream.set_write_timeout(Some(PROBE_TIME_MAX))?;
        stream.write_all(&[&(query.len() as u16).to_be_bytes()[..], &query].concat())?;
        let mut len = [0; 2];
        stream.read_exact(&mut len)?;
        let mut response = vec![0; usize::from(u16::from_be_bytes(len))];
        stream.read_exact(&mut response)?;
        let wrong = || Probed::Wrong("a message that is no response to it".into());
        io::Result::Ok(judge(&response, &query, &target.text).unwrap_or_else(wrong))
    };
    ask().unwrap_or_else(|why| missing(&why))
}

/// What the sockets of this network namespace have dropped because they were full.
fn socket_drops() -> u64 {
    let read = |file| fs::read_to_string(file).unwrap_or_default();
    drops_of(&read("/proc/net/snmp"), &read("/proc/net/snmp6"), &read("/proc/net/netstat"))
}

fn drops_of(v4: &str, v6: &str, extended: &str) -> u64 {
    let of_v6 = v6.lines().find_map(|line| line.strip_prefix("Udp6RcvbufErrors"));
    let of_v6: u64 = of_v6.and_then(|value| value.trim().parse().ok()).unwrap_or_default();
    let overflows =
        ["ListenOverflows", "ListenDrops"].map(|name| counter(extended, "TcpExt:", name));
    counter(v4, "Udp:", "RcvbufErrors") + of_v6 + overflows.iter().sum::<u64>()
}

/// A counter of two lines: one of names, one of values.
fn counter(text: &str, group: &str, name: &str) -> u64 {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(group));
    let (Some(names), Some(values)) = (lines.next(), lines.next()) else { return 0 };
    let mut pairs = names.split_whitespace().zip(values.split_whitespace());
    pairs.find(|(key, _)| *key == name).and_then(|(_, value)| value.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests;
