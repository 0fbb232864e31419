//! `dunlin check` on real files.
use crate::served::{HEAD, text, zone};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn dunlin(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_dunlin")).args(words).output().expect("the binary runs")
}

/// A folder for one test, with these files.
fn folder(test: &str, files: &[(&str, &str)]) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    std::fs::create_dir_all(&folder).expect("a folder");
    for (name, text) in files {
        std::fs::write(folder.join(name), text).expect("a file");
    }
    folder
}

/// What a command prints, which must end with this status and have these parts.
fn expect(words: &[&str], status: i32, parts: &[&str]) -> String {
    let output = dunlin(words);
    let told = text(&output.stdout);
    assert_eq!(output.status.code(), Some(status), "{told}");
    for part in parts {
        assert!(told.contains(part), "{told} lacks {part}");
    }
    told
}

/// The same of `dunlin check` on the config of a folder with these files.
fn check(test: &str, files: &[(&str, &str)], status: i32, parts: &[&str]) -> String {
    let config = folder(test, files).join("dunlin.toml");
    expect(&["check", config.to_str().expect("UTF-8")], status, parts)
}

/// A config without a data directory, with the zone `a.test`.
const ONE_ZONE: &str =
    "[server]\ndata_dir = \"\"\n[[zone]]\nname = \"a.test\"\nfile = \"a.zone\"\n";

#[test]
fn demo_fleet_has_no_error() {
    let config = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/fleet/dunlin.toml");
    expect(&["check", config], 0, &["cluster.local. is in order, 104"]);
}

#[test]
fn every_error_of_config_and_zones_has_its_place() {
    let config = zone("good.test") + &zone("bad.test") + &zone("alias.test") + &zone("gone.test");
    let files = [
        ("dunlin.toml", &*config),
        ("good.test.zone", HEAD),
        ("bad.test.zone", &format!("{HEAD}www A 192.0.2.256\nmail MX ten mx\n")),
        ("alias.test.zone", &format!("{HEAD}www CNAME ns\nwww A 192.0.2.2\n")),
    ];
    let parts = [
        "bad.test.zone:5:7: ",
        "bad.test.zone:6:9: ",
        "alias.test.zone:6:1: www.alias.test.: a CNAME record",
        "gone.test.zone",
        "good.test. is in order, 3 records",
    ];
    let told = check("every_error", &files, 1, &parts);
    assert!(told.ends_with("4 errors, 0 warnings in 5 files\n"), "{told}");
}

#[test]
fn errors_of_hosts_files_are_reported() {
    let config = "hosts.files = [\"good\", \"bad\"]\n";
    let good = "127.0.0.1 localhost\n192.0.2.1 www.example.org www\n";
    let bad = "192.0.2.1 a..b\nwww 192.0.2.1\n";
    let files = [("dunlin.toml", config), ("good", good), ("bad", bad)];
    let parts = [
        "good: a hosts file in order, 3 names\n",
        "bad:1:11: `a..b` is not a name: a label is empty",
        "bad:2:1: `www` is not an address",
        "[hosts-syntax, RFC 952]",
    ];
    let told = check("hosts", &files, 1, &parts);
    assert!(told.ends_with("2 errors, 0 warnings in 3 files\n"), "{told}");
}

#[test]
fn check_prints_one_json_object() {
    let folder = folder("json", &[("dunlin.toml", "[server]\nlisten = 1\nid = 2\n")]);
    let file = folder.join("dunlin.toml");
    let output = dunlin(&["check", "-o", "json", file.to_str().expect("UTF-8")]);
    assert_eq!(output.status.code(), Some(1));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let errors = report["errors"].as_array().expect("errors");
    assert_eq!(errors.len(), 2, "{report}");
    assert_eq!((&errors[0]["line"], &errors[0]["column"]), (&2.into(), &10.into()), "{report}");
    assert_eq!(
        (&errors[0]["rule"], &errors[0]["source"]),
        (&"config-value".into(), &"Dunlin".into())
    );
}

#[test]
fn probable_mistake_is_a_warning_and_fails_with_strict() {
    let zone = "$TTL 60\n@ SOA ns root 5 2 3 4 5\n@ NS ns\nns A 192.0.2.1\nwww CNAME gone\n";
    let folder = folder("warnings", &[("dunlin.toml", ONE_ZONE), ("a.zone", zone)]);
    let file = folder.join("dunlin.toml");
    let file = file.to_str().expect("UTF-8");
    let warning = "a.zone:5:1: warning: `gone.a.test.` does not exist";
    let told = expect(&["check", file], 0, &[warning, "[target-missing, Dunlin]"]);
    assert!(told.ends_with("0 errors, 1 warning in 2 files\n"), "{told}");
    assert_eq!(dunlin(&["check", "--strict", file]).status.code(), Some(1));
    let folder = folder.to_str().expect("UTF-8");
    expect(&["check", folder], 1, &["is a folder, not a config (name the config in it"]);
}

#[test]
fn set_with_two_ttls_is_a_warning() {
    let zone = format!("{HEAD}www A 192.0.2.2\nwww 5 A 192.0.2.3\n");
    let warning = "a.zone:6:1: warning: www.a.test.: this A record has a TTL of 5";
    let parts = [warning, "[ttl-differs, RFC 2181 §5.2]"];
    check("ttls", &[("dunlin.toml", ONE_ZONE), ("a.zone", &zone)], 0, &parts);
}

/// The server neither waits for a pipe without a writer nor reads a device without an end.
#[test]
fn pipe_or_device_as_config_or_zone_is_an_error() {
    let folder = folder("irregular", &[("dunlin.toml", ONE_ZONE)]);
    let pipe = folder.join("a.zone");
    let _ = std::fs::remove_file(&pipe);
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("coreutils").success());
    for command in [&["serve", "-c"][..], &["check"]] {
        for file in [pipe.as_path(), Path::new("/dev/zero")] {
            let words = [command, &[file.to_str().expect("UTF-8")]].concat();
            let output = dunlin(&words);
            let told = text(&output.stdout) + &text(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{told}");
            assert!(told.contains("cannot be read: it is not a regular file"), "{told}");
            assert!(told.contains("write it to a file"), "{told}");
        }
    }
    let why = "a.zone: cannot be read: it is not a regular file";
    check("irregular", &[], 1, &[why]);
}

#[test]
fn serial_not_above_the_served_one_is_a_warning() {
    let zone = |serial: u32, more: &str| {
        format!("$TTL 60\n@ SOA ns root {serial} 2 3 4 5\n@ NS ns\nns A 192.0.2.1\n{more}")
    };
    let folder = folder("serial", &[("a.zone", &zone(7, ""))]);
    let data = folder.join("data");
    let config = format!(
        "[server]\ndata_dir = \"{}\"\n[[zone]]\nname = \"a.test\"\nfile = \"a.zone\"\n",
        data.display()
    );
    let file = folder.join("dunlin.toml");
    std::fs::write(&file, config).expect("a file");
    let copies = data.join("zones");
    std::fs::create_dir_all(&copies).expect("a folder");
    let origin = wire::NameBuf::from_text(b"a.test.", wire::Name::ROOT).expect("a name");
    let key = std::sync::Arc::new(image::HashKey::new([3; image::HASH_KEY_WORDS]));
    let (served, _) =
        source_file::load(&folder.join("a.zone"), origin.as_name(), &key, None).expect("a zone");
    let copy = source_file::saved::path(&copies, origin.as_name());
    let mut copy = std::fs::File::create(copy).expect("a file");
    source_file::saved::write(&served, None, &mut copy).expect("written");
    let told = |serial, more| {
        std::fs::write(folder.join("a.zone"), zone(serial, more)).expect("a file");
        text(&dunlin(&["check", file.to_str().expect("UTF-8")]).stdout)
    };
    assert!(!told(7, "").contains("warning:"), "the zone as it is served");
    assert!(told(7, "b A 192.0.2.2\n").contains("its serial is 7 as before (secondaries"));
    assert!(told(6, "b A 192.0.2.2\n").contains("the serial 6 is not above 7"));
    assert!(!told(8, "b A 192.0.2.2\n").contains("warning:"));
    assert!(!told(2_147_483_654, "").contains("warning:"), "RFC 1982 §3.2: still greater");
    assert!(told(2_147_483_656, "").contains("write at least 8"));
}

/// The inputs of a few zone files from other servers, and what is to be said of each.
#[test]
fn zone_files_of_other_servers_are_loaded_or_refused_with_their_place() {
    let windows = "@ IN SOA ns hostmaster ( 26 900 600 86400 3600 )\n@ NS ns\nns A 192.0.2.1\n";
    for (name, text, code, expected) in [
        ("no-ttl", windows.to_owned(), 0, "no-ttl.zone:1:1: warning: no TTL given"),
        ("below", format!("{HEAD}d DNAME x.test.\na.d A 192.0.2.1\n"), 1, "below.zone:6:1: "),
        ("alpn", format!("{HEAD}a HTTPS 1 . alpn=h2,,h3\n"), 1, "alpn.zone:5:13: "),
        ("digest", format!("{HEAD}a NS ns\na DS 1 8 2 0123\n"), 1, "digest.zone:6:12: the dig"),
        ("loop", format!("{HEAD}a CNAME b\nb CNAME a\n"), 0, "loop.zone:5:1: warning: the alias"),
        ("mac", HEAD.replace('\n', "\r"), 1, "mac.zone:1:1: the lines of this file end in CR"),
        ("aname", format!("{HEAD}a ANAME b\n"), 1, "else the A and AAAA records of its target"),
        ("uinfo", format!("{HEAD}a UINFO b\n"), 1, "`TYPE100 \\# LENGTH HEX`"),
        ("ds", format!("{HEAD}a NS ns\na DS 1 RSASHA256 1 {}\n", "00".repeat(20)), 0, "0 warn"),
    ] {
        let config = zone(name);
        let files = [("dunlin.toml", &*config), (&*format!("{name}.zone"), &*text)];
        check(&format!("other-{name}"), &files, code, &[expected]);
    }
}

/// The zone is signed for January 2026: its signatures are refused at any other time.
#[test]
fn old_signatures_are_a_warning() {
    let zone = include_str!("../../../control/source-file/src/signatures/zones/nsec3.zone");
    let config = self::zone("example");
    let parts =
        ["[signature, RFC 4035 §5.3]", "signed record sets, 0 verified, valid until 2026-01-31 "];
    let files = [("dunlin.toml", &*config), ("example.zone", zone)];
    let told = check("signed", &files, 0, &parts);
    assert!(told.ends_with("0 errors, 1 warning in 2 files\n"), "{told}");
}

/// `-c FILE` works as for `serve`; `--quiet` prints nothing if there is no error.
#[test]
fn check_takes_config_flag_and_quiet() {
    let folder =
        folder("quiet", &[("dunlin.toml", "store.kind = \"redb\"\n"), ("bad.toml", "a=1")]);
    let (good, bad) = (folder.join("dunlin.toml"), folder.join("bad.toml"));
    let (good, bad) = (good.to_str().expect("UTF-8"), bad.to_str().expect("UTF-8"));
    assert_eq!(expect(&["check", "-c", good], 0, &[]), "0 errors, 0 warnings in 1 file\n");
    assert_eq!(expect(&["check", "--quiet", "-c", good], 0, &[]), "");
    let told = expect(&["check", "-q", good, bad], 1, &[]);
    assert_eq!(told.lines().count(), 1, "{told}");
}

/// An error that would stop `serve` is an error of `check` too.
#[test]
fn unknown_user_is_an_error() {
    let files = [("dunlin.toml", "[server]\nuser = \"no-such-user\"\n")];
    check("user", &files, 1, &["there is no user \"no-such-user\""]);
}

#[test]
fn usage_error_exits_with_two() {
    for words in [&["check"][..], &["chekc", "x"], &[], &["check", "-o", "yaml", "x"]] {
        assert_eq!(dunlin(words).status.code(), Some(2), "{words:?}");
    }
    for words in [&["--version"][..], &["--help"], &["check", "--help"]] {
        assert_eq!(dunlin(words).status.code(), Some(0), "{words:?}");
    }
}
