//! What a change costs, and when it is live: `make bench-publish`.
//!
//! 1. Time and bytes of publishing one record at ten thousand names and at ten million.
//! 2. In a zone of a million names, 10,000 changes a second through `Source::apply`: how long
//!    until every worker has loaded a change or is parked, and what questions take meanwhile.
//!
//! A limit that is passed fails the run.
use compile::{Image, Loader};
use handler::Answerer;
use image::{HASH_KEY_WORDS, HashKey};
use model::{Change, Edit, SetValue};
use port_socket::SocketPort;
use query_samples::TapThread;
use std::alloc::{GlobalAlloc, Layout, System};
use std::net::{SocketAddr, UdpSocket};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use sync::Publisher;
use wire::{Name, NameBuf, Rtype};
use worker::{WorkerSetup, Workers};
use zone_manager::{
    HoldPolicy, Lane, PublisherThread, SourceKind, SourceSettings, Target, UpdateSender,
    ZonePublisher,
};

const FEW: u32 = 10_000;
const MANY: u32 = 10_000_000;
const MILLION: u32 = 1_000_000;
/// Most that a change may cost at [`MANY`] names, over what it costs at [`FEW`].
const GROWTH_MAX: f64 = 2.0;
const CHANGES_A_SECOND: u32 = 10_000;
const LIVE_P99_MAX: Duration = Duration::from_millis(1);
/// Most that a question may take (p99.9) while there are changes, over what it takes without.
const SLOWER_MAX: f64 = 2.0;
const SECONDS: u64 = 10;

/// The system's allocator, counting the bytes that are asked for.
struct Counting;

static BYTES: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call is passed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BYTES.fetch_add(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: the caller keeps `alloc`'s contract, which is the same here.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn main() -> ExitCode {
    let mut verdict = Verdict { missed: false };
    publishing(&mut verdict);
    propagation(&mut verdict);
    if verdict.missed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

struct Verdict {
    missed: bool,
}

impl Verdict {
    fn judge(&mut self, what: &str, value: f64, limit: f64) {
        let missed = if value > limit { "  MISSED" } else { "" };
        println!("{what:54} {value:8.3}  (limit {limit}){missed}");
        self.missed |= value > limit;
    }
}

/// Part 1.
fn publishing(verdict: &mut Verdict) {
    let [few, many] = [FEW, MANY].map(|names| {
        let (_, updates, _running) = start(names);
        let mut costs: Vec<(Duration, u64)> = (0..5_000)
            .map(|n| {
                let change = change(n * 7_919 % names, n);
                let (began, before) = (Instant::now(), BYTES.load(Ordering::Relaxed));
                apply(&updates, vec![change]);
                (began.elapsed(), BYTES.load(Ordering::Relaxed) - before)
            })
            .collect();
        let bytes = costs.iter().map(|cost| cost.1).sum::<u64>() / costs.len() as u64;
        costs.sort_unstable();
        let median = costs[costs.len() / 2].0;
        println!("{names:10} names: a change takes {median:.1?} and {bytes} bytes");
        (median.as_secs_f64(), bytes as f64)
    });
    verdict.judge("time of a change, 10 M names over 10 k", many.0 / few.0, GROWTH_MAX);
    verdict.judge("bytes of a change, 10 M names over 10 k", many.1 / few.1, GROWTH_MAX);
}

/// Part 2.
fn propagation(verdict: &mut Verdict) {
    let (control, updates, _running) = start(MILLION);
    let socket = port_socket::bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a socket");
    let port = SocketPort::new(socket).expect("a port");
    let address = port.address();
    let settings = data_plane::settings_of_file(None).expect("the defaults");
    let settings = Publisher::new(settings).reader().expect("a reader");
    let tap = TapThread::start(query_samples::TapSettings::default()).expect("a tap").tap(1);
    let app = Answerer::new(control.reader().expect("a reader"), settings, tap, 1).expect("an app");
    let setups = vec![WorkerSetup { ports: vec![port], app, cpu: None }];
    let _fleet = Workers::start(setups, Arc::new(|failure| panic!("{failure}"))).expect("a worker");
    let quiet = ask(address);
    let done = AtomicBool::new(false);
    let (busy, mut live) = thread::scope(|scope| {
        let changes = scope.spawn(|| change_for_ever(&control, &updates, &done));
        let busy = ask(address);
        done.store(true, Ordering::Relaxed);
        (busy, changes.join().expect("no panic"))
    });
    live.sort_unstable();
    let rate = live.len() as u64 / SECONDS;
    let p99 = permille(&live, 990);
    println!("{rate} changes a second: live after {:.1?} (p50)", permille(&live, 500));
    let millisecond = |time: Duration| time.as_secs_f64() * 1e3;
    verdict.judge("change until live, ms (p99)", millisecond(p99), millisecond(LIVE_P99_MAX));
    let [quiet, busy] = [quiet, busy].map(|times| permille(&times, 999));
    println!("question (p99.9): {quiet:.1?} without changes, {busy:.1?} with");
    let slower = busy.as_secs_f64() / quiet.as_secs_f64();
    verdict.judge("question (p99.9), with changes over without", slower, SLOWER_MAX);
    let least = f64::from(CHANGES_A_SECOND) * 0.99;
    verdict.judge(
        "changes a second that were asked for, over those made",
        least / rate as f64,
        1.0,
    );
}

/// Changes a record at this interval; returns how long each change took until it was live.
fn change_for_ever(
    control: &ZonePublisher,
    updates: &UpdateSender,
    done: &AtomicBool,
) -> Vec<Duration> {
    const A_TIME: u32 = 10;
    let pause = Duration::from_secs(1) * A_TIME / CHANGES_A_SECOND;
    let mut live = Vec::new();
    let mut next = Instant::now();
    for n in (0..).step_by(A_TIME as usize) {
        if done.load(Ordering::Relaxed) {
            break;
        }
        let began = Instant::now();
        let put = |n: u32| vec![change(n.wrapping_mul(7_919) % MILLION, n)];
        let answers: Vec<_> = (n..n + A_TIME)
            .map(|n| updates.apply_blocking(zone(), put(n)).expect("it runs"))
            .collect();
        let applied = answers.into_iter().map(|answer| answer.wait().expect("applied"));
        let last = applied.last().expect("some").sequence;
        control.wait_live(last).wait().expect("live");
        // All of them were sent at once; the last to be live stands for them.
        live.extend([began.elapsed(); A_TIME as usize]);
        next += pause;
        thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    live
}

/// Asks one question after the other for some seconds; what each took, sorted.
fn ask(address: SocketAddr) -> Vec<Duration> {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket.connect(address).expect("connected");
    socket.set_read_timeout(Some(Duration::from_secs(1))).expect("a timeout");
    let until = Instant::now() + Duration::from_secs(SECONDS);
    let mut times = Vec::new();
    for n in 0u32.. {
        let began = Instant::now();
        if began > until {
            break;
        }
        socket.send(&query(n.wrapping_mul(104_729) % MILLION)).expect("sent");
        let mut reply = [0; 512];
        let len = socket.recv(&mut reply).expect("a reply");
        assert!(reply[3] & 15 == 0 && len > 12, "a wrong answer");
        times.push(began.elapsed());
        thread::sleep(Duration::from_micros(50));
    }
    times.sort_unstable();
    times
}

fn permille(sorted: &[Duration], permille: usize) -> Duration {
    sorted[(sorted.len() * permille / 1000).min(sorted.len() - 1)]
}

fn name(text: &str) -> NameBuf {
    NameBuf::from_text(text.as_bytes(), Name::ROOT).expect("a name")
}

/// Service `n` of the anchor zone.
fn service(n: u32) -> NameBuf {
    name(&format!("svc-{n}.ns-{}.svc.cluster.local", n % 100))
}

fn zone() -> Target {
    Target::Zone(name("cluster.local"))
}

/// A zone manager with the anchor zone of one source.
fn start(names: u32) -> (ZonePublisher, UpdateSender, PublisherThread) {
    let image = image(names);
    let zone = Arc::clone(image.zone(name("cluster.local").as_name()).expect("a zone"));
    let (control, running) = ZonePublisher::start(image).expect("a thread");
    let (kind, lane, hold) = (SourceKind::Kubernetes, Lane::Normal, HoldPolicy::Never);
    let settings = SourceSettings { name: "bench".into(), kind, lane, hold };
    let updates = control.start_source(settings);
    updates.sync_zone(zone, None).wait().expect("published");
    (control, updates, running)
}

/// Applies changes, and waits until they are published.
fn apply(updates: &UpdateSender, changes: Vec<Change>) {
    let applied = updates.apply_blocking(zone(), changes).expect("it runs").wait();
    assert!(applied.expect("applied").results.iter().all(Result::is_ok));
}

/// A new address for a service.
fn change(service_number: u32, address: u32) -> Change {
    let records = vec![Box::from(address.to_be_bytes().as_slice())];
    Edit::put(service(service_number), Rtype::A, SetValue::new(30, records)).into()
}

fn query(n: u32) -> Vec<u8> {
    let mut query = vec![0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1];
    query.extend(service(n).as_name().as_bytes());
    query.extend([0, 1, 0, 1, 0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 0]);
    query
}

/// The anchor zone with this many services.
fn image(names: u32) -> Image {
    let key = HashKey::new(std::array::from_fn::<_, HASH_KEY_WORDS, _>(|n| n as u64 * 77 + 5));
    let mut image = Image::new(Arc::new(key));
    let origin = name("cluster.local");
    let mut loader = Loader::new(Arc::clone(image.key()), origin.as_name(), None);
    let server = name("ns.dns.cluster.local");
    let mut soa = [server.as_name().as_bytes(), server.as_name().as_bytes()].concat();
    soa.extend([1u32, 7200, 1800, 86400, 5].iter().flat_map(|n| n.to_be_bytes()));
    let mut add = |owner: &NameBuf, rtype, data: &[u8]| {
        loader.add(owner.as_name(), rtype, 30, data, 0).expect("in the zone");
    };
    add(&origin, Rtype::SOA, &soa);
    add(&origin, Rtype::NS, server.as_name().as_bytes());
    (0..names).for_each(|n| add(&service(n), Rtype::A, &(0x0a00_0000 | n).to_be_bytes()));
    image.put_zone(Arc::new(loader.finish().expect("a zone")));
    image
}
