//! A process that is killed while it writes: what it was answered is there afterwards, and nothing
//! is there by halves. `make campaign-kill` does it some hundred times.
mod desk;

use desk::{batch, name, put, serve, servers};
use records::{Desk, Filter, Reader, Store, View};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use store_redb::RedbStore;
use wire::Rtype;

/// Those who write, each a number in two sets at once.
const WRITERS: usize = 8;
/// Where the process that is killed has its store.
const FOLDER: &str = "DUNLIN_KILL_FOLDER";

fn start(folder: &Path) -> (Desk, impl Sized) {
    let (desk, _, running) = serve(RedbStore::open(folder, true).unwrap());
    (desk, running)
}

/// The process that is killed: it tells each number that was answered.
fn write_until_killed(folder: &Path) {
    let (desk, _running) = start(folder);
    // There may be one from before.
    let _ = desk.create_zone(batch(vec![servers()])).wait();
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let desk = desk.clone();
            scope.spawn(move || {
                for n in 1u32.. {
                    let sets = ["a", "b"].map(|set| {
                        put(&format!("{set}{writer}.kill.test"), Rtype::A, &n.to_be_bytes())
                    });
                    desk.write(batch(sets.into())).wait().unwrap();
                    let line = format!("answered {writer} {n}\n");
                    std::io::stderr().write_all(line.as_bytes()).unwrap();
                }
            });
        }
    });
}

fn spawn(folder: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "what_was_answered_survives_a_kill", "--nocapture"])
        .env(FOLDER, folder)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Lets it write for a while, kills it, and returns what each writer was answered last.
fn kill_one(folder: &Path, after: Duration) -> [u32; WRITERS] {
    let mut child = spawn(folder);
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let reader = std::thread::spawn(move || {
        let mut answered = [0; WRITERS];
        for line in lines.map_while(Result::ok) {
            let mut words = line.split(' ').skip_while(|word| *word != "answered").skip(1);
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

/// What is in the store of each writer.
fn found(folder: &Path) -> [u32; WRITERS] {
    let (desk, _running) = start(folder);
    let origin = name("kill.test");
    let filter = Filter { rtype: Some(Rtype::A), ..Filter::default() };
    let Ok(page) = desk.page(origin.as_name(), None, &filter, 100) else { return [0; WRITERS] };
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
fn what_was_answered_survives_a_kill() {
    // The processes that it kills are this test again, told where to write.
    if let Some(folder) = std::env::var_os(FOLDER) {
        return write_until_killed(Path::new(&folder));
    }
    let kills: u64 = std::env::var("DUNLIN_KILLS").map_or(6, |kills| kills.parse().expect("n"));
    let folder = std::env::temp_dir().join(format!("dunlin-kill-{}", std::process::id()));
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
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(total > 0, "nothing was written");
    println!("{kills} kills, {total} writes answered, none lost");
}

/// One file has one process; whoever else wants it is told what to do.
#[test]
fn a_store_has_one_process_and_is_given_back() {
    let folder = std::env::temp_dir().join(format!("dunlin-one-{}", std::process::id()));
    let mut store = RedbStore::open(&folder, false).unwrap();
    let told = RedbStore::open(&folder, false).map(drop).unwrap_err().to_string();
    assert!(told.contains("another process has it") && told.contains("records.redb"), "{told}");
    let theirs = folder.clone();
    let successor = std::thread::spawn(move || RedbStore::open(&theirs, true).map(drop));
    std::thread::sleep(Duration::from_millis(100));
    store.close();
    let reader: Arc<dyn Reader> = store.reader();
    assert!(matches!(reader.revision(), Err(records::StoreError::Closed)));
    successor.join().unwrap().unwrap();
    store.open().unwrap();
    reader.revision().unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
}

/// A file that is no store is refused with its place, and left as it is.
#[test]
fn what_is_no_store_is_refused() {
    let folder = std::env::temp_dir().join(format!("dunlin-none-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let [file, _] = store_redb::paths(&folder);
    std::fs::write(&file, "www A 192.0.2.1\n".repeat(1000)).unwrap();
    let told = RedbStore::open(&folder, false).map(drop).unwrap_err().to_string();
    assert!(told.contains("records.redb"), "{told}");
    assert!(std::fs::read(&file).unwrap().starts_with(b"www A"));
    std::fs::remove_dir_all(&folder).unwrap();
}

/// A disk of its own, of a few MiB: it fills up under writes, refuses them with what to do, and
/// what is there is read and answered; once there is room it is written again.
#[test]
fn a_small_disk_fills_up_and_answers_go_on() {
    let folder = std::env::temp_dir().join(format!("dunlin-small-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let mount = |args: &[&str]| {
        let done =
            Command::new(args[0]).args(&args[1..]).arg(&folder).stderr(Stdio::null()).status();
        done.is_ok_and(|status| status.success())
    };
    if !mount(&["mount", "-t", "tmpfs", "-o", "size=48m", "tmpfs"]) {
        let required = std::env::var_os("DUNLIN_REQUIRE_ALL").is_some();
        assert!(!required, "no tmpfs could be mounted: run as root");
        eprintln!("SKIPPED: no tmpfs could be mounted: run as root");
        return;
    }
    let (desk, running) = start(&folder);
    desk.create_zone(batch(vec![servers()])).wait().unwrap();
    let text = [&[250][..], &[b'x'; 250]].concat().repeat(40);
    let fill = |n: u32| {
        let edits = (0..10).map(|k| put(&format!("n{n}-{k}.kill.test"), Rtype::TXT, &text));
        desk.write(batch(edits.collect())).wait()
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
        view: View::Default,
    };
    assert!(desk.set(&set).unwrap().is_some(), "what was answered is there");
    assert!(mount(&["mount", "-o", "remount,size=256m"]));
    fill(written).unwrap();
    drop((desk, running));
    assert!(mount(&["umount"]));
    std::fs::remove_dir_all(&folder).unwrap();
}
