//! Texts of named.conf with the expected config and remarks. A case is a folder: `named.conf`, its
//! surroundings, and the outcome: `dunlin.toml`, files with keys, and `notes`, or only `error`.
//! `BLESS=1` writes the outcome; review the difference.
use config::Config;
use import_named::limits::{DEPTH_MAX, FILE_LEN_MAX};
use import_named::{Environment, ImportResult, import, table};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use test_support::expected;

/// A case's folder; absolute paths are in its folder `root`.
struct Case(PathBuf);

impl Case {
    fn path(&self, path: &Path) -> PathBuf {
        match path.strip_prefix("/") {
            Ok(path) => self.0.join("root").join(path),
            Err(_) => self.0.join(path),
        }
    }

    fn text(&self) -> String {
        fs::read_to_string(self.0.join("named.conf")).expect("a named.conf")
    }
}

impl Environment for Case {
    fn read(&self, file: &Path, _len_max: usize) -> io::Result<String> {
        // The system's message differs between machines.
        fs::read_to_string(self.path(file)).map_err(|_| io::Error::other("it is not there"))
    }

    fn find(&self, file: &Path) -> Option<PathBuf> {
        let found = Path::new("/etc/bind").join(file);
        self.path(&found).is_file().then_some(found)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        let files = fs::read_dir(self.path(folder)).map_err(|_| io::Error::other("not there"))?;
        let names = files.map(|file| file.map(|file| folder.join(file.file_name())));
        let mut names: Vec<PathBuf> = names.collect::<io::Result<_>>()?;
        names.sort();
        Ok(names)
    }
}

fn cases() -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let cases = fs::read_dir(folder).expect("cases");
    cases.map(|entry| Case(entry.expect("a case").path())).collect()
}

/// The server reads the config, and no remark and no config has a secret.
fn check(imported: &ImportResult) {
    if let Err(errors) = Config::parse(Path::new("dunlin.toml"), &imported.config) {
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        panic!("{}\n{}", errors.join("\n"), imported.config);
    }
    assert!(!imported.config.contains("c2VjcmV0"), "{}", imported.config);
    for note in &imported.notes {
        assert!(!note.text.contains("c2VjcmV0") && !note.text.is_empty(), "{note}");
    }
}

/// The outcome of a case: file names and contents.
fn outcome(case: &Case) -> Vec<(String, String)> {
    match import(Path::new("named.conf"), &case.text(), case) {
        Err(error) => vec![("error".to_owned(), format!("{error}\n"))],
        Ok(imported) => {
            check(&imported);
            let notes: String = imported.notes.iter().map(|note| format!("{note}\n")).collect();
            let mut files = vec![("dunlin.toml".to_owned(), imported.config)];
            files.push(("notes".to_owned(), notes));
            files.extend(imported.secret_files);
            files
        }
    }
}

#[test]
fn cases_match_their_outcome() {
    let mut count = 0;
    for case in cases() {
        count += 1;
        for (name, text) in outcome(&case) {
            let path = case.0.join(&name);
            expected::check(&path, &text);
        }
    }
    assert!(count > 10, "the cases are missing");
}

#[test]
fn documentation_has_the_table_of_statements() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/import-named.md");
    expected::check_table(&page, "| statement |", &table());
}

fn imported(text: &str) -> ImportResult {
    import(Path::new("f"), text, &Case(PathBuf::from("absent"))).expect("it is a named.conf")
}

/// Each list of BIND and what it becomes; `…` where something is lost.
#[test]
fn lists_allow_what_bind_allows() {
    for (list, expected, is_lost) in [
        ("any;", "[\"any\"]", false),
        ("10.1/16; 192.0.2.1;", "[\"10.1.0.0/16\", \"192.0.2.1\"]", false),
        ("!10.1.0.0/16; 10/8;", "[\"!10.1.0.0/16\", \"10.0.0.0/8\"]", false),
        // The first element decides, so the second says nothing.
        ("10/8; !10.1.0.0/16;", "[\"10.0.0.0/8\"]", false),
        ("!192.0.2.1; ::1;", "[\"::1\"]", false),
        ("{ 10/8; { ::1; }; };", "[\"10.0.0.0/8\", \"::1\"]", false),
        ("empty; 10/8;", "[\"10.0.0.0/8\"]", false),
        ("!{ 10/8; }; any;", "[\"!10.0.0.0/8\", \"any\"]", false),
        ("some; any;", "[\"!10.0.0.1\", \"10.0.0.0/8\", \"any\"]", true),
        ("key k; 10/8;", "[\"10.0.0.0/8\"]", true),
        // A client that signs with the key is denied in BIND, and all are here.
        ("::1; !key k; any;", "[\"::1\"]", true),
        ("localhost;", "[\"127.0.0.0/8\", \"::1\"]", true),
        ("localnets; ::1;", "[\"::1\"]", true),
        ("10.0.0.1/8; ::1;", "[\"::1\"]", true),
        ("!none; ::1;", "[\"::1\"]", true),
        ("none;", "[\"127.0.0.0/8\", \"::1\"]", false),
    ] {
        let text = format!(
            "acl empty {{ none; }};\nacl some {{ !10.0.0.1; 10/8; }};\n\
             options {{ recursion no; allow-query {{ {list} }}; }};"
        );
        let imported = imported(&text);
        check(&imported);
        assert_eq!(imported.config, format!("[acl]\nquery = {expected}\n"), "{list}");
        let lost = imported.notes.iter().any(|note| note.is_lost);
        assert_eq!(lost, is_lost, "{list}: {:?}", imported.notes);
    }
}

/// BIND reads each case that is imported, and refuses those that are errors.
#[test]
fn bind_reads_what_is_imported() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let mut count = 0;
    for case in cases() {
        let name = case.0.file_name().expect("a name").to_string_lossy().into_owned();
        // `nothing` has statements that no version has; a file that includes itself ends BIND.
        if ["include", "nothing", "error-include-loop"].contains(&&*name) {
            continue;
        }
        let text = match &*name {
            "debian" => ["options", "local", "default-zones"]
                .map(|part| {
                    let file = Path::new("/etc/bind").join(format!("named.conf.{part}"));
                    case.read(&file, 0).expect("a file")
                })
                .concat(),
            _ => case.text(),
        };
        // BIND goes into the folder.
        let here = format!("directory \"{}\"", folder.display());
        let text = text
            .replace("directory \"/var/cache/bind\"", &here)
            .replace("directory \"/etc/zones\"", &here);
        let file = folder.join(format!("{name}.conf"));
        fs::write(&file, text).expect("written");
        let output = Command::new("named-checkconf").arg(&file).output();
        let output = output.expect("named-checkconf (package bind9-utils) runs");
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.success(), !name.starts_with("error-"), "{name}: {said}");
        count += 1;
    }
    assert!(count > 10, "{count}");
}

fn message(text: &str) -> String {
    let case = Case(PathBuf::from("absent"));
    import(Path::new("f"), text, &case).expect_err("it is not a named.conf").to_string()
}

#[test]
fn hostile_input_is_an_error_with_its_position() {
    let deep = "a {\n".repeat(500_000);
    let place = format!("f:{}:3", DEPTH_MAX + 1);
    assert_eq!(message(&deep), format!("{place}: braces are nested more than {DEPTH_MAX} deep"));
    let long = "a\n ".to_owned() + &"x".repeat(1 << 20);
    assert_eq!(message(&long), "f:2:2: a word has at most 65536 bytes");
    let line = "xxxxxxxxx ".repeat((1 << 20) + 1);
    assert_eq!(message(&line), "f:1:10485761: a file has at most 1048576 words");
    let large = " ".repeat(FILE_LEN_MAX + 1);
    assert_eq!(message(&large), "f:1:1: a file has at most 16777216 bytes");
    // Each list names the one before twice: 2^40 elements.
    let lists: String = (1..31).map(|n| format!("acl a{n} {{ a{0}; a{0}; }};\n", n - 1)).collect();
    let bomb = format!("acl a0 {{ ::1; }};\n{lists}options {{ allow-query {{ a30; }}; }};\n");
    assert!(message(&bomb).contains("a list has at most 4096 elements"), "{}", message(&bomb));
}

/// Cut texts, and texts with one character replaced, are a config or an error with a place.
#[test]
fn cut_and_mutated_texts_are_a_config_or_an_error() {
    let try_it = |case: &Case, text: &str| match import(Path::new("named.conf"), text, case) {
        Ok(imported) => check(&imported),
        Err(error) => assert!(error.place.line > 0 && !error.text.is_empty()),
    };
    for case in cases() {
        let text = case.text();
        for (step, (at, _)) in text.char_indices().enumerate() {
            if step % 3 == 0 {
                try_it(&case, &text[..at]);
                try_it(&case, &text[at..]);
            }
            let other = ["{", "}", ";", "!", "\"", " ", "9", "/"][step % 8];
            let rest = text[at..].chars().next().map_or(0, char::len_utf8);
            try_it(&case, &format!("{}{other}{}", &text[..at], &text[at + rest..]));
        }
    }
}
