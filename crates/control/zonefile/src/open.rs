//! Opens regular files only.
use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

/// Opens a regular file or a link to one. Refuses others: opening a pipe can block, and reading a
/// device may never end.
///
/// # Errors
/// The path is not a regular file ([`io::ErrorKind::IsADirectory`] for a folder), or cannot be
/// opened.
pub fn open(path: &Path) -> io::Result<File> {
    // Check before opening: opening some devices has side effects.
    check(&fs::metadata(path)?)?;
    open_at_once(path)
}

/// Opens without waiting for a pipe's writer: the path may have become a pipe since the check.
fn open_at_once(path: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
    check(&file.metadata()?)?;
    Ok(file)
}

fn check(found: &Metadata) -> io::Result<()> {
    let kind = match found {
        found if found.is_file() => return Ok(()),
        found if found.is_dir() => io::ErrorKind::IsADirectory,
        _ => io::ErrorKind::InvalidInput,
    };
    Err(io::Error::new(kind, "it is not a regular file"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_pipe_without_a_writer_is_refused_at_once() {
        let pipe = std::env::temp_dir().join(format!("dunlin-open-{}.pipe", std::process::id()));
        let _ = fs::remove_file(&pipe);
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        for refused in [open(&pipe), open_at_once(&pipe)] {
            let why = refused.unwrap_err();
            assert_eq!(why.to_string(), "it is not a regular file");
            assert_eq!(why.kind(), io::ErrorKind::InvalidInput);
        }
        fs::remove_file(&pipe).unwrap();
    }

    #[test]
    fn a_device_and_a_folder_are_refused_and_a_link_is_followed() {
        assert!(open(Path::new("/dev/zero")).is_err());
        let folder = open(&std::env::temp_dir()).unwrap_err();
        assert_eq!(folder.kind(), io::ErrorKind::IsADirectory);
        // The kernel's link to the running binary.
        assert!(open(Path::new("/proc/self/exe")).unwrap().metadata().unwrap().is_file());
    }
}
