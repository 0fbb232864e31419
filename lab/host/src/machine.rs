//! The files of the kernel: `/proc` and `/sys`, or a copy of them.

use crate::tool::text;
use std::fs;
use std::path::{Path, PathBuf};

/// A machine, by the folder that its `/proc` and `/sys` are in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    root: PathBuf,
}

impl Machine {
    /// This machine.
    pub fn this() -> Self {
        Self::at("/")
    }

    /// A machine with its files below `root`. No commands run for it.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Whether it is this machine.
    pub fn is_this(&self) -> bool {
        self.root == Path::new("/")
    }

    /// The path of one of its files; `file` is the path on the machine, without the first slash.
    pub fn path(&self, file: &str) -> PathBuf {
        self.root.join(file)
    }

    /// A file's text without blanks at its ends. `None` if it cannot be read or is empty.
    pub fn read(&self, file: &str) -> Option<String> {
        let text = text(&self.path(file))?;
        let text = text.trim();
        (!text.is_empty()).then(|| text.to_owned())
    }

    /// A file's number.
    pub fn number(&self, file: &str) -> Option<i64> {
        self.read(file)?.parse().ok()
    }

    /// Names in a folder, in order; numbers in their names by value.
    pub fn list(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(folder)).into_iter().flatten().flatten();
        let mut names: Vec<_> =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        let number = |name: &str| {
            let digits = name.find(|c: char| c.is_ascii_digit()).map(|at| name[at..].to_owned());
            digits.and_then(|digits| digits.parse::<u64>().ok())
        };
        names.sort_by(|a, b| (number(a), a).cmp(&(number(b), b)));
        names
    }

    /// Whether a file is there.
    pub fn has(&self, file: &str) -> bool {
        self.path(file).exists()
    }

    /// The choice in brackets of a file such as `always [madvise] never`; all of it where none is.
    pub fn chosen(&self, file: &str) -> Option<String> {
        let text = self.read(file)?;
        let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
        Some(chosen.map_or(text.clone(), |(chosen, _)| chosen.to_owned()))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A tree of files, removed in the end.
    pub(crate) struct Tree(pub(crate) PathBuf);

    impl Tree {
        pub(crate) fn new(test: &str, files: &[(&str, &str)]) -> Self {
            let root = std::env::temp_dir().join(format!("lab-{test}-{}", std::process::id()));
            let tree = Self(root);
            for (file, text) in files {
                tree.write(file, text);
            }
            tree
        }

        pub(crate) fn write(&self, file: &str, text: &str) {
            let path = self.0.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        pub(crate) fn machine(&self) -> Machine {
            Machine::at(&self.0)
        }
    }

    impl Drop for Tree {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn files_are_read_as_they_are_written() {
        let tree = Tree::new(
            "machine",
            &[("sys/thp", "always [madvise] never\n"), ("sys/n", "-7\n"), ("sys/empty", "\n")],
        );
        let machine = tree.machine();
        assert_eq!(machine.chosen("sys/thp").as_deref(), Some("madvise"));
        assert_eq!(machine.chosen("sys/n").as_deref(), Some("-7"));
        assert_eq!(machine.number("sys/n"), Some(-7));
        assert_eq!((machine.read("sys/empty"), machine.number("sys/thp")), (None, None));
        for cpu in ["cpu10", "cpu9", "cpufreq"] {
            tree.write(&format!("cpu/{cpu}/online"), "1");
        }
        assert_eq!(machine.list("cpu"), ["cpufreq", "cpu9", "cpu10"]);
        assert!(machine.list("nothing").is_empty());
    }
}
