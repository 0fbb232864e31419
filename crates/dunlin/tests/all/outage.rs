//! A store that cannot be opened, for an operator and a client: everything else is served (I11).
use test_support::skip;

use crate::operated::{self, Operated};
use crate::served::{HEAD, NOERROR, Process, SERVFAIL, Served, binary, holds, rcode, zone};
use rustix::process::Signal;
use std::fs;
use std::io::Write;
use std::ops::{Deref, DerefMut};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use test_support::wait;

/// EDE 14, Not Ready, as an EDNS option (RFC 8914 §2).
const NOT_READY: [u8; 6] = [0, 15, 0, 2, 0, 14];

/// A server with a zone file and a store, which can be started again on its data folder.
struct Scene {
    operated: Operated,
    test: &'static str,
    data: PathBuf,
}

impl Deref for Scene {
    type Target = Operated;

    fn deref(&self) -> &Operated {
        &self.operated
    }
}

impl DerefMut for Scene {
    fn deref_mut(&mut self) -> &mut Operated {
        &mut self.operated
    }
}

fn serve(test: &str, data: &Path) -> Served {
    let config = operated::config(test, &zone("file.test"));
    let config = format!("data_dir = \"{}\"\n{config}", data.display());
    Served::start(test, &config, &[("file.test.zone", HEAD)])
}

impl Scene {
    /// Starts on an empty folder, with the zone store.test.
    fn new(test: &'static str, data: PathBuf) -> Self {
        let operated = Operated::new(serve(test, &data));
        operated.done(&["zones", "create", "store.test", "--nameserver", "ns.store.test."]);
        Self { operated, test, data }
    }

    /// Starts the same server again.
    fn again(self) -> Self {
        let Self { operated: Operated { served, token }, test, data } = self;
        drop(served);
        Self { operated: Operated { served: serve(test, &data), token }, test, data }
    }

    /// The zone file is answered, and the store's zone with SERVFAIL and EDE 14.
    fn expect_outage(&self) {
        assert_eq!(rcode(&self.served.ask("ns.file.test")), NOERROR);
        for reply in [self.served.ask("a.store.test"), self.served.ask_over_tcp("store.test")] {
            assert_eq!(rcode(&reply), SERVFAIL);
            assert!(holds(&reply, &NOT_READY), "{reply:?}");
        }
        for line in &self.served.start {
            assert!(!line.contains("panicked") && !line.contains("backtrace"), "{line}");
        }
    }

    /// Waits until no fault is reported.
    fn await_fine(&self) {
        let status = || self.run(&["status"]);
        wait::until_value("no fault", status, |output| output.status.success());
    }

    /// Sets this many names of store.test in one request.
    fn write(&self, names: std::ops::Range<u32>) -> (u16, String) {
        let text = "x".repeat(250);
        let change = |n: u32| {
            format!(
                r#"{{"name":"n{n}.store.test","type":"TXT","put":{{"ttl":60,"data":["{text}"]}}}}"#
            )
        };
        let changes: Vec<_> = names.map(change).collect();
        let body = format!("{{\"changes\":[{}]}}", changes.join(","));
        self.http("PATCH", "/v1/zones/store.test/rrsets", &body)
    }
}

/// An empty data folder.
fn data(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}_data"));
    let _ = fs::remove_dir_all(&folder);
    folder
}

/// Overwrites some blocks of a file.
fn damage(file: &Path, seed: u64) {
    let file = fs::OpenOptions::new().write(true).open(file).expect("a file");
    let blocks = file.metadata().expect("its length").len() / 4096;
    let mut random = Random(seed);
    for _ in 0..20 {
        let bytes: Vec<u8> = (0..4096).map(|_| random.below(256) as u8).collect();
        file.write_all_at(&bytes, random.below(blocks) * 4096).expect("written");
    }
}

fn aside(data: &Path) -> Vec<String> {
    let names = fs::read_dir(data).expect("a folder").map(|entry| entry.expect("an entry"));
    let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.contains("damaged")).collect()
}

#[test]
fn damaged_store_takes_its_own_zones_alone_and_a_snapshot_brings_them_back() {
    let test = "outage-damaged";
    let mut scene = Scene::new(test, data(test));
    assert_eq!(scene.write(0..500).0, 200);
    scene.done(&["records", "set", "store.test", "a.store.test", "A", "192.0.2.9"]);
    let backup = scene.served.folder.with_file_name("outage-damaged.records");
    let backup = backup.to_str().expect("UTF-8").to_owned();
    let _ = fs::remove_file(&backup);
    scene.done(&["zones", "snapshot", &backup]);
    scene.served.end();
    let tree = scene.data.join("records.redb");
    damage(&tree, 7);
    let damaged = fs::read(&tree).expect("a file");
    let scene = scene.again();
    scene.expect_outage();
    let told = scene.refused(&["status"]);
    assert!(told.contains("records.redb") && told.contains("dunlin zones restore"), "{told}");
    assert!(told.contains("1 zone answered with SERVFAIL:\n              store.test."));
    let (status, problem) = scene.write(0..1);
    assert!(status == 503 && problem.contains("urn:dunlin:problem:store-unavailable"), "{problem}");
    assert!(problem.to_lowercase().contains("\r\nretry-after: "), "{problem}");
    assert_eq!(scene.http("GET", "/v1/zones/store.test", "").0, 503);
    assert_eq!(scene.http("GET", "/v1/zones/file.test", "").0, 200, "it is not the store's");
    let restored = scene.done(&["zones", "restore", &backup, "--yes"]);
    assert!(restored.contains("1 zone restored"), "{restored}");
    scene.served.expect_address("a.store.test", [192, 0, 2, 9]);
    // The zone file is so young that its copy is served for a moment.
    scene.await_fine();
    let kept = aside(&scene.data);
    let kept = kept.iter().find(|name| name.contains("redb")).expect("moved aside");
    assert!(fs::read(scene.data.join(kept)).expect("a file") == damaged, "as it was");
    scene.done(&["records", "set", "store.test", "a.store.test", "A", "192.0.2.10"]);
    let mut scene = scene.again();
    scene.served.expect_address("a.store.test", [192, 0, 2, 10]);
    scene.served.end();
}

/// `rm records.redb records.wal`: the list of zones says that there was a store.
#[test]
fn removed_store_is_damage_and_a_snapshot_or_its_files_bring_it_back() {
    let test = "outage-removed";
    let mut scene = Scene::new(test, data(test));
    scene.done(&["records", "set", "store.test", "a.store.test", "A", "192.0.2.9"]);
    let backup = scene.served.folder.with_file_name("outage-removed.records");
    let backup = backup.to_str().expect("UTF-8").to_owned();
    scene.done(&["zones", "snapshot", &backup]);
    scene.served.end();
    let files = ["records.redb", "records.wal"].map(|name| scene.data.join(name));
    let whole = files.each_ref().map(|file| fs::read(file).expect("a file"));
    files.iter().for_each(|file| fs::remove_file(file).expect("it goes"));
    let mut scene = scene.again();
    scene.expect_outage();
    let is_logged = |line: &&String| line.contains("ERROR") && line.contains("are missing");
    assert!(scene.served.start.iter().any(|line| is_logged(&line)), "{:?}", scene.served.start);
    let told = scene.refused(&["status"]);
    for part in ["records.redb", "records.wal", "lists 1 zone", "dunlin zones restore FILE"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let (status, problem) = scene.write(0..1);
    assert!(status == 503 && problem.contains("urn:dunlin:problem:store-unavailable"), "{problem}");
    assert_eq!(scene.http("GET", "/v1/zones/store.test", "").0, 503);
    assert!(files.iter().all(|file| !file.exists()), "no empty store takes its place");
    let restored = scene.done(&["zones", "restore", &backup, "--yes"]);
    assert!(restored.contains("1 zone restored"), "{restored}");
    scene.served.expect_address("a.store.test", [192, 0, 2, 9]);
    scene.await_fine();
    scene.served.end();
    files.iter().for_each(|file| fs::remove_file(file).expect("it goes"));
    let scene = scene.again();
    scene.expect_outage();
    for (file, bytes) in files.iter().zip(&whole) {
        fs::write(file, bytes).expect("a file");
    }
    scene.done(&["reload"]);
    scene.served.expect_address("a.store.test", [192, 0, 2, 9]);
}

/// A random number below a bound; each call gives another one.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (self.0 >> 33) % bound.max(1)
    }
}

/// The files of a killed server, each with one bit flipped or cut off at a random place: each
/// acknowledged write is answered, or the answer is SERVFAIL. `DUNLIN_DAMAGES`: how often of each.
#[test]
fn damaged_file_gives_the_right_answer_or_servfail() {
    let test = "outage-any";
    let scene = Scene::new(test, data(test));
    assert_eq!(scene.write(0..300).0, 200);
    scene.done(&["records", "set", "store.test", "a.store.test", "A", "192.0.2.9"]);
    let data = scene.data.clone();
    drop(scene);
    let files = ["records.redb", "records.wal", "records.zones"];
    let whole = files.map(|file| fs::read(data.join(file)).expect("a file"));
    let damages = std::env::var("DUNLIN_DAMAGES").map_or(2, |number| number.parse().expect("n"));
    let (mut random, mut lost) = (Random(11), 0);
    for (number, cuts) in (0..damages * 6).map(|n| (n as usize % 3, n % 2 == 0)) {
        fs::remove_dir_all(&data).expect("a folder");
        fs::create_dir_all(&data).expect("a folder");
        for (file, bytes) in files.iter().zip(&whole) {
            fs::write(data.join(file), bytes).expect("a file");
        }
        let mut bytes = whole[number].clone();
        let at = random.below(bytes.len() as u64) as usize;
        if cuts {
            bytes.truncate(at);
        } else {
            bytes[at] ^= 1 << random.below(8);
        }
        fs::write(data.join(files[number]), bytes).expect("a file");
        let served = serve(test, &data);
        let what = format!("{} at {at}, cut: {cuts}", files[number]);
        assert_eq!(rcode(&served.ask("ns.file.test")), NOERROR, "{what}");
        let reply = served.ask("a.store.test");
        let is_right = rcode(&reply) == NOERROR && holds(&reply, &[0, 4, 192, 0, 2, 9]);
        let is_told = rcode(&reply) == SERVFAIL && holds(&reply, &NOT_READY);
        assert!(is_right || is_told, "{what}: {reply:?} {:#?}", served.start);
        assert!(is_right || number < 2, "the list is not needed by a store in order");
        let is_panic = |line: &String| line.contains("panicked");
        assert!(!served.start.iter().any(is_panic), "{what}: {:#?}", served.start);
        lost += u32::from(is_told);
    }
    assert!(lost > 0, "no damage was met");
}

/// The operator restores the files from a backup while the server runs.
#[test]
fn store_with_restored_files_opens_without_a_restart() {
    let test = "outage-back";
    let mut scene = Scene::new(test, data(test));
    scene.done(&["records", "set", "store.test", "a.store.test", "A", "192.0.2.9"]);
    scene.served.end();
    let tree = scene.data.join("records.redb");
    let whole = fs::read(&tree).expect("a file");
    fs::write(&tree, vec![0x5a; whole.len()]).expect("a file");
    let scene = scene.again();
    scene.expect_outage();
    let fresh = scene.data.join("fresh");
    fs::write(&fresh, whole).expect("a file");
    fs::rename(&fresh, &tree).expect("in its place");
    scene.served.expect_address("a.store.test", [192, 0, 2, 9]);
    scene.await_fine();
    scene.served.expect_line("the store can be used again", "INFO");
}

#[test]
fn hot_restart_with_a_store_that_cannot_be_opened_serves_all_else() {
    let test = "outage-restart";
    let mut scene = Scene::new(test, data(test));
    scene.served.end();
    let tree = scene.data.join("records.redb");
    let len = fs::metadata(&tree).expect("a file").len() as usize;
    fs::write(&tree, vec![0x5a; len]).expect("a file");
    let mut scene = scene.again();
    let mut command = binary();
    command.args(["serve", "--hot-restart", "-c"]).arg(scene.served.folder.join("dunlin.toml"));
    let mut new_process = Process(command.stderr(Stdio::null()).spawn().expect("it runs"));
    scene.served.expect_line("handed over", "INFO");
    assert_eq!(scene.served.status(), Some(0));
    scene.expect_outage();
    assert!(scene.refused(&["status"]).contains("records.redb"));
    assert!(new_process.0.try_wait().expect("a child").is_none());
}

/// Runs this test in its own mount namespace, with a small disk at the returned folder. `None`: not
/// possible, or this process only starts the other one.
fn on_a_small_disk(name: &str) -> Option<PathBuf> {
    const INSIDE: &str = "DUNLIN_SMALL_DISK";
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}_disk"));
    if std::env::var_os(INSIDE).is_some() {
        return Some(folder);
    }
    fs::create_dir_all(&folder).expect("a folder");
    let script = "mount -t tmpfs -o size=48m tmpfs \"$0\" && exec \"$@\"";
    let unshare = |script: &str, args: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-c", script]).arg(&folder);
        command.args(args).env(INSIDE, "1").status().is_ok_and(|status| status.success())
    };
    if !unshare("mount -t tmpfs tmpfs \"$0\"", &[]) {
        skip::skip("no tmpfs in a mount namespace: run as root");
        return None;
    }
    let exe = std::env::current_exe().expect("this test");
    let exe = exe.to_str().expect("UTF-8");
    let name = format!("outage::{name}");
    assert!(unshare(script, &[exe, "--exact", &name, "--nocapture"]), "it failed on a small disk");
    None
}

/// Fills a disk until it is dropped.
fn fill(folder: &Path) -> PathBuf {
    let path = folder.join("filler");
    let mut file = fs::File::create(&path).expect("a file");
    for len in [1 << 20, 4096, 1] {
        while file.write_all(&vec![b'x'; len]).is_ok() {}
    }
    path
}

#[test]
fn full_disk_and_a_kill_lose_no_write_and_no_zone_of_a_file() {
    let Some(disk) = on_a_small_disk("full_disk_and_a_kill_lose_no_write_and_no_zone_of_a_file")
    else {
        return;
    };
    let scene = Scene::new("outage-full", disk.join("data"));
    for part in 0..4 {
        let (status, problem) = scene.write(part * 1_000..(part + 1) * 1_000);
        assert_eq!(status, 200, "{problem}");
    }
    scene.done(&["records", "set", "store.test", "a.store.test", "A", "192.0.2.9"]);
    // For a second, these writes are only in the log.
    let mut written = 4_000;
    let (status, problem) = scene.write(written..written + 2_000);
    scene.served.signal(Signal::STOP);
    assert_eq!(status, 200, "{problem}");
    written += 2_000;
    let filler = fill(&disk);
    scene.served.signal(Signal::KILL);
    let scene = scene.again();
    scene.expect_outage();
    let told = scene.refused(&["status"]);
    assert!(told.contains("full") && told.contains("store.test."), "{told}");
    assert_eq!(scene.write(0..1).0, 507);
    assert_eq!(scene.http("GET", "/v1/zones/store.test", "").0, 503);
    fs::remove_file(filler).expect("room");
    scene.served.expect_address("a.store.test", [192, 0, 2, 9]);
    scene.await_fine();
    let last = format!("/v1/zones/store.test/rrsets/n{}.store.test/TXT", written - 1);
    assert_eq!(scene.http("GET", &last, "").0, 200, "what was answered is there");
    assert_eq!(scene.write(written..written + 1).0, 200);
}

#[test]
fn full_disk_while_it_is_served_refuses_writes_and_is_reported() {
    let Some(disk) = on_a_small_disk("full_disk_while_it_is_served_refuses_writes_and_is_reported")
    else {
        return;
    };
    let mut scene = Scene::new("outage-filled", disk.join("data"));
    scene.done(&["records", "set", "store.test", "a.store.test", "A", "192.0.2.9"]);
    scene.await_fine();
    // A read brings the log into the tree.
    let a = "/v1/zones/store.test/rrsets/a.store.test/A";
    assert_eq!(scene.http("GET", a, "").0, 200);
    let filler = fill(&disk);
    for _ in 0..3 {
        let (status, problem) = scene.write(0..1);
        assert!(status == 507 && problem.contains("disk-full"), "{problem}");
    }
    let told = scene.refused(&["status"]);
    assert!(told.contains("writes are refused: the disk"), "{told}");
    scene.served.expect_address("a.store.test", [192, 0, 2, 9]);
    assert_eq!(scene.http("GET", a, "").0, 200);
    fs::remove_file(filler).expect("room");
    scene.await_fine();
    assert_eq!(scene.write(0..1).0, 200);
    let refused = scene.served.expect_line("writes are refused", "ERROR");
    assert!(refused["message"].to_string().contains("data_dir is full"), "{refused}");
    // The three refusals are one line.
    scene.served.expect_line("writes are accepted again", "INFO");
    scene.served.end();
}
