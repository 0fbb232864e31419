use super::*;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use wire::Name;

/// Less than the poll: what is seen within it was told by the kernel.
const SOON: Duration = Duration::from_secs(5);
/// Long enough for a load that must not happen.
const A_WHILE: Duration = Duration::from_millis(400);

/// A source at work on one zone, in a folder of its own.
struct Fixture {
    folder: PathBuf,
    zones: Vec<ZoneFile>,
    wishes: Wishes,
    loads: Receiver<()>,
    thread: JoinHandle<()>,
}

/// Tells of each load and of nothing else.
struct Told {
    told: Sender<()>,
    files: Vec<PathBuf>,
}

impl Keeper for Told {
    fn load(&mut self, _: &ZoneFile) -> Vec<PathBuf> {
        self.told.send(()).expect("the test listens");
        self.files.clone()
    }

    fn load_hosts(&mut self, _: &Path) {}

    fn set_files(&mut self, _: &Files) {}

    fn settle(&mut self, _: &[ZoneFile]) {}
}

impl Fixture {
    /// Prepares the folder, then watches `zone` in it; `extra` are files that have a part in it.
    fn start(test: &str, prepare: impl Fn(&Path), extra: &[&str]) -> Self {
        let folder = std::env::temp_dir().join(format!("source-{test}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder");
        prepare(&folder);
        let file = folder.join("zone");
        let files: Vec<PathBuf> =
            std::iter::once(file.clone()).chain(extra.iter().map(|f| folder.join(f))).collect();
        let origin = NameBuf::from_text(b"example.org.", Name::ROOT).expect("a name");
        let (wishes, mut source) = Source::new();
        let (told, loads) = channel();
        let thread = std::thread::spawn(move || source.run(&mut Told { told, files }));
        let zones = vec![ZoneFile { origin, file }];
        wishes.set_files(zones.clone());
        let fixture = Self { folder, zones, wishes, loads, thread };
        fixture.expect_load("at the start");
        // A file written just before counts as changed, if its state before reading is unknown.
        while fixture.loads.recv_timeout(A_WHILE).is_ok() {}
        fixture
    }

    fn expect_load(&self, when: &str) {
        assert_eq!(self.loads.recv_timeout(SOON), Ok(()), "a load {when}");
    }

    fn expect_none(&self, when: &str) {
        let none = Err(RecvTimeoutError::Timeout);
        assert_eq!(self.loads.recv_timeout(A_WHILE), none, "no load {when}");
    }

    fn stop(self) {
        self.wishes.stop();
        self.thread.join().expect("the source ends");
        fs::remove_dir_all(&self.folder).expect("the folder goes");
    }
}

fn write(folder: &Path, file: &str, text: &str) {
    fs::write(folder.join(file), text).expect("a file");
}

#[test]
fn a_write_is_one_load_and_a_read_is_none() {
    let fixture = Fixture::start("write", |folder| write(folder, "zone", "1"), &[]);
    fixture.expect_none("while nothing happens");
    fs::read(fixture.folder.join("zone")).expect("a file");
    write(&fixture.folder, "other", "not a zone");
    fixture.expect_none("for a read and for another file");
    write(&fixture.folder, "zone", "2");
    fixture.expect_load("after a write");
    fixture.expect_none("for the same write");
    fixture.stop();
}

#[test]
fn an_editor_that_renames() {
    let fixture = Fixture::start("rename", |folder| write(folder, "zone", "1"), &[]);
    for round in ["first", "second"] {
        write(&fixture.folder, "zone.new", round);
        fs::rename(fixture.folder.join("zone.new"), fixture.folder.join("zone")).expect("renamed");
        fixture.expect_load(round);
    }
    fixture.stop();
}

#[test]
fn a_config_map_swaps_a_link() {
    let prepare = |folder: &Path| {
        for version in ["..1", "..2"] {
            fs::create_dir(folder.join(version)).expect("a folder");
            write(folder, &format!("{version}/zone"), "same length");
        }
        symlink("..1", folder.join("..data")).expect("a link");
        symlink("..data/zone", folder.join("zone")).expect("a link");
    };
    let fixture = Fixture::start("configmap", prepare, &[]);
    symlink("..2", fixture.folder.join("..data_tmp")).expect("a link");
    fs::rename(fixture.folder.join("..data_tmp"), fixture.folder.join("..data")).expect("renamed");
    fs::remove_dir_all(fixture.folder.join("..1")).expect("the old version goes");
    fixture.expect_load("after the swap");
    fixture.stop();
}

#[test]
fn an_included_file_elsewhere() {
    let prepare = |folder: &Path| {
        fs::create_dir(folder.join("parts")).expect("a folder");
        write(folder, "parts/hosts", "1");
        write(folder, "zone", "$INCLUDE parts/hosts");
    };
    let fixture = Fixture::start("include", prepare, &["parts/hosts"]);
    write(&fixture.folder, "parts/hosts", "22");
    fixture.expect_load("after a change of the included file");
    fixture.stop();
}

#[test]
fn a_file_that_comes_and_goes() {
    let fixture = Fixture::start("comes", |_| (), &[]);
    write(&fixture.folder, "zone", "1");
    fixture.expect_load("when it is there");
    fs::remove_file(fixture.folder.join("zone")).expect("it goes");
    fixture.expect_load("when it is gone");
    fixture.stop();
}

#[test]
fn a_reload_that_is_asked_for_needs_no_change() {
    let fixture = Fixture::start("asked", |folder| write(folder, "zone", "1"), &[]);
    assert!(fixture.wishes.wait(fixture.wishes.reload(fixture.zones.clone())));
    fixture.expect_load("when asked for");
    fixture.expect_none("after that one");
    fixture.stop();
}

/// Notes what it is told, a line each.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<String>>>);

impl Notes {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().expect("no panic"))
    }
}

impl Keeper for Notes {
    fn load(&mut self, zone: &ZoneFile) -> Vec<PathBuf> {
        let line = format!("{} {}", zone.origin, zone.file.display());
        self.0.lock().expect("no panic").push(line);
        vec![zone.file.clone()]
    }

    fn load_hosts(&mut self, file: &Path) {
        self.0.lock().expect("no panic").push(format!("hosts {}", file.display()));
    }

    fn set_files(&mut self, files: &Files) {
        self.0.lock().expect("no panic").push(format!("{} zones", files.zones.len()));
    }

    fn settle(&mut self, _: &[ZoneFile]) {
        self.0.lock().expect("no panic").push("settled".into());
    }
}

/// A hosts file is loaded before zones, when it is new, when it changes, and when all are.
#[test]
fn hosts_files_are_loaded_when_they_change() {
    let folder = std::env::temp_dir().join(format!("source-hosts-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder");
    let (wishes, mut source) = Source::new();
    let notes = Notes::default();
    let mut keeper = notes.clone();
    let thread = std::thread::spawn(move || source.run(&mut keeper));
    let zone = ZoneFile { origin: NameBuf::root(), file: folder.join("zone") };
    let files = |hosts: &[&str]| Files {
        zones: vec![zone.clone()],
        hosts: hosts.iter().map(|name| folder.join(name)).collect(),
    };
    let line = |name: &str| format!("hosts {}", folder.join(name).display());
    let zone_line = format!(". {}", zone.file.display());
    assert!(wishes.wait(wishes.set_files(files(&["a"]))));
    assert_eq!(notes.take(), ["1 zones", &line("a"), &zone_line, "settled"]);
    assert!(wishes.wait(wishes.set_files(files(&["b", "a"]))));
    assert_eq!(notes.take(), ["1 zones", &line("b"), "settled"], "the other is known");
    fs::write(folder.join("a"), "192.0.2.1 a\n").expect("a file");
    let until = std::time::Instant::now() + SOON;
    let mut told = Vec::new();
    while told.is_empty() && std::time::Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
        told = notes.take();
    }
    assert_eq!(told.first(), Some(&line("a")));
    wishes.stop();
    thread.join().expect("the source ends");
    fs::remove_dir_all(&folder).expect("the folder goes");
}

#[test]
fn zones_come_go_and_get_another_file_while_it_runs() {
    let (wishes, mut source) = Source::new();
    let notes = Notes::default();
    let mut keeper = notes.clone();
    let thread = std::thread::spawn(move || source.run(&mut keeper));
    let folder = std::env::temp_dir().join(format!("source-set-{}", std::process::id()));
    let file = |name: &str| folder.join(name).display().to_string();
    let set = |zones: &[(&str, &str)]| {
        let zones = zones.iter().map(|(origin, name)| ZoneFile {
            origin: NameBuf::from_text(origin.as_bytes(), Name::ROOT).expect("a name"),
            file: folder.join(name),
        });
        assert!(wishes.wait(wishes.set_files(zones.collect::<Vec<_>>())));
        notes.take()
    };
    let line = |origin: &str, name: &str| format!("{origin} {}", file(name));
    assert_eq!(
        set(&[("a.", "1"), ("b.", "2")]),
        ["2 zones", &line("a.", "1"), &line("b.", "2"), "settled"]
    );
    assert_eq!(
        set(&[("B.", "2"), ("c.", "3"), ("a.", "4")]),
        ["3 zones", &line("c.", "3"), &line("a.", "4"), "settled"],
        "what stays is not loaded again"
    );
    assert_eq!(set(&[]), ["0 zones", "settled"]);
    assert_eq!(set(&[("a.", "4")]), ["1 zones", &line("a.", "4"), "settled"]);
    wishes.stop();
    thread.join().expect("the source ends");
    assert!(!wishes.wait(wishes.reload(Files::default())), "nobody is left waiting");
}

/// A defect.
struct Panics;

impl Keeper for Panics {
    fn load(&mut self, _: &ZoneFile) -> Vec<PathBuf> {
        panic!("as the test wants it")
    }

    fn load_hosts(&mut self, _: &Path) {}

    fn set_files(&mut self, _: &Files) {}

    fn settle(&mut self, _: &[ZoneFile]) {}
}

#[test]
fn a_source_that_panics_is_told_from_one_that_was_stopped() {
    let origin = NameBuf::from_text(b"a.test.", Name::ROOT).expect("a name");
    for fails in [false, true] {
        let (wishes, mut source) = Source::new();
        let thread = std::thread::spawn(move || source.run(&mut Panics));
        assert!(!wishes.have_failed());
        if fails {
            let zone = ZoneFile { origin: origin.clone(), file: PathBuf::from("none") };
            assert!(!wishes.wait(wishes.set_files(vec![zone])));
        } else {
            wishes.stop();
        }
        assert_eq!(thread.join().is_err(), fails);
        assert_eq!(wishes.have_failed(), fails);
    }
}

/// Stops the source while it loads.
struct Stops {
    wishes: Wishes,
    loads: usize,
}

impl Keeper for Stops {
    fn load(&mut self, _: &ZoneFile) -> Vec<PathBuf> {
        self.loads += 1;
        self.wishes.stop();
        Vec::new()
    }

    fn load_hosts(&mut self, _: &Path) {}

    fn set_files(&mut self, _: &Files) {}

    fn settle(&mut self, _: &[ZoneFile]) {
        panic!("not all have been loaded");
    }
}

#[test]
fn who_is_to_end_loads_no_further_zone() {
    let (wishes, mut source) = Source::new();
    let zone = |n| ZoneFile {
        origin: NameBuf::from_text(format!("{n}.test.").as_bytes(), Name::ROOT).expect("a name"),
        file: PathBuf::from("none"),
    };
    wishes.set_files((0..100).map(zone).collect::<Vec<_>>());
    let mut keeper = Stops { wishes, loads: 0 };
    source.run(&mut keeper);
    assert_eq!(keeper.loads, 1, "the one that was at work is finished");
}
