use super::saver::temporary_name;
use super::*;
use crate::limits::SAVE_RETRY;
use std::fs;
use std::sync::Mutex;
use std::time::{Duration, SystemTime};
use test_support::folder::Folder;
use test_support::wait;

const APEX: &str = "$TTL 5\n@ SOA ns hostmaster 1 2h 1h 2w 5m\n@ NS ns\nns A 192.0.2.1\n";

fn key() -> Arc<HashKey> {
    Arc::new(HashKey::new(std::array::from_fn(|n| {
        (n as u64 + 3).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    })))
}

fn name(text: &str) -> NameBuf {
    NameBuf::from_text(text.as_bytes(), Name::ROOT).expect("a name")
}

/// The text as a zone.
fn load(origin: &str, text: &str) -> Zone {
    let origin = name(origin);
    let mut loader = Loader::new(key(), origin.as_name(), None);
    zonefile::read_stream(&mut text.as_bytes(), origin.as_name(), &mut |record| {
        loader.add(record.owner, record.rtype, record.ttl, record.rdata, 0)
    })
    .expect("a right text");
    loader.finish().expect("a zone")
}

fn save(folder: &Path, zone: &Zone) -> PathBuf {
    let path = path(folder, zone.origin());
    write(zone, None, &mut File::create(&path).expect("a file")).expect("written");
    path
}

fn read_error(folder: &Path, origin: &str) -> String {
    read(folder, name(origin).as_name(), &key()).map(drop).expect_err("a bad copy")
}

/// Every packed node, which shows names, TTLs, data, case and order.
fn content(zone: &Zone) -> Vec<Vec<u8>> {
    let trees = [zone.names() as &dyn image::Tree, zone.hashed()];
    let nodes = trees.into_iter().flat_map(|tree| (0..tree.len()).filter_map(|n| tree.at(n)));
    nodes.map(|node| node.as_bytes().to_vec()).collect()
}

fn check(test: &str, zone: &Zone) {
    let folder = Folder::new(test);
    save(&folder, zone);
    let (again, records) = read(&folder, zone.origin(), &key()).expect("sound").expect("there");
    assert!(content(&again) == content(zone), "{test}: the copy is another zone");
    assert_eq!(records, zone.count().1 as u64);
    assert_eq!(again.facts().nsec3, zone.facts().nsec3);
    assert!(is_current(&folder, zone));
}

#[test]
fn copy_round_trips_with_every_type_and_escape() {
    for case in ["types", "escapes", "ttl", "generate"] {
        let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("../zonefile/tests/cases");
        let text = fs::read_to_string(cases.join(format!("{case}.case"))).expect("a case");
        let text = text.split_once(";; expect").expect("the mark").0;
        // The zone has its own SOA record, and a CNAME must be alone.
        let fits = |line: &&str| !line.contains(" SOA ") && !line.starts_with('@');
        let kept: Vec<&str> = text.lines().filter(fits).collect();
        check(case, &load("example.", &format!("{APEX}{}\n", kept.join("\n"))));
    }
    check("root", &load(".", "$TTL 5\n@ SOA ns root 1 2 3 4 5\n@ NS ns\n* TXT \"\\000\\255\"\n"));
}

#[test]
fn ten_thousand_names_round_trip() {
    let mut text = APEX.to_owned();
    for n in 0..10_000 {
        let (a, b) = (n / 250, n % 250);
        let line = match n % 7 {
            0 => format!("svc-{n}.ns-{b} 30 A 10.0.{a}.{b}\nsvc-{n}.ns-{b} 31 A 10.1.{a}.{b}"),
            1 => format!("Caf\\233-{n} CNAME Some.Where.{n}.Else."),
            2 => format!("a\\.b\\\\c\\\"{n} TXT \"x\\000;\\\"{n}\" \"\" {}", "y".repeat(b)),
            3 => format!("\\000\\001{n} TYPE65400 \\# 4 {n:08x}"),
            4 => format!("empty{n} TYPE65402 \\# 0"),
            5 => format!("*.w{n} AAAA 2001:db8::{n:x}"),
            _ => format!("{n:032x} NSEC3 1 0 0 - 2t7b4g4vsa5smi47k61mv5bv1a22bojr A"),
        };
        text += &(line + "\n");
    }
    check("many", &load("Example.ORG.", &text));
}

#[test]
fn damaged_copy_is_named_and_one_of_an_older_version_is_read() {
    let folder = Folder::new("damage");
    let zone = load("example.org.", APEX);
    let path = save(&folder, &zone);
    let read = || read(&folder, zone.origin(), &key());
    let sound = fs::read(&path).expect("the copy");
    let content = &sound[form(zone.origin()).content_at() as usize..];
    // As an older version wrote it.
    let mut old = [old_header(zone.origin()).as_bytes(), content].concat();
    let mut sum = SipHasher13::new();
    sum.write(&old);
    old.extend(format!("; checksum {:016x}\n", sum.finish()).bytes());
    for copy in [sound, old] {
        fs::write(&path, &copy).expect("written");
        assert!(read().is_ok_and(|it| it.is_some()) && is_current(&folder, &zone));
        assert_eq!(note(&folder, zone.origin(), &key()), Some(CopyNote::new(&zone, None)));
        let damaged = [&copy[..], b"x 5 A 192.0.2.9\n"].concat();
        fs::write(&path, &damaged).expect("written");
        let why = read_error(&folder, "example.org.");
        assert!(why.contains("example.org.zone: is cut off or damaged"), "{why}");
        assert!(!is_current(&folder, &zone));
        assert_eq!(fs::read(&path).expect("it stays"), damaged);
    }
}

#[test]
fn copy_of_another_zone_or_format_is_refused() {
    let folder = Folder::new("other");
    let path = save(&folder, &load("example.org.", APEX));
    fs::rename(&path, super::path(&folder, name("example.com.").as_name())).expect("renamed");
    assert!(read_error(&folder, "example.com.").contains("belongs to another one: example.org."));
    assert!(read(&folder, name("example.org.").as_name(), &key()).is_ok_and(|it| it.is_none()));
}

#[test]
fn zones_have_distinct_file_names() {
    let long = |last: char| format!("{}{last}.", "\\000.".repeat(120));
    let names =
        [".", "@.", "org.", "a.b.", "a\\.b.", "a%2eb.", "\\/.", "..\\.".trim_start_matches('.')]
            .map(str::to_owned)
            .into_iter()
            .chain([long('a'), long('b')]);
    let mut files = std::collections::HashSet::new();
    for text in names {
        let Ok(origin) = NameBuf::from_text(text.as_bytes(), Name::ROOT) else { continue };
        let file = file_name(origin.as_name());
        assert!(file.len() < 230 && !file.contains('/') && !file.starts_with('.'), "{file}");
        assert!(files.insert(file), "{text}");
    }
    assert_eq!(file_name(name("Example.ORG.").as_name()), "example.org.zone");
}

/// Served zones to save.
#[derive(Clone, Default)]
struct TestZones(Arc<Mutex<Vec<Arc<Zone>>>>);

impl TestZones {
    fn put(&self, zone: Zone) {
        let mut zones = self.0.lock().expect("no panic");
        zones.retain(|other| other.origin() != zone.origin());
        zones.push(Arc::new(zone));
    }

    fn newest(&self) -> impl Fn(Name<'_>) -> Option<Arc<Zone>> + Send + 'static {
        let zones = Arc::clone(&self.0);
        move |origin: Name<'_>| {
            let zones = zones.lock().expect("no panic");
            zones.iter().find(|zone| zone.origin() == origin).cloned()
        }
    }

    fn saver(&self, folder: &Path) -> ZoneSaver {
        let retry = Duration::from_millis(20);
        ZoneSaver::with(folder.into(), self.newest(), retry, || Ok(())).expect("a thread")
    }
}

/// Saves a zone, and waits until that is done.
fn save_now(saver: &ZoneSaver, origin: &NameBuf) {
    saver.save(origin.as_name(), None);
    saver.wait();
}

fn inode(path: &Path) -> u64 {
    std::os::unix::fs::MetadataExt::ino(&fs::metadata(path).expect("a file"))
}

#[test]
fn only_changed_zones_are_saved() {
    let (folder, served) = (Folder::new("saver"), TestZones::default());
    let saver = served.saver(&folder.join("deeper"));
    let origin = name("example.org.");
    served.put(load("example.org.", APEX));
    save_now(&saver, &origin);
    let path = path(&folder.join("deeper"), origin.as_name());
    let first = inode(&path);
    save_now(&saver, &origin);
    assert_eq!(inode(&path), first, "the same zone is not written again");
    served.put(load("example.org.", &format!("{APEX}www A 192.0.2.2\n")));
    save_now(&saver, &origin);
    assert!(fs::read_to_string(&path).expect("the copy").contains("www.example.org."));
    served.put(Zone::unloaded(key(), origin.as_name()));
    save_now(&saver, &origin);
    assert!(path.exists(), "a zone that was never loaded does not replace a copy");
    saver.keep_only(std::iter::empty(), Duration::ZERO);
    saver.wait();
    assert!(!path.exists());
    assert_eq!(fs::read_dir(folder.join("deeper")).expect("a folder").count(), 0);
}

#[test]
fn copies_of_removed_zones_are_removed() {
    let (folder, served) = (Folder::new("sweep"), TestZones::default());
    save(&folder, &load("old.test.", APEX));
    let kept = save(&folder, &load("kept.test.", APEX));
    fs::write(folder.join("notes"), "not ours").expect("a file");
    let saver = served.saver(&folder);
    saver.keep_only([name("kept.test.").as_name()].into_iter(), Duration::ZERO);
    saver.wait();
    assert!(kept.exists() && folder.join("notes").exists());
    assert_eq!(fs::read_dir(&folder).expect("a folder").count(), 2);
}

/// A config that was cut by mistake names most zones again a moment later.
#[test]
fn copies_of_removed_zones_stay_for_a_while_and_come_back() {
    let (folder, served) = (Folder::new("removed"), TestZones::default());
    let zone = load("example.org.", APEX);
    let copy = save(&folder, &zone);
    let removed = folder.join("example.org.zone.removed");
    let hour = Duration::from_secs(3_600);
    let old = File::options().write(true).open(&copy).expect("a file");
    old.set_modified(SystemTime::UNIX_EPOCH).expect("a time");
    let saver = served.saver(&folder);
    let keep = |names: &[NameBuf]| {
        saver.keep_only(names.iter().map(NameBuf::as_name), hour);
        saver.wait();
    };
    keep(&[]);
    assert!(removed.exists() && !copy.exists(), "its age counts from now");
    assert!(is_current(&folder, &zone), "it is still read");
    keep(&[]);
    keep(&[name("example.org.")]);
    assert!(copy.exists() && !removed.exists(), "its zone is named again");
    keep(&[]);
    fs::write(&copy, fs::read(&removed).expect("a copy")).expect("saved since");
    keep(&[name("example.org.")]);
    assert!(copy.exists() && !removed.exists());
    keep(&[]);
    let old = File::options().write(true).open(&removed).expect("a file");
    old.set_modified(SystemTime::now() - 2 * hour).expect("a time");
    keep(&[]);
    assert_eq!(fs::read_dir(&folder).expect("a folder").count(), 0, "its time is over");
}

/// An operator may set `data_dir` to a folder with zone files, which must not be lost.
#[test]
fn other_files_are_neither_replaced_nor_removed() {
    let (folder, served) = (Folder::new("foreign"), TestZones::default());
    let mine = path(&folder, name("mine.test.").as_name());
    let other = path(&folder, name("other.test.").as_name());
    for file in [&mine, &other, &folder.join("old.tmp")] {
        fs::write(file, APEX).expect("a file");
    }
    let long_ago = std::time::SystemTime::UNIX_EPOCH;
    let old = File::options().write(true).open(folder.join("old.tmp")).expect("a file");
    old.set_modified(long_ago).expect("a time");
    served.put(load("mine.test.", APEX));
    let saver = served.saver(&folder);
    saver.save(name("mine.test.").as_name(), None);
    saver.keep_only([name("mine.test.").as_name()].into_iter(), Duration::ZERO);
    saver.wait();
    let trouble = saver.trouble().expect("trouble");
    assert!(trouble.contains("mine.test.zone: it is not a copy"), "{trouble}");
    for file in [&mine, &other, &folder.join("old.tmp")] {
        assert_eq!(fs::read_to_string(file).expect("it stays"), APEX);
    }
}

#[test]
fn failed_save_is_shown_and_retried() {
    let (folder, served) = (Folder::new("trouble"), TestZones::default());
    let place = folder.join("taken");
    fs::write(&place, "a file where the folder should be").expect("a file");
    let saver = served.saver(&place);
    for origin in ["a.test.", "b.test."] {
        served.put(load(origin, APEX));
        saver.save(name(origin).as_name(), None);
    }
    wait::until("trouble is shown", || saver.trouble());
    let trouble = saver.trouble().expect("trouble");
    assert!(trouble.contains("taken"), "{trouble}");
    fs::remove_file(&place).expect("the file goes");
    wait::until_true("trouble ends", || saver.trouble().is_none());
    assert!(place.join("a.test.zone").exists() && place.join("b.test.zone").exists());
}

#[test]
fn full_disk_keeps_the_old_copy() {
    let (folder, served) = (Folder::new("full"), TestZones::default());
    let origin = name("example.org.");
    let path = save(&folder, &load("example.org.", APEX));
    let old = fs::read(&path).expect("the copy");
    // As on a full disk.
    let is_full = std::sync::atomic::AtomicBool::new(true);
    let prepare = move || match is_full.swap(false, std::sync::atomic::Ordering::Relaxed) {
        true => File::options().write(true).open("/dev/full")?.write_all(b"x"),
        false => Ok(()),
    };
    served.put(load("example.org.", &format!("{APEX}www A 192.0.2.2\n")));
    let newest = served.newest();
    let saver =
        ZoneSaver::with(folder.to_path_buf(), newest, SAVE_RETRY, prepare).expect("a thread");
    save_now(&saver, &origin);
    assert!(saver.trouble().expect("trouble").contains("No space left"));
    assert_eq!(fs::read(&path).expect("the copy"), old);
    let count = fs::read_dir(&folder).expect("a folder").count();
    assert_eq!(count, 1, "nothing half-written stays");
    save_now(&saver, &origin);
    assert_eq!(saver.trouble(), None);
    assert_ne!(fs::read(&path).expect("the copy"), old);
}

/// Containers often have the same process ID.
#[test]
fn processes_sharing_a_folder_use_distinct_files() {
    assert_ne!(temporary_name(), temporary_name());
}

#[test]
fn scheduled_zones_are_saved_at_the_end() {
    let (folder, served) = (Folder::new("end"), TestZones::default());
    let saver = served.saver(&folder);
    for n in 0..50 {
        served.put(load(&format!("n{n}.test."), APEX));
        saver.save(name(&format!("n{n}.test.")).as_name(), None);
    }
    drop(saver);
    assert_eq!(fs::read_dir(&folder).expect("a folder").count(), 50);
}

/// A planted file is neither served nor written through.
#[test]
fn linked_or_world_writable_copy_is_refused() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let (folder, served) = (Folder::new("planted"), TestZones::default());
    let zone = load("example.org.", APEX);
    let target = save(&folder.join(".."), &zone);
    let planted = path(&folder, zone.origin());
    symlink(&target, &planted).expect("a link");
    let sound = fs::read(&target).expect("the target");
    assert!(read_error(&folder, "example.org.").contains("symbolic link"));
    assert!(!is_current(&folder, &zone));
    served.put(load("example.org.", &format!("{APEX}www A 192.0.2.2\n")));
    let saver = served.saver(&folder);
    saver.save(zone.origin(), None);
    wait::until("trouble is shown", || saver.trouble());
    assert!(saver.trouble().expect("trouble").contains("symbolic link"));
    saver.keep_only(std::iter::empty(), Duration::ZERO);
    saver.wait();
    assert!(planted.is_symlink(), "it is left alone");
    assert_eq!(fs::read(&target).expect("the target"), sound, "it is untouched");
    drop(saver);

    fs::rename(&target, &planted).expect("in place of the link");
    assert!(read(&folder, zone.origin(), &key()).expect("sound").is_some());
    fs::set_permissions(&planted, fs::Permissions::from_mode(0o660)).expect("ours");
    assert!(read(&folder, zone.origin(), &key()).expect("of the group").is_some());
    fs::set_permissions(&planted, fs::Permissions::from_mode(0o666)).expect("ours");
    assert!(read_error(&folder, "example.org.").contains("everyone may write"));
    let (other, new) =
        (differing(&folder, &zone), load("example.org.", &format!("{APEX}x A 1.2.3.4\n")));
    assert!(other.is_none(), "the same zone");
    assert!(differing(&folder, &new).is_some(), "to be compared with, whose it is does not matter");
}

#[test]
fn linked_copy_folder_is_not_followed() {
    let (folder, served) = (Folder::new("linked"), TestZones::default());
    let zone = load("example.org.", APEX);
    fs::create_dir(folder.join("elsewhere")).expect("a folder");
    save(&folder.join("elsewhere"), &zone);
    std::os::unix::fs::symlink("elsewhere", folder.join("zones")).expect("a link");
    let zones = folder.join("zones");
    assert!(read_error(&zones, "example.org.").contains("symbolic link"));
    let saver = served.saver(&zones);
    saver.keep_only(std::iter::empty(), Duration::ZERO);
    saver.wait();
    assert!(path(&folder.join("elsewhere"), zone.origin()).exists(), "nothing is swept there");
    served.put(zone);
    saver.save(name("example.org.").as_name(), None);
    wait::until("trouble is shown", || saver.trouble());
}
