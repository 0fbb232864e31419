//! Samples from a tap to the query log and the sketches, with changing settings.

use crate::common::{answer, query};
use packet::{DropReason, Transport};
use query_samples::{DnstapSettings, LogFormat, QueryLogSettings, TapSettings, TapThread};
use std::collections::HashSet;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;
use tap::QueryTap;
use test_support::folder::Folder;
use test_support::wait::until_true;

const CLIENT: &str = "192.0.2.1:1053";

fn ask(tap: &mut QueryTap, name: &str) {
    answer(tap, CLIENT.parse().unwrap(), Transport::Datagram, &query(name));
}

fn logged(one_in: u32, file: &Path, format: LogFormat) -> TapSettings {
    let queries = QueryLogSettings { one_in, file: Some(file.into()), format };
    TapSettings { queries, ..TapSettings::default() }
}

/// The values of `name=` in a text file.
fn names(file: &Path) -> Vec<String> {
    let text = fs::read_to_string(file).expect("the file");
    let name = |line: &str| {
        let mut fields = line.split(' ');
        let name = fields.find_map(|field| field.strip_prefix("name="));
        name.unwrap_or_else(|| panic!("no name in {line}")).to_owned()
    };
    text.lines().map(name).collect()
}

/// A socket without a listener.
fn no_reader(folder: &Folder) -> DnstapSettings {
    DnstapSettings { socket: folder.join("no-reader"), ..DnstapSettings::default() }
}

#[test]
fn queries_are_logged_into_a_file_and_all_of_them_by_the_end() {
    let folder = Folder::new("file");
    let file = folder.join("queries");
    let runner = TapThread::start(logged(1, &file, LogFormat::Json)).unwrap();
    let mut taps = [runner.tap(1), runner.tap(2)];
    for turn in 0..500 {
        ask(&mut taps[turn % 2], &format!("n{turn}.example"));
    }
    crate::common::drop(
        &mut taps[0],
        CLIENT.parse().unwrap(),
        &query("no.example"),
        DropReason::Denied,
    );
    runner.stop();
    let text = fs::read_to_string(&file).unwrap();
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let seen: HashSet<&str> = lines.iter().map(|line| line["name"].as_str().unwrap()).collect();
    assert_eq!((lines.len(), seen.len()), (501, 501));
    let first = lines.iter().find(|line| line["name"] == "n0.example.").unwrap();
    assert_eq!((&first["rcode"], &first["client"]), (&"NOERROR".into(), &CLIENT.into()));
    assert_eq!(first["bytes"], 44);
    let last = lines.iter().find(|line| line["name"] == "no.example.").unwrap();
    assert_eq!((&last["dropped"], &last["rcode"]), (&"denied".into(), &serde_json::Value::Null));
    let mode = fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o007, 0, "others may not read who asked for what");
}

#[test]
fn settings_change_while_it_runs() {
    let folder = Folder::new("change");
    let (one, two) = (folder.join("one"), folder.join("two"));
    let runner = TapThread::start(TapSettings::default()).unwrap();
    let mut tap = runner.tap(1);
    ask(&mut tap, "off.example");
    let ask_until_logged = |tap: &mut QueryTap, name: &str| {
        let before = runner.status().logged;
        until_true(name, || {
            ask(tap, name);
            runner.status().logged > before
        });
    };
    runner.set(logged(1, &one, LogFormat::Text)).unwrap();
    ask_until_logged(&mut tap, "one.example");
    runner.set(logged(1, &two, LogFormat::Text)).unwrap();
    until_true("the second file to be used", || {
        ask_until_logged(&mut tap, "two.example");
        !names(&two).is_empty()
    });
    // Like logrotate: the file is moved away, and the same settings are set again.
    fs::rename(&two, folder.join("two.1")).unwrap();
    let dnstap = Some(DnstapSettings { one_in: 1_000, ..no_reader(&folder) });
    runner.set(TapSettings { dnstap, ..logged(1, &two, LogFormat::Text) }).unwrap();
    until_true("the new file to be used", || {
        ask_until_logged(&mut tap, "three.example");
        !names(&two).is_empty()
    });
    runner.set(TapSettings::default()).unwrap();
    until_true("nothing to be wanted", || !runner.status().dnstap_wanted);
    let status = runner.status();
    let files = [&one, &folder.join("two.1"), &two];
    let lines: usize = files.map(|file| names(file).len()).into_iter().sum();
    assert_eq!(lines as u64, status.logged, "a line is in one file, whatever changes");
    assert_eq!((status.sampled, status.lost, status.log_lost), (status.logged, 0, 0));
    assert!(names(&two).iter().all(|name| name != "one.example."));
    // Nothing is picked until it is wanted again.
    ask(&mut tap, "off.example");
    runner.set(logged(1, &one, LogFormat::Text)).unwrap();
    ask_until_logged(&mut tap, "one.example");
    runner.stop();
    let first = names(&one);
    assert_eq!(
        (first.first(), first.last()),
        (Some(&"one.example.".into()), Some(&"one.example.".into()))
    );
    assert!(first.iter().all(|name| name != "off.example."));
}

#[test]
fn unopenable_file_is_an_error_and_changes_nothing() {
    let folder = Folder::new("refused");
    let file = folder.join("queries");
    let runner = TapThread::start(logged(1, &file, LogFormat::Text)).unwrap();
    let mut tap = runner.tap(1);
    let missing = folder.join("no/such/folder");
    let error = runner.set(logged(1, &missing, LogFormat::Text)).unwrap_err().to_string();
    assert!(error.contains(missing.to_str().unwrap()), "{error}");
    let pipe = folder.join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
    assert!(runner.set(logged(1, &pipe, LogFormat::Text)).is_err(), "the pipe has no reader");
    ask(&mut tap, "still.example");
    runner.stop();
    assert_eq!(names(&file), ["still.example."]);
}

#[test]
fn slow_reader_loses_counted_lines() {
    let folder = Folder::new("slow");
    let pipe = folder.join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
    let mut reader = fs::OpenOptions::new().read(true).write(true).open(&pipe).unwrap();
    let runner = TapThread::start(logged(1, &pipe, LogFormat::Text)).unwrap();
    let mut tap = runner.tap(1);
    let label = "a".repeat(63);
    let long = [&label[..], &label, &label, "example"].join(".");
    let mut asked = 0;
    // A pipe's 64 KiB and a buffer's MiB hold some 4,000 such lines.
    while runner.status().log_lost == 0 {
        ask(&mut tap, &long);
        asked += 1;
        assert!(asked < 10_000_000);
    }
    until_true("all to be counted", || {
        let status = runner.status();
        status.sampled == asked && status.logged + status.log_lost + status.lost < asked
    });
    runner.stop();
    // All lines are complete, except the last one.
    let mut text = vec![0; 64 * 1024];
    let len = reader.read(&mut text).unwrap();
    let text = str::from_utf8(&text[..len]).unwrap();
    let whole = &text[..=text.rfind('\n').unwrap()];
    assert!(whole.lines().all(|line| line.contains(&long) && line.starts_with("time=")));
}

#[test]
fn full_disk_loses_only_lines() {
    let runner = TapThread::start(logged(1, Path::new("/dev/full"), LogFormat::Text)).unwrap();
    let mut tap = runner.tap(1);
    (0..10).for_each(|_| ask(&mut tap, "full.example"));
    until_true("ten lines to be lost", || runner.status().log_lost == 10);
    assert_eq!(runner.status().logged, 0);
}

#[test]
fn every_sampled_query_is_counted_once_at_any_rate() {
    let folder = Folder::new("fast");
    let runner = TapThread::start(logged(1, &folder.join("queries"), LogFormat::Text)).unwrap();
    let asking: Vec<_> = (0..2)
        .map(|seed| {
            let mut tap = runner.tap(seed);
            thread::spawn(move || (0..50_000).for_each(|_| ask(&mut tap, "fast.example")))
        })
        .collect();
    asking.into_iter().for_each(|thread| thread.join().unwrap());
    until_true("all to be seen", || {
        let status = runner.status();
        let known = status.lost + status.logged + status.log_lost;
        status.sampled == 100_000 && known == 100_000
    });
}

#[test]
fn most_frequent_are_reported_at_any_rate() {
    // The log needs every query, the sketch one in eight.
    let folder = Folder::new("hot");
    let log = logged(1, &folder.join("queries"), LogFormat::Text);
    let runner = TapThread::start(TapSettings { hot_one_in: 8, ..log }).unwrap();
    let mut tap = runner.tap(1);
    let busy = "[2001:db8::1]:53".parse().unwrap();
    for turn in 0..4_000 {
        // Not faster than the thread reads.
        if turn % 500 == 0 {
            until_true("what was asked to be seen", || runner.status().sampled == turn);
        }
        let client = if turn % 4 == 0 { CLIENT.parse().unwrap() } else { busy };
        let name = if turn % 2 == 0 { "Hot.example" } else { "hot.EXAMPLE" };
        let name = if turn % 10 == 9 { &format!("n{turn}.example") } else { name };
        answer(&mut tap, client, Transport::Datagram, &query(name));
    }
    until_true("all to be seen", || runner.status().sampled == 4_000);
    let hot = runner.hot();
    assert_eq!(hot.names[0].what, "hot.example.");
    assert!((hot.names[0].share - 0.9).abs() < 0.05, "{:?}", hot.names[0]);
    assert_eq!(hot.names.len(), 20);
    let clients: Vec<&str> = hot.clients.iter().map(|rank| &rank.what[..]).collect();
    assert_eq!(clients, ["2001:db8::1", "192.0.2.1"]);
    assert!((hot.clients[0].share - 0.75).abs() < 0.08, "{:?}", hot.clients);
    assert_eq!(runner.status().lost, 0);
}

#[test]
fn each_output_has_its_own_rate() {
    let folder = Folder::new("rates");
    let file = folder.join("queries");
    let dnstap = DnstapSettings { one_in: 2, ..no_reader(&folder) };
    let log = logged(20, &file, LogFormat::Text);
    let runner = TapThread::start(TapSettings { dnstap: Some(dnstap), ..log }).unwrap();
    let mut tap = runner.tap(1);
    (0..8_000).for_each(|_| ask(&mut tap, "rate.example"));
    runner.stop();
    let lines = names(&file).len();
    assert!((300..500).contains(&lines), "{lines} of 8,000, one in 20");
}

/// Collects log output.
#[derive(Clone, Default)]
struct Collect(Arc<Mutex<Vec<u8>>>);

impl Write for Collect {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn without_a_file_lines_go_to_the_log() {
    let collect = Collect::default();
    let writer = collect.clone();
    // The only test with log output here: subscribers of other threads are global.
    tracing_subscriber::fmt().json().flatten_event(true).with_writer(move || writer.clone()).init();
    let queries = QueryLogSettings { one_in: 1, ..QueryLogSettings::default() };
    let runner = TapThread::start(TapSettings { queries, ..TapSettings::default() }).unwrap();
    let mut tap = runner.tap(1);
    ask(&mut tap, "a\n\"b.example");
    runner.stop();
    let text = String::from_utf8(collect.0.lock().unwrap().clone()).unwrap();
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let line = lines.iter().find(|line| line["target"] == "queries").expect("a line");
    assert_eq!(line["name"], r#"a\010\"b.example."#);
    assert_eq!((&line["type"], &line["rcode"]), (&"A".into(), &"NOERROR".into()));
    assert_eq!((&line["bytes"], &line["truncated"]), (&46.into(), &false.into()));
    assert!(line.get("dropped").is_none() && line.get("proxy").is_none(), "{line}");
}
