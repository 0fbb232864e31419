use super::*;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;
use test_support::folder::Folder;

const SECOND: Duration = Duration::from_secs(1);

/// A file in its own folder, with stamps of its states.
struct FileScenario {
    folder: Folder,
    file: PathBuf,
    began: Instant,
    pending: Option<PendingFile>,
    read: StampedFile,
}

impl FileScenario {
    fn new(test: &str) -> Self {
        let folder = Folder::new(&format!("change-{test}"));
        let file = folder.join("zone");
        fs::write(&file, "as it was read").expect("a file");
        let read = StampedFile { is_racy: false, ..StampedFile::of(&file) };
        Self { folder, file, began: Instant::now(), pending: None, read }
    }

    fn write(&self, text: &str) {
        fs::write(&self.file, text).expect("a file");
    }

    /// The verdict this many seconds after the start.
    fn at(&mut self, seconds: u32, activity: Option<Activity>) -> FileVerdict {
        let (new, now) = (StampedFile::of(&self.file), self.began + SECOND * seconds);
        judge(Some(&self.read), &new, activity, &mut self.pending, now)
    }
}

#[test]
fn events_decide_whether_a_file_is_whole() {
    let mut scene = FileScenario::new("events");
    assert_eq!(scene.at(0, None), FileVerdict::Same);
    let since = SystemTime::now();
    assert_eq!(
        scene.at(0, Some(Activity::Writing(since))),
        FileVerdict::Same,
        "another file's writer"
    );
    scene.write("changed");
    let writing = Some(Activity::Writing(since));
    assert_eq!(scene.at(0, writing), FileVerdict::Writing(since));
    assert_eq!(scene.at(3_600, writing), FileVerdict::Writing(since), "however long it takes");
    assert_eq!(scene.at(3_600, Some(Activity::Closed)), FileVerdict::Whole { renamed: false });
    let placed = Some(Activity::Placed);
    assert_eq!(scene.at(3_600, placed), FileVerdict::Whole { renamed: true });
}

/// As on a network file system, or when no more folders can be watched.
#[test]
fn file_without_events_is_whole_after_two_seconds_unchanged() {
    let mut scene = FileScenario::new("polled");
    let until = |seconds: u32, scene: &FileScenario| FileVerdict::Unsettled {
        until: scene.began + SECOND * seconds,
        renamed: false,
    };
    scene.write("1");
    assert_eq!(scene.at(10, None), until(12, &scene));
    assert_eq!(scene.at(11, None), until(12, &scene));
    scene.write("half of it");
    assert_eq!(scene.at(12, None), until(14, &scene), "it changed again");
    assert_eq!(scene.at(13, None), until(14, &scene));
    assert_eq!(scene.at(14, None), FileVerdict::Whole { renamed: false });
}

/// A file server's clock may be off by hours, and a tool may set any time.
#[test]
fn modification_time_does_not_matter_without_events() {
    for offset in [-1_000_000_i64, 1_000_000] {
        let mut scene = FileScenario::new("clock");
        let at = SystemTime::now();
        let at = match offset {
            ..0 => at - Duration::from_secs(offset.unsigned_abs()),
            _ => at + Duration::from_secs(offset.unsigned_abs()),
        };
        scene.write("changed");
        let file = fs::File::options().write(true).open(&scene.file).expect("a file");
        file.set_modified(at).expect("a time");
        assert!(matches!(scene.at(0, None), FileVerdict::Unsettled { .. }), "{offset}");
        assert_eq!(scene.at(2, None), FileVerdict::Whole { renamed: false }, "{offset}");
    }
}

#[test]
fn file_replaced_without_event_counts_as_renamed() {
    let mut scene = FileScenario::new("replaced");
    let new = scene.folder.join("new");
    fs::write(&new, "another").expect("a file");
    fs::rename(&new, &scene.file).expect("renamed");
    assert!(matches!(scene.at(0, None), FileVerdict::Unsettled { renamed: true, .. }));
    assert_eq!(scene.at(2, None), FileVerdict::Whole { renamed: true });
}

#[test]
fn swapped_link_is_whole_at_once() {
    let mut scene = FileScenario::new("link");
    let (old, new) = (scene.folder.join("old"), scene.folder.join("new"));
    for file in [&old, &new] {
        fs::write(file, "the same").expect("a file");
    }
    fs::remove_file(&scene.file).expect("a file");
    std::os::unix::fs::symlink(&old, &scene.file).expect("a link");
    scene.read = StampedFile::of(&scene.file);
    fs::remove_file(&scene.file).expect("a link");
    std::os::unix::fs::symlink(&new, &scene.file).expect("a link");
    assert_eq!(scene.at(0, None), FileVerdict::Whole { renamed: true });
}

#[test]
fn removed_file_is_reported_at_once_and_new_file_waits() {
    let mut scene = FileScenario::new("gone");
    fs::remove_file(&scene.file).expect("a file");
    assert_eq!(scene.at(0, None), FileVerdict::Whole { renamed: false });
    scene.read = StampedFile::of(&scene.file);
    assert_eq!(scene.at(0, None), FileVerdict::Same);
    scene.write("there again");
    assert!(matches!(scene.at(0, None), FileVerdict::Unsettled { renamed: false, .. }));
    assert_eq!(scene.at(2, None), FileVerdict::Whole { renamed: false });
}

/// Two changes within a tick of the kernel's clock leave the same times; only the event shows the
/// second.
#[test]
fn change_within_a_clock_tick_is_detected_by_its_event() {
    let mut scene = FileScenario::new("granule");
    scene.read.is_racy = true;
    assert_eq!(scene.at(0, None), FileVerdict::Same);
    assert_eq!(scene.at(0, Some(Activity::Closed)), FileVerdict::Whole { renamed: false });
}
