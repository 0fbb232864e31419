//! Files that are read while they are being written.
use super::*;
use std::fs::File;
use std::io::Write;

/// Longer than a file without events must stay the same.
const OVER_SETTLED: Duration = Duration::from_millis(2_300);

/// A load: how the file was written, and its text.
type FileLoad = (WriteKind, String);

/// Reads the zone's file and reports the text that would be served.
struct ReadingHandler {
    messages: Sender<FileLoad>,
    has_copy: bool,
    /// Runs between reading and the check whether the file was complete.
    meanwhile: Box<dyn FnMut() + Send>,
}

impl LoadHandler for ReadingHandler {
    fn load(&mut self, zone: &ZoneFile, attempt: &mut LoadAttempt<'_>) -> Vec<PathBuf> {
        let text = fs::read_to_string(&zone.file).unwrap_or_default();
        (self.meanwhile)();
        if attempt.is_whole() {
            self.messages.send((attempt.arrival(), text)).expect("the test listens");
        }
        vec![zone.file.clone()]
    }

    fn load_hosts(&mut self, file: &Path, attempt: &mut LoadAttempt<'_>) {
        let text = fs::read_to_string(file).unwrap_or_default();
        if attempt.is_whole() {
            self.messages.send((attempt.arrival(), text)).expect("the test listens");
        }
    }

    fn serve_saved(&mut self, _: &ZoneFile) -> bool {
        self.has_copy
    }

    fn set_writing(&mut self, _: &ZoneFile, _: Option<SystemTime>) {}

    fn set_files(&mut self, _: &FilesToLoad) {}

    fn settle(&mut self, _: &[ZoneFile]) {}
}

/// A source watching one file in its own folder.
struct FileScenario {
    folder: Folder,
    file: PathBuf,
    files: FilesToLoad,
    commands: CommandSender,
    loads: Receiver<FileLoad>,
    thread: JoinHandle<()>,
}

impl FileScenario {
    /// Starts on a zone or hosts file with the text `old`.
    fn start(test: &str, hosts: bool, has_copy: bool, meanwhile: fn(&Path)) -> Self {
        let folder = Folder::new(&format!("writing-{test}"));
        let file = folder.join("zone");
        fs::write(&file, "old").expect("a file");
        let zone = ZoneFile { origin: NameBuf::root(), file: file.clone(), views: Vec::new() };
        let files = match hosts {
            true => FilesToLoad { zones: Vec::new(), hosts: vec![file.clone()] },
            false => FilesToLoad::from(vec![zone]),
        };
        let (commands, mut source) = FileLoop::new();
        let (messages, loads) = channel();
        let path = file.clone();
        let meanwhile = Box::new(move || meanwhile(&path));
        let mut handler = ReadingHandler { messages, has_copy, meanwhile };
        let thread = std::thread::spawn(move || source.run(&mut handler));
        assert!(commands.wait(commands.set_files(files.clone())));
        Self { folder, file, files, commands, loads, thread }
    }

    /// Starts on a zone, which is loaded.
    fn loaded(test: &str, meanwhile: fn(&Path)) -> Self {
        let scene = Self::start(test, false, false, meanwhile);
        scene.expect(WriteKind::First, "old");
        scene
    }

    /// Puts a file into the place of the watched one.
    fn rename(&self, text: &str) {
        let new = self.folder.join("new");
        fs::write(&new, text).expect("a file");
        fs::rename(&new, &self.file).expect("renamed");
    }

    fn expect(&self, arrival: WriteKind, text: &str) {
        let load = self.loads.recv_timeout(SOON).expect("a load");
        assert_eq!((load.0, load.1.as_str()), (arrival, text));
    }

    fn expect_none(&self, time: Duration, when: &str) {
        let load = self.loads.recv_timeout(time);
        assert!(load.is_err(), "{load:?} {when}");
    }

    fn stop(self) {
        self.commands.stop();
        self.thread.join().expect("the source ends");
    }
}

#[test]
fn file_is_loaded_once_its_writer_closes_it() {
    for hosts in [false, true] {
        let scene = FileScenario::start(&format!("slow-{hosts}"), hosts, false, |_| ());
        scene.expect(WriteKind::First, "old");
        let mut writer = File::create(&scene.file).expect("a file");
        scene.expect_none(NO_LOAD_WAIT, "while it is written");
        writeln!(writer, "one").expect("written");
        scene.expect_none(OVER_SETTLED, "while it is written");
        writeln!(writer, "two").expect("written");
        scene.expect_none(NO_LOAD_WAIT, "before it is closed");
        drop(writer);
        scene.expect(WriteKind::Written, "one\ntwo\n");
        scene.expect_none(NO_LOAD_WAIT, "of the same");
        scene.stop();
    }
}

#[test]
fn reload_waits_for_the_writer() {
    let scene = FileScenario::loaded("reload", |_| ());
    let mut writer = File::create(&scene.file).expect("a file");
    write!(writer, "ha").expect("written");
    assert!(scene.commands.wait(scene.commands.reload(scene.files.clone())));
    assert!(scene.commands.wait(scene.commands.load(NameBuf::root())));
    scene.expect_none(NO_LOAD_WAIT, "while it is written");
    write!(writer, "lf").expect("written");
    drop(writer);
    // A reload drains events itself, so a closed file is loaded at once.
    assert!(scene.commands.wait(scene.commands.reload(scene.files.clone())));
    scene.expect(WriteKind::Written, "half");
    while scene.loads.recv_timeout(NO_LOAD_WAIT).is_ok() {}
    assert!(scene.commands.wait(scene.commands.load(NameBuf::root())));
    scene.expect(WriteKind::Written, "half");
    scene.stop();
}

#[test]
fn recreated_file_is_distinguished_from_renamed() {
    let scene = FileScenario::loaded("anew", |_| ());
    fs::remove_file(&scene.file).expect("a file");
    let mut writer = File::create(&scene.file).expect("a file");
    // The visit may happen while the file is missing.
    while let Ok((arrival, text)) = scene.loads.recv_timeout(OVER_SETTLED) {
        assert_eq!((arrival, text.as_str()), (WriteKind::Written, ""), "nothing is there");
    }
    write!(writer, "anew").expect("written");
    drop(writer);
    scene.expect(WriteKind::Written, "anew");
    scene.rename("renamed");
    scene.expect(WriteKind::Renamed, "renamed");
    scene.stop();
}

/// A writer of the replaced file keeps writing it.
#[test]
fn renamed_file_is_loaded_while_the_old_one_is_written() {
    let scene = FileScenario::loaded("unlinked", |_| ());
    let mut writer = File::create(&scene.file).expect("a file");
    scene.rename("renamed");
    for _ in 0..3 {
        write!(writer, "replaced").expect("written");
    }
    scene.expect(WriteKind::Renamed, "renamed");
    drop(writer);
    scene.stop();
}

/// The file has the same length after the first read as before, and is shorter in between.
#[test]
fn load_during_a_write_is_discarded() {
    let scene = FileScenario::loaded("torn", |file| {
        if fs::read(file).is_ok_and(|text| text == b"new") {
            fs::write(file, "newer").expect("a file");
        }
    });
    scene.rename("new");
    let (arrival, text) = scene.loads.recv_timeout(SOON).expect("a load");
    assert_eq!(text, "newer", "{arrival:?}");
    scene.stop();
}

#[test]
fn young_file_waits_at_start_if_a_copy_is_served() {
    let scene = FileScenario::start("start", false, true, |_| ());
    scene.expect_none(NO_LOAD_WAIT, "of a file that may be written still");
    // It is complete after two seconds without change.
    scene.expect(WriteKind::First, "old");
    scene.stop();
}

#[test]
fn young_file_written_at_start_is_loaded_once_closed() {
    let scene = FileScenario::start("start-writing", false, true, |_| ());
    let mut writer = File::create(&scene.file).expect("a file");
    write!(writer, "wh").expect("written");
    scene.expect_none(OVER_SETTLED, "while it is written");
    write!(writer, "ole").expect("written");
    drop(writer);
    scene.expect(WriteKind::First, "whole");
    scene.stop();
}
