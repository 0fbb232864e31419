//! Notices that a file was written or replaced.
//!
//! What stat(2) reports is compared at each call. So it does not matter how the file changes: in
//! place, by a rename, by a symlink above it as in a volume of Kubernetes, or below a mount.
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// What differs once a file was written or replaced: device, inode, length, and the times of its
/// last change. `None`: there is no file.
type FileIdentity = Option<(u64, u64, u64, [(i64, i64); 2])>;

/// A file, as it was read.
#[derive(Clone, Debug)]
pub struct FileWatch {
    path: PathBuf,
    read: FileIdentity,
    seen: FileIdentity,
}

impl FileWatch {
    /// Watches a file that is about to be read.
    pub fn new(path: PathBuf) -> Self {
        let read = identity(&path);
        Self { path, read, seen: read }
    }

    /// The file is about to be read, as it is now.
    pub fn note_read(&mut self) {
        self.read = identity(&self.path);
        self.seen = self.read;
    }

    /// Whether the file is another one than was read, and is so since the last call: its writer is
    /// done. True once for each change.
    pub fn has_changed(&mut self) -> bool {
        let now = identity(&self.path);
        let is_done = std::mem::replace(&mut self.seen, now) == now;
        let has_changed = is_done && now != self.read;
        if has_changed {
            self.read = now;
        }
        has_changed
    }
}

fn identity(path: &PathBuf) -> FileIdentity {
    let file = fs::metadata(path).ok()?;
    let times = [(file.mtime(), file.mtime_nsec()), (file.ctime(), file.ctime_nsec())];
    Some((file.dev(), file.ino(), file.len(), times))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn change_is_reported_once_and_only_when_the_writer_is_done() {
        let folder = std::env::temp_dir().join(format!("dunlin-watch-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        for (version, text) in [("1", "old"), ("2", "new text")] {
            fs::create_dir_all(folder.join(version)).expect("a folder");
            fs::write(folder.join(version).join("file"), text).expect("a file");
        }
        // As Kubernetes mounts a ConfigMap.
        symlink("1", folder.join("..data")).expect("a link");
        symlink("..data/file", folder.join("file")).expect("a link");
        let mut watch = FileWatch::new(folder.join("file"));
        assert!(!watch.has_changed());
        symlink("2", folder.join("..tmp")).expect("a link");
        fs::rename(folder.join("..tmp"), folder.join("..data")).expect("swapped");
        assert_eq!([(); 3].map(|()| watch.has_changed()), [false, true, false]);
        fs::write(folder.join("file"), "in place").expect("written");
        assert!(!watch.has_changed());
        fs::write(folder.join("file"), "in place, longer").expect("written");
        assert!(!watch.has_changed(), "it is still written");
        assert!(watch.has_changed());
        fs::remove_file(folder.join("file")).expect("removed");
        assert_eq!([(); 3].map(|()| watch.has_changed()), [false, true, false]);
        fs::remove_dir_all(&folder).expect("removed");
    }
}
