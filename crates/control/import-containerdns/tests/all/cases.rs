//! Files with the expected config and notes. A case is a folder: the files, `*.conf`, and the
//! outcome: `dunlin.toml` and `notes`, or only `error`. `BLESS=1` writes the outcome; review the
//! difference.
use config::Config;
use import_containerdns::limits::FILE_LEN_MAX;
use import_containerdns::{import, table};
use import_report::limits::REMARKS_MAX;
use std::fs;
use std::path::{Path, PathBuf};
use test_support::expected;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases")
}

/// The cases, and the names and texts of their files, in order of the names.
fn cases() -> Vec<(PathBuf, Vec<(String, String)>)> {
    let entries = fs::read_dir(folder()).expect("cases");
    let cases = entries.map(|entry| {
        let case = entry.expect("a case").path();
        let names = fs::read_dir(&case).expect("files").map(|file| file.expect("a file").path());
        let mut names: Vec<PathBuf> = names
            .filter(|name| name.extension().is_some_and(|extension| extension == "conf"))
            .collect();
        names.sort();
        let files = names.iter().map(|file| {
            let name = file.file_name().expect("a name").to_str().expect("UTF-8").to_owned();
            (name, fs::read_to_string(file).expect("a text"))
        });
        let files = files.collect();
        (case, files)
    });
    cases.collect()
}

/// The names and texts of an outcome.
fn outcome(files: &[(String, String)]) -> Vec<(&'static str, String)> {
    match import(files) {
        Err(error) => vec![("error", format!("{error}\n"))],
        Ok(imported) => {
            let notes = imported.notes.iter().map(|note| format!("{note}\n")).collect();
            vec![("dunlin.toml", imported.config), ("notes", notes)]
        }
    }
}

#[test]
fn files_become_a_config_and_notes() {
    let cases = cases();
    for (case, files) in &cases {
        for (name, text) in outcome(files) {
            let path = case.join(name);
            expected::check(&path, &text);
        }
        check(files);
    }
    assert!(cases.len() >= 5, "the cases are missing");
}

/// An error, or a config that is valid.
fn check(files: &[(String, String)]) {
    let imported = match import(files) {
        Err(error) => {
            assert!(error.place.line >= 1 && error.place.column >= 1 && !error.text.is_empty());
            return;
        }
        Ok(imported) => imported,
    };
    assert!(imported.notes.len() <= REMARKS_MAX + 1);
    if let Err(errors) = Config::parse(Path::new("dunlin.toml"), &imported.config) {
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        panic!("{}\n{}\n{files:?}", errors.join("\n"), imported.config);
    }
}

#[test]
fn cut_and_damaged_files_give_a_valid_config_or_an_error_with_a_place() {
    let mut random = fastrand::Rng::with_seed(1);
    let parts =
        ["\"", "\\", "[", "]\n", "=", "%", "@", ",", "\n", "0", ":", "yes", "é", "https://"];
    for (_, files) in cases() {
        for at in 0..files.len() {
            let text = files[at].1.clone();
            let mut files = files.clone();
            for end in (0..text.len()).filter(|end| text.is_char_boundary(*end)) {
                text[..end].clone_into(&mut files[at].1);
                check(&files);
            }
            for _ in 0..300 {
                let mut damaged = text.clone();
                for _ in 0..random.usize(1..4) {
                    let mut cut = || loop {
                        let cut = random.usize(..=damaged.len());
                        if damaged.is_char_boundary(cut) {
                            return cut;
                        }
                    };
                    let (one, other) = (cut(), cut());
                    let (start, end) = (one.min(other), one.max(other).min(one.min(other) + 8));
                    if damaged.is_char_boundary(end) {
                        damaged.replace_range(start..end, random.choice(parts).expect("a part"));
                    }
                }
                files[at].1 = damaged;
                check(&files);
            }
        }
    }
}

/// The keys of the table, by the text of the table itself.
fn keys() -> Vec<(String, String)> {
    let mut keys = Vec::new();
    for row in table().lines().skip(2) {
        let cell = row.trim_start_matches("| ").split(" | ").next().expect("a cell");
        let mut words = cell.split('`').filter(|word| !word.trim().is_empty() && *word != ", ");
        let section = words.next().expect("a section").to_owned();
        keys.extend(words.map(|key| (section.clone(), key.to_owned())));
    }
    keys
}

/// A value that is no value of any key becomes no setting, so each key has to be reported.
#[test]
fn every_key_becomes_a_setting_or_is_reported() {
    let keys = keys();
    assert!(keys.len() > 50, "{keys:?}");
    let on =
        "[General]\nenable-check = on\n[Kube2DNS]\nkube-enable = on\n[DNSApi]\napi-enable = on\n";
    for (section, key) in &keys {
        let is_switch = on.contains(&format!("{key} = "));
        let import = |text: String| import(&[("f".to_owned(), text)]).expect("a file");
        let with = import(format!("{on}{section}\n{key} = %1 !\n"));
        let is_at = |place: &str| place.starts_with("f:8:");
        let is_reported = with.notes.iter().any(|note| is_at(&note.place.to_string()));
        let is_set = with.config != import(on.to_owned()).config;
        assert!(is_reported || is_set || is_switch, "{section} {key}");
    }
    let unknown = [("f".to_owned(), "[Log]\nlog-dri = a\n[More]\nx = y\n".to_owned())];
    let notes = import(&unknown).expect("a file").notes;
    let lost: Vec<String> =
        notes.iter().filter(|note| note.is_lost).map(ToString::to_string).collect();
    assert_eq!(lost.len(), 2, "{lost:?}");
    assert!(lost[0].starts_with("f:2:1: lost: [Log] log-dri: no file of ContainerDNS"));
    assert!(lost[1].starts_with("f:4:1: lost: [More] x: "), "{lost:?}");
}

#[test]
fn secrets_are_in_no_output() {
    let secret = "hunter2";
    for text in [
        "[DNSApi]\napi-enable = yes\napi-address = :1\ncontainerdns-auth = hunter2\n",
        "[Stats]\nstatsServerAuthToken = \"hunter2\"\nstatsServerAuthToken = hunter2\n",
        "[Etcd]\netcd-servers = http://root:hunter2@127.0.0.1:2379,http://127.0.0.1:2379\n",
        "[DNSApi]\nconainerdns-auth = hunter2\n",
        "[DNSApi]\ncontainerdns-auth hunter2\n",
        "[DNSApi]\ncontainerdns-auth = \"hunter2\n",
    ] {
        let outcome = outcome(&[("f".to_owned(), text.to_owned())]);
        assert!(outcome.iter().all(|(_, page)| !page.contains(secret)), "{outcome:?}");
        assert!(outcome.iter().any(|(_, page)| page.contains("f:")), "{outcome:?}");
    }
}

#[test]
fn too_long_file_and_too_many_notes_are_reported() {
    let import = |text: String| import(&[("f".to_owned(), text)]);
    let error = import(" ".repeat(FILE_LEN_MAX + 1)).expect_err("too long").to_string();
    assert_eq!(error, "f:1:1: a file has at most 1048576 bytes");
    let lines: String = (0..REMARKS_MAX + 5).map(|n| format!("x{n}=1\n")).collect();
    let notes = import(format!("[a]\n{lines}")).expect("a file").notes;
    let last = notes.last().expect("notes").to_string();
    assert!(last.ends_with("lost: and 5 more notes"), "{last}");
}

/// The documentation lists every key.
#[test]
fn documentation_has_the_key_table() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/containerdns.md");
    expected::check_table(&page, "| key | becomes |", &table());
}
