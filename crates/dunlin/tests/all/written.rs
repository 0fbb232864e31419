//! Zone files that are written while they are served, for an operator and a client.
use crate::served::{NOERROR, Served, binary, holds, rcode, zone};
use std::fs::{self, File};
use std::io::Write;
use std::process::Output;
use test_support::wait;

/// Names of the zone besides its name server.
const NAMES: usize = 2_000;
/// The status of a file that another process has open.
const WRITES: &str = "a process has been writing its file";

/// A line for each name with its address, which contains the generation.
fn lines(serial: u8) -> Vec<String> {
    let head = format!("$TTL 60\n@ SOA ns root {serial} 2 3 4 5\n@ NS ns\nns A 192.0.2.1");
    let names = (0..NAMES).map(|n| format!("n{n} A 10.{serial}.{}.{}", n / 250, n % 250));
    std::iter::once(head).chain(names).collect()
}

fn text(serial: u8) -> String {
    lines(serial).join("\n") + "\n"
}

/// A server with an admin socket and one zone of this many names.
fn start(test: &str) -> Served {
    let socket = std::env::temp_dir().join(format!("dunlin-{test}-{}.sock", std::process::id()));
    let config = format!("[admin]\nsocket = \"{}\"\n", socket.display()) + &zone("a.test");
    let served = Served::start(test, &config, &[("a.test.zone", &text(1))]);
    expect_copy(&served, "serial 1,");
    served
}

fn dunlin(served: &Served, words: &[&str]) -> Output {
    let socket = served.socket().expect("a path");
    binary().args(words).arg("--socket").arg(socket).output().expect("it runs")
}

fn told(output: &Output) -> String {
    let both = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&both).into_owned()
}

fn copy(served: &Served) -> String {
    fs::read_to_string(served.folder.join("data/zones/a.test.zone")).unwrap_or_default()
}

/// Waits until the saved copy contains this text.
fn expect_copy(served: &Served, part: &str) {
    wait::until_true(&format!("a copy with {part}"), || copy(served).contains(part));
}

#[test]
fn slowly_written_zone_is_loaded_when_it_is_closed() {
    let served = start("written_slowly");
    let before = copy(&served);
    let new = lines(2);
    let mut writer = File::create(served.folder.join("a.test.zone")).expect("a file");
    for (nth, part) in new.chunks(NAMES / 4).enumerate() {
        // Each part ends inside a line, as a buffer does.
        let part = part.join("\n") + "\n";
        let (most, rest) = part.split_at(part.len() - 4);
        writer.write_all(most.as_bytes()).expect("written");
        writer.sync_all().expect("written");
        let status = || {
            for n in [0, NAMES / 2, NAMES - 1] {
                let reply = served.ask(&format!("n{n}.a.test"));
                let address = [10, 1, (n / 250) as u8, (n % 250) as u8];
                assert_eq!(rcode(&reply), NOERROR, "n{n} in part {nth}");
                assert!(holds(&reply, &address), "n{n} in part {nth}: {reply:?}");
            }
            told(&dunlin(&served, &["status"]))
        };
        // It would be read by now if no process had it open.
        wait::until_value("the writer is noticed", status, |status| status.contains(WRITES));
        writer.write_all(rest.as_bytes()).expect("written");
    }
    assert_eq!(copy(&served), before, "the copy is of what is served");
    let status = told(&dunlin(&served, &["status"]));
    assert!(status.contains(WRITES), "{status}");
    let reloaded = dunlin(&served, &["reload"]);
    assert_eq!(reloaded.status.code(), Some(1), "{}", told(&reloaded));
    assert!(told(&reloaded).contains("has been writing"), "{}", told(&reloaded));
    assert!(holds(&served.ask("n0.a.test"), &[10, 1, 0, 0]), "a reload leaves it to its writer");
    drop(writer);
    served.expect_address("n1999.a.test", [10, 2, 7, 249]);
    expect_copy(&served, "serial 2,");
    let status = dunlin(&served, &["status"]);
    assert_eq!(status.status.code(), Some(0), "{}", told(&status));
}

/// Like a writer that is killed: the kernel closes its file.
#[test]
fn zone_cut_off_by_its_writer_is_held_until_accepted() {
    let served = start("written_cut");
    let before = copy(&served);
    let accept = |zone: &str| dunlin(&served, &["zones", "accept", zone]);
    let refused = accept("a.test");
    assert_eq!(refused.status.code(), Some(1));
    assert!(told(&refused).contains("a.test. is not held"), "{}", told(&refused));
    let refused = accept("b.test");
    assert_eq!(refused.status.code(), Some(1));
    assert!(told(&refused).contains("b.test. is not a zone loaded from a file"));

    let half = lines(2)[..800].join("\n") + "\n";
    fs::write(served.folder.join("a.test.zone"), half).expect("a file");
    let line = served.expect_line("zone held", "a.test.");
    assert_eq!(line["level"], "WARN");
    assert_eq!((&line["names_served"], &line["names_in_file"]), (&2_002.into(), &801.into()));
    assert!(holds(&served.ask("n1999.a.test"), &[10, 1, 7, 249]));
    let dumped = dunlin(&served, &["zones", "dump", "a.test"]);
    let dumped = String::from_utf8(dumped.stdout).expect("text");
    assert!(dumped.starts_with("; a.test. as served, serial 1\na.test. 60 IN SOA "), "{dumped}");
    assert!(dumped.contains("\nn1999.a.test. 60 IN A 10.1.7.249\n"), "the file has another one");
    assert_eq!(dumped.lines().count(), 1 + 3 + NAMES);
    let refused = dunlin(&served, &["zones", "dump", "b.test"]);
    assert_eq!((refused.status.code(), refused.stdout.len()), (Some(1), 0), "{}", told(&refused));
    let status = dunlin(&served, &["status"]);
    assert_eq!(status.status.code(), Some(1));
    let shown = told(&status);
    assert!(shown.contains("held: its file has 801 of the 2,002 served names"), "{shown}");
    assert!(shown.contains("`dunlin zones accept a.test.`"), "{shown}");
    let json = dunlin(&served, &["status", "-o", "json"]).stdout;
    let json: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
    let held = &json["zones"][0]["held"];
    assert_eq!((&held["had"], &held["has"]), (&2_002.into(), &801.into()), "{json}");
    let records = |text: &str| text.lines().skip(2).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(records(&copy(&served)), records(&before), "the copy is whole");

    let accepted = accept("A.test");
    assert_eq!(accepted.status.code(), Some(0), "{}", told(&accepted));
    let expected = "zone a.test. is served from its file: 801 names (before 2,002), serial 2\n";
    assert_eq!(told(&accepted), expected);
    assert!(holds(&served.ask("n5.a.test"), &[10, 2, 0, 5]));
    let all = dunlin(&served, &["zones", "accept", "--all", "-o", "json"]);
    assert_eq!(all.status.code(), Some(0), "{}", told(&all));
    assert_eq!(told(&all), "{\n  \"accepted\": []\n}\n");
}

#[test]
fn zone_renamed_into_place_is_never_held() {
    let served = start("written_renamed");
    let few = "$TTL 60\n@ SOA ns root 2 2 3 4 5\n@ NS ns\nns A 192.0.2.7\n";
    let new = served.folder.join("a.test.zone.new");
    fs::write(&new, few).expect("a file");
    fs::rename(&new, served.folder.join("a.test.zone")).expect("renamed");
    served.expect_address("ns.a.test", [192, 0, 2, 7]);
}

#[test]
fn serial_that_goes_back_and_set_with_two_ttls_are_warnings_in_the_log() {
    let served = start("written_warned");
    let text = text(2).replace("root 2", "root 4294967295") + "n0 5 A 10.2.9.9\n";
    fs::write(served.folder.join("a.test.zone"), text).expect("a file");
    let line = served.expect_line("is not above 1", "\"serial\"");
    assert_eq!(line["level"], "WARN", "{line}");
    served.expect_address("n0.a.test", [10, 2, 9, 9]);
    fs::write(served.folder.join("a.test.zone"), self::text(1) + "n0 5 A 10.2.9.9\n")
        .expect("a file");
    let line = served.expect_line("has a TTL of 5, an earlier one 60", "ttl-differs");
    assert_eq!(line["level"], "WARN", "{line}");
}
