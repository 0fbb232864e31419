//! The socket in the file system: creation, conflicts, hot restart, removal.
use crate::client::AdminConnection;
use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Uid};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, Permissions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

/// Owner and group may connect.
const MODE: u32 = 0o660;
/// All users may search a folder created for the socket.
const FOLDER_MODE: u32 = 0o755;
/// Connections that wait to be accepted.
const BACKLOG: i32 = 16;

/// The future owner of the socket and its folder: the user and group of the server after it drops
/// privileges.
#[derive(Clone, Copy, Debug)]
pub struct SocketOwner {
    /// The user.
    pub uid: u32,
    /// The group.
    pub gid: u32,
}

/// The digits of the largest process ID: a path that is checked before must fit any (proc(5)).
const PID_LEN_MAX: usize = 7;

/// The listening socket. Dropping it removes its file, unless another process has replaced it or
/// will.
#[derive(Debug)]
pub struct Endpoint {
    pub(crate) listener: UnixListener,
    path: PathBuf,
    /// The temporary path until `reveal`.
    hidden: Option<PathBuf>,
    /// The file's device and inode.
    file: (u64, u64),
    /// Whether the new process replaces the file.
    left: bool,
}

impl Endpoint {
    /// Listens at `path`. Replaces the socket of a dead process.
    ///
    /// # Errors
    /// Another server listens, or the path cannot be used.
    pub fn bind(path: &Path, owner: Option<SocketOwner>) -> Result<Self, EndpointError> {
        let failed = |kind| EndpointError { path: path.to_owned(), kind };
        match fs::symlink_metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(Kind::Io(error))),
            Ok(found) if !found.file_type().is_socket() => return Err(failed(Kind::NotASocket)),
            Ok(_) => match AdminConnection::connect(path) {
                Ok(connection) => return Err(failed(Kind::InUse(connection.server_pid()))),
                Err(error) if error.is_stale() => {}
                Err(_) => return Err(failed(Kind::InUse(None))),
            },
        }
        let mut endpoint = Self::bind_beside(path, owner)?;
        endpoint.reveal()?;
        Ok(endpoint)
    }

    /// Whether a socket can be created at `path`, as far as the names of files tell. Changes
    /// nothing, and a running server is not an error.
    ///
    /// # Errors
    /// The path cannot be used, and what to do.
    pub fn check(path: &Path) -> Result<(), EndpointError> {
        let failed = |kind| EndpointError { path: path.to_owned(), kind };
        let (Some(name), Some(folder)) = (path.file_name(), path.parent()) else {
            return Err(failed(Kind::NoName));
        };
        let hidden = folder.join(hidden_name(name, "9".repeat(PID_LEN_MAX)));
        SocketAddrUnix::new(&hidden).map_err(|_| failed(Kind::TooLong))?;
        match fs::symlink_metadata(path) {
            Ok(found) if !found.file_type().is_socket() => return Err(failed(Kind::NotASocket)),
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                return Err(failed(Kind::Io(error)));
            }
            _ => {}
        }
        // The folder itself is created at the start.
        let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty());
        match parent.filter(|_| !folder.exists()).map(fs::metadata) {
            Some(Err(error)) => Err(failed(Kind::Io(error))),
            _ => Ok(()),
        }
    }

    /// Listens at a temporary name next to `path`, until [`Endpoint::reveal`].
    ///
    /// # Errors
    /// The path cannot be used.
    pub fn bind_beside(path: &Path, owner: Option<SocketOwner>) -> Result<Self, EndpointError> {
        let failed = |kind| EndpointError { path: path.to_owned(), kind };
        let io = |error| failed(Kind::Io(error));
        let (Some(name), Some(folder)) = (path.file_name(), path.parent()) else {
            return Err(failed(Kind::NoName));
        };
        make_folder(folder, owner).map_err(io)?;
        let hidden = folder.join(hidden_name(name, std::process::id()));
        let address = SocketAddrUnix::new(&hidden).map_err(|_| failed(Kind::TooLong))?;
        // A remainder of a dead process with the same ID.
        let _ = fs::remove_file(&hidden);
        let fd = open(&address, &hidden, owner).inspect_err(|_| drop(fs::remove_file(&hidden)));
        let listener = UnixListener::from(fd.map_err(io)?);
        let file =
            fs::symlink_metadata(&hidden).map(|file| (file.dev(), file.ino())).map_err(io)?;
        Ok(Self { listener, path: path.to_owned(), hidden: Some(hidden), file, left: false })
    }

    /// Renames it to its path, replacing the old one: clients always find one of them.
    ///
    /// # Errors
    /// The folder is no longer writable.
    pub fn reveal(&mut self) -> Result<(), EndpointError> {
        let Some(hidden) = &self.hidden else { return Ok(()) };
        let failed = |error| EndpointError { path: self.path.clone(), kind: Kind::Io(error) };
        fs::rename(hidden, &self.path).map_err(failed)?;
        self.hidden = None;
        Ok(())
    }

    /// Leaves the file to the new process, which replaces it; removing it could remove the new one.
    pub(crate) fn leave(&mut self) {
        self.left = true;
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        if self.left {
            return;
        }
        let path = self.hidden.as_ref().unwrap_or(&self.path);
        let ours = fs::symlink_metadata(path).map(|file| (file.dev(), file.ino()) == self.file);
        if ours.unwrap_or(false) {
            // A file that cannot be removed stays, and is replaced later.
            let _ = fs::remove_file(path);
        }
    }
}

/// The temporary name of a socket in its folder.
fn hidden_name(name: &OsStr, pid: impl fmt::Display) -> String {
    format!(".{}.{pid}", name.to_string_lossy())
}

fn make_folder(folder: &Path, owner: Option<SocketOwner>) -> io::Result<()> {
    if folder.as_os_str().is_empty() || folder.is_dir() {
        return Ok(());
    }
    fs::create_dir(folder)?;
    give(folder, FileType::Directory, FOLDER_MODE, owner)
}

/// The file gets its mode before the socket listens, so no client connects earlier.
fn open(address: &SocketAddrUnix, path: &Path, owner: Option<SocketOwner>) -> io::Result<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let fd = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::bind(&fd, address)?;
    give(path, FileType::Socket, MODE, owner)?;
    rustix::net::listen(&fd, BACKLOG)?;
    Ok(fd)
}

/// Sets mode and owner of a new file. Another user with write access to the folder may have
/// replaced it, even by a link that root would follow. So it is opened once, checked, and then
/// changed.
fn give(path: &Path, kind: FileType, mode: u32, owner: Option<SocketOwner>) -> io::Result<()> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::empty())?;
    let found = rustix::fs::fstat(&file)?;
    let is_linked = kind == FileType::Socket && found.st_nlink != 1;
    let ours = rustix::process::geteuid().as_raw();
    if FileType::from_raw_mode(found.st_mode) != kind || found.st_uid != ours || is_linked {
        return Err(io::Error::other("another process replaced it"));
    }
    // Sets the mode of a file opened with O_PATH (open(2)).
    let itself = format!("/proc/self/fd/{}", file.as_raw_fd());
    fs::set_permissions(itself, Permissions::from_mode(mode))?;
    if let Some(SocketOwner { uid, gid }) = owner {
        let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
        rustix::fs::chownat(&file, "", Some(uid), Some(gid), AtFlags::EMPTY_PATH)?;
    }
    Ok(())
}

/// The socket cannot be created.
#[derive(Debug)]
pub struct EndpointError {
    path: PathBuf,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    InUse(Option<u32>),
    NotASocket,
    NoName,
    TooLong,
    Io(io::Error),
}

impl fmt::Display for EndpointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, kind } = self;
        let place = path.display();
        match kind {
            Kind::InUse(pid) => {
                write!(f, "a server is running at {place}")?;
                if let Some(pid) = pid {
                    write!(f, ": process {pid}")?;
                }
                write!(
                    f,
                    "; `dunlin serve --hot-restart` replaces it, `dunlin reload` reloads its \
                     config, and another [admin] socket lets both run"
                )
            }
            Kind::NotASocket => write!(
                f,
                "{place} exists and is not a socket: remove it, or set another [admin] socket"
            ),
            Kind::NoName => write!(f, "[admin] socket: {place} is not a path of a file"),
            Kind::TooLong => {
                write!(f, "[admin] socket: {place} is too long: the kernel takes about 90 bytes")
            }
            Kind::Io(error) => {
                write!(f, "[admin] socket: cannot listen at {place}: {error}")?;
                match error.kind() {
                    io::ErrorKind::NotFound => write!(
                        f,
                        "; the parent of its directory does not exist: create the parent, or set \
                         another [admin] socket"
                    ),
                    io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => write!(
                        f,
                        "; this user must be able to write to its directory: \
                         RuntimeDirectory=dunlin in the systemd unit creates it, or set another \
                         [admin] socket"
                    ),
                    _ => Ok(()),
                }
            }
        }
    }
}

impl std::error::Error for EndpointError {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;
    use test_support::folder::Folder;

    #[test]
    fn socket_has_its_mode_and_is_removed_at_the_end() {
        let folder = Folder::new("mode");
        let path = folder.join("run/dunlin.sock");
        let endpoint = Endpoint::bind(&path, None).expect("a socket");
        let mode = fs::metadata(&path).expect("the file").permissions().mode();
        assert_eq!(mode & 0o777, MODE);
        UnixStream::connect(&path).expect("a server listens");
        drop(endpoint);
        assert!(!path.exists());
        assert_eq!(fs::read_dir(folder.join("run")).expect("the folder").count(), 0);
    }

    #[test]
    fn stale_socket_is_replaced() {
        let folder = Folder::new("stale");
        let path = folder.join("dunlin.sock");
        drop(UnixListener::bind(&path).expect("a socket"));
        assert!(path.exists(), "std leaves it");
        let _endpoint = Endpoint::bind(&path, None).expect("the stale one is replaced");
        UnixStream::connect(&path).expect("a server listens");
    }

    #[test]
    fn socket_is_replaced_atomically() {
        let folder = Folder::new("hands");
        let path = folder.join("dunlin.sock");
        let old = Endpoint::bind(&path, None).expect("a socket");
        let mut new = Endpoint::bind_beside(&path, None).expect("a socket");
        let of = |endpoint: &Endpoint| endpoint.file.1 == fs::metadata(&path).unwrap().ino();
        assert!(of(&old) && !of(&new));
        new.reveal().expect("the folder is ours");
        assert!(of(&new) && !of(&old));
        drop(old);
        assert!(of(&new), "the old_process leaves it alone");
        drop(Endpoint::bind_beside(&path, None).expect("one that is never revealed"));
        assert!(of(&new));
        assert_eq!(fs::read_dir(&folder).expect("the folder").count(), 1);
    }

    /// The folder may be writable for users who must not become root.
    #[test]
    fn only_created_files_change_their_owner() {
        let folder = Folder::new("give");
        let (victim, link) = (folder.join("victim"), folder.join("link"));
        fs::write(&victim, "").expect("a file");
        fs::set_permissions(&victim, Permissions::from_mode(0o600)).expect("a mode");
        std::os::unix::fs::symlink(&victim, &link).expect("a link");
        let (socket, second) = (folder.join("socket"), folder.join("second"));
        let _listener = UnixListener::bind(&socket).expect("a socket");
        fs::hard_link(&socket, &second).expect("a link");
        for path in [&victim, &link, &second] {
            let refused = give(path, FileType::Socket, 0o777, None).expect_err("not what was made");
            assert!(refused.to_string().contains("replaced it"), "{refused}");
        }
        assert_eq!(fs::metadata(&victim).expect("a file").permissions().mode() & 0o777, 0o600);
        fs::remove_file(&second).expect("a link");
        give(&socket, FileType::Socket, 0o600, None).expect("what was made");
        assert_eq!(fs::metadata(&socket).expect("a file").permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn unusable_path_is_an_error_with_advice() {
        let folder = Folder::new("errors");
        fs::write(folder.join("file"), "").expect("a file");
        for (path, word) in [
            ("file", "remove it"),
            ("none/none/dunlin.sock", "the parent of its directory"),
            (&"x".repeat(108), "too long"),
            ("file/dunlin.sock", "cannot listen"),
        ] {
            let path = folder.join(path);
            for error in [Endpoint::check(&path), Endpoint::bind(&path, None).map(drop)] {
                let message = error.expect_err(word).to_string();
                assert!(message.contains(word), "{message}");
            }
        }
        for path in ["dunlin.sock", "new/dunlin.sock"] {
            Endpoint::check(&folder.join(path)).expect("it can be created");
        }
        assert_eq!(fs::read_dir(&folder).expect("a folder").count(), 1, "nothing is created");
        assert!(folder.join("file").exists(), "what is not ours stays");
    }
}
