//! Corefiles with the config that each becomes and what is said of it. A case is a folder: the
//! `Corefile`, what lies about it, and what comes out: `dunlin.toml`, files beside it, and `notes`,
//! or `error` alone. `BLESS=1` writes what comes out; read the difference before you keep it.
use import_corefile::limits::{DEPTH_MAX, FILE_LEN_MAX};
use import_corefile::{Surroundings, import, table};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A case's folder: what it calls `/…` lies in `root`.
struct Case(PathBuf);

impl Case {
    fn path(&self, path: &Path) -> PathBuf {
        match path.strip_prefix("/") {
            Ok(path) => self.0.join("root").join(path),
            Err(_) => self.0.join(path),
        }
    }
}

impl Surroundings for Case {
    fn variable(&self, name: &str) -> Option<String> {
        let known = [("DOMAIN", "Cluster.Local"), ("UPSTREAM", "192.0.2.53")];
        known.iter().find(|(own, _)| *own == name).map(|(_, value)| (*value).to_owned())
    }

    fn read(&self, file: &Path, _len_max: usize) -> io::Result<String> {
        // What the system says of it is not the same everywhere.
        fs::read_to_string(self.path(file)).map_err(|_| io::Error::other("it is not there"))
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        let files = fs::read_dir(self.path(folder)).map_err(|_| io::Error::other("not there"))?;
        let names = files.map(|file| file.map(|file| folder.join(file.file_name())));
        let mut names: Vec<PathBuf> = names.collect::<io::Result<_>>()?;
        names.sort();
        Ok(names)
    }
}

/// All that comes out of a case: names of files and what they hold.
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
fn cases_give_what_they_say() {
    let mut seen = 0;
    for entry in fs::read_dir(folder()).expect("cases") {
        let case = Case(entry.expect("a case").path());
        seen += 1;
        for (name, text) in outcome(&case) {
            let path = case.0.join(&name);
            if std::env::var_os("BLESS").is_some() {
                fs::write(&path, text).expect("it can be written");
            } else {
                let expected = fs::read_to_string(&path).unwrap_or_default();
                assert_eq!(text, expected, "{}", path.display());
            }
        }
    }
    assert!(seen > 10, "the cases are missing");
}

/// Every plugin and every option of a Corefile is somewhere in what comes out.
#[test]
fn the_page_holds_the_table_of_all_plugins() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/import-corefile.md");
    let text = fs::read_to_string(&page).expect("a page");
    let begin = text.find("| plugin |").expect("a table");
    let end = text[begin..].find("\n\n").map_or(text.len(), |end| begin + end + 1);
    if std::env::var_os("BLESS").is_some() {
        let text = text[..begin].to_owned() + &table() + &text[end..];
        fs::write(page, text).expect("it can be written");
    } else {
        assert_eq!(text[begin..end], table(), "BLESS=1 writes it");
    }
}

fn told(text: &str) -> String {
    let case = Case(folder());
    import(Path::new("f"), text, &case).expect_err("it is no Corefile").to_string()
}

#[test]
fn what_is_hostile_is_told_with_its_place() {
    let deep = ". {\n".to_owned() + &"a {\n".repeat(500_000);
    assert_eq!(told(&deep), format!("f:{}:3: braces are {DEPTH_MAX} deep at most", DEPTH_MAX + 1));
    let long = ". {\n log ".to_owned() + &"x".repeat(10 << 20);
    assert_eq!(told(&long), "f:2:6: a word has 65536 octets at most");
    let line = ". {\n log ".to_owned() + &"xxxxxxxxx ".repeat(1 << 20);
    assert_eq!(told(&line), "f:2:10485736: a file has 1048576 words at most");
    let large = " ".repeat(FILE_LEN_MAX + 1);
    assert_eq!(told(&large), "f:1:1: a file has 16777216 octets at most");
    // Each snippet imports the one before it twice: 2^40 words.
    let mut bomb = "(s0) {\n log\n}\n".to_owned();
    for n in 1..15 {
        let before = n - 1;
        let imports = format!(" import s{before}\n").repeat(64);
        bomb += &format!("(s{n}) {{\n{imports}}}\n");
    }
    bomb += ". {\n import s14\n}\n";
    assert!(told(&bomb).contains("more than 4096 imports"), "{}", told(&bomb));
}

/// Whatever is left out of a Corefile, and in whatever order it stands: no panic, and the same
/// words are not lost.
#[test]
fn no_piece_of_a_corefile_panics() {
    for entry in fs::read_dir(folder()).expect("cases") {
        let case = Case(entry.expect("a case").path());
        let text = fs::read_to_string(case.0.join("Corefile")).expect("a Corefile");
        for (at, _) in text.char_indices().step_by(3) {
            // Whether it is one is not asked here.
            let _ = import(Path::new("Corefile"), &text[..at], &case);
            let _ = import(Path::new("Corefile"), &text[at..], &case);
        }
    }
}
