//! The folder that a server works in: `[server] data_dir`, or a folder of its own in it if others
//! may write there: each of them could replace all files in it.
use crate::files;
use crate::lock::DataLock;
use rustix::process::{getegid, geteuid, getgroups};
use std::fs::{self, DirBuilder, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The folder of its own.
const OWN: &str = "server";
/// The same until it has all files that were in the configured folder.
const UNFINISHED: &str = "server.new";
/// Begins and ends of the names of all files of a server.
const BEGINS: [&str; 4] = ["records.redb", "records.wal", "records.zones", "health."];
const ENDS: [&str; 2] = [".copy", ".state"];
const NAMES: [&str; 3] = ["zones", "credentials.json", "replica"];

/// The folder that a server of this `data_dir` works in, as far as it exists. Changes nothing.
pub fn existing(folder: &Path) -> PathBuf {
    let own = folder.join(OWN);
    if own.is_dir() { own } else { folder.to_owned() }
}

/// The folder that this process works in. If others may write the configured one, it is a folder
/// in it, which gets the files that this user has there. `is_hot_restart`: another process of the
/// server still uses the folder, so that nothing is moved.
///
/// # Errors
/// The folder belongs to another user, who could replace all files; or the folder of its own
/// cannot be used. The error says what to do.
pub fn settle(folder: &Path, is_hot_restart: bool) -> Result<PathBuf, String> {
    let Ok(found) = fs::metadata(folder) else { return Ok(folder.to_owned()) };
    if !found.is_dir() {
        return Ok(folder.to_owned());
    }
    let (shown, me) = (folder.display(), geteuid().as_raw());
    if found.uid() != 0 && found.uid() != me {
        return Err(format!(
            "[server] data_dir {shown} belongs to user {}, and the server runs as user {me}: \
             `chown {me} {shown}`, or name another folder",
            found.uid()
        ));
    }
    let own = folder.join(OWN);
    if fs::symlink_metadata(&own).is_ok() {
        return check_own(&own, me).map(|()| own);
    }
    if !may_others_write(&found) {
        return Ok(folder.to_owned());
    }
    if is_hot_restart {
        tracing::warn!(
            data_dir = %shown,
            "others may write [server] data_dir: the next restart that is not a hot restart moves \
             its files to {}", own.display()
        );
        return Ok(folder.to_owned());
    }
    tracing::warn!(
        data_dir = %shown,
        "others may write [server] data_dir, so the server works in {}, which is its own: `chmod \
         o-w {shown}`", own.display()
    );
    // No other server uses the files meanwhile.
    let _lock = DataLock::take(folder, None)?;
    let unfinished = folder.join(UNFINISHED);
    move_files(folder, &unfinished, me)
        .and_then(|()| files::rename(&unfinished, &own))
        .map_err(|error| format!("[server] data_dir: {} cannot be made: {error}", own.display()))?;
    check_own(&own, me).map(|()| own)
}

/// Whether users beside the owner, root and the groups of this process may write a folder.
fn may_others_write(found: &Metadata) -> bool {
    let is_own_group = || {
        let groups = getgroups().unwrap_or_default();
        let mut groups = groups.into_iter().chain([getegid()]).map(|group| group.as_raw());
        found.gid() == 0 || groups.any(|group| group == found.gid())
    };
    found.mode() & 0o002 != 0 || found.mode() & 0o020 != 0 && !is_own_group()
}

/// Refuses a folder that another user has put there.
fn check_own(own: &Path, me: u32) -> Result<(), String> {
    let wrong = |what: String| {
        let own = own.display();
        Err(format!("[server] data_dir: {own} {what}: check its contents, and move it away"))
    };
    match fs::symlink_metadata(own) {
        Ok(found) if !found.is_dir() => wrong("is not a folder".into()),
        Ok(found) if found.uid() != me => wrong(format!("belongs to user {}", found.uid())),
        Ok(found) if may_others_write(&found) => wrong("can be written by others".into()),
        Ok(_) => Ok(()),
        Err(error) => wrong(format!("cannot be read ({error})")),
    }
}

/// Moves the files of a server that belong to this user. What a killed process has begun is
/// continued.
fn move_files(folder: &Path, to: &Path, me: u32) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(to) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => check_own(to, me).map_err(io::Error::other)?,
    }
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(text) = name.to_str() else { continue };
        let is_ours = NAMES.contains(&text)
            || BEGINS.iter().any(|begin| text.starts_with(begin))
            || ENDS.iter().any(|end| text.ends_with(end));
        let found = fs::symlink_metadata(entry.path())?;
        if is_ours && !found.is_symlink() && found.uid() == me {
            files::rename(&entry.path(), &to.join(&name))?;
        }
    }
    fs::File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    struct Scratch(test_support::folder::Folder);

    impl Scratch {
        fn new(name: &str, mode: u32) -> Self {
            let folder = test_support::folder::Folder::new(name);
            fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).expect("ours");
            Self(folder)
        }
    }

    #[test]
    fn folder_that_only_the_server_writes_is_used_as_it_is() {
        for mode in [0o700, 0o750, 0o755] {
            let scratch = Scratch::new("alone", mode);
            assert_eq!(settle(&scratch.0, false), Ok(scratch.0.to_owned()));
            assert_eq!(existing(&scratch.0), *scratch.0);
        }
        let missing = Path::new("/does/not/exist");
        assert_eq!(settle(missing, false), Ok(missing.to_owned()), "it is made later");
    }

    #[test]
    fn files_of_a_folder_that_others_write_move_to_a_folder_of_the_server() {
        for mode in [0o777, 0o1777] {
            let scratch = Scratch::new("shared", mode);
            let folder = &*scratch.0;
            for name in ["records.redb", "health.state", "tokens.copy", "credentials.json"] {
                fs::write(folder.join(name), name).expect("written");
            }
            fs::create_dir(folder.join("zones")).expect("a folder");
            fs::write(folder.join("zones/a.zone"), "a").expect("written");
            fs::write(folder.join("letter.txt"), "of another program").expect("written");
            symlink("/etc/passwd", folder.join("records.wal")).expect("a link");
            // A process was killed midway.
            fs::create_dir(folder.join(UNFINISHED)).expect("a folder");
            fs::set_permissions(folder.join(UNFINISHED), fs::Permissions::from_mode(0o700))
                .unwrap();
            fs::rename(folder.join("tokens.copy"), folder.join("server.new/tokens.copy")).unwrap();
            assert_eq!(settle(folder, true), Ok(folder.to_owned()), "the old process uses them");
            let own = folder.join(OWN);
            assert_eq!(settle(folder, false), Ok(own.clone()));
            let mut names: Vec<_> =
                fs::read_dir(&own).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            names.sort();
            let expected =
                ["credentials.json", "health.state", "records.redb", "tokens.copy", "zones"];
            assert_eq!(names, expected);
            assert_eq!(fs::read_to_string(own.join("zones/a.zone")).unwrap(), "a");
            assert!(folder.join("letter.txt").exists());
            assert_eq!(fs::metadata(&own).unwrap().mode() & 0o777, 0o700);
            // From now on, whatever its mode is.
            fs::set_permissions(folder, fs::Permissions::from_mode(0o700)).unwrap();
            assert_eq!((settle(folder, true), existing(folder)), (Ok(own.clone()), own));
        }
    }

    #[test]
    fn folder_of_another_user_and_planted_folders_are_refused() {
        let scratch = Scratch::new("planted", 0o777);
        symlink("/tmp", scratch.0.join(OWN)).expect("a link");
        let refused = settle(&scratch.0, false).expect_err("a link");
        assert!(refused.contains("/server is not a folder"), "{refused}");
        fs::remove_file(scratch.0.join(OWN)).expect("ours");
        if !geteuid().is_root() {
            return;
        }
        fs::create_dir(scratch.0.join(OWN)).expect("a folder");
        chown(scratch.0.join(OWN), Some(65_533), None).expect("root");
        let refused = settle(&scratch.0, false).expect_err("planted");
        assert!(refused.contains("/server belongs to user 65533"), "{refused}");
        chown(&scratch.0, Some(65_533), None).expect("root");
        let refused = settle(&scratch.0, false).expect_err("of another");
        assert!(refused.contains("belongs to user 65533, and the server"), "{refused}");
    }

    #[test]
    fn locked_folder_is_not_moved() {
        let scratch = Scratch::new("locked", 0o777);
        fs::write(scratch.0.join("records.redb"), "").expect("written");
        let lock = DataLock::take(&scratch.0, None).expect("free").expect("a lock");
        settle(&scratch.0, false).expect_err("another server uses it");
        assert!(scratch.0.join("records.redb").exists());
        drop(lock);
        settle(&scratch.0, false).expect("it moves");
    }
}
