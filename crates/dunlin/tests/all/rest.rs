//! The REST API, by command.
use crate::operated::{Operated, config};
use crate::served::{HEAD, NOERROR, Served, binary, holds, rcode, text};
use std::fs;
use std::path::PathBuf;
use std::process::Output;

/// A server with an API, a store, and the zone file.example of a file with this text.
fn start_on(test: &str, zone: &str) -> Served {
    let more = crate::served::zone("file.example");
    Served::start(test, &config(test, &more), &[("file.example.zone", zone)])
}

fn start(test: &str) -> Operated {
    Operated::new(start_on(test, HEAD))
}

#[test]
fn zone_is_created_changed_and_survives_a_restart() {
    let scene = start("rest-zone");
    let made = scene.done(&["zones", "create", "api.example", "--nameserver", "ns.api.example"]);
    assert!(made.starts_with("created, and live as revision "), "{made}");
    let set = ["records", "set", "api.example", "www.api.example", "A", "--ttl", "60"];
    let shown = scene.done(&[&set[..], &["10.0.0.7"]].concat());
    assert!(shown.starts_with("+ www.api.example. 60 A 10.0.0.7\nlive as revision "), "{shown}");
    let answer = scene.served.ask("www.api.example");
    assert!(rcode(&answer) == NOERROR && holds(&answer, &[0, 4, 10, 0, 0, 7]), "at once");
    let shown = scene.done(&[&set[..], &["10.0.0.8", "--dry-run"]].concat());
    assert_eq!(shown, "- www.api.example. 60 A 10.0.0.7\n+ www.api.example. 60 A 10.0.0.8\n");
    let listed = scene.done(&["records", "list", "api.example", "--prefix", "www"]);
    assert_eq!(listed.lines().count(), 2, "{listed}");
    assert!(listed.contains("www.api.example.   60  A     10.0.0.7"), "{listed}");
    let zones = scene.done(&["zones", "list"]);
    assert!(zones.contains("api.example.") && zones.contains("file.example.zone"), "{zones}");
    let told = scene.refused(&["zones", "delete", "file.example", "--yes"]);
    assert!(told.contains("file.example.zone") && told.contains("not the store's"), "{told}");
    let scene = scene.restarted();
    assert!(holds(&scene.served.ask("www.api.example"), &[0, 4, 10, 0, 0, 7]), "it was kept");
    let got = scene.done(&["records", "get", "api.example", "www.api.example", "A", "-o", "json"]);
    assert!(got.contains("10.0.0.7"), "so was the token: {got}");
    scene.done(&["records", "delete", "api.example", "www.api.example", "A"]);
    assert_eq!(rcode(&scene.served.ask("www.api.example")), 3);
}

#[test]
fn import_shows_the_difference_and_applies_it() {
    let scene = start("rest-import");
    scene.done(&["zones", "create", "api.example", "--nameserver", "ns.example."]);
    scene.done(&["records", "set", "api.example", "old.api.example", "A", "10.0.0.1"]);
    let file = scene.served.folder.join("new.zone");
    let text = "$TTL 300\n@ NS ns.example.\nwww A 10.0.0.2\n";
    fs::write(&file, text).expect("a file");
    let file = file.to_str().expect("UTF-8").to_owned();
    let import = ["records", "import", "api.example", &*file, "--replace"];
    let shown = scene.done(&[&import[..], &["--dry-run"]].concat());
    assert!(shown.contains("+ www.api.example. 300 A 10.0.0.2\n"), "{shown}");
    assert!(shown.contains("- old.api.example. 300 A 10.0.0.1\n"), "{shown}");
    assert!(shown.ends_with("to change, none changed\n"), "{shown}");
    assert!(holds(&scene.served.ask("old.api.example"), &[10, 0, 0, 1]));
    let told = scene.refused(&import);
    assert!(told.contains("no terminal to confirm"), "{told}");
    scene.done(&[&import[..], &["--yes"]].concat());
    assert!(holds(&scene.served.ask("www.api.example"), &[10, 0, 0, 2]));
    assert_eq!(rcode(&scene.served.ask("old.api.example")), 3);
    let exported = scene.done(&["records", "export", "api.example", "--format", "zone"]);
    assert!(exported.contains("www.api.example. 300 IN A 10.0.0.2\n"), "{exported}");
    let many: String =
        (0..3_000).map(|n| format!("n{n} 5 A 10.1.{}.{}\n", n / 256, n % 256)).collect();
    fs::write(&file, many).expect("a file");
    let told = scene.done(&["records", "import", "api.example", &file, "--stream"]);
    assert_eq!(told, "3000 record sets, 3000 records written, and live\n");
    assert!(holds(&scene.served.ask("n2999.api.example"), &[10, 1, 11, 183]));
    fs::write(&file, "www A 10.0.0\n").expect("a file");
    let told = scene.refused(&import);
    assert!(told.contains("/new.zone:1:7: "), "{told}");
}

/// A file whose writer was stopped deletes most of a zone with `--replace`.
#[test]
fn import_that_deletes_most_or_was_cut_is_held_until_accepted() {
    let scene = start("rest-import-held");
    scene.done(&["zones", "create", "api.example", "--nameserver", "ns.example."]);
    let file = scene.served.folder.join("new.zone");
    let path = file.to_str().expect("UTF-8").to_owned();
    let lines = |count: u32| {
        let names = (0..count).map(|n| format!("n{n} A 10.1.0.{}\n", n % 250));
        "$TTL 300\n@ NS ns.example.\n".to_owned() + &names.collect::<String>()
    };
    let import = |more: &[&str]| {
        let import = ["records", "import", "api.example", &path, "--replace", "--yes"];
        scene.run(&[&import[..], more].concat())
    };
    let refused = |more: &[&str]| {
        let output = import(more);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        text(&output.stdout) + &text(&output.stderr)
    };
    fs::write(&file, lines(100)).expect("a file");
    assert_eq!(import(&[]).status.code(), Some(0));
    fs::write(&file, lines(3)).expect("a file");
    for more in [&[][..], &["--dry-run"], &["-o", "json"]] {
        let told = refused(more);
        assert!(told.contains("it deletes 97 of 102 record sets, such as "), "{told}");
        assert!(told.contains("add --accept-loss"), "{told}");
    }
    assert!(holds(&scene.served.ask("n99.api.example"), &[10, 1, 0, 99]), "nothing changed");
    // 10.1.0.234 became 10.1.0.2.
    fs::write(&file, lines(100) + "new 60 A 10.1.0.2").expect("a file");
    assert!(refused(&[]).contains("does not end with a newline"));
    let told = scene.refused(&["records", "import", "api.example", &path, "--stream"]);
    assert!(told.contains("does not end with a newline") && told.contains("accept_loss"), "{told}");
    assert_eq!(rcode(&scene.served.ask("new.api.example")), 3);
    assert_eq!(import(&["--accept-loss"]).status.code(), Some(0));
    assert!(holds(&scene.served.ask("new.api.example"), &[10, 1, 0, 2]));
    fs::write(&file, lines(3)).expect("a file");
    assert_eq!(import(&["--accept-loss"]).status.code(), Some(0));
    assert_eq!(rcode(&scene.served.ask("n99.api.example")), 3);
    let piped = ["records", "import", "api.example", "-", "--yes"];
    let told = scene.done_with(&piped, "in 60 A 10.1.0.9\n");
    assert!(told.contains("1 record set changed"), "{told}");
    assert!(holds(&scene.served.ask("in.api.example"), &[10, 1, 0, 9]));
}

#[test]
fn comment_is_set_shown_exported_and_imported() {
    let scene = start("rest-comment");
    scene.done(&["zones", "create", "api.example", "--nameserver", "ns.example."]);
    let set = |comment: &str| {
        let mail = ["records", "set", "api.example", "mail", "MX", "10 mx.example."];
        scene.run(&[&mail[..], &["--comment", comment]].concat())
    };
    assert!(set("until 2027; see T-7").status.success());
    let told = set(&"x".repeat(256));
    assert!(text(&told.stderr).contains("comment: is up to 255 bytes"), "{told:?}");
    assert!(text(&set("a\nb").stderr).contains("without control characters"));
    let get = ["records", "get", "api.example", "mail", "MX"];
    assert!(scene.done(&get).contains("10 mx.example. ; until 2027; see T-7\n"));
    let zone = scene.done(&["records", "export", "api.example", "--format", "zone"]);
    assert!(zone.contains("\n; until 2027; see T-7\nmail.api.example. 300 IN MX"), "{zone}");
    let lines = scene.done(&["records", "export", "api.example"]);
    scene.done(&["records", "delete", "api.example", "mail", "MX"]);
    let file = scene.served.folder.join("sets.ndjson");
    fs::write(&file, lines).expect("a file");
    let file = file.to_str().expect("UTF-8");
    let import = ["records", "import", "api.example", file, "--yes"];
    let shown = scene.done(&import);
    assert!(shown.contains("with comment \"until 2027; see T-7\""), "{shown}");
    assert!(scene.done(&get).contains("see T-7"));
    assert!(scene.done(&import).contains("0 "), "nothing to change");
    let snapshot = scene.served.folder.join("older.records");
    let snapshot = snapshot.to_str().expect("UTF-8");
    let taken = scene.run(&["zones", "snapshot", "--format", "3", snapshot]);
    let lost = text(&taken.stderr);
    assert!(taken.status.success(), "{taken:?}");
    assert!(lost.contains("lost: mail.api.example. MX: its comment"), "{lost}");
}

/// The snapshot is taken while the server serves, verified, and restored as a whole.
#[test]
fn snapshot_is_taken_and_restored() {
    let scene = start("rest-snapshot");
    scene.done(&["zones", "create", "api.example", "--nameserver", "ns.api.example"]);
    let set = ["records", "set", "api.example", "www.api.example", "A"];
    scene.done(&[&set[..], &["10.0.0.7"]].concat());
    let file = scene.served.folder.join("backup.records");
    let file = file.to_str().expect("UTF-8");
    let told = scene.done(&["zones", "snapshot", file]);
    assert!(told.starts_with("1 zone as of revision 2 in "), "{told}");
    scene.done(&[&set[..], &["10.0.0.8"]].concat());
    let told = scene.refused(&["zones", "restore", file]);
    assert!(told.contains("no terminal to confirm"), "{told}");
    let told = scene.done(&["zones", "restore", file, "--yes"]);
    assert!(told.starts_with("1 zone restored, and live as revision "), "{told}");
    assert!(holds(&scene.served.ask("www.api.example"), &[0, 4, 10, 0, 0, 7]));
    let whole = fs::read(file).expect("a snapshot");
    fs::write(file, &whole[..whole.len() - 1]).expect("a file");
    let told = scene.refused(&["zones", "restore", file, "--yes"]);
    assert!(told.contains("truncated or damaged"), "{told}");
    let told = scene.refused(&["zones", "delete", "api.example"]);
    assert!(told.contains("delete api.example and its 3 record sets"), "{told}");
    let status = scene.done(&["status"]);
    assert!(status.contains("store       revision 4, 1 zone, 3 record sets, "), "{status}");
    assert!(status.contains("api         "), "{status}");
    scene.done(&["zones", "delete", "api.example", "--yes"]);
    assert!(!holds(&scene.served.ask("www.api.example"), &[0, 4, 10, 0, 0, 7]));
}

/// A zone that was never loaded is reported neither as empty nor as missing (I10), and the API
/// names the error of its file.
#[test]
fn zone_that_was_never_loaded_is_not_reported_as_empty() {
    let scene = Operated::new(start_on("rest-unloaded", "this is not a zone file\n"));
    assert_eq!(rcode(&scene.served.ask("www.file.example")), crate::served::SERVFAIL);
    for args in [
        &["records", "list", "file.example"][..],
        &["records", "get", "file.example", "www.file.example", "A"],
        &["records", "export", "file.example"],
    ] {
        let told = scene.refused(args);
        assert!(told.contains("never loaded") && told.contains("SERVFAIL"), "{args:?}: {told}");
    }
    let zone = scene.done(&["zones", "show", "file.example", "-o", "json"]);
    let zone: serde_json::Value = serde_json::from_str(&zone).expect("JSON");
    assert_eq!((&zone["owner"], &zone["serial"]), (&"file".into(), &serde_json::Value::Null));
}

#[test]
fn revoked_token_is_refused_and_audited() {
    let scene = start("rest-tokens");
    let listed = scene.done(&["token", "list"]);
    assert!(listed.contains("root") && !listed.contains(&scene.token), "{listed}");
    scene.done(&["token", "create", "ops", "--grant", "operate", "--subject", "ops.example"]);
    let listed = scene.done(&["token", "list", "-o", "json"]);
    assert!(listed.contains("ops.example") && !listed.contains(&scene.token), "{listed}");
    scene.done(&["token", "revoke", "root"]);
    let told = scene.refused(&["zones", "list"]);
    assert!(told.contains("dunlin token create"), "it names a remedy: {told}");
    let audited = scene.served.expect_line("audit: unauthenticated request", "/v1/zones");
    assert_eq!(audited["path"], "/v1/zones", "{audited}");
    let told = scene.refused(&["token", "create", "x", "--grant", "steal *"]);
    assert!(told.contains("not a verb"), "{told}");
}

/// The command takes an owner relative to its zone; names in data are absolute.
#[test]
fn relative_owner_is_accepted_and_names_in_data_are_absolute() {
    let scene = start("rest-names");
    let created = ["zones", "create", "bücher.example", "--nameserver", "ns.bücher.example"];
    scene.done(&created);
    let zone = "bücher.example";
    let set = |args: &[&str]| scene.done(&[&["records", "set", zone], args].concat());
    let shown = set(&["www", "A", "10.0.0.7"]);
    assert!(shown.starts_with("+ www.xn--bcher-kva.example. 300 A 10.0.0.7\n"), "{shown}");
    assert!(holds(&scene.served.ask("www.xn--bcher-kva.example"), &[0, 4, 10, 0, 0, 7]));
    let shown = set(&["mail", "CNAME", "www.xn--bcher-kva.example"]);
    assert!(shown.contains(" CNAME www.xn--bcher-kva.example.\n"), "{shown}");
    let shown = set(&["@", "TXT", "v=spf1 -all"]);
    let text = "+ xn--bcher-kva.example. 300 TXT \"v=spf1 -all\"\n";
    assert!(shown.starts_with(text), "{shown}");
    let got = scene.done(&["records", "get", zone, "WWW.bücher.example", "A"]);
    assert!(got.contains("10.0.0.7"), "{got}");
    scene.done(&["records", "delete", zone, "www", "A"]);
    let servers = scene.done(&["records", "get", zone, "@", "NS"]);
    assert!(servers.contains(" ns.xn--bcher-kva.example."), "{servers}");
    let told = scene.refused(&["records", "set", zone, "a b", "A", "10.0.0.7"]);
    assert!(told.contains("it has a space") && told.contains("\\032"), "{told}");
    let told = scene.run(&["zones", "create", "one.example", "--nameserver", "ns"]);
    let warned = text_of(&told);
    assert!(told.status.success() && warned.contains("ns.one.example."), "{warned}");
}

/// Whether DNS serves this serial: the SOA of a negative response.
fn serves_serial(scene: &Operated, serial: u32) -> bool {
    holds(&scene.served.ask("absent.api.example"), &serial.to_be_bytes())
}

/// An imported zone has secondaries: its serial never goes back.
#[test]
fn serial_of_an_imported_zone_never_goes_back() {
    let scene = start("rest-serial");
    scene.done(&["zones", "create", "api.example", "--nameserver", "ns.example"]);
    let file = scene.served.folder.join("old.zone");
    let text = "$TTL 300\n@ SOA ns.example. admin 2026112301 2 3 4 5\n@ NS ns.example.\n\
                www A 10.0.0.2\n";
    fs::write(&file, text).expect("a file");
    let file = file.to_str().expect("UTF-8").to_owned();
    let import = ["records", "import", "api.example", &*file, "--replace"];
    let shown = scene.done(&[&import[..], &["--dry-run"]].concat());
    let preview = "serial 1 becomes 2026112302 (the file has 2026112301)\n";
    assert!(shown.contains(preview), "{shown}");
    assert!(serves_serial(&scene, 1), "nothing changed yet");
    scene.done(&[&import[..], &["--yes"]].concat());
    assert!(serves_serial(&scene, 2_026_112_302));
    let backup = scene.served.folder.join("backup.records");
    let backup = backup.to_str().expect("UTF-8");
    scene.done(&["zones", "snapshot", backup]);
    scene.done(&["records", "set", "api.example", "a", "A", "10.0.0.7"]);
    assert!(serves_serial(&scene, 2_026_112_303));
    scene.done(&["zones", "restore", backup, "--yes"]);
    assert!(serves_serial(&scene, 2_026_112_304));
    let shown = scene.done(&[&import[..], &["--yes"]].concat());
    assert!(shown.starts_with("0 record sets to change"), "an older serial has no say: {shown}");
    let newer = text.replace("2026112301", "2026112401");
    fs::write(&file, newer).expect("a file");
    let shown = scene.done(&[&import[..], &["--yes", "-o", "json"]].concat());
    assert!(shown.contains("\"serial\": 2026112402"), "{shown}");
    assert!(serves_serial(&scene, 2_026_112_402));
    let scene = scene.restarted();
    assert!(serves_serial(&scene, 2_026_112_402));
    scene.done(&["records", "set", "api.example", "b", "A", "10.0.0.7"]);
    assert!(serves_serial(&scene, 2_026_112_403));
}

/// Hidden record sets are not live, and the delegation that hides them is named.
#[test]
fn set_below_a_delegation_is_not_live() {
    let scene = start("rest-shadow");
    scene.done(&["zones", "create", "api.example", "--nameserver", "ns.example"]);
    let set = |args: &[&str]| scene.done(&[&["records", "set", "api.example"], args].concat());
    set(&["sub", "NS", "ns.sub.api.example"]);
    let shown = set(&["ns.sub", "A", "10.0.0.7"]);
    assert!(shown.contains("\nlive as revision "), "glue is served: {shown}");
    let shown = set(&["www.sub", "A", "10.0.0.8"]);
    let told = "not live: the delegation sub.api.example. hides it\n";
    assert!(shown.ends_with(told), "{shown}");
    assert!(!holds(&scene.served.ask("www.sub.api.example"), &[10, 0, 0, 8]));
    assert!(holds(&scene.served.ask("www.sub.api.example"), &[10, 0, 0, 7]), "as glue");
    let file = scene.served.folder.join("new.zone");
    fs::write(&file, "a.sub 300 A 10.0.0.9\nb 300 A 10.0.0.9\nc.sub 300 A 10.0.0.9\n").expect("it");
    let file = file.to_str().expect("UTF-8").to_owned();
    let shown = scene.done(&["records", "import", "api.example", &file, "--yes"]);
    let told = "  a.sub.api.example. A: the delegation sub.api.example. hides it\n";
    assert!(shown.contains(told) && !shown.contains("  b.api"), "{shown}");
    let shown = scene.done(&["records", "import", "api.example", &file, "--stream"]);
    assert!(shown.contains("DNS does not serve 3 record sets"), "{shown}");
}

#[test]
fn public_api_needs_tls_and_a_data_folder() {
    let test = "rest-refused";
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(test);
    fs::create_dir_all(&folder).expect("a folder");
    let file = folder.join("dunlin.toml");
    for (text, story) in [
        ("api.listen = \"0.0.0.0:0\"\n", "dunlin.toml:1:14: `listen` is reachable for other hosts"),
        ("api.listen = \"127.0.0.1:1\"\n", "`listen` needs a store to write to"),
        ("[api.tls]\ncert = \"a\"\n", "needs the key `key`"),
        ("[api.tls]\nclient_ca = \"a\"\n", "`client_ca` needs `cert` and `key`"),
    ] {
        fs::write(&file, text).expect("a file");
        let output = binary().arg("check").arg(&file).output().expect("the binary runs");
        let told = text_of(&output);
        assert!(told.contains(story) && !output.status.success(), "{told}");
    }
}

fn text_of(output: &Output) -> String {
    text(&[&output.stdout[..], &output.stderr[..]].concat())
}

#[test]
fn built_in_zones_are_listed_only_on_request() {
    let scene = start("rest-builtin");
    assert!(!scene.done(&["zones", "list"]).contains("localhost"));
    let listed = |query: &str| {
        let (_, reply) = scene.http("GET", &format!("/v1/zones{query}"), "");
        reply.matches("\"built-in\"").count()
    };
    assert_eq!(listed(""), 0);
    assert_eq!(listed("?builtin=true&limit=10"), 10);
}

/// The thread of the API, and the threads that wait for the disk for it, yield to workers.
#[test]
fn threads_of_the_api_have_a_lower_priority_than_workers() {
    let scene = start("rest-nice");
    scene.done(&["records", "list", "file.example"]);
    let tasks = fs::read_dir(format!("/proc/{}/task", scene.served.child.id())).expect("threads");
    let stats = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("stat")).ok());
    // The name in parentheses, and the seventeenth field after it (proc_pid_stat(5)).
    let nicenesses: Vec<(String, i32)> = stats
        .filter_map(|stat| {
            let (head, rest) = stat.rsplit_once(") ")?;
            let name = head.split_once('(')?.1.to_owned();
            Some((name, rest.split(' ').nth(16)?.parse().ok()?))
        })
        .collect();
    let of = |name: &str| {
        let found: Vec<i32> =
            nicenesses.iter().filter(|(own, _)| own.starts_with(name)).map(|one| one.1).collect();
        assert!(!found.is_empty(), "{name}: {nicenesses:?}");
        found
    };
    let worker = of("worker-")[0];
    let lower = of("api").iter().all(|nice| *nice > worker);
    assert!(lower, "{nicenesses:?}");
}
