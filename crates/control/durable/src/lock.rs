//! The lock of `[server] data_dir`, which only one server may use: a second one would remove the
//! first one's files.
//!
//! It is a flock(2), which belongs to the open file, not to the process. A new process of a hot
//! restart receives the descriptor and shares the lock; the lock ends when both have ended. The
//! kernel releases it however a process ends.
use crate::files::Folder;
use rustix::fs::{FlockOperation, Mode, fchmod, flock, fstat};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The lock file. Its text is the ID of the locking process.
pub const LOCK: &str = "lock";
/// A reader could lock the file, so only the owner may read it.
const MODE: u32 = 0o600;
/// Bytes of its text: a number, padded so that each write replaces all of it.
const TEXT_LEN: usize = 11;

/// The lock of a folder. Dropping it unlocks the folder unless another process shares it.
#[derive(Debug)]
pub struct DataLock {
    file: File,
}

impl DataLock {
    /// Locks a server's folder; creates the folder if missing. `passed` is the old process's lock
    /// in a hot restart, shared if it is on the same folder.
    ///
    /// `None`: the folder cannot be locked, which is logged. This happens without write permission,
    /// and on file systems without locks.
    ///
    /// # Errors
    /// Another process has the lock, or the file is not trusted; the error says what to do.
    pub fn take(folder: &Path, passed: Option<OwnedFd>) -> Result<Option<Self>, String> {
        let path = folder.join(LOCK);
        let file = match open(folder) {
            Ok(file) => file,
            // The file exists but `files` does not trust it.
            Err(error) if Errno::from_io_error(&error).is_none() => {
                return Err(format!("{}: {error}", path.display()));
            }
            Err(error) => return Ok(unlocked(folder, &error)),
        };
        let file = passed.map(File::from).filter(|passed| is_same(passed, &file)).unwrap_or(file);
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Self { file })),
            Err(Errno::WOULDBLOCK) => Err(taken(folder, &file)),
            Err(error) => Ok(unlocked(folder, &error.into())),
        }
    }

    /// Writes this process's ID, for the error message of another server.
    pub fn sign(&self) {
        let text = format!("{:<1$}\n", std::process::id(), TEXT_LEN - 1);
        let written = self.file.write_all_at(text.as_bytes(), 0);
        if let Err(error) = written.and_then(|()| self.file.set_len(TEXT_LEN as u64)) {
            // The lock works without the ID.
            tracing::debug!(%error, "cannot write the process ID to the lock of [server] data_dir");
        }
    }

    /// A second descriptor, for the new process of a hot restart.
    ///
    /// # Errors
    /// The process has no descriptor left.
    pub fn share(&self) -> io::Result<OwnedFd> {
        self.file.try_clone().map(OwnedFd::from)
    }
}

fn open(folder: &Path) -> io::Result<File> {
    let folder = Folder::create(folder)?;
    let name = Path::new(LOCK);
    match folder.open_or_create(name, MODE) {
        Ok(file) => {
            // The file may have another mode. If this fails, the lock still works.
            let _ = fchmod(&file, Mode::from_raw_mode(MODE));
            Ok(file)
        }
        // A read-only file system may still have a file to lock.
        Err(error) if error.kind() == io::ErrorKind::ReadOnlyFilesystem => folder.read(name),
        Err(error) if Errno::from_io_error(&error) == Some(Errno::ACCESS) => {
            Err(folder.foreign(name).unwrap_or(error))
        }
        Err(error) => Err(error),
    }
}

fn is_same(left: &File, right: &File) -> bool {
    let place = |file: &File| fstat(file).ok().map(|stat| (stat.st_dev, stat.st_ino));
    place(left).is_some_and(|left| place(right) == Some(left))
}

/// Why a path cannot be a folder; `None`: it is one, or can become one.
fn obstacle(folder: &Path) -> Option<&'static str> {
    match std::fs::metadata(folder) {
        Ok(found) if found.is_dir() => None,
        Ok(_) => Some("it is not a folder: remove it, or name another one"),
        Err(error) if Errno::from_io_error(&error) == Some(Errno::LOOP) => {
            Some("it is a symbolic link to itself: remove it")
        }
        Err(error) if Errno::from_io_error(&error) == Some(Errno::NOTDIR) => {
            Some("a part of its path is not a folder")
        }
        Err(_) => std::fs::symlink_metadata(folder).ok().map(|_| {
            "it is a symbolic link whose target does not exist: create the target, or \
                      remove the link"
        }),
    }
}

fn unlocked(folder: &Path, error: &io::Error) -> Option<DataLock> {
    if let Some(why) = obstacle(folder) {
        tracing::error!(
            data_dir = %folder.display(),
            "[server] data_dir cannot be used, and nothing is saved: {why}"
        );
        return None;
    }
    tracing::warn!(
        data_dir = %folder.display(), %error,
        "[server] data_dir is not locked: a second server on the same folder would not be detected"
    );
    None
}

/// The error message if another process has the folder.
fn taken(folder: &Path, file: &File) -> String {
    let mut text = [0; TEXT_LEN];
    let len = file.read_at(&mut text, 0).unwrap_or_default();
    let text = str::from_utf8(&text[..len]).unwrap_or_default().trim();
    let pid = text.parse().ok().and_then(Pid::from_raw);
    let holder = match pid {
        None => "another process".to_owned(),
        Some(pid) if is_here(pid) => format!("process {}", pid.as_raw_nonzero()),
        Some(pid) => {
            format!("process {} of another host or container", pid.as_raw_nonzero())
        }
    };
    format!(
        "[server] data_dir {}: {holder} uses it: give each server its own data_dir, end that \
         process, or replace it with `dunlin serve --hot-restart`",
        folder.display()
    )
}

/// Whether the process may be this one: it runs here and is not this process.
fn is_here(pid: Pid) -> bool {
    pid != rustix::process::getpid() && test_kill_process(pid) != Err(Errno::SRCH)
}

/// The lock file of a server's folder.
pub fn path(folder: &Path) -> PathBuf {
    folder.join(LOCK)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};
    use test_support::folder::Folder as Scratch;

    fn locked(folder: &Path) -> DataLock {
        let lock = DataLock::take(folder, None).expect("free").expect("can be locked");
        lock.sign();
        lock
    }

    #[test]
    fn obstacle_in_place_of_a_folder_is_named() {
        let scratch = Scratch::new("obstacle");
        let [file, dangling, looped] = ["file", "dangling", "loop"].map(|name| scratch.join(name));
        fs::write(&file, "").expect("a file");
        symlink("/missing/folder", &dangling).expect("a link");
        symlink(&looped, &looped).expect("a link");
        let cases = [
            (file.clone(), "it is not a folder"),
            (dangling, "a symbolic link whose target"),
            (looped, "a symbolic link to itself"),
            (file.join("below"), "a part of its path"),
        ];
        for (path, why) in cases {
            assert!(obstacle(&path).is_some_and(|found| found.contains(why)), "{path:?}");
            assert!(DataLock::take(&path, None).expect("it is served").is_none(), "{path:?}");
        }
        assert_eq!((obstacle(&scratch), obstacle(&scratch.join("new"))), (None, None));
    }

    #[test]
    fn locked_folder_is_refused_until_unlocked() {
        let scratch = Scratch::new("taken");
        let folder = scratch.join("made");
        let first = locked(&folder);
        let message = DataLock::take(&folder, None).expect_err("taken");
        assert!(
            message.contains(&folder.display().to_string()) && message.contains("--hot-restart")
        );
        // This process's own ID means a process of another host or container.
        let pid = std::process::id();
        assert!(message.contains(&format!("process {pid} of another")), "{message}");
        fs::write(path(&folder), "1\n").expect("written");
        let message = DataLock::take(&folder, None).expect_err("taken");
        assert!(message.contains("process 1 uses it"), "{message}");
        fs::write(path(&folder), "nonsense").expect("written");
        let message = DataLock::take(&folder, None).expect_err("taken");
        assert!(message.contains("another process uses it"), "{message}");
        drop(first);
        locked(&folder);
    }

    #[test]
    fn passed_lock_ends_when_both_processes_drop_it() {
        let scratch = Scratch::new("passed");
        let old = locked(&scratch);
        let failed = DataLock::take(&scratch, old.share().ok()).expect("shared").expect("a lock");
        drop(failed);
        DataLock::take(&scratch, None).expect_err("the old process has it again");
        let new = DataLock::take(&scratch, old.share().ok()).expect("shared").expect("a lock");
        drop(old);
        DataLock::take(&scratch, None).expect_err("the new process has it");
        drop(new);
        locked(&scratch);
    }

    #[test]
    fn passed_lock_of_another_folder_is_ignored() {
        let scratch = Scratch::new("other");
        let (here, there) = (scratch.join("here"), scratch.join("there"));
        let old = locked(&there);
        let new = DataLock::take(&here, old.share().ok()).expect("free").expect("a lock");
        drop(old);
        locked(&there);
        DataLock::take(&here, None).expect_err("it has a lock of its own");
        drop(new);
    }

    #[test]
    fn read_only_folder_is_not_locked() {
        let scratch = Scratch::new("file");
        let file = scratch.join("file");
        fs::write(&file, "no folder").expect("written");
        assert!(DataLock::take(&file.join("below"), None).expect("no error").is_none());
    }

    #[test]
    fn untrusted_lock_file_is_refused() {
        let scratch = Scratch::new("planted");
        let target = scratch.join("target");
        fs::write(&target, "kept").expect("written");
        symlink(&target, path(&scratch)).expect("a link");
        let message = DataLock::take(&scratch, None).expect_err("a link");
        assert!(message.contains("/lock: it is a symbolic link"), "{message}");
        assert_eq!(fs::read_to_string(&target).expect("it stays"), "kept");
        fs::remove_file(path(&scratch)).expect("ours");
        fs::write(path(&scratch), "").expect("written");
        fs::set_permissions(path(&scratch), fs::Permissions::from_mode(0o600)).expect("ours");
        if rustix::process::geteuid().is_root() {
            chown(path(&scratch), Some(65_533), None).expect("root");
            let message = DataLock::take(&scratch, None).expect_err("planted");
            assert!(message.contains("/lock: it belongs to user 65533"), "{message}");
        }
    }
}
