//! `dunlin import corefile`, `dunlin import named` and `dunlin import containerdns` on real files.
use crate::served::text;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn cases() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../control/import-corefile/tests/cases")
}

/// An empty folder for one test.
fn folder(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder");
    folder
}

fn dunlin(words: &[&str], folder: &Path, input: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_dunlin"))
        .args(words)
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs");
    // The command may end before it has read everything.
    let _ = child.stdin.take().expect("a pipe").write_all(input);
    child.wait_with_output().expect("it ends")
}

/// Each case becomes a valid config, apart from zone files that the case does not have.
#[test]
fn imported_corefile_is_a_valid_config() {
    let mut seen = 0;
    for entry in fs::read_dir(cases()).expect("cases") {
        let case = entry.expect("a case").path();
        let Ok(config) = fs::read_to_string(case.join("dunlin.toml")) else { continue };
        let here = folder("import_check");
        for name in ["hosts", "hosts.more"] {
            let hosts = fs::read_to_string(case.join(name)).unwrap_or_default();
            fs::write(here.join(name), hosts).expect("written");
        }
        // Absolute paths differ on this machine.
        let config = config.replace("\"/etc/coredns/NodeHosts\"", "\"hosts.more\"");
        fs::write(here.join("dunlin.toml"), &config).expect("written");
        let output = dunlin(&["check", "dunlin.toml"], &here, b"");
        let told = text(&output.stdout) + &text(&output.stderr);
        let wrong: Vec<&str> = told
            .lines()
            .filter(|line| line.starts_with("dunlin.toml:") && !line.contains(": warning"))
            .filter(|line| !line.contains("No such file"))
            .collect();
        assert_eq!(wrong, Vec::<&str>::new(), "{}\n{config}\n{told}", case.display());
        seen += 1;
    }
    assert!(seen >= 10, "{seen}");
}

#[test]
fn import_exits_with_one_if_something_is_lost() {
    let here = folder("import_status");
    let all = dunlin(&["import", "corefile"], &here, b". {\n forward . 192.0.2.1\n cache 60\n}\n");
    assert_eq!(all.status.code(), Some(0), "{}", text(&all.stderr));
    let config = text(&all.stdout);
    assert!(config.contains("[forward]\n\".\" = [\"192.0.2.1\"]\n"), "{config}");
    assert!(text(&all.stderr).starts_with("-:2:2: note: forward: "), "{}", text(&all.stderr));

    let some = dunlin(&["import", "corefile"], &here, b". {\n whoami\n nsid x\n}\n");
    assert_eq!(some.status.code(), Some(1));
    assert_eq!(text(&some.stdout), "[server]\nnsid = \"x\"\n");
    let told = text(&some.stderr);
    assert!(told.contains("-:2:2: lost: whoami") && told.contains("1 of these are lost"), "{told}");

    for (words, input, status, why) in [
        (&["import"][..], &b""[..], 2, "Usage"),
        (&["import", "zonefile"], b"", 2, "unrecognized"),
        (&["import", "corefile", "missing"], b"", 1, "dunlin: missing: "),
        (&["import", "corefile", "."], b"", 1, "it is not a regular file"),
        (&["import", "corefile"], b". {", 1, "dunlin: -:1:3: this brace is not closed"),
        (&["import", "corefile"], b"\xff", 1, "it is not UTF-8"),
    ] {
        let output = dunlin(words, &here, input);
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{words:?}: {told}");
        assert!(told.contains(why) && output.stdout.is_empty(), "{words:?}: {told}");
    }
}

/// Nothing is lost of the Corefile that kubeadm writes.
#[test]
fn corefile_of_kubeadm_loses_nothing() {
    let here = folder("import_kubeadm");
    let text_of = |name| fs::read_to_string(cases().join("kubeadm").join(name)).expect("a file");
    fs::write(here.join("resolv.conf"), "nameserver 192.0.2.1\n").expect("written");
    let resolvers = here.join("resolv.conf").display().to_string();
    let corefile = text_of("Corefile").replace("/etc/resolv.conf", &resolvers);
    let output = dunlin(&["import", "corefile"], &here, corefile.as_bytes());
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{told}");
    assert!(!told.contains(": lost: "), "{told}");
    let config = text(&output.stdout);
    for key in ["drain = \"5s\"", "0.0.0.0:9153", "pods = \"insecure\"", "ttl_max = \"30s\""] {
        assert!(config.contains(key), "{key}: {config}");
    }
}

/// Standard output has the whole config, with the lines of other files as comments.
#[test]
fn import_without_a_folder_shows_what_becomes_files() {
    let here = folder("import_stdout");
    let corefile = b". {\n hosts {\n  192.0.2.1 a.test\n  fallthrough\n }\n}\n";
    let output = dunlin(&["import", "corefile"], &here, corefile);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("--folder FOLDER"), "{}", text(&output.stderr));
    let config = text(&output.stdout);
    let start =
        "# Write these lines into the file `hosts` beside this config:\n#   192.0.2.1 a.test\n";
    assert!(config.starts_with(start) && config.contains("files = [\"hosts\"]"), "{config}");
}

/// Zone files of a Corefile stay where they are; the config names them by their whole path.
#[test]
fn imported_config_finds_the_zone_files_of_the_corefile() {
    let here = folder("import_files");
    fs::create_dir(here.join("conf")).expect("a folder");
    let zone = "$TTL 60\n@ SOA ns h 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\n";
    fs::write(here.join("conf/db.example"), zone).expect("written");
    fs::write(here.join("conf/Corefile"), "example.org {\n file db.example\n}\n").expect("written");
    let words = ["import", "corefile", "conf/Corefile", "--folder", "out"];
    let output = dunlin(&words, &here, b"");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let check = dunlin(&["check", "out/dunlin.toml"], &here, b"");
    let told = text(&check.stdout);
    assert!(told.contains("example.org. is in order, 3 records"), "{told}");
}

#[test]
fn import_into_a_folder_overwrites_nothing() {
    let here = folder("import_folder");
    let corefile = b". {\n hosts {\n  192.0.2.1 a.test\n  fallthrough\n }\n}\n";
    fs::write(here.join("Corefile"), corefile).expect("written");
    let words = ["import", "corefile", "Corefile", "--folder", "out"];
    let output = dunlin(&words, &here, b"");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(fs::read_to_string(here.join("out/hosts")).expect("a file"), "192.0.2.1 a.test\n");
    let check = dunlin(&["check", "out/dunlin.toml"], &here, b"");
    assert_eq!(check.status.code(), Some(0), "{}", text(&check.stdout));
    let again = dunlin(&words, &here, b"");
    assert_eq!(again.status.code(), Some(1));
    assert!(text(&again.stderr).contains("already there"), "{}", text(&again.stderr));
}

#[test]
fn files_of_containerdns_become_a_config_that_check_accepts() {
    let here = folder("import_containerdns");
    let case = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../control/import-containerdns/tests/cases/all");
    let files = ["containerdns.conf", "kubeapi.conf", "scanner.conf", "schedule.conf"];
    for file in files {
        fs::copy(case.join(file), here.join(file)).expect("copied");
    }
    let some = dunlin(&[&["import", "containerdns"], &files[..]].concat(), &here, b"");
    assert_eq!(some.status.code(), Some(1), "{}", text(&some.stderr));
    let expected = fs::read_to_string(case.join("dunlin.toml")).expect("a config");
    assert_eq!(text(&some.stdout), expected);
    let told = text(&some.stderr);
    let notes = fs::read_to_string(case.join("notes")).expect("notes");
    assert!(told.starts_with(&notes) && told.ends_with("the config is without them\n"), "{told}");
    // An address of an upstream may be one of this machine, and is no fault then.
    let config = expected.replace("0.0.0.0:53", "127.0.0.1:53");
    fs::write(here.join("dunlin.toml"), config).expect("written");
    let output = dunlin(&["check", "dunlin.toml"], &here, b"");
    let told = text(&output.stdout) + &text(&output.stderr);
    let is_wrong = |line: &&str| line.starts_with("dunlin.toml:") && !line.contains(": warning");
    // The certificates and the kubeconfig are on another machine.
    let wrong: Vec<&str> =
        told.lines().filter(is_wrong).filter(|line| !line.contains("No such file")).collect();
    assert_eq!(wrong, Vec::<&str>::new(), "{told}");

    fs::write(here.join("small.conf"), "[DNSApi]\napi-enable = no\n").expect("written");
    let all = dunlin(&["import", "containerdns", "small.conf"], &here, b"");
    assert_eq!((all.status.code(), text(&all.stdout)), (Some(0), String::new()));
    for (words, status, why) in [
        (&["import", "containerdns"][..], 2, "Usage"),
        (&["import", "containerdns", "missing"], 1, "dunlin: missing: "),
        (&["import", "containerdns", "."], 1, "not a regular file"),
    ] {
        let output = dunlin(words, &here, b"");
        assert_eq!(output.status.code(), Some(status), "{words:?}");
        assert!(text(&output.stderr).contains(why), "{}", text(&output.stderr));
    }
}

/// A secret of BIND's config is only in its file, which only its owner can read.
#[test]
fn imported_keys_of_bind_are_files_of_their_owner() {
    let here = folder("import_named");
    let conf = "options { recursion no; };\n\
                key \"k.example\" { algorithm hmac-sha256; secret \"c2VjcmV0\"; };\n\
                zone \"a.example\" { type secondary; primaries { 192.0.2.1 key k.example; }; };\n";
    fs::write(here.join("named.conf"), conf).expect("written");
    let words = ["import", "named", "named.conf", "--folder", "out"];
    let output = dunlin(&words, &here, b"");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let key = here.join("out/k-example.key");
    assert!(fs::read_to_string(&key).expect("a key").contains("c2VjcmV0"));
    let mode = fs::metadata(&key).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "{mode:o}");
    let config = fs::read_to_string(here.join("out/dunlin.toml")).expect("a config");
    assert!(config.contains("key_file = \"k-example.key\"\n"), "{config}");
    let check = dunlin(&["check", "out/dunlin.toml"], &here, b"");
    let told = text(&check.stdout) + &text(&check.stderr);
    assert!(!told.lines().any(|line| line.starts_with("out/dunlin.toml:")), "{told}");

    let output = dunlin(&["import", "named"], &here, conf.as_bytes());
    let told = text(&output.stdout) + &text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("# The file `k-example.key` beside this config has a key."), "{told}");
    assert!(told.contains("--folder FOLDER") && !told.contains("c2VjcmV0"), "{told}");
}
