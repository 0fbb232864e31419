//! Files and variables that an import reads beside the file that it is given.
use crate::place::shown;
use std::io;
use std::path::{Path, PathBuf};

/// The surroundings of an imported file.
pub trait Environment {
    /// An environment variable; `None`: not set.
    fn variable(&self, _name: &str) -> Option<String> {
        None
    }

    /// The content of a file, up to a number of bytes.
    ///
    /// # Errors
    /// The file cannot be read, or is larger.
    fn read(&self, file: &Path, len_max: usize) -> io::Result<String>;

    /// The absolute path of an existing file that is named relative to the folder of the imported
    /// file or to the working folder; `None`: it is not found.
    fn find(&self, file: &Path) -> Option<PathBuf>;

    /// The files in a folder, sorted by name.
    ///
    /// # Errors
    /// The folder cannot be read.
    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>>;
}

/// The files of a path whose last part may have one `*`.
pub fn matching_files(around: &dyn Environment, path: &Path) -> Vec<PathBuf> {
    let pattern = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let Some((before, after)) = pattern.split_once('*') else { return vec![path.to_owned()] };
    let is_it = |file: &PathBuf| {
        let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let len = before.len() + after.len();
        name.len() >= len && name.starts_with(before) && name.ends_with(after)
    };
    // A missing folder has no matching files.
    let all = around.list(path.parent().unwrap_or(Path::new("")));
    all.unwrap_or_default().into_iter().filter(is_it).collect()
}

/// The path of a file in the config, and what is to be said of it: `text` names a file that is not
/// found, whose path means another one there.
pub fn path_in_config(
    around: &dyn Environment,
    path: &Path,
    text: &str,
) -> (String, Option<String>) {
    let found = if path.is_relative() { around.find(path) } else { Some(path.to_owned()) };
    let remark = found.is_none().then(|| {
        format!(
            "{}: this path is relative to the config file, not to the working directory",
            shown(text)
        )
    });
    (found.as_deref().unwrap_or(path).display().to_string(), remark)
}
