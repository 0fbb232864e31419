//! Folders of tests.
use crate::skip::skip;
use std::fs;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// A folder of this process, removed when dropped.
pub struct Folder(PathBuf);

impl Folder {
    /// A new and empty folder, whose name has this word.
    pub fn new(word: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let (process, count) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(format!("dunlin-{word}-{process}-{count}"));
        // A killed process of the same number may have left it.
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder");
        Self(folder)
    }
}

impl Deref for Folder {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl AsRef<Path> for Folder {
    fn as_ref(&self) -> &Path {
        self
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A disk of its own, which is small, and unmounted when dropped.
pub struct SmallDisk(Folder);

impl SmallDisk {
    /// A disk of this size, such as `4m`. `None`: it cannot be mounted, and the test is skipped.
    pub fn new(word: &str, size: &str) -> Option<Self> {
        let folder = Folder::new(word);
        let size = format!("size={size}");
        if !run(&["mount", "-t", "tmpfs", "-o", &size, "tmpfs"], &folder) {
            skip("no tmpfs can be mounted: run as root");
            return None;
        }
        Some(Self(folder))
    }

    /// Gives it another size.
    ///
    /// # Panics
    /// That is not possible.
    pub fn resize(&self, size: &str) {
        let size = format!("remount,size={size}");
        assert!(run(&["mount", "-o", &size], self), "{}", self.display());
    }
}

impl Deref for SmallDisk {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // A file that is still open must not leave it mounted.
        run(&["umount", "--lazy"], &self.0);
    }
}

fn run(args: &[&str], last: &Path) -> bool {
    let done = Command::new(args[0]).args(&args[1..]).arg(last).stderr(Stdio::null()).status();
    done.is_ok_and(|status| status.success())
}
