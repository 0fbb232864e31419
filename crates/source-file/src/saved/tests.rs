use super::saver::temporary_name;
use super::*;
use crate::limits::SAVE_RETRY;
use std::fs;
use std::sync::Mutex;
use std::time::{Duration, Instant};

const APEX: &str = "$TTL 5\n@ SOA ns hostmaster 1 2h 1h 2w 5m\n@ NS ns\nns A 192.0.2.1\n";
const PATIENCE: Duration = Duration::from_secs(10);

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

/// A folder of its own for one test, empty.
fn folder(test: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("saved-{test}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder");
    folder
}

fn save(folder: &Path, zone: &Zone) -> PathBuf {
    let path = path(folder, zone.origin());
    write(zone, &mut File::create(&path).expect("a file")).expect("written");
    path
}

fn read_error(folder: &Path, origin: &str) -> String {
    read(folder, name(origin).as_name(), &key()).map(drop).expect_err("a bad copy")
}

/// Every node as it is packed: names, TTLs and data in the case they came in, and the order.
fn content(zone: &Zone) -> Vec<Vec<u8>> {
    let trees = [zone.names() as &dyn image::Tree, zone.hashed()];
    let nodes = trees.into_iter().flat_map(|tree| (0..tree.len()).filter_map(|n| tree.at(n)));
    nodes.map(|node| node.octets().to_vec()).collect()
}

fn check(test: &str, zone: &Zone) {
    let folder = folder(test);
    save(&folder, zone);
    let (again, records) = read(&folder, zone.origin(), &key()).expect("sound").expect("there");
    assert!(content(&again) == content(zone), "{test}: the copy is another zone");
    assert_eq!(records, zone.count().1 as u64);
    assert_eq!(again.facts().nsec3, zone.facts().nsec3);
    assert!(is_current(&folder, zone));
    fs::remove_dir_all(folder).expect("the folder goes");
}

#[test]
fn a_copy_gives_the_same_zone_again_with_every_type_and_escape() {
    for case in ["types", "escapes", "ttl", "generate"] {
        let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("../zonefile/tests/cases");
        let text = fs::read_to_string(cases.join(format!("{case}.case"))).expect("a case");
        let text = text.split_once(";; expect").expect("the mark").0;
        // An SOA record of the case's own would be a second one, and an alias may stand alone.
        let fits = |line: &&str| !line.contains(" SOA ") && !line.starts_with('@');
        let kept: Vec<&str> = text.lines().filter(fits).collect();
        check(case, &load("example.", &format!("{APEX}{}\n", kept.join("\n"))));
    }
    check("root", &load(".", "$TTL 5\n@ SOA ns root 1 2 3 4 5\n@ NS ns\n* TXT \"\\000\\255\"\n"));
}

#[test]
fn ten_thousand_names_of_all_kinds_come_back() {
    let mut text = APEX.to_owned();
    for n in 0..10_000 {
        let (a, b) = (n / 250, n % 250);
        let line = match n % 7 {
            0 => format!("svc-{n}.ns-{b} 30 A 10.0.{a}.{b}\nsvc-{n}.ns-{b} 31 A 10.1.{a}.{b}"),
            1 => format!("Caf\\233-{n} CNAME Some.Where.{n}.Else."),
            2 => format!("a\\.b\\\\c\\\"{n} TXT \"x\\000;\\\"{n}\" \"\" {}", "y".repeat(b)),
            3 => format!("\\000\\001{n} TYPE65400 \\# 4 {n:08x}"),
            4 => format!("empty{n} TYPE65401 \\# 0"),
            5 => format!("*.w{n} AAAA 2001:db8::{n:x}"),
            _ => format!("{n:032x} NSEC3 1 0 0 - 2t7b4g4vsa5smi47k61mv5bv1a22bojr A"),
        };
        text += &(line + "\n");
    }
    check("many", &load("Example.ORG.", &text));
}

#[test]
fn a_damaged_copy_is_refused_wherever_the_damage_is() {
    let folder = folder("damage");
    let path = save(&folder, &load("example.org.", APEX));
    let sound = fs::read(&path).expect("the copy");
    for at in 0..sound.len() {
        let mut damaged = sound.clone();
        damaged[at] ^= 4;
        fs::write(&path, &damaged).expect("written");
        assert!(read(&folder, name("example.org.").as_name(), &key()).is_err(), "octet {at}");
        fs::write(&path, &sound[..at]).expect("written");
        assert!(read(&folder, name("example.org.").as_name(), &key()).is_err(), "{at} octets");
    }
    fs::write(&path, [&sound[..], b"x 5 A 192.0.2.9\n"].concat()).expect("written");
    assert!(read_error(&folder, "example.org.").contains("damaged"));
    fs::write(&path, &sound).expect("written");
    assert!(read(&folder, name("example.org.").as_name(), &key()).is_ok_and(|it| it.is_some()));
    fs::remove_dir_all(folder).expect("the folder goes");
}

#[test]
fn a_copy_of_another_zone_or_form_is_refused() {
    let folder = folder("other");
    let path = save(&folder, &load("example.org.", APEX));
    fs::rename(&path, super::path(&folder, name("example.com.").as_name())).expect("renamed");
    assert!(read_error(&folder, "example.com.").contains("another zone or by another version"));
    assert!(read(&folder, name("example.org.").as_name(), &key()).is_ok_and(|it| it.is_none()));
    fs::remove_dir_all(folder).expect("the folder goes");
}

#[test]
fn every_zone_has_a_file_name_of_its_own() {
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

/// Zones as they are served, to be saved.
#[derive(Clone, Default)]
struct Served(Arc<Mutex<Vec<Arc<Zone>>>>);

impl Served {
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

    fn saver(&self, folder: &Path) -> Saver {
        let retry = Duration::from_millis(20);
        Saver::with(folder.into(), self.newest(), retry, &temporary_name()).expect("a thread")
    }
}

fn eventually(what: &str, is_so: impl Fn() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < until, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn inode(path: &Path) -> u64 {
    std::os::unix::fs::MetadataExt::ino(&fs::metadata(path).expect("a file"))
}

#[test]
fn a_zone_is_saved_when_it_changed_and_only_then() {
    let (folder, served) = (folder("saver"), Served::default());
    let saver = served.saver(&folder.join("deeper"));
    let origin = name("example.org.");
    served.put(load("example.org.", APEX));
    saver.save(origin.as_name());
    saver.wait();
    let path = path(&folder.join("deeper"), origin.as_name());
    let first = inode(&path);
    saver.save(origin.as_name());
    saver.wait();
    assert_eq!(inode(&path), first, "the same zone is not written again");
    served.put(load("example.org.", &format!("{APEX}www A 192.0.2.2\n")));
    saver.save(origin.as_name());
    saver.wait();
    assert!(fs::read_to_string(&path).expect("the copy").contains("www.example.org."));
    served.put(Zone::unloaded(key(), origin.as_name()));
    saver.save(origin.as_name());
    saver.wait();
    assert!(path.exists(), "a zone that was never loaded does not replace a copy");
    saver.keep_only(std::iter::empty());
    saver.wait();
    assert!(!path.exists());
    assert_eq!(fs::read_dir(folder.join("deeper")).expect("a folder").count(), 0);
    fs::remove_dir_all(folder).expect("the folder goes");
}

#[test]
fn copies_of_zones_that_are_no_more_are_swept_away() {
    let (folder, served) = (folder("sweep"), Served::default());
    save(&folder, &load("old.test.", APEX));
    let kept = save(&folder, &load("kept.test.", APEX));
    fs::write(folder.join("notes"), "not ours").expect("a file");
    let saver = served.saver(&folder);
    saver.keep_only([name("kept.test.").as_name()].into_iter());
    saver.wait();
    assert!(kept.exists() && folder.join("notes").exists());
    assert_eq!(fs::read_dir(&folder).expect("a folder").count(), 2);
    drop(saver);
    fs::remove_dir_all(folder).expect("the folder goes");
}

/// Whoever names a folder with zone files as `data_dir` must not lose them.
#[test]
fn files_that_are_no_copies_are_neither_replaced_nor_removed() {
    let (folder, served) = (folder("foreign"), Served::default());
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
    saver.save(name("mine.test.").as_name());
    saver.keep_only([name("mine.test.").as_name()].into_iter());
    saver.wait();
    let trouble = saver.trouble().expect("trouble");
    assert!(trouble.contains("mine.test.zone: it is no copy"), "{trouble}");
    for file in [&mine, &other, &folder.join("old.tmp")] {
        assert_eq!(fs::read_to_string(file).expect("it stays"), APEX);
    }
    drop(saver);
    fs::remove_dir_all(folder).expect("the folder goes");
}

#[test]
fn what_cannot_be_saved_is_shown_and_tried_again() {
    let (folder, served) = (folder("trouble"), Served::default());
    let place = folder.join("taken");
    fs::write(&place, "a file where the folder should be").expect("a file");
    let saver = served.saver(&place);
    for origin in ["a.test.", "b.test."] {
        served.put(load(origin, APEX));
        saver.save(name(origin).as_name());
    }
    eventually("trouble is shown", || saver.trouble().is_some());
    let trouble = saver.trouble().expect("trouble");
    assert!(trouble.contains("taken"), "{trouble}");
    fs::remove_file(&place).expect("the file goes");
    eventually("trouble ends", || saver.trouble().is_none());
    assert!(place.join("a.test.zone").exists() && place.join("b.test.zone").exists());
    drop(saver);
    fs::remove_dir_all(folder).expect("the folder goes");
}

#[test]
fn a_full_disk_leaves_the_old_copy() {
    let (folder, served) = (folder("full"), Served::default());
    let origin = name("example.org.");
    let path = save(&folder, &load("example.org.", APEX));
    let old = fs::read(&path).expect("the copy");
    // Every write to this device fails as on a full disk.
    let temporary = folder.join(".saving-full.tmp");
    std::os::unix::fs::symlink("/dev/full", &temporary).expect("a link");
    served.put(load("example.org.", &format!("{APEX}www A 192.0.2.2\n")));
    let newest = served.newest();
    let saver = Saver::with(folder.clone(), newest, SAVE_RETRY, ".saving-full.tmp");
    let saver = saver.expect("a thread");
    saver.save(origin.as_name());
    saver.wait();
    assert!(saver.trouble().expect("trouble").contains("No space left"));
    assert_eq!(fs::read(&path).expect("the copy"), old);
    assert!(!temporary.exists(), "nothing half-written stays");
    saver.save(origin.as_name());
    saver.wait();
    assert_eq!(saver.trouble(), None);
    assert_ne!(fs::read(&path).expect("the copy"), old);
    fs::remove_dir_all(folder).expect("the folder goes");
}

/// The number of the process is no name: in containers it is always the same.
#[test]
fn processes_that_share_a_folder_write_beside_each_other() {
    assert_ne!(temporary_name(), temporary_name());
}

#[test]
fn what_is_due_at_the_end_is_saved() {
    let (folder, served) = (folder("end"), Served::default());
    let saver = served.saver(&folder);
    for n in 0..50 {
        served.put(load(&format!("n{n}.test."), APEX));
        saver.save(name(&format!("n{n}.test.")).as_name());
    }
    drop(saver);
    assert_eq!(fs::read_dir(&folder).expect("a folder").count(), 50);
    fs::remove_dir_all(folder).expect("the folder goes");
}
