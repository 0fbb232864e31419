//! Where the socket is in the file system: made, found to be taken, changing hands, removed.
use crate::client::Dialogue;
use crate::limits::CLIENT_TIME_MAX;
use crate::message::{Reply, Request};
use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Uid};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::fmt;
use std::fs::{self, Permissions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

/// Who may connect, by the file's mode: the owner and the group.
const MODE: u32 = 0o660;
/// Who may look for it in a directory that is made for it: everybody.
const FOLDER_MODE: u32 = 0o755;
/// Connections that wait to be accepted.
const BACKLOG: i32 = 16;

/// The user and group that the socket, and a directory made for it, are to belong to: those the
/// server will run as once it has dropped its privileges.
#[derive(Clone, Copy, Debug)]
pub struct Owner {
    /// The user.
    pub uid: u32,
    /// The group.
    pub gid: u32,
}

/// The listening socket. Its file is removed when this is dropped, unless it has become another's
/// or been left to one.
#[derive(Debug)]
pub struct Endpoint {
    pub(crate) listener: UnixListener,
    path: PathBuf,
    /// Where the file is until it is revealed.
    hidden: Option<PathBuf>,
    /// The file's device and inode.
    file: (u64, u64),
    /// Whether the file is a successor's to replace.
    left: bool,
}

impl Endpoint {
    /// Listens at `path`. A socket that a dead process left there is replaced.
    ///
    /// # Errors
    /// Another server is there, or the place cannot be had.
    pub fn bind(path: &Path, owner: Option<Owner>) -> Result<Self, EndpointError> {
        let failed = |kind| EndpointError { path: path.to_owned(), kind };
        match fs::symlink_metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(Kind::Io(error))),
            Ok(found) if !found.file_type().is_socket() => return Err(failed(Kind::NotASocket)),
            Ok(_) => match Dialogue::connect(path) {
                Ok(dialogue) => return Err(failed(Kind::Taken(pid_of(dialogue)))),
                Err(error) if error.is_stale() => {}
                Err(_) => return Err(failed(Kind::Taken(None))),
            },
        }
        let mut endpoint = Self::bind_beside(path, owner)?;
        endpoint.reveal()?;
        Ok(endpoint)
    }

    /// Listens beside `path`, under a name of its own, until [`Endpoint::reveal`].
    ///
    /// # Errors
    /// The place cannot be had.
    pub fn bind_beside(path: &Path, owner: Option<Owner>) -> Result<Self, EndpointError> {
        let failed = |kind| EndpointError { path: path.to_owned(), kind };
        let io = |error| failed(Kind::Io(error));
        let (Some(name), Some(folder)) = (path.file_name(), path.parent()) else {
            return Err(failed(Kind::NoName));
        };
        make_folder(folder, owner).map_err(io)?;
        let name = format!(".{}.{}", name.to_string_lossy(), std::process::id());
        let hidden = folder.join(name);
        let address = SocketAddrUnix::new(&hidden).map_err(|_| failed(Kind::TooLong))?;
        // One that a dead process of the same number left.
        let _ = fs::remove_file(&hidden);
        let fd = open(&address, &hidden, owner).inspect_err(|_| drop(fs::remove_file(&hidden)));
        let listener = UnixListener::from(fd.map_err(io)?);
        let file =
            fs::symlink_metadata(&hidden).map(|file| (file.dev(), file.ino())).map_err(io)?;
        Ok(Self { listener, path: path.to_owned(), hidden: Some(hidden), file, left: false })
    }

    /// Puts it at its path, in place of the one that is there: who connects finds one of the two.
    ///
    /// # Errors
    /// The directory may no longer be written to.
    pub fn reveal(&mut self) -> Result<(), EndpointError> {
        let Some(hidden) = &self.hidden else { return Ok(()) };
        let failed = |error| EndpointError { path: self.path.clone(), kind: Kind::Io(error) };
        fs::rename(hidden, &self.path).map_err(failed)?;
        self.hidden = None;
        Ok(())
    }

    /// Leaves the file to a successor, who puts its own in its place: removing it could meet that.
    pub(crate) fn leave(&mut self) {
        self.left = true;
    }

    /// The path it is to be found at.
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
            // Whoever may no longer remove it leaves it; it will be found to be stale.
            let _ = fs::remove_file(path);
        }
    }
}

/// The process of the server that is there, as it tells.
fn pid_of(mut dialogue: Dialogue) -> Option<u32> {
    match dialogue.ask(&Request::Status, CLIENT_TIME_MAX).ok()? {
        Reply::Status(status) => Some(status.pid),
        _ => None,
    }
}

fn make_folder(folder: &Path, owner: Option<Owner>) -> io::Result<()> {
    if folder.as_os_str().is_empty() || folder.is_dir() {
        return Ok(());
    }
    fs::create_dir(folder)?;
    give(folder, FileType::Directory, FOLDER_MODE, owner)
}

/// Nobody can connect before it listens, so nobody does before the file has its mode.
fn open(address: &SocketAddrUnix, path: &Path, owner: Option<Owner>) -> io::Result<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let fd = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::bind(&fd, address)?;
    give(path, FileType::Socket, MODE, owner)?;
    rustix::net::listen(&fd, BACKLOG)?;
    Ok(fd)
}

/// Gives a file that was just made its mode and owner. Who else may write to its directory, as the
/// user that a server became before, may have put another in its place by now, or a link: root
/// would give that away. So it is opened once, looked at, and only then changed.
fn give(path: &Path, kind: FileType, mode: u32, owner: Option<Owner>) -> io::Result<()> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::empty())?;
    let found = rustix::fs::fstat(&file)?;
    let is_linked = kind == FileType::Socket && found.st_nlink != 1;
    let ours = rustix::process::geteuid().as_raw();
    if FileType::from_raw_mode(found.st_mode) != kind || found.st_uid != ours || is_linked {
        return Err(io::Error::other("another process put something else in its place"));
    }
    // The way by which the mode of what is only pointed to can be set (open(2), O_PATH).
    let itself = format!("/proc/self/fd/{}", file.as_raw_fd());
    fs::set_permissions(itself, Permissions::from_mode(mode))?;
    if let Some(Owner { uid, gid }) = owner {
        let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
        rustix::fs::chownat(&file, "", Some(uid), Some(gid), AtFlags::EMPTY_PATH)?;
    }
    Ok(())
}

/// The socket cannot be where it is to be.
#[derive(Debug)]
pub struct EndpointError {
    path: PathBuf,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Taken(Option<u32>),
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
            Kind::Taken(pid) => {
                write!(f, "a server is running at {place}")?;
                if let Some(pid) = pid {
                    write!(f, ": process {pid}")?;
                }
                write!(
                    f,
                    "; `dunlin serve --take-over` takes its place, `dunlin reload` has it read its \
                     config again, and another [admin] socket lets both run"
                )
            }
            Kind::NotASocket => write!(
                f,
                "{place} is there and is not a socket: remove it, or name another [admin] socket"
            ),
            Kind::NoName => write!(f, "[admin] socket: {place} is no path of a file"),
            Kind::TooLong => {
                write!(f, "[admin] socket: {place} is too long: the kernel takes about 90 octets")
            }
            Kind::Io(error) => {
                write!(f, "[admin] socket: cannot listen at {place}: {error}")?;
                match error.kind() {
                    io::ErrorKind::NotFound => write!(
                        f,
                        "; the directory is made, but not the one above it: make it, or name \
                         another [admin] socket"
                    ),
                    io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => write!(
                        f,
                        "; the directory must be one that this user may write to: \
                         RuntimeDirectory=dunlin in the systemd unit makes it, or name another \
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

    /// A folder of its own for one test, removed in the end.
    struct Folder(PathBuf);

    impl Folder {
        fn new(test: &str) -> Self {
            let name = format!("dunlin-admin-{test}-{}", std::process::id());
            let folder = std::env::temp_dir().join(name);
            fs::create_dir_all(&folder).expect("a folder");
            Self(folder)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn it_has_its_mode_and_is_removed_in_the_end() {
        let folder = Folder::new("mode");
        let path = folder.0.join("run/dunlin.sock");
        let endpoint = Endpoint::bind(&path, None).expect("a socket");
        let mode = fs::metadata(&path).expect("the file").permissions().mode();
        assert_eq!(mode & 0o777, MODE);
        UnixStream::connect(&path).expect("somebody listens");
        drop(endpoint);
        assert!(!path.exists());
        assert_eq!(fs::read_dir(folder.0.join("run")).expect("the folder").count(), 0);
    }

    #[test]
    fn a_stale_one_is_replaced() {
        let folder = Folder::new("stale");
        let path = folder.0.join("dunlin.sock");
        drop(UnixListener::bind(&path).expect("a socket"));
        assert!(path.exists(), "std leaves it");
        let _endpoint = Endpoint::bind(&path, None).expect("the stale one is replaced");
        UnixStream::connect(&path).expect("somebody listens");
    }

    #[test]
    fn it_changes_hands_in_one_step() {
        let folder = Folder::new("hands");
        let path = folder.0.join("dunlin.sock");
        let old = Endpoint::bind(&path, None).expect("a socket");
        let mut new = Endpoint::bind_beside(&path, None).expect("a socket");
        let of = |endpoint: &Endpoint| endpoint.file.1 == fs::metadata(&path).unwrap().ino();
        assert!(of(&old) && !of(&new));
        new.reveal().expect("the folder is ours");
        assert!(of(&new) && !of(&old));
        drop(old);
        assert!(of(&new), "the predecessor leaves it alone");
        drop(Endpoint::bind_beside(&path, None).expect("one that is never revealed"));
        assert!(of(&new));
        assert_eq!(fs::read_dir(&folder.0).expect("the folder").count(), 1);
    }

    /// The folder may be writable for who must not become root by it.
    #[test]
    fn only_what_was_made_is_given_away() {
        let folder = Folder::new("give");
        let (victim, link) = (folder.0.join("victim"), folder.0.join("link"));
        fs::write(&victim, "").expect("a file");
        fs::set_permissions(&victim, Permissions::from_mode(0o600)).expect("a mode");
        std::os::unix::fs::symlink(&victim, &link).expect("a link");
        let (socket, second) = (folder.0.join("socket"), folder.0.join("second"));
        let _listener = UnixListener::bind(&socket).expect("a socket");
        fs::hard_link(&socket, &second).expect("a link");
        for path in [&victim, &link, &second] {
            let refused = give(path, FileType::Socket, 0o777, None).expect_err("not what was made");
            assert!(refused.to_string().contains("something else"), "{refused}");
        }
        assert_eq!(fs::metadata(&victim).expect("a file").permissions().mode() & 0o777, 0o600);
        fs::remove_file(&second).expect("a link");
        give(&socket, FileType::Socket, 0o600, None).expect("what was made");
        assert_eq!(fs::metadata(&socket).expect("a file").permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn what_cannot_be_had_says_what_to_do() {
        let folder = Folder::new("errors");
        fs::write(folder.0.join("file"), "").expect("a file");
        for (path, word) in [
            ("file", "remove it"),
            ("none/none/dunlin.sock", "the one above it"),
            (&"x".repeat(108), "too long"),
            ("file/dunlin.sock", "cannot listen"),
        ] {
            let told = Endpoint::bind(&folder.0.join(path), None).expect_err(path).to_string();
            assert!(told.contains(word), "{told}");
        }
        assert!(folder.0.join("file").exists(), "what is not ours stays");
    }
}
