//! Corefiles with the expected config and notes. A case is a folder: the `Corefile`, its
//! surroundings, and the outcome: `dunlin.toml`, further files, and `notes`, or only `error`.
//! `BLESS=1` writes the outcome; review the difference.
use import_corefile::limits::{DEPTH_MAX, FILE_LEN_MAX};
use import_corefile::{Environment, import, table};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
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
}

impl Environment for Case {
    fn variable(&self, name: &str) -> Option<String> {
        let known = [("DOMAIN", "Cluster.Local"), ("UPSTREAM", "192.0.2.53")];
        known.iter().find(|(own, _)| *own == name).map(|(_, value)| (*value).to_owned())
    }

    fn read(&self, file: &Path, _len_max: usize) -> io::Result<String> {
        // The system's message differs between machines.
        fs::read_to_string(self.path(file)).map_err(|_| io::Error::other("it is not there"))
    }

    fn find(&self, file: &Path) -> Option<PathBuf> {
        let found = Path::new("/etc/coredns").join(file);
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

/// The outcome of a case: file names and contents.
fn outcome(case: &Case) -> Vec<(String, String)> {
    let text = fs::read_to_string(case.0.join("Corefile")).expect("a Corefile");
    match import(Path::new("Corefile"), &text, case) {
        Err(error) => vec![("error".to_owned(), format!("{error}\n"))],
        Ok(imported) => {
            let notes: String = imported.notes.iter().map(|note| format!("{note}\n")).collect();
            let mut files = vec![("dunlin.toml".to_owned(), imported.config)];
            files.push(("notes".to_owned(), notes));
            files.extend(imported.files);
            files
        }
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases")
}

#[test]
fn cases_match_their_outcome() {
    let mut seen = 0;
    for entry in fs::read_dir(folder()).expect("cases") {
        let case = Case(entry.expect("a case").path());
        seen += 1;
        for (name, text) in outcome(&case) {
            let path = case.0.join(&name);
            expected::check(&path, &text);
        }
    }
    assert!(seen > 10, "the cases are missing");
}

/// The documentation lists every plugin, and the outcomes mention every plugin and option.
#[test]
fn documentation_has_the_plugin_table() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/import-corefile.md");
    expected::check_table(&page, "| plugin |", &table());
}

fn message(text: &str) -> String {
    let case = Case(folder());
    import(Path::new("f"), text, &case).expect_err("it is not a Corefile").to_string()
}

#[test]
fn hostile_input_is_an_error_with_its_position() {
    let deep = ". {\n".to_owned() + &"a {\n".repeat(500_000);
    assert_eq!(
        message(&deep),
        format!("f:{}:3: braces are nested more than {DEPTH_MAX} deep", DEPTH_MAX + 1)
    );
    let long = ". {\n log ".to_owned() + &"x".repeat(10 << 20);
    assert_eq!(message(&long), "f:2:6: a word has at most 65536 bytes");
    let line = ". {\n log ".to_owned() + &"xxxxxxxxx ".repeat(1 << 20);
    assert_eq!(message(&line), "f:2:10485736: a file has at most 1048576 words");
    let large = " ".repeat(FILE_LEN_MAX + 1);
    assert_eq!(message(&large), "f:1:1: a file has at most 16777216 bytes");
    // Each snippet imports the previous one twice: 2^40 words.
    let mut bomb = "(s0) {\n log\n}\n".to_owned();
    for n in 1..15 {
        let before = n - 1;
        let imports = format!(" import s{before}\n").repeat(64);
        bomb += &format!("(s{n}) {{\n{imports}}}\n");
    }
    bomb += ". {\n import s14\n}\n";
    assert!(message(&bomb).contains("more than 4096 imports"), "{}", message(&bomb));
}

/// Any truncation of a Corefile causes no panic.
#[test]
fn no_truncated_corefile_panics() {
    for entry in fs::read_dir(folder()).expect("cases") {
        let case = Case(entry.expect("a case").path());
        let text = fs::read_to_string(case.0.join("Corefile")).expect("a Corefile");
        for (at, _) in text.char_indices().step_by(3) {
            // It need not be a valid Corefile.
            let _ = import(Path::new("Corefile"), &text[..at], &case);
            let _ = import(Path::new("Corefile"), &text[at..], &case);
        }
    }
}

#[path = "../../../../../testing/fuzz/checks/corefile.rs"]
mod check;
#[path = "../../../../../testing/fuzz/checks/corpus.rs"]
mod corpus;

#[test]
fn fuzz_corpus_of_corefiles_passes() {
    corpus::replay("corefile", check::check);
    corpus::search("corefile", check::check);
}
