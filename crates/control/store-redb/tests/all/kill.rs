//! A process is killed while it writes: answered writes survive, completely. `make
//! campaign-kill-crash` repeats it some hundred times.

use crate::service::{batch, name, put, serve, servers};
use records::{Reader, RecordService, SetFilter, Store, StoreError, View};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use store_redb::RedbStore;
use test_support::folder::{Folder, SmallDisk};
use wire::Rtype;

/// Writers; each writes a number into two sets at once.
const WRITERS: usize = 8;
/// The folder of the killed process.
const FOLDER: &str = "DUNLIN_KILL_FOLDER";

fn start(folder: &Path) -> (RecordService, impl Sized) {
    let (service, _, running) = serve(RedbStore::open(folder, true).unwrap());
    (service, running)
}

/// The killed process: prints each answered number.
fn write_until_killed(folder: &Path) {
    let (service, _running) = start(folder);
    // It may exist from an earlier round.
    let _ = service.create_zone(batch(vec![servers()])).wait();
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let service = service.clone();
            scope.spawn(move || {
                for n in 1u32.. {
                    let sets = ["a", "b"].map(|set| {
                        put(&format!("{set}{writer}.kill.test"), Rtype::A, &n.to_be_bytes())
                    });
                    service.write(batch(sets.into())).wait().unwrap();
                    let queue = format!("answered {writer} {n}\n");
                    std::io::stderr().write_all(queue.as_bytes()).unwrap();
                }
            });
        }
    });
}

fn spawn(folder: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kill::answered_writes_survive_a_kill", "--nocapture"])
        .env(FOLDER, folder)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Lets it write for a while, kills it, and returns the last answer of each writer.
fn kill_one(folder: &Path, after: Duration) -> [u32; WRITERS] {
    let mut child = spawn(folder);
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let reader = std::thread::spawn(move || {
        let mut answered = [0; WRITERS];
        for queue in lines.map_while(Result::ok) {
            let mut words = queue.split(' ').skip_while(|word| *word != "answered").skip(1);
            let mut number = || words.next().and_then(|word| word.parse::<u32>().ok());
            if let (Some(writer), Some(n)) = (number(), number()) {
                answered[writer as usize] = n;
            }
        }
        answered
    });
    std::thread::sleep(after);
    child.kill().unwrap();
    child.wait().unwrap();
    reader.join().unwrap()
}

/// The stored number of each writer.
fn found(folder: &Path) -> [u32; WRITERS] {
    let (service, _running) = start(folder);
    let origin = name("kill.test");
    let filter = SetFilter { rtype: Some(Rtype::A), ..SetFilter::default() };
    let Ok(page) = service.page(origin.as_name(), None, &filter, 100) else { return [0; WRITERS] };
    let number = |set: &str, writer: usize| {
        let at = name(&format!("{set}{writer}.kill.test"));
        let found = page.sets.iter().find(|set| set.key.name.as_name() == at.as_name())?;
        let data: [u8; 4] = found.value.data[0][..].try_into().unwrap();
        Some((u32::from_be_bytes(data), found.revision))
    };
    std::array::from_fn(|writer| {
        let (a, b) = (number("a", writer), number("b", writer));
        assert_eq!(a, b, "both sets of a batch or none");
        a.map_or(0, |found| found.0)
    })
}

#[test]
fn answered_writes_survive_a_kill() {
    // The child processes run this test again, with a folder.
    if let Some(folder) = std::env::var_os(FOLDER) {
        return write_until_killed(Path::new(&folder));
    }
    let kills: u64 = std::env::var("DUNLIN_KILLS").map_or(6, |kills| kills.parse().expect("n"));
    let folder = Folder::new("kill");
    let mut total = 0u64;
    for kill in 0..kills {
        let answered = kill_one(&folder, Duration::from_millis(150 + kill * 37 % 400));
        let found = found(&folder);
        for (writer, (answered, found)) in answered.iter().zip(found).enumerate() {
            assert!(
                found >= *answered && found <= answered + 1 || *answered == 0,
                "kill {kill}, writer {writer}: {answered} was answered, {found} is there"
            );
        }
        total += answered.iter().map(|n| u64::from(*n)).sum::<u64>();
    }
    assert!(total > 0, "nothing was written");
    println!("{kills} kills, {total} writes answered, none lost");
}

/// One process uses the files; another gets an error that says what to do.
#[test]
fn store_is_used_by_one_process_until_released() {
    let folder = Folder::new("one");
    let mut store = RedbStore::open(&folder, false).unwrap();
    let told = RedbStore::open(&folder, false).map(drop).unwrap_err().to_string();
    assert!(told.contains("another process uses it") && told.contains("records.redb"), "{told}");
    let theirs = folder.to_path_buf();
    let new_process = std::thread::spawn(move || RedbStore::open(&theirs, true).map(drop));
    std::thread::sleep(Duration::from_millis(100));
    store.close();
    let reader: Arc<dyn Reader> = store.reader();
    assert!(matches!(reader.revision(), Err(records::StoreError::Closed)));
    new_process.join().unwrap().unwrap();
    store.open().unwrap();
    reader.revision().unwrap();
}

/// A file that is not a store is refused and left unchanged.
#[test]
fn file_that_is_not_a_store_is_refused() {
    let folder = Folder::new("none");
    let [file, _] = store_redb::paths(&folder);
    std::fs::write(&file, "www A 192.0.2.1\n".repeat(1000)).unwrap();
    let told = RedbStore::open(&folder, false).map(drop).unwrap_err().to_string();
    assert!(told.contains("records.redb"), "{told}");
    assert!(std::fs::read(&file).unwrap().starts_with(b"www A"));
}

/// A new store fits on a disk of 4 MiB.
#[test]
fn new_store_is_written_where_4_mib_are_free() {
    let Some(folder) = SmallDisk::new("new", "4m") else { return };
    let (service, running) = start(&folder);
    service.create_zone(batch(vec![servers()])).wait().unwrap();
    for n in 0..100 {
        let edit = put(&format!("n{n}.kill.test"), Rtype::A, &[192, 0, 2, n]);
        service.write(batch(vec![edit])).wait().unwrap();
    }
    drop((service, running));
    let taken: u64 = store_redb::paths(&folder)
        .iter()
        .map(|path| std::os::unix::fs::MetadataExt::blocks(&path.metadata().unwrap()) * 512)
        .sum();
    assert!(taken < 2 << 20, "{taken} bytes are taken");
}

/// A process is killed, the disk is full, and the process starts: it reports the full disk, and
/// answered writes are there once there is room.
#[test]
fn killed_store_opens_once_a_full_disk_has_room() {
    let Some(folder) = SmallDisk::new("killed", "12m") else { return };
    let whole = Folder::new("killed-from");
    let (service, running) = start(&whole);
    service.create_zone(batch(vec![servers()])).wait().unwrap();
    let text = [&[250][..], &[b'x'; 250]].concat().repeat(40);
    service.revision().unwrap();
    let edits = (0..60).map(|n| put(&format!("n{n}.kill.test"), Rtype::TXT, &text));
    service.write(batch(edits.collect())).wait().unwrap();
    // As after a kill: the last writes are only in the log.
    for path in store_redb::paths(&whole) {
        let copied = Command::new("cp").arg("--sparse=always").arg(path).arg(&*folder).status();
        assert!(copied.unwrap().success());
    }
    drop((service, running));
    let filler = folder.join("filler");
    let mut filling = std::fs::File::create(&filler).unwrap();
    while filling.write_all(&[1; 4096]).is_ok() {}
    drop(filling);
    let log = |folder: &Path| std::fs::read(&store_redb::paths(folder)[1]).unwrap();
    let before = log(&folder);
    for _ in 0..2 {
        let refused = RedbStore::open(&folder, true).map(drop).unwrap_err();
        assert!(matches!(refused, StoreError::Full), "{refused:?}");
        assert!(log(&folder) == before);
    }
    let mut store = RedbStore::closed(&folder).unwrap();
    assert!(matches!(store.open(), Err(StoreError::Full)));
    std::fs::remove_file(&filler).unwrap();
    store.open().unwrap();
    assert_eq!(store.reader().held().unwrap().sets, 62);
    drop(store);
}

/// A small disk fills up: writes are refused with advice, reads continue, and writes work once
/// there is room.
#[test]
fn full_small_disk_keeps_serving() {
    let Some(folder) = SmallDisk::new("small", "48m") else { return };
    let (service, running) = start(&folder);
    service.create_zone(batch(vec![servers()])).wait().unwrap();
    let text = [&[250][..], &[b'x'; 250]].concat().repeat(40);
    let fill = |n: u32| {
        let edits = (0..10).map(|k| put(&format!("n{n}-{k}.kill.test"), Rtype::TXT, &text));
        service.write(batch(edits.collect())).wait()
    };
    let mut written = 0;
    let refused = loop {
        match fill(written) {
            Ok(_) => written += 1,
            Err(why) => break why,
        }
        assert!(written < 10_000, "48 MiB take no end");
    };
    assert_eq!(refused, records::Refused::Full);
    assert!(refused.to_string().contains("data_dir is full"), "{refused}");
    let set = records::SetKey {
        zone: name("kill.test"),
        name: name(&format!("n{}-9.kill.test", written - 1)),
        rtype: Rtype::TXT,
        view: View::DEFAULT,
    };
    assert!(service.set(&set).unwrap().is_some(), "what was answered is there");
    folder.resize("256m");
    fill(written).unwrap();
    drop((service, running));
}
