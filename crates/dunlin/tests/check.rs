//! `dunlin check` as a user meets it.
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn dunlin(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_dunlin")).args(words).output().expect("the binary runs")
}

fn text(octets: &[u8]) -> String {
    String::from_utf8_lossy(octets).into_owned()
}

/// A folder of its own for one test, with these files.
fn folder(test: &str, files: &[(&str, &str)]) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    std::fs::create_dir_all(&folder).expect("a folder");
    for (name, text) in files {
        std::fs::write(folder.join(name), text).expect("a file");
    }
    folder
}

#[test]
fn the_demo_fleet_is_in_order() {
    let config = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/fleet/dunlin.toml");
    let output = dunlin(&["check", config]);
    let told = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{told}");
    assert!(told.contains("cluster.local. is in order, 104"), "{told}");
}

#[test]
fn every_error_of_config_and_zones_with_its_place() {
    let zone = |name: &str| format!("[[zone]]\nname = \"{name}\"\nfile = \"{name}.zone\"\n");
    let config = zone("good.test") + &zone("bad.test") + &zone("alias.test") + &zone("gone.test");
    let head = "$TTL 60\n@ SOA ns root 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\n";
    let folder = folder(
        "every_error",
        &[
            ("dunlin.toml", &config),
            ("good.test.zone", head),
            ("bad.test.zone", &format!("{head}www A 192.0.2.256\nmail MX ten mx\n")),
            ("alias.test.zone", &format!("{head}www CNAME ns\nwww A 192.0.2.2\n")),
        ],
    );
    let output = dunlin(&["check", folder.join("dunlin.toml").to_str().expect("UTF-8")]);
    let told = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("bad.test.zone:5:7: "), "{told}");
    assert!(told.contains("bad.test.zone:6:9: "), "{told}");
    assert!(told.contains("alias.test.zone:6:1: www.alias.test.: a CNAME record"), "{told}");
    assert!(told.contains("gone.test.zone"), "{told}");
    assert!(told.contains("good.test. is in order, 3 records"), "{told}");
    assert!(told.ends_with("4 errors\n"), "{told}");
}

#[test]
fn json_is_one_object() {
    let folder = folder("json", &[("dunlin.toml", "[server]\nlisten = 1\nid = 2\n")]);
    let file = folder.join("dunlin.toml");
    let output = dunlin(&["check", "-o", "json", file.to_str().expect("UTF-8")]);
    assert_eq!(output.status.code(), Some(1));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let errors = report["errors"].as_array().expect("errors");
    assert_eq!(errors.len(), 2, "{report}");
    assert_eq!((&errors[0]["line"], &errors[0]["column"]), (&2.into(), &10.into()), "{report}");
}

#[test]
fn asked_wrongly_is_status_two() {
    for words in [&["check"][..], &["chekc", "x"], &[], &["check", "-o", "yaml", "x"]] {
        assert_eq!(dunlin(words).status.code(), Some(2), "{words:?}");
    }
    for words in [&["--version"][..], &["--help"], &["check", "--help"]] {
        assert_eq!(dunlin(words).status.code(), Some(0), "{words:?}");
    }
}
