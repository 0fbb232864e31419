//! Opens files of `[server] data_dir`, which other users may be able to write.
//!
//! Links are not followed. A file must be regular, belong to this process's user or root, and not
//! be writable by everyone. Group-writable files are allowed: Kubernetes makes them so for
//! `fsGroup`. [`data_folder`](crate::data_folder) checks the configured folder itself.
use rustix::fs::{self, AtFlags, CWD, Dir, FileType, Mode, OFlags, RenameFlags, Stat};
use rustix::io::Errno;
use std::ffi::OsString;
use std::fs::{DirBuilder, File};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// The mode of new folders.
const FOLDER_MODE: u32 = 0o750;

/// An open folder. Its files stay in it even if its path changes. File names are single components.
#[derive(Debug)]
pub struct Folder {
    fd: OwnedFd,
    trust: FileOwnerPolicy,
}

/// Which owners of files are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileOwnerPolicy {
    /// This process's user and root.
    Ours,
    /// All users. Only for inspection: nothing is served or written because of such files.
    Anyone,
}

impl Folder {
    /// Opens the configured folder. Follows links on the way to it.
    ///
    /// # Errors
    /// The folder does not exist or cannot be opened.
    pub fn open(path: &Path) -> io::Result<Self> {
        let fd = fs::openat(CWD, path, FOLDER_FLAGS, Mode::empty())?;
        Ok(Self { fd, trust: FileOwnerPolicy::Ours })
    }

    /// Opens the configured folder; creates it and its parents if missing.
    ///
    /// # Errors
    /// The folder can neither be opened nor created.
    pub fn create(path: &Path) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(path)?;
        Self::open(path)
    }

    /// Opens a folder inside the configured one: it must be ours, and no link.
    ///
    /// # Errors
    /// As [`Folder::open`], or the folder is not ours; the error says what to do.
    pub fn open_below(path: &Path, trust: FileOwnerPolicy) -> io::Result<Self> {
        let (above, name) = split(path)?;
        let above = Self { trust, ..Self::open(above)? };
        let fd = above.at(name, FOLDER_FLAGS | OFlags::NOFOLLOW, Mode::empty())?;
        check(&fs::fstat(&fd)?, FileType::Directory, trust)?;
        Ok(Self { fd, trust })
    }

    /// As [`Folder::open_below`]; creates the folder and its parents if missing.
    ///
    /// # Errors
    /// As [`Folder::open_below`], or the folder cannot be created.
    pub fn create_below(path: &Path) -> io::Result<Self> {
        let (above, name) = split(path)?;
        match fs::mkdirat(&Self::create(above)?.fd, name, Mode::from_raw_mode(FOLDER_MODE)) {
            Ok(()) | Err(Errno::EXIST) => Self::open_below(path, FileOwnerPolicy::Ours),
            Err(error) => Err(error.into()),
        }
    }

    /// Opens a file for reading.
    ///
    /// # Errors
    /// The file does not exist, cannot be opened, or is not trusted; the error says what to do.
    pub fn read(&self, name: &Path) -> io::Result<File> {
        self.file(name, OFlags::RDONLY, 0)
    }

    /// Opens a file for reading and writing; creates it if missing.
    ///
    /// # Errors
    /// As [`Folder::read`], or the file cannot be created.
    pub fn open_or_create(&self, name: &Path, mode: u32) -> io::Result<File> {
        self.file(name, OFlags::RDWR | OFlags::CREATE, mode)
    }

    /// Creates a new file for reading and writing.
    ///
    /// # Errors
    /// The name exists, even as a link, or the file cannot be created.
    pub fn create_new(&self, name: &Path, mode: u32) -> io::Result<File> {
        // It is ours, even where a file system shows another owner.
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        Ok(self.at(name, flags, Mode::from_raw_mode(mode))?.into())
    }

    /// Replaces a file, or creates it. The old one stays until the new one is complete and durable.
    ///
    /// # Errors
    /// The errors of `write` and of the disk. The old file is unchanged then, unless only the names
    /// of the folder could not be synced.
    pub fn replace<T, E: From<io::Error>>(
        &self,
        name: &Path,
        mode: u32,
        write: impl FnOnce(&mut File) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut temporary = name.as_os_str().to_owned();
        temporary.push(".new");
        self.replace_by(Path::new(&temporary), name, mode, write)
    }

    /// As [`Folder::replace`], with the name that the file has until it is complete.
    ///
    /// # Errors
    /// As [`Folder::replace`].
    pub fn replace_by<T, E: From<io::Error>>(
        &self,
        temporary: &Path,
        name: &Path,
        mode: u32,
        write: impl FnOnce(&mut File) -> Result<T, E>,
    ) -> Result<T, E> {
        // A file left by a crash may have another mode.
        match self.remove(temporary) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        let mut file = self.create_new(temporary, mode)?;
        let written = write(&mut file).and_then(|written| {
            file.sync_all()?;
            self.rename(temporary, name)?;
            Ok(written)
        });
        if written.is_err() {
            // On a full disk it would take the room of others.
            let _ = self.remove(temporary);
        }
        let written = written?;
        self.sync()?;
        Ok(written)
    }

    /// Renames a file, replacing another one.
    ///
    /// # Errors
    /// The errors of renameat.
    pub fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        Ok(fs::renameat(&self.fd, from, &self.fd, to)?)
    }

    /// Removes a file or link.
    ///
    /// # Errors
    /// The errors of unlinkat.
    pub fn remove(&self, name: &Path) -> io::Result<()> {
        Ok(fs::unlinkat(&self.fd, name, AtFlags::empty())?)
    }

    /// Writes the folder's names to disk.
    ///
    /// # Errors
    /// The errors of fsync.
    pub fn sync(&self) -> io::Result<()> {
        match fs::fsync(self.listed()?) {
            // Not every file system supports it for a folder.
            Err(Errno::INVAL) => Ok(()),
            done => Ok(done?),
        }
    }

    /// The names in the folder, in no order.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn names(&self) -> io::Result<Vec<OsString>> {
        let names = Dir::read_from(self.listed()?)?.filter_map(|entry| match entry {
            Ok(entry) => {
                let name = entry.file_name().to_bytes();
                let is_other = name != b"." && name != b"..";
                is_other.then(|| Ok(OsString::from_vec(name.into())))
            }
            Err(error) => Some(Err(error.into())),
        });
        names.collect()
    }

    /// The time since a file's last write, or a link's creation.
    ///
    /// # Errors
    /// The file does not exist, or its time is in the future.
    pub fn age(&self, name: &Path) -> io::Result<Duration> {
        let stat = fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let seconds = u64::try_from(stat.st_mtime).map_err(io::Error::other)?;
        let written = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        written.elapsed().map_err(io::Error::other)
    }

    /// A descriptor to list the folder.
    fn listed(&self) -> io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(fs::openat(&self.fd, ".", flags, Mode::empty())?)
    }

    /// The error for a file that is not ours; `None` if it is.
    pub(crate) fn foreign(&self, name: &Path) -> Option<io::Error> {
        let stat = fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        check(&stat, FileType::RegularFile, self.trust).err()
    }

    fn file(&self, name: &Path, flags: OFlags, mode: u32) -> io::Result<File> {
        // Do not wait for a pipe's writer.
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let fd = self.at(name, flags, Mode::from_raw_mode(mode))?;
        check(&fs::fstat(&fd)?, FileType::RegularFile, self.trust)?;
        Ok(fd.into())
    }

    fn at(&self, name: &Path, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
        fs::openat(&self.fd, name, flags, mode).map_err(|error| {
            let stat = fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW);
            let is_link = |stat: Stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink;
            match stat.is_ok_and(is_link) && matches!(error, Errno::LOOP | Errno::NOTDIR) {
                true => refused(
                    "it is a symbolic link, which is not followed: put its target in its place, \
                     or set [server] data_dir to that folder"
                        .into(),
                ),
                false => error.into(),
            }
        })
    }
}

/// Opening with `O_PATH` needs no right to list the folder.
const FOLDER_FLAGS: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Opens a file in a configured folder for reading and writing; creates the file but not the
/// folder.
///
/// # Errors
/// As [`Folder::open_or_create`].
pub fn open_or_create(path: &Path, mode: u32) -> io::Result<File> {
    let (folder, name) = split(path)?;
    Folder::open(folder)?.open_or_create(name, mode)
}

/// Replaces a file in a configured folder, which is created if missing, as [`Folder::replace`].
///
/// # Errors
/// As [`Folder::create`] and [`Folder::replace`].
pub fn replace<T, E: From<io::Error>>(
    path: &Path,
    mode: u32,
    write: impl FnOnce(&mut File) -> Result<T, E>,
) -> Result<T, E> {
    let (folder, name) = split(path)?;
    Folder::create(folder)?.replace(name, mode, write)
}

/// Renames a file or folder, and writes the names of its new folder to disk.
///
/// # Errors
/// The errors of rename and fsync.
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)?;
    Folder::open(split(to)?.0)?.sync()
}

/// As [`rename`], unless the new name exists.
///
/// # Errors
/// As [`rename`], and that it exists.
pub fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    match fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // Not every file system supports it.
        Err(Errno::INVAL | Errno::NOSYS) if to.symlink_metadata().is_err() => rename(from, to),
        done => {
            done?;
            Folder::open(split(to)?.0)?.sync()
        }
    }
}

/// Reads a file of at most this many bytes in a configured folder; `None`: it does not exist.
///
/// # Errors
/// As [`Folder::read`], or the file is longer.
pub fn read(path: &Path, len_max: u64) -> io::Result<Option<Vec<u8>>> {
    let (folder, name) = split(path)?;
    let file = match Folder::open(folder).and_then(|folder| folder.read(name)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let mut bytes = Vec::new();
    file.take(len_max + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > len_max {
        true => Err(io::Error::other(format!("it has more than {len_max} bytes"))),
        false => Ok(Some(bytes)),
    }
}

/// Splits a path into folder and name.
///
/// # Errors
/// It ends with no name.
pub fn split(path: &Path) -> io::Result<(&Path, &Path)> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    Ok((folder.unwrap_or(Path::new(".")), Path::new(name)))
}

fn refused(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}

/// Refuses another file type or an untrusted file.
fn check(stat: &Stat, kind: FileType, trust: FileOwnerPolicy) -> io::Result<()> {
    let found = FileType::from_raw_mode(stat.st_mode);
    if found != kind {
        return Err(refused(format!("it is a {found:?} and not a {kind:?}: remove it")));
    }
    if trust == FileOwnerPolicy::Anyone {
        return Ok(());
    }
    let (owner, us) = (stat.st_uid, rustix::process::geteuid().as_raw());
    if owner != us && owner != 0 {
        return Err(refused(format!(
            "it belongs to user {owner}, and dunlin runs as user {us}: if what it holds is right, \
             `chown {us}` it, otherwise remove it"
        )));
    }
    if stat.st_mode & 0o002 != 0 {
        return Err(refused(format!(
            "everyone may write to it (mode {:o}): check its contents, then `chmod o-w` it",
            stat.st_mode & 0o7777
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
