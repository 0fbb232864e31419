//! Slices that change all the time: when a bare watcher has received each change, and when a server
//! answers it.
use super::{PORTS, Verdict, in_parts};
use cluster::{Cluster, objects};
use conformance::Result;
use conformance::names::name;
use conformance::queries::Query;
use conformance::server::Server;
use domain::base::iana::Rtype;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::{Value, json};
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::time::{Duration, Instant};

/// Services whose endpoint changes in turn.
const SERVICES: usize = 500;
/// Threads that write; each has slices of its own, so that the changes of one are in order.
const WRITERS: usize = 20;
/// The time between two queries for a change that is not answered yet.
const POLL: Duration = Duration::from_micros(300);
/// A change that is not answered for so long is lost.
const PATIENCE: Duration = Duration::from_secs(10);
/// From a watcher's receipt of an event to the first right answer, p99.
const RECEIPT_P99_MAX: Duration = Duration::from_millis(50);

/// How many changes a second, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    pub rate: u32,
    pub seconds: u32,
}

/// An event at the watcher: the number of the change, and when it was received.
type Received = (usize, Instant);

pub fn fill(cluster: &Cluster) {
    cluster.create(&objects::namespace("churn"));
    in_parts(SERVICES, |at| {
        let service = format!("churn-{at}");
        cluster.create(&objects::headless("churn", &service, &PORTS));
        let endpoint = [objects::endpoint("11.255.0.1")];
        cluster.create(&objects::slice("churn", &service, &service, &PORTS, &endpoint));
    });
}

/// The address of a change tells its number.
fn address(change: usize) -> String {
    let [_, a, b, c] = (change as u32).to_be_bytes();
    format!("11.{a}.{b}.{c}")
}

fn change_of([first, a, b, c]: [u8; 4]) -> Option<usize> {
    (first == 11).then(|| u32::from_be_bytes([0, a, b, c]) as usize)
}

pub fn measure(
    cluster: &Cluster,
    server: &Server,
    who: &str,
    load: Load,
    verdict: &mut Verdict,
) -> Result<()> {
    let changes = (load.rate * load.seconds) as usize;
    let list = cluster.get("/apis/discovery.k8s.io/v1/namespaces/churn/endpointslices?limit=1")?;
    let revision = list["metadata"]["resourceVersion"].as_str().ok_or("a list has no revision")?;
    let path = format!(
        "/apis/discovery.k8s.io/v1/namespaces/churn/endpointslices?watch=true&\
         resourceVersion={revision}&timeoutSeconds=3600"
    );
    let (sender, receiver) = channel();
    let (written, received, answered) = std::thread::scope(|scope| {
        let watcher = scope.spawn(|| watch(cluster, &path, changes, sender));
        let prober = scope.spawn(|| packet(server, changes, receiver));
        let written = write(cluster, changes, load.rate);
        // The watcher ends with the last change of all.
        let last = [objects::endpoint(&address(changes))];
        cluster.patch(&path_of(0), &json!({ "endpoints": last }));
        let received = watcher.join().map_err(|_| "the watcher panicked")??;
        let answered = prober.join().map_err(|_| "the prober panicked")??;
        Ok::<_, String>((written, received, answered))
    })?;
    let begun = written.iter().flatten().map(|(sent, _)| *sent).min();
    let ended = written.iter().flatten().map(|(_, replied)| *replied).max();
    let took = begun.zip(ended).map_or(0.0, |(from, to)| (to - from).as_secs_f64());
    println!(
        "{who}: {changes} slice changes in {took:.1} s, {:.0} a second",
        changes as f64 / took.max(0.001)
    );
    let since = |from: &dyn Fn(usize) -> Option<Instant>, to: &[Option<Instant>]| {
        let each =
            to.iter().enumerate().filter_map(|(at, to)| Some((*to)?.duration_since(from(at)?)));
        let mut times: Vec<Duration> = each.collect();
        times.sort_unstable();
        times
    };
    let sent = |at: usize| written.get(at)?.map(|(sent, _)| sent);
    let at_watcher = |at: usize| received.get(at).copied().flatten();
    show(who, "from a write to the watcher's receipt", &since(&sent, &received));
    let receipt = since(&at_watcher, &answered);
    show(who, "from the watcher's receipt to the first right answer", &receipt);
    show(who, "from a write to the first right answer", &since(&sent, &answered));
    let lost = changes - receipt.len();
    println!("{who}: {lost} changes not answered within {PATIENCE:?}");
    if who == "dunlin" {
        let p99 = percentile(&receipt, 99).unwrap_or(PATIENCE);
        verdict.judge(
            "p99 from receipt to answer, ms",
            p99.as_secs_f64() * 1e3,
            RECEIPT_P99_MAX.as_secs_f64() * 1e3,
        );
        verdict.judge("changes not answered", lost as f64, 0.0);
    }
    Ok(())
}

fn percentile(times: &[Duration], percent: usize) -> Option<Duration> {
    times.get(times.len() * percent / 100).copied()
}

/// Prints times that are in order.
pub fn show(who: &str, what: &str, times: &[Duration]) {
    let at = |percent| percentile(times, percent).unwrap_or_default();
    let most = times.last().copied().unwrap_or_default();
    println!(
        "{who}: {what}: median {:.1?}, p99 {:.1?}, most {most:.1?} of {}",
        at(50),
        at(99),
        times.len()
    );
}

fn path_of(service: usize) -> String {
    format!("/apis/discovery.k8s.io/v1/namespaces/churn/endpointslices/churn-{service}")
}

/// Writes all changes at a steady rate; when each was sent, and when the API server replied.
fn write(cluster: &Cluster, changes: usize, rate: u32) -> Vec<Option<(Instant, Instant)>> {
    let begun = Instant::now();
    let mut written = vec![None; changes];
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..WRITERS)
            .map(|part| {
                scope.spawn(move || {
                    let mut mine = Vec::new();
                    for change in (part..changes).step_by(WRITERS) {
                        let due = begun + Duration::from_secs(1) / rate * change as u32;
                        std::thread::sleep(due.saturating_duration_since(Instant::now()));
                        let endpoint = [objects::endpoint(&address(change))];
                        let sent = Instant::now();
                        let patch = json!({ "endpoints": endpoint });
                        cluster.patch(&path_of(change % SERVICES), &patch);
                        mine.push((change, (sent, Instant::now())));
                    }
                    mine
                })
            })
            .collect();
        for (change, times) in threads.into_iter().filter_map(|it| it.join().ok()).flatten() {
            written[change] = Some(times);
        }
    });
    written
}

/// Watches until the change after the last; when each was received.
fn watch(
    cluster: &Cluster,
    path: &str,
    changes: usize,
    events: Sender<Received>,
) -> Result<Vec<Option<Instant>>> {
    let mut received = vec![None; changes];
    cluster.watch(path, |line| {
        let now = Instant::now();
        let event: Value = serde_json::from_slice(line).unwrap_or_default();
        let address = event["object"]["endpoints"][0]["addresses"][0].as_str();
        let address = address.and_then(|text| text.parse::<Ipv4Addr>().ok());
        match address.and_then(|address| change_of(address.octets())) {
            Some(change) if change < changes => {
                received[change] = Some(now);
                events.send((change, now)).is_ok()
            }
            Some(change) => change != changes,
            None => true,
        }
    })?;
    Ok(received)
}

/// A change that is not answered yet.
struct Pending {
    change: usize,
    since: Instant,
    asked: Instant,
}

/// Queries the server from the receipt of each event on, until it answers the change or a later
/// one of the same service; when it did.
fn packet(
    server: &Server,
    changes: usize,
    events: Receiver<Received>,
) -> Result<Vec<Option<Instant>>> {
    let socket = UdpSocket::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
    socket.connect(server.address).map_err(|error| error.to_string())?;
    socket.set_nonblocking(true).map_err(|error| error.to_string())?;
    let queries: Vec<Vec<u8>> = (0..SERVICES)
        .map(|service| {
            let owner = name(&format!("churn-{service}.churn.svc.cluster.local"));
            let mut query = Query::new(owner, Rtype::A).to_wire();
            query[..2].copy_from_slice(&(service as u16).to_be_bytes());
            query
        })
        .collect();
    let mut answered = vec![None; changes];
    let mut pending: Vec<Vec<Pending>> = (0..SERVICES).map(|_| Vec::new()).collect();
    let (mut open, mut is_over) = (0, false);
    while !is_over || open > 0 {
        open += take_events(&events, open == 0, &mut is_over, &mut |change, since| {
            let asked = Instant::now();
            let _ = socket.send(&queries[change % SERVICES]);
            pending[change % SERVICES].push(Pending { change, since, asked });
        });
        let mut reply = [0; 512];
        while let Ok(len) = socket.recv(&mut reply) {
            let Some((service, change)) = read(&reply[..len]) else { continue };
            let now = Instant::now();
            pending[service].retain(|one| {
                let is_answered = change >= one.change;
                if is_answered {
                    answered[one.change] = Some(now);
                    open -= 1;
                }
                !is_answered
            });
        }
        let now = Instant::now();
        for (waiting, query) in pending.iter_mut().zip(&queries) {
            let Some(last) = waiting.last_mut() else { continue };
            if now - last.asked >= POLL {
                last.asked = now;
                let _ = socket.send(query);
            }
            let before = waiting.len();
            waiting.retain(|one| now - one.since < PATIENCE);
            open -= before - waiting.len();
        }
        if open > 0 {
            let timeout = Timespec { tv_sec: 0, tv_nsec: POLL.as_nanos() as i64 / 2 };
            let _ = poll(&mut [PollFd::new(&socket, PollFlags::IN)], Some(&timeout));
        }
    }
    Ok(answered)
}

/// Takes the events that have come; waits a moment for one if nothing else is to be done. Returns
/// how many there were.
fn take_events(
    events: &Receiver<Received>,
    may_wait: bool,
    is_over: &mut bool,
    take: &mut dyn FnMut(usize, Instant),
) -> usize {
    let mut count = 0;
    if may_wait {
        match events.recv_timeout(Duration::from_millis(5)) {
            Ok((change, since)) => {
                take(change, since);
                count += 1;
            }
            Err(RecvTimeoutError::Disconnected) => *is_over = true,
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
    loop {
        match events.try_recv() {
            Ok((change, since)) => {
                take(change, since);
                count += 1;
            }
            Err(why) => {
                *is_over |= why == TryRecvError::Disconnected;
                return count;
            }
        }
    }
}

/// The service of a reply, by its ID, and the change that its only address tells.
fn read(reply: &[u8]) -> Option<(usize, usize)> {
    let service = usize::from(u16::from_be_bytes([*reply.first()?, *reply.get(1)?]));
    if service >= SERVICES || reply.get(6..8)? != [0, 1] {
        return None;
    }
    Some((service, change_of(*reply.last_chunk()?)?))
}
