//! The cost of writing beside the cost of the disk: `make bench-records`.
//!
//! 1. The disk: 4 KiB and an fsync, one after the other; before and after part 3.
//! 2. Records a second of a bulk import into a new zone, in batches.
//! 3. In a zone of a million names: 64 writers of one record each that wait until it is live; then
//!    512 that wait until it is durable. They are tasks of one thread, as the API's are: threads
//!    would measure how they are woken.
//! 4. Ten million records: from nothing to the first right answer, after a stop and after a crash.
//!
//! Exceeding a limit fails the run. `DUNLIN_BENCH_DIR` is the folder, `DUNLIN_BENCH_RECORDS` the
//! number of records in part 4 (0: no part 4), and `DUNLIN_BENCH_REPORT` the file for the figures
//! in Markdown. CPU time is of the whole process with the bench; on a shared machine it says more
//! than the clock.
use image::{HASH_KEY_WORDS, HashKey};
use records::{
    Batch, Edit, Policy, RecordService, Refused, ServiceThreads, SetValue, WriteContext,
    WriteResult,
};
use std::collections::VecDeque;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use store_redb::RedbStore;
use wire::{Name, NameBuf, Rtype};
use zone_manager::{Answer, PublisherThread, ZonePublisher};

const MILLION: u32 = 1_000_000;
const WRITERS: u32 = 64;
const MANY_WRITERS: u32 = 512;
const SECONDS: u64 = 8;
const IN_FLIGHT: usize = 4;
const BATCH: u32 = 5_000;
const WORKERS: usize = 2;

fn main() -> ExitCode {
    let folder =
        std::env::var_os("DUNLIN_BENCH_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
    let folder = folder.join(format!("dunlin-bench-records-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let mut report = Report::default();
    let machine = machine();
    writing(&folder, &mut report);
    let many =
        std::env::var("DUNLIN_BENCH_RECORDS").map_or(10 * MILLION, |n| n.parse().expect("n"));
    if many > 0 {
        starting(&folder, many, &mut report);
    }
    fs::remove_dir_all(&folder).expect("removed");
    if let Some(file) = std::env::var_os("DUNLIN_BENCH_REPORT") {
        fs::write(file, report.markdown(&machine)).expect("written");
    }
    if report.missed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// The machine, and its load before the run.
fn machine() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let cpus = read("/proc/cpuinfo");
    let model = cpus.lines().find_map(|queue| queue.strip_prefix("model name")?.split(": ").nth(1));
    let count = thread::available_parallelism().map_or(1, usize::from);
    let (release, load) = (read("/proc/sys/kernel/osrelease"), read("/proc/loadavg"));
    let loads: Vec<&str> = load.split(' ').take(3).collect();
    format!(
        "{count} CPUs ({}), Linux {}; load averages before the run: {}",
        model.unwrap_or("unknown"),
        release.trim(),
        loads.join(", ")
    )
}

/// The figures.
#[derive(Default)]
struct Report {
    rows: Vec<String>,
    missed: bool,
}

impl Report {
    fn most(&mut self, what: &str, value: f64, limit: f64, cpu: &str) {
        self.tell(what, value, &format!("at most {limit:.2}"), value > limit, cpu);
    }

    fn least(&mut self, what: &str, value: f64, limit: f64, cpu: &str) {
        self.tell(what, value, &format!("at least {limit:.0}"), value < limit, cpu);
    }

    fn tell(&mut self, what: &str, value: f64, limit: &str, missed: bool, cpu: &str) {
        let limit = if missed { format!("{limit}: missed") } else { limit.into() };
        println!("{what:56} {value:11.2}  {limit:24} {cpu}");
        self.rows.push(format!("| {what} | {value:.2} | {limit} | {cpu} |\n"));
        self.missed |= missed;
    }

    fn markdown(&self, machine: &str) -> String {
        format!(
            "# Record store performance: `make bench-records`\n\nWritten by `make bench-records`; \
             `crates/control/store-redb/benches/records.rs` describes the method.\n\n\
             Machine: {machine}.\n\n\
             | figure | measured | limit | CPU time of the whole process |\n\
             | --- | --- | --- | --- |\n{}",
            self.rows.concat()
        )
    }
}

/// Part 1: how long an fsync takes.
fn disk(folder: &Path) -> Vec<Duration> {
    let file = File::create(folder.join("sync")).expect("a file");
    file.write_all_at(&vec![0; 1 << 20], 0).expect("written");
    file.sync_all().expect("synced");
    let times = (0..500u64).map(|n| {
        let began = Instant::now();
        file.write_all_at(&[n as u8; 4096], n * 7_919 % 256 * 4096).expect("written");
        file.sync_data().expect("synced");
        began.elapsed()
    });
    times.collect()
}

/// Parts 1, 2 and 3.
fn writing(folder: &Path, report: &mut Report) {
    let server = Server::start(&folder.join("million"));
    let (took, cpu) = server.import(MILLION);
    let rate = f64::from(MILLION) / took.as_secs_f64();
    let each = each(cpu, MILLION as usize);
    report.least("records/s, bulk import of a million", rate, 200_000.0, &each);
    let done = Arc::new(AtomicBool::new(false));
    let workers: Vec<_> = (0..WORKERS).map(|_| worker(&server.control, &done)).collect();
    // A read waits for all writes, so that the disk is idle when it is measured.
    let settle = || server.service.revision().expect("read");
    settle();
    let mut sync = disk(folder);
    let live = closed_loop(&server, WRITERS, true, report);
    settle();
    sync.extend(disk(folder));
    sync.sort_unstable();
    let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
    let sync = [500, 990].map(|part| milliseconds(permille(&sync, part)));
    report.tell("disk: 4 KiB and fdatasync, ms (p50)", sync[0], "", false, "");
    report.tell("the same (p99)", sync[1], "", false, "");
    let p99 = milliseconds(permille(&live, 990));
    report.most("64 writers: write until live, ms (p99)", p99, 2.0 + 2.0 * sync[1], "");
    let p50 = milliseconds(permille(&live, 500));
    report.tell("the same (p50)", p50, "", false, "");
    closed_loop(&server, MANY_WRITERS, false, report);
    done.store(true, Ordering::Relaxed);
    workers.into_iter().for_each(|worker| worker.join().expect("no panic"));
}

/// CPU time of each of `count`.
fn each(cpu: Duration, count: usize) -> String {
    format!("{:.1} µs each", cpu.as_secs_f64() * 1e6 / count as f64)
}

/// A worker that loads the newest image at each burst.
fn worker(control: &ZonePublisher, done: &Arc<AtomicBool>) -> thread::JoinHandle<()> {
    let (mut reader, done) = (control.reader().expect("a reader"), Arc::clone(done));
    thread::spawn(move || {
        while !done.load(Ordering::Relaxed) {
            reader.refresh();
            thread::sleep(Duration::from_micros(100));
        }
    })
}

/// Concurrent writers of one record each; returns how long each write took, sorted.
fn closed_loop(
    server: &Server,
    writers: u32,
    until_live: bool,
    report: &mut Report,
) -> Vec<Duration> {
    let cpu = cpu_time();
    let until = Instant::now() + Duration::from_secs(SECONDS);
    let write = async |writer: u32| {
        let mut times = Vec::new();
        for n in (0u32..).take_while(|_| Instant::now() < until) {
            let began = Instant::now();
            let at = (writer * 15_013 + n * 7_919) % MILLION;
            // Another address than that of an earlier part: a write without effect would be
            // answered with the set's revision, which waits for a checkpoint.
            let edit = service(at, writers * MILLION + n);
            let written = server.write(vec![edit]).await.expect("written");
            if until_live {
                server.service.wait_live(written.revision).await.expect("live");
            }
            times.push(began.elapsed());
        }
        times
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let all = futures_util::future::join_all((0..writers).map(write));
    let mut times = runtime.block_on(all).concat();
    times.sort_unstable();
    let rate = times.len() as f64 / SECONDS as f64;
    let (what, cpu) = (format!("{writers} writers: writes/s"), cpu_time() - cpu);
    match until_live {
        true => report.tell(&what, rate, "", false, &each(cpu, times.len())),
        false => report.least(&what, rate, 10_000.0, &each(cpu, times.len())),
    }
    times
}

/// Part 4.
fn starting(folder: &Path, many: u32, report: &mut Report) {
    let (whole, crashed) = (folder.join("many"), folder.join("crashed"));
    let server = Server::start(&whole);
    let (took, cpu) = server.import(many);
    let rate = f64::from(many) / took.as_secs_f64();
    let what = format!("records/s, bulk import of {many}");
    report.tell(&what, rate, "", false, &each(cpu, many as usize));
    fs::create_dir_all(&crashed).expect("a folder");
    // Copied while the store writes: what a killed process leaves.
    for (from, to) in store_redb::paths(&whole).into_iter().zip(store_redb::paths(&crashed)) {
        fs::copy(from, to).expect("copied");
    }
    server.stop();
    let [tree, _] = store_redb::paths(&whole);
    let len = fs::metadata(tree).expect("a file").len();
    report.tell("tree, bytes/record", len as f64 / f64::from(many), "", false, "");
    for (what, folder) in [("a stop", whole), ("a crash", crashed)] {
        let (began, cpu) = (Instant::now(), cpu_time());
        let server = Server::open(&folder);
        let image = server.control.image();
        let zone = image.zone(name("cluster.local").as_name()).expect("the zone");
        let set = zone.set(owner(many - 1).as_name(), Rtype::A).expect("the last record");
        assert_eq!(set.count(), 1);
        let (took, cpu) = (began.elapsed().as_secs_f64(), cpu_time() - cpu);
        let what = format!("{many} records: seconds until the first answer after {what}");
        report.most(&what, took, 10.0, &format!("{:.2} s", cpu.as_secs_f64()));
    }
}

struct Server {
    service: RecordService,
    control: ZonePublisher,
    serving: ServiceThreads,
    running: PublisherThread,
}

impl Server {
    fn open(folder: &Path) -> Self {
        let store = Box::new(RedbStore::open(folder, false).expect("a store"));
        let key = HashKey::new(std::array::from_fn::<_, HASH_KEY_WORDS, _>(|n| n as u64 * 77 + 5));
        let image = compile::Image::new(Arc::new(key));
        let (control, running) = ZonePublisher::start(image).expect("a thread");
        let (service, serving) = RecordService::start(&control, store).expect("threads");
        Self { service, control, serving, running }
    }

    /// A server with an empty zone.
    fn start(folder: &Path) -> Self {
        let server = Self::open(folder);
        let zone = name("cluster.local");
        let data = vec![name("ns.dns.cluster.local").as_name().as_bytes().into()];
        let edit = edit(zone.clone(), Rtype::NS, data);
        server.service.create_zone(batch(vec![edit])).wait().expect("created");
        server
    }

    fn stop(self) {
        self.serving.stop();
        self.running.stop();
    }

    fn write(&self, edits: Vec<Edit>) -> Answer<WriteResult, Refused> {
        self.service.write(batch(edits))
    }

    /// Imports this many records, several batches at once.
    fn import(&self, count: u32) -> (Duration, Duration) {
        let (began, cpu) = (Instant::now(), cpu_time());
        let mut waiting = VecDeque::new();
        for first in (0..count).step_by(BATCH as usize) {
            let edits = (first..(first + BATCH).min(count)).map(|n| service(n, n)).collect();
            waiting.push_back(self.write(edits));
            if waiting.len() > IN_FLIGHT {
                waiting.pop_front().expect("some").wait().expect("written");
            }
        }
        for pending in waiting {
            pending.wait().expect("written");
        }
        (began.elapsed(), cpu_time() - cpu)
    }
}

/// The CPU time of this process so far.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn batch(edits: Vec<Edit>) -> Batch {
    Batch { zone: name("cluster.local"), edits, context: WriteContext::by("bench") }
}

fn edit(name: NameBuf, rtype: Rtype, data: Vec<Box<[u8]>>) -> Edit {
    let put = Some(SetValue { ttl: 30, policy: Policy::All, data });
    Edit { put, ..Edit::remove(name, rtype) }
}

fn name(text: &str) -> NameBuf {
    NameBuf::from_text(text.as_bytes(), Name::ROOT).expect("a name")
}

/// Names in the order of a hand-written file: namespace by namespace.
fn owner(n: u32) -> NameBuf {
    name(&format!("svc-{:03}.ns-{:05}.svc.cluster.local", n % 500, n / 500))
}

fn service(n: u32, address: u32) -> Edit {
    edit(owner(n), Rtype::A, vec![address.to_be_bytes().into()])
}

fn permille(sorted: &[Duration], permille: usize) -> Duration {
    sorted[(sorted.len() * permille / 1000).min(sorted.len() - 1)]
}
