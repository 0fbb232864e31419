//! What must hold for any Corefile.
use std::io;
use std::path::{Path, PathBuf};

use config::Config;
use import_corefile::limits::REMARKS_MAX;
use import_corefile::{Environment, import};

/// A machine with two variables and a file to import.
struct Machine;

impl Environment for Machine {
    fn variable(&self, name: &str) -> Option<String> {
        (name == "UP").then(|| "192.0.2.53".to_owned())
    }

    fn read(&self, file: &Path, _len_max: usize) -> io::Result<String> {
        match file.ends_with("more") {
            true => Ok("(s) {\n cache 30\n}\na.test {\n import s\n whoami\n}\n".to_owned()),
            false => Err(io::Error::other("it is not there")),
        }
    }

    fn find(&self, file: &Path) -> Option<PathBuf> {
        file.ends_with("zone").then(|| Path::new("/etc/coredns").join(file))
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        Ok(vec![folder.join("db.example.org"), folder.join("more")])
    }
}

/// Imports the bytes. An error names a place in the text; everything else is a config without an
/// error, and notes with places.
pub fn check(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let imported = match import(Path::new("Corefile"), text, &Machine) {
        Err(error) => return names_a_place(&error.place.to_string(), text),
        Ok(imported) => imported,
    };
    assert!(imported.notes.len() <= REMARKS_MAX + 1);
    for note in &imported.notes {
        names_a_place(&note.place.to_string(), text);
        assert!(!note.text.is_empty());
    }
    if let Err(errors) = Config::parse(Path::new("dunlin.toml"), &imported.config) {
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        panic!("{}\n{}", errors.join("\n"), imported.config);
    }
}

/// `file:line:column`, both from 1, and in the Corefile not behind its end.
fn names_a_place(place: &str, text: &str) {
    let mut parts = place.rsplitn(3, ':');
    let mut number = || parts.next().and_then(|part| part.parse::<usize>().ok()).expect("a number");
    let (column, line) = (number(), number());
    assert!(column >= 1 && line >= 1, "{place}");
    if parts.next() == Some("Corefile") {
        let lines: Vec<&str> = text.split('\n').collect();
        assert!(line <= lines.len() && column <= lines[line - 1].len() + 1, "{place}");
    }
}
