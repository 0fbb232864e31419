//! What these tests share: a folder of their own, and what to do where something lacks.

use std::path::PathBuf;

/// A folder that is removed in the end.
#[derive(Debug)]
pub struct Folder(pub PathBuf);

impl Folder {
    /// A fresh one for `test`.
    pub fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("dunlin-lab-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed is left to the system's own housekeeping.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Says loudly what lacks; fails where nothing may be skipped (`CI` or `DUNLIN_REQUIRE_ALL` is
/// set).
pub fn skip(missing: &str) {
    let strict = ["CI", "DUNLIN_REQUIRE_ALL"].into_iter().any(|v| std::env::var_os(v).is_some());
    assert!(!strict, "cannot run: {missing}");
    eprintln!("\n*** SKIPPED: {missing} ***\n");
}
