//! What writing costs beside what the disk costs: `make bench-records`.
//!
//! 1. The disk: 4 KiB and an order to bring it there, one after the other.
//! 2. Records a second of a bulk import into a new zone, in batches.
//! 3. In a zone of a million names: 64 who write one record each and wait until it is live; then
//!    512 who write one record each and wait until it is on the disk.
//! 4. Ten million records: from nothing to the first right answer, after an end and after a crash.
//!
//! A limit that is passed fails the run. `DUNLIN_BENCH_DIR` is where the files go, and
//! `DUNLIN_BENCH_RECORDS` how many records part 4 has (0: no part 4). CPU time is of the whole process, bench and
//! all: on a machine that others use too it says more than the clock.
use control::{Control, Running};
use image::{HASH_KEY_WORDS, HashKey};
use records::{
    Batch, Desk, Edit, Expect, Others, Owner, Pending, Policy, Serving, SetValue, View, Written,
};
use std::collections::VecDeque;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};
use store_redb::RedbStore;
use wire::{Name, NameBuf, Rtype};

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
    let mut verdict = Verdict { missed: false };
    let sync = disk(&folder);
    writing(&folder.join("million"), sync, &mut verdict);
    let many =
        std::env::var("DUNLIN_BENCH_RECORDS").map_or(10 * MILLION, |n| n.parse().expect("n"));
    if many > 0 {
        starting(&folder, many, &mut verdict);
    }
    fs::remove_dir_all(&folder).expect("removed");
    if verdict.missed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

struct Verdict {
    missed: bool,
}

impl Verdict {
    fn most(&mut self, what: &str, value: f64, limit: f64) {
        self.tell(what, value, limit, value > limit);
    }

    fn least(&mut self, what: &str, value: f64, limit: f64) {
        self.tell(what, value, limit, value < limit);
    }

    fn tell(&mut self, what: &str, value: f64, limit: f64, missed: bool) {
        let word = if missed { "  MISSED" } else { "" };
        println!("{what:58} {value:12.2}  (limit {limit:.2}){word}");
        self.missed |= missed;
    }
}

/// Part 1: how long an order to the disk takes (p99).
fn disk(folder: &Path) -> Duration {
    let file = File::create(folder.join("sync")).expect("a file");
    file.write_all_at(&vec![0; 1 << 20], 0).expect("written");
    file.sync_all().expect("synced");
    let times = (0..500u64).map(|n| {
        let began = Instant::now();
        file.write_all_at(&[n as u8; 4096], n * 7_919 % 256 * 4096).expect("written");
        file.sync_data().expect("synced");
        began.elapsed()
    });
    let mut times: Vec<_> = times.collect();
    times.sort_unstable();
    let p99 = permille(&times, 990);
    println!("fdatasync of 4 KiB: {:.2?} (p50), {p99:.2?} (p99)", permille(&times, 500));
    p99
}

/// Parts 2 and 3.
fn writing(folder: &Path, sync: Duration, verdict: &mut Verdict) {
    let server = Server::start(folder);
    let (took, cpu) = server.import(MILLION);
    let rate = f64::from(MILLION) / took.as_secs_f64();
    println!("a million records imported in {took:.2?} ({cpu:.2?} of CPU time)");
    verdict.least("records a second, bulk import of a million", rate, 200_000.0);
    let done = Arc::new(AtomicBool::new(false));
    let workers: Vec<_> = (0..WORKERS).map(|_| worker(&server.control, &done)).collect();
    let cpu = cpu_time();
    let mut live = closed_loop(&server, WRITERS, true);
    let cpu = (cpu_time() - cpu) / live.len() as u32;
    live.sort_unstable();
    let p99 = permille(&live, 990);
    let rate = live.len() as f64 / SECONDS as f64;
    println!(
        "{WRITERS} writers: live after {:.2?} (p50), {rate:.0} writes/s, {cpu:.1?} of CPU time each",
        permille(&live, 500)
    );
    let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
    let limit = milliseconds(Duration::from_millis(2) + 2 * sync);
    verdict.most("write until live, ms (p99)", milliseconds(p99), limit);
    let cpu = cpu_time();
    let written = closed_loop(&server, MANY_WRITERS, false).len();
    let cpu = (cpu_time() - cpu) / written as u32;
    println!("{MANY_WRITERS} writers: {cpu:.1?} of CPU time each");
    let written = written as f64 / SECONDS as f64;
    verdict.least("single-record writes a second", written, 10_000.0);
    done.store(true, Ordering::Relaxed);
    workers.into_iter().for_each(|worker| worker.join().expect("no panic"));
}

/// A worker that loads what is new at each burst.
fn worker(control: &Control, done: &Arc<AtomicBool>) -> thread::JoinHandle<()> {
    let (mut reader, done) = (control.reader().expect("a reader"), Arc::clone(done));
    thread::spawn(move || {
        while !done.load(Ordering::Relaxed) {
            reader.refresh();
            thread::sleep(Duration::from_micros(100));
        }
    })
}

/// So many write one record each, one after the other; how long each write took.
fn closed_loop(server: &Server, writers: u32, until_live: bool) -> Vec<Duration> {
    let until = Instant::now() + Duration::from_secs(SECONDS);
    let write = |writer: u32| {
        let mut times = Vec::new();
        for n in (0u32..).take_while(|_| Instant::now() < until) {
            let began = Instant::now();
            let at = (writer * 15_013 + n * 7_919) % MILLION;
            let written = server.write(vec![service(at, n)]).wait().expect("written");
            if until_live {
                server.desk.wait_live(written.revision).wait().expect("live");
            }
            times.push(began.elapsed());
        }
        times
    };
    thread::scope(|scope| {
        let writers: Vec<_> = (0..writers).map(|n| scope.spawn(move || write(n))).collect();
        writers.into_iter().flat_map(|writer| writer.join().expect("no panic")).collect()
    })
}

/// Part 4.
fn starting(folder: &Path, many: u32, verdict: &mut Verdict) {
    let (whole, crashed) = (folder.join("many"), folder.join("crashed"));
    let server = Server::start(&whole);
    let (took, cpu) = server.import(many);
    println!("{many} records imported in {took:.1?} ({cpu:.1?} of CPU time)");
    fs::create_dir_all(&crashed).expect("a folder");
    // What lies there while it is written is what a process that is killed leaves.
    fs::copy(store_redb::path(&whole), store_redb::path(&crashed)).expect("copied");
    server.stop();
    let len = fs::metadata(store_redb::path(&whole)).expect("a file").len();
    println!("the file has {} MiB", len >> 20);
    for (what, folder) in [("an end", whole), ("a crash", crashed)] {
        let (began, cpu) = (Instant::now(), cpu_time());
        let server = Server::open(&folder);
        let image = server.control.image();
        let zone = image.zone(name("cluster.local").as_name()).expect("the zone");
        let set = zone.set(owner(many - 1).as_name(), Rtype::A).expect("the last record");
        assert_eq!(set.count(), 1);
        let (took, cpu) = (began.elapsed().as_secs_f64(), cpu_time() - cpu);
        println!("{many} records read after {what} in {cpu:.2?} of CPU time");
        verdict.most(&format!("seconds to the first answer after {what}"), took, 10.0);
    }
}

struct NoOthers;

impl Others for NoOthers {
    fn owner(&self, _: Name<'_>) -> Option<Owner> {
        None
    }

    fn instead(&self, _: Name<'_>, _: &Arc<HashKey>) -> Option<compile::Zone> {
        None
    }
}

struct Server {
    desk: Desk,
    control: Control,
    serving: Serving,
    running: Running,
}

impl Server {
    fn open(folder: &Path) -> Self {
        let store = Box::new(RedbStore::open(folder, false).expect("a store"));
        let key = HashKey::new(std::array::from_fn::<_, HASH_KEY_WORDS, _>(|n| n as u64 * 77 + 5));
        let image = compile::Image::new(Arc::new(key));
        let (control, running) = Control::start(image).expect("a thread");
        let (desk, serving) =
            Desk::start(control.clone(), store, Arc::new(NoOthers)).expect("threads");
        Self { desk, control, serving, running }
    }

    /// One with an empty zone.
    fn start(folder: &Path) -> Self {
        let server = Self::open(folder);
        let zone = name("cluster.local");
        let data = vec![name("ns.dns.cluster.local").as_name().octets().into()];
        let edit = edit(zone.clone(), Rtype::NS, data);
        server.desk.create_zone(batch(vec![edit])).wait().expect("created");
        server
    }

    fn stop(self) {
        self.serving.stop();
        self.running.stop();
    }

    fn write(&self, edits: Vec<Edit>) -> Pending<Written> {
        self.desk.write(batch(edits))
    }

    /// Brings this many records, several batches at once.
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

/// What this process has taken of the CPUs so far.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn batch(edits: Vec<Edit>) -> Batch {
    Batch { zone: name("cluster.local"), edits, by: "bench".into(), when: SystemTime::now() }
}

fn edit(name: NameBuf, rtype: Rtype, data: Vec<Box<[u8]>>) -> Edit {
    let put = Some(SetValue { ttl: 30, policy: Policy::All, data });
    Edit { name, rtype, view: View::Default, expect: Expect::Anything, put }
}

fn name(text: &str) -> NameBuf {
    NameBuf::from_text(text.as_bytes(), Name::ROOT).expect("a name")
}

/// Names in the order of a file that somebody wrote: namespace by namespace.
fn owner(n: u32) -> NameBuf {
    name(&format!("svc-{:03}.ns-{:05}.svc.cluster.local", n % 500, n / 500))
}

fn service(n: u32, address: u32) -> Edit {
    edit(owner(n), Rtype::A, vec![address.to_be_bytes().into()])
}

fn permille(sorted: &[Duration], permille: usize) -> Duration {
    sorted[(sorted.len() * permille / 1000).min(sorted.len() - 1)]
}
