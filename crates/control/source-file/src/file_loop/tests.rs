use super::*;
use crate::LoadAttempt;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use test_support::folder::Folder;
use test_support::wait;
use wire::Name;
use wire::NameBuf;

/// Shorter than the poll interval, so that only events explain a load.
const SOON: Duration = Duration::from_secs(5);
/// How long to wait for a load that must not happen.
const NO_LOAD_WAIT: Duration = Duration::from_millis(400);

/// A source watching one zone in its own folder.
struct SourceUnderTest {
    folder: Folder,
    zones: Vec<ZoneFile>,
    commands: CommandSender,
    loads: Receiver<()>,
    thread: JoinHandle<()>,
}

/// Loads zones by a function, which returns the involved files.
struct ZoneLoader<F>(F);

impl<F: FnMut() -> Vec<PathBuf>> LoadHandler for ZoneLoader<F> {
    fn load(&mut self, _: &ZoneFile, _: &mut LoadAttempt<'_>) -> Vec<PathBuf> {
        (self.0)()
    }

    fn load_hosts(&mut self, _: &Path, _: &mut LoadAttempt<'_>) {}

    fn serve_saved(&mut self, _: &ZoneFile) -> bool {
        false
    }

    fn set_writing(&mut self, _: &ZoneFile, _: Option<SystemTime>) {}

    fn set_files(&mut self, _: &FilesToLoad) {}

    fn settle(&mut self, _: &[ZoneFile]) {}
}

impl SourceUnderTest {
    /// Prepares the folder, then watches `zone` in it; `extra` are further involved files.
    fn start(test: &str, prepare: impl Fn(&Path), extra: &[&str]) -> Self {
        let folder = Folder::new(&format!("source-{test}"));
        prepare(&folder);
        let file = folder.join("zone");
        let files: Vec<PathBuf> =
            std::iter::once(file.clone()).chain(extra.iter().map(|f| folder.join(f))).collect();
        let origin = NameBuf::from_text(b"example.org.", Name::ROOT).expect("a name");
        let (commands, mut source) = FileLoop::new();
        let (messages, loads) = channel();
        let thread = std::thread::spawn(move || {
            source.run(&mut ZoneLoader(|| {
                messages.send(()).expect("the test listens");
                files.clone()
            }));
        });
        let zones = vec![ZoneFile { origin, file, views: Vec::new() }];
        commands.set_files(zones.clone());
        let fixture = Self { folder, zones, commands, loads, thread };
        fixture.expect_load("at the start");
        // A file written just before counts as changed, because its earlier state is unknown.
        while fixture.loads.recv_timeout(NO_LOAD_WAIT).is_ok() {}
        fixture
    }

    fn expect_load(&self, when: &str) {
        assert_eq!(self.loads.recv_timeout(SOON), Ok(()), "a load {when}");
    }

    fn expect_none(&self, when: &str) {
        let none = Err(RecvTimeoutError::Timeout);
        assert_eq!(self.loads.recv_timeout(NO_LOAD_WAIT), none, "no load {when}");
    }

    fn stop(self) {
        self.commands.stop();
        self.thread.join().expect("the source ends");
    }
}

fn write(folder: &Path, file: &str, text: &str) {
    fs::write(folder.join(file), text).expect("a file");
}

#[test]
fn write_causes_one_load_and_read_none() {
    let fixture = SourceUnderTest::start("write", |folder| write(folder, "zone", "1"), &[]);
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
fn renamed_file_is_loaded() {
    let fixture = SourceUnderTest::start("rename", |folder| write(folder, "zone", "1"), &[]);
    for round in ["first", "second"] {
        write(&fixture.folder, "zone.new", round);
        fs::rename(fixture.folder.join("zone.new"), fixture.folder.join("zone")).expect("renamed");
        fixture.expect_load(round);
    }
    fixture.stop();
}

#[test]
fn config_map_update_is_loaded() {
    let prepare = |folder: &Path| {
        for version in ["..1", "..2"] {
            fs::create_dir(folder.join(version)).expect("a folder");
            write(folder, &format!("{version}/zone"), "same length");
        }
        symlink("..1", folder.join("..data")).expect("a link");
        symlink("..data/zone", folder.join("zone")).expect("a link");
    };
    let fixture = SourceUnderTest::start("configmap", prepare, &[]);
    symlink("..2", fixture.folder.join("..data_tmp")).expect("a link");
    fs::rename(fixture.folder.join("..data_tmp"), fixture.folder.join("..data")).expect("renamed");
    fs::remove_dir_all(fixture.folder.join("..1")).expect("the old version goes");
    fixture.expect_load("after the swap");
    fixture.stop();
}

#[test]
fn changed_include_in_another_folder_is_loaded() {
    let prepare = |folder: &Path| {
        fs::create_dir(folder.join("parts")).expect("a folder");
        write(folder, "parts/hosts", "1");
        write(folder, "zone", "$INCLUDE parts/hosts");
    };
    let fixture = SourceUnderTest::start("include", prepare, &["parts/hosts"]);
    write(&fixture.folder, "parts/hosts", "22");
    fixture.expect_load("after a change of the included file");
    fixture.stop();
}

#[test]
fn created_and_removed_file_is_loaded() {
    let fixture = SourceUnderTest::start("comes", |_| (), &[]);
    write(&fixture.folder, "zone", "1");
    fixture.expect_load("when it is there");
    fs::remove_file(fixture.folder.join("zone")).expect("it goes");
    fixture.expect_load("when it is gone");
    fixture.stop();
}

#[test]
fn requested_reload_loads_unchanged_files() {
    let fixture = SourceUnderTest::start("asked", |folder| write(folder, "zone", "1"), &[]);
    assert!(fixture.commands.wait(fixture.commands.reload(fixture.zones.clone())));
    fixture.expect_load("when asked for");
    fixture.expect_none("after that one");
    fixture.stop();
}

/// Records calls, a line each.
#[derive(Clone, Default)]
struct TestLog(Arc<Mutex<Vec<String>>>);

impl TestLog {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().expect("no panic"))
    }
}

impl LoadHandler for TestLog {
    fn load(&mut self, zone: &ZoneFile, _: &mut LoadAttempt<'_>) -> Vec<PathBuf> {
        let line = format!("{} {}", zone.origin, zone.file.display());
        self.0.lock().expect("no panic").push(line);
        vec![zone.file.clone()]
    }

    fn load_hosts(&mut self, file: &Path, _: &mut LoadAttempt<'_>) {
        self.0.lock().expect("no panic").push(format!("hosts {}", file.display()));
    }

    fn serve_saved(&mut self, _: &ZoneFile) -> bool {
        false
    }

    fn set_writing(&mut self, _: &ZoneFile, _: Option<SystemTime>) {}

    fn set_files(&mut self, files: &FilesToLoad) {
        self.0.lock().expect("no panic").push(format!("{} zones", files.zones.len()));
    }

    fn settle(&mut self, _: &[ZoneFile]) {
        self.0.lock().expect("no panic").push("settled".into());
    }
}

/// A hosts file is loaded before zones: when new, when changed, and on a full reload.
#[test]
fn hosts_files_are_loaded_when_they_change() {
    let folder = Folder::new("source-hosts");
    let (commands, mut source) = FileLoop::new();
    let notes = TestLog::default();
    let mut handler = notes.clone();
    let thread = std::thread::spawn(move || source.run(&mut handler));
    let zone = ZoneFile { origin: NameBuf::root(), file: folder.join("zone"), views: Vec::new() };
    let files = |hosts: &[&str]| FilesToLoad {
        zones: vec![zone.clone()],
        hosts: hosts.iter().map(|name| folder.join(name)).collect(),
    };
    let line = |name: &str| format!("hosts {}", folder.join(name).display());
    let zone_line = format!(". {}", zone.file.display());
    assert!(commands.wait(commands.set_files(files(&["a"]))));
    assert_eq!(notes.take(), ["1 zones", &line("a"), &zone_line, "settled"]);
    assert!(commands.wait(commands.set_files(files(&["b", "a"]))));
    assert_eq!(notes.take(), ["1 zones", &line("b"), "settled"], "the other is known");
    fs::write(folder.join("a"), "192.0.2.1 a\n").expect("a file");
    let first = wait::until("the source sees the change", || notes.take().into_iter().next());
    assert_eq!(first, line("a"));
    commands.stop();
    thread.join().expect("the source ends");
}

#[test]
fn replaced_zone_list_loads_only_new_and_moved_zones() {
    let (commands, mut source) = FileLoop::new();
    let notes = TestLog::default();
    let mut handler = notes.clone();
    let thread = std::thread::spawn(move || source.run(&mut handler));
    let folder = Path::new("/none");
    let file = |name: &str| folder.join(name).display().to_string();
    let set = |zones: &[(&str, &str)]| {
        let zones = zones.iter().map(|(origin, name)| ZoneFile {
            origin: NameBuf::from_text(origin.as_bytes(), Name::ROOT).expect("a name"),
            file: folder.join(name),
            views: Vec::new(),
        });
        assert!(commands.wait(commands.set_files(zones.collect::<Vec<_>>())));
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
    commands.stop();
    thread.join().expect("the source ends");
    assert!(!commands.wait(commands.reload(FilesToLoad::default())), "waiters return");
}

#[test]
fn panicked_source_is_distinguished_from_stopped() {
    let origin = NameBuf::from_text(b"a.test.", Name::ROOT).expect("a name");
    for fails in [false, true] {
        let (commands, mut source) = FileLoop::new();
        let thread = std::thread::spawn(move || {
            source.run(&mut ZoneLoader(|| panic!("as the test wants it")));
        });
        assert!(!commands.have_failed());
        if fails {
            let zone =
                ZoneFile { origin: origin.clone(), file: PathBuf::from("none"), views: Vec::new() };
            assert!(!commands.wait(commands.set_files(vec![zone])));
        } else {
            commands.stop();
        }
        assert_eq!(thread.join().is_err(), fails);
        assert_eq!(commands.have_failed(), fails);
    }
}

/// Stops the source during a load.
struct StoppingHandler {
    commands: CommandSender,
    loads: usize,
}

impl LoadHandler for StoppingHandler {
    fn load(&mut self, _: &ZoneFile, _: &mut LoadAttempt<'_>) -> Vec<PathBuf> {
        self.loads += 1;
        self.commands.stop();
        Vec::new()
    }

    fn load_hosts(&mut self, _: &Path, _: &mut LoadAttempt<'_>) {}

    fn serve_saved(&mut self, _: &ZoneFile) -> bool {
        false
    }

    fn set_writing(&mut self, _: &ZoneFile, _: Option<SystemTime>) {}

    fn set_files(&mut self, _: &FilesToLoad) {}

    fn settle(&mut self, _: &[ZoneFile]) {
        panic!("not all have been loaded");
    }
}

#[test]
fn stopped_source_loads_no_further_zone() {
    let (commands, mut source) = FileLoop::new();
    let zone = |n| ZoneFile {
        origin: NameBuf::from_text(format!("{n}.test.").as_bytes(), Name::ROOT).expect("a name"),
        file: PathBuf::from("none"),
        views: Vec::new(),
    };
    commands.set_files((0..100).map(zone).collect::<Vec<_>>());
    let mut handler = StoppingHandler { commands, loads: 0 };
    source.run(&mut handler);
    assert_eq!(handler.loads, 1, "the one that was at work is finished");
}

mod writing;
