//! Replicas that agree, all to all, with a MAC on each message: what the article ran on its switch.
use crate::frames::{append, encode, open, split_frame};
use crate::limits::{OUTSTANDING, PATIENCE, VIEW_TIMEOUT};
use crate::pages::new_histogram;
use crate::replica::{Output, Replica, Request};
use crate::stream::Stream;
use crate::{Result, Way, Work, failed};
use hdrhistogram::Histogram;
use ring::hmac;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::collections::HashMap;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::runtime::Builder;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::LocalSet;
use tokio::time::{timeout, timeout_at};

/// The longest message: a change of views with all that is prepared.
const FRAME_BYTES_MAX: usize = 1 << 16;

/// What replicas did.
#[derive(Clone, Debug)]
pub struct Agreement {
    /// Decisions.
    pub decided: Work,
    /// From request to decision, in nanoseconds.
    pub times: Histogram<u64>,
    /// Messages that arrived meanwhile.
    pub messages: u64,
    /// From the silence of the primary to the next decision, without the timeout.
    pub view_change: Duration,
}

/// What a replica receives.
enum Event {
    Frames(Vec<u8>),
    Request(Request),
    /// It answers no more.
    Silence,
    Stop,
}

/// A decision: the replica, its view, and the request.
type Reply = (usize, u64, Request);

/// The way to another replica: none to itself.
enum Link {
    None,
    Channel(UnboundedSender<Event>),
    Stream(Stream),
}

/// Descriptors of both ends of each connection, and some.
fn allow_files(replicas: usize) -> Result<()> {
    let needed = (replicas * replicas + 256) as u64;
    let limit = getrlimit(Resource::Nofile);
    let current = limit.current.map_or(needed, |current| current.max(needed));
    let new = Rlimit { current: Some(current), maximum: limit.maximum };
    setrlimit(Resource::Nofile, new)
        .map_err(|error| format!("{needed} open files are needed (ulimit -n): {error}"))
}

fn stream_pair(way: Way, listener: &TcpListener) -> Result<[Stream; 2]> {
    if way == Way::Unix {
        let (one, other) = UnixStream::pair().map_err(failed("Unix sockets"))?;
        return Ok([Stream::Unix(one), Stream::Unix(other)]);
    }
    let told = failed("a TCP connection");
    let one = listener.local_addr().and_then(TcpStream::connect).map_err(&told)?;
    let (other, _) = listener.accept().map_err(&told)?;
    one.set_nodelay(true).and_then(|()| other.set_nodelay(true)).map_err(&told)?;
    Ok([Stream::Tcp(one), Stream::Tcp(other)])
}

/// A row of links for each replica: channels by [`Way::Threads`], else a connection for each two.
fn links(way: Way, inboxes: &[UnboundedSender<Event>]) -> Result<Vec<Vec<Link>>> {
    let replicas = inboxes.len();
    let row = |own: usize| {
        let link = |to: usize| match way {
            Way::Threads if to != own => Link::Channel(inboxes[to].clone()),
            _ => Link::None,
        };
        (0..replicas).map(link).collect::<Vec<_>>()
    };
    let mut rows: Vec<Vec<Link>> = (0..replicas).map(row).collect();
    if way == Way::Threads {
        return Ok(rows);
    }
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed("a TCP socket"))?;
    let each = (0..replicas).flat_map(|one| (one + 1..replicas).map(move |other| (one, other)));
    for (one, other) in each {
        let [near, far] = stream_pair(way, &listener)?;
        rows[one][other] = Link::Stream(near);
        rows[other][one] = Link::Stream(far);
    }
    Ok(rows)
}

/// Has replicas agree for a time, alternately on both CPUs, and then one without the primary.
///
/// # Errors
/// The kernel refuses, or nothing is decided.
pub fn agree(way: Way, replicas: usize, cpus: [usize; 2], length: Duration) -> Result<Agreement> {
    allow_files(replicas)?;
    let (inboxes, receivers): (Vec<_>, Vec<_>) = (0..replicas).map(|_| unbounded_channel()).unzip();
    let (replies, from_replicas) = unbounded_channel();
    let messages = Arc::new(AtomicU64::new(0));
    let mut halves = [Vec::new(), Vec::new()];
    for ((own, inbox), links) in receivers.into_iter().enumerate().zip(links(way, &inboxes)?) {
        let (replies, messages) = (replies.clone(), messages.clone());
        let node = Node { own, inbox, to_self: inboxes[own].clone(), links, replies, messages };
        halves[own % 2].push(node);
    }
    drop(replies);
    thread::scope(|scope| {
        let threads: Vec<_> = halves
            .into_iter()
            .zip(cpus)
            .map(|(nodes, cpu)| scope.spawn(move || run_nodes(nodes, cpu)))
            .collect();
        let mut client = Client::new(inboxes, from_replicas, messages);
        let done = pinned(cpus[0], client.run(length));
        client.inboxes.iter().for_each(|inbox| drop(inbox.send(Event::Stop)));
        for thread in threads {
            thread.join().map_err(|_| "a replica panicked".to_owned())??;
        }
        done
    })
}

/// Runs tasks on a CPU.
fn pinned<T>(cpu: usize, work: impl Future<Output = Result<T>>) -> Result<T> {
    let before = cpu::allowed().map_err(failed("CPUs"))?;
    cpu::pin(cpu).map_err(failed("cannot pin a replica"))?;
    let runtime = Builder::new_current_thread().enable_all().build().map_err(failed("tasks"))?;
    let done = LocalSet::new().block_on(&runtime, work);
    let mut set = rustix::thread::CpuSet::new();
    before.iter().for_each(|cpu| set.set(cpu));
    // The next one is pinned anyway.
    let _ = rustix::thread::sched_setaffinity(None, &set);
    done
}

fn run_nodes(nodes: Vec<Node>, cpu: usize) -> Result<()> {
    pinned(cpu, async {
        let tasks: Vec<_> =
            nodes.into_iter().map(|node| tokio::task::spawn_local(node.run())).collect();
        for task in tasks {
            task.await.map_err(|error| error.to_string())??;
        }
        Ok(())
    })
}

/// A replica with its connections.
struct Node {
    own: usize,
    inbox: UnboundedReceiver<Event>,
    to_self: UnboundedSender<Event>,
    links: Vec<Link>,
    replies: UnboundedSender<Reply>,
    messages: Arc<AtomicU64>,
}

type TaskStream = Box<dyn crate::stream::TaskStream>;

/// Where a node's frames go.
enum Sender {
    None,
    Channel(UnboundedSender<Event>),
    Stream(WriteHalf<TaskStream>),
}

impl Node {
    async fn run(mut self) -> Result<()> {
        let replicas = self.links.len();
        let key = |other: usize| {
            let (low, high) = (self.own.min(other) as u32, self.own.max(other) as u32);
            let secret = [low.to_le_bytes(), high.to_le_bytes()].concat();
            hmac::Key::new(hmac::HMAC_SHA256, &secret)
        };
        let keys: Vec<hmac::Key> = (0..replicas).map(key).collect();
        let mut senders = Vec::new();
        for link in std::mem::take(&mut self.links) {
            senders.push(match link {
                Link::None => Sender::None,
                Link::Channel(channel) => Sender::Channel(channel),
                Link::Stream(stream) => {
                    let stream = stream.for_task().map_err(failed("a connection"))?;
                    let (reader, writer) = tokio::io::split(stream);
                    tokio::task::spawn_local(read_frames(reader, self.to_self.clone()));
                    Sender::Stream(writer)
                }
            });
        }
        let mut frames: Vec<Vec<u8>> = vec![Vec::new(); replicas];
        let mut replica = Replica::new(self.own, replicas);
        let (mut deadline, mut is_silent, mut timeouts) = (None::<Instant>, false, 0);
        loop {
            let (mut out, wanted) = (Vec::new(), replica.wanted());
            match self.next(deadline).await {
                Some(Event::Stop) => return Ok(()),
                Some(Event::Silence) => is_silent = true,
                Some(_) if is_silent => {}
                Some(event) => {
                    self.take(event, &keys, &mut replica, &mut out)?;
                    // What has come meanwhile is answered together.
                    for _ in 0..64 {
                        match self.inbox.try_recv() {
                            Ok(Event::Stop) => return Ok(()),
                            Ok(Event::Silence) => is_silent = true,
                            Ok(_) if is_silent => {}
                            Ok(event) => self.take(event, &keys, &mut replica, &mut out)?,
                            Err(_) => break,
                        }
                    }
                }
                None => {
                    timeouts += 1;
                    deadline = None;
                    replica.time_out(&mut out);
                }
            }
            if is_silent {
                out.clear();
            }
            let has_decided = self.publish(&replica, out, &keys, &mut frames);
            flush(&mut senders, &mut frames).await;
            let is_patient = !replica.is_waiting() || replica.primary() == self.own || is_silent;
            if has_decided {
                timeouts = 0;
            }
            if is_patient {
                deadline = None;
            } else if has_decided || deadline.is_none() || replica.wanted() != wanted {
                deadline = Some(Instant::now() + VIEW_TIMEOUT * 2_u32.pow(timeouts.min(4)));
            }
        }
    }

    /// The next event; none at the deadline.
    async fn next(&mut self, deadline: Option<Instant>) -> Option<Event> {
        let next = self.inbox.recv();
        match deadline {
            None => Some(next.await.unwrap_or(Event::Stop)),
            Some(end) => timeout_at(end.into(), next).await.ok().map(|e| e.unwrap_or(Event::Stop)),
        }
    }

    fn take(
        &self,
        event: Event,
        keys: &[hmac::Key],
        replica: &mut Replica,
        out: &mut Vec<Output>,
    ) -> Result<()> {
        let frames = match event {
            Event::Frames(frames) => frames,
            Event::Request(request) => {
                replica.request(request, out);
                return Ok(());
            }
            Event::Silence | Event::Stop => return Ok(()),
        };
        let mut left = &frames[..];
        while let Some((frame, rest)) = split_frame(left) {
            left = rest;
            let (from, message) = open(frame, keys).ok_or("a message is not its sender's")?;
            self.messages.fetch_add(1, Ordering::Relaxed);
            replica.receive(from, message, out);
        }
        Ok(())
    }

    /// Encodes what is sent, and tells the client what is decided: whether anything is.
    fn publish(
        &self,
        replica: &Replica,
        out: Vec<Output>,
        keys: &[hmac::Key],
        frames: &mut [Vec<u8>],
    ) -> bool {
        let mut has_decided = false;
        for one in out {
            match one {
                Output::Execute(request) => {
                    has_decided = true;
                    // A client that has ended hears nothing.
                    let _ = self.replies.send((self.own, replica.view(), request));
                }
                Output::Broadcast(message) => {
                    let body = encode(self.own, &message);
                    for (to, frames) in frames.iter_mut().enumerate().filter(|to| to.0 != self.own)
                    {
                        append(frames, &body, &keys[to]);
                    }
                }
            }
        }
        has_decided
    }
}

/// Sends what waits. Others may have ended.
async fn flush(senders: &mut [Sender], frames: &mut [Vec<u8>]) {
    for (sender, frames) in senders.iter_mut().zip(frames).filter(|(_, f)| !f.is_empty()) {
        match sender {
            Sender::None => frames.clear(),
            Sender::Channel(channel) => drop(channel.send(Event::Frames(std::mem::take(frames)))),
            Sender::Stream(stream) => {
                let _ = stream.write_all(frames).await;
                frames.clear();
            }
        }
    }
}

/// Hands whole frames over until the connection ends.
async fn read_frames(mut stream: ReadHalf<TaskStream>, inbox: UnboundedSender<Event>) {
    let mut bytes = Vec::with_capacity(FRAME_BYTES_MAX);
    while matches!(stream.read_buf(&mut bytes).await, Ok(1..)) {
        let mut left = &bytes[..];
        while let Some((_, rest)) = split_frame(left) {
            left = rest;
        }
        let len = bytes.len() - left.len();
        let rest = bytes.split_off(len);
        let whole = std::mem::replace(&mut bytes, rest);
        bytes.reserve(FRAME_BYTES_MAX);
        if !whole.is_empty() && inbox.send(Event::Frames(whole)).is_err() {
            return;
        }
    }
}

/// The one client, which has some requests outstanding.
struct Client {
    inboxes: Vec<UnboundedSender<Event>>,
    replies: UnboundedReceiver<Reply>,
    messages: Arc<AtomicU64>,
    /// When each was sent, and how many replicas have decided it.
    outstanding: HashMap<Request, (Instant, usize)>,
    next: Request,
}

impl Client {
    fn new(
        inboxes: Vec<UnboundedSender<Event>>,
        replies: UnboundedReceiver<Reply>,
        messages: Arc<AtomicU64>,
    ) -> Self {
        Self { inboxes, replies, messages, outstanding: HashMap::new(), next: 1 }
    }

    fn request(&mut self, to: std::ops::Range<usize>) {
        self.outstanding.insert(self.next, (Instant::now(), 0));
        for inbox in &self.inboxes[to] {
            let _ = inbox.send(Event::Request(self.next));
        }
        self.next += 1;
    }

    /// Waits for a decision that one right replica at least has told: how long it took.
    async fn decision(&mut self) -> Result<Duration> {
        let needed = (self.inboxes.len() - 1) / 3 + 1;
        loop {
            let reply = timeout(PATIENCE, self.replies.recv()).await;
            let reply = reply.map_err(|_| format!("nothing was decided for {PATIENCE:?}"))?;
            let (_, _, request) = reply.ok_or("all replicas have ended")?;
            let Some((begin, votes)) = self.outstanding.get_mut(&request) else { continue };
            *votes += 1;
            if *votes == needed {
                let took = begin.elapsed();
                self.outstanding.remove(&request);
                return Ok(took);
            }
        }
    }

    async fn run(&mut self, length: Duration) -> Result<Agreement> {
        for _ in 0..OUTSTANDING {
            self.request(0..1);
        }
        let (mut times, begin) = (new_histogram()?, Instant::now());
        let before = self.messages.load(Ordering::Relaxed);
        while begin.elapsed() < length {
            times.saturating_record(self.decision().await?.as_nanos() as u64);
            self.request(0..1);
        }
        let decided = Work { units: times.len(), seconds: begin.elapsed().as_secs_f64() };
        let messages = self.messages.load(Ordering::Relaxed) - before;
        while !self.outstanding.is_empty() {
            self.decision().await?;
        }
        // The primary falls silent; a client that hears nothing tells all.
        let _ = self.inboxes[0].send(Event::Silence);
        self.request(0..self.inboxes.len());
        let took = self.decision().await?;
        Ok(Agreement { decided, times, messages, view_change: took.saturating_sub(VIEW_TIMEOUT) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_decide_over_each_way_and_go_on_without_their_primary() {
        let cpus = cpu::allowed().unwrap();
        let [first, last] = [cpus.as_slice()[0], *cpus.as_slice().last().unwrap()];
        for way in [Way::Threads, Way::Unix, Way::Loopback] {
            let done = agree(way, 4, [first, last], Duration::from_millis(50)).unwrap();
            assert!(done.decided.units > 0, "{way:?}");
            // Three phases: one to three, three to three, four to three.
            // A decision without the primary waits for the timeout.
            assert!(done.view_change > Duration::ZERO, "{way:?}: {done:?}");
            assert!(done.times.min() > 10_000, "{way:?}: {done:?}");
            assert!(done.messages >= done.decided.units * 15, "{way:?}: {done:?}");
        }
    }
}
