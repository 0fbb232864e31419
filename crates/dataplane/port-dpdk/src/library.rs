//! Opens the library, if only its owner could have changed it.

use crate::DpdkError;
use crate::calls::{Calls, VERSION};
use crate::limits::FOLDERS_MAX;
use libloading::os::unix;
use std::ffi::CStr;
use std::fs::{self, Metadata};
use std::mem::{forget, size_of};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The library. It stays open until the process ends: threads of DPDK run in it.
#[derive(Clone, Copy)]
pub struct Library {
    calls: &'static Calls,
}

impl std::fmt::Debug for Library {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Library").field("release", &self.release()).finish()
    }
}

/// The sticky bit: only the owner of a file renames it in such a folder (inode(7)).
const STICKY: u32 = 0o1000;
const WRITE_OF_OTHERS: u32 = 0o022;

impl Library {
    /// Opens the library at an absolute path.
    ///
    /// # Errors
    /// It is missing, may be written by others, cannot be opened, or is for another version.
    pub fn open(path: &Path) -> Result<Self, DpdkError> {
        if !path.is_absolute() {
            return Err(DpdkError::Relative(path.into()));
        }
        check_trust(path)?;
        if cfg!(target_feature = "crt-static") {
            return Err(DpdkError::Static);
        }
        let unloadable = |error: libloading::Error| {
            // The library's own text begins with the path of what is missing.
            DpdkError::Unloadable(path.into(), error.to_string())
        };
        // SAFETY: the constructors of the library and of DPDK's only register drivers; who could
        // change the library is its owner, root or this user.
        let library = unsafe { unix::Library::open(Some(path), unix::RTLD_NOW | unix::RTLD_LOCAL) }
            .map_err(unloadable)?;
        // SAFETY: the symbol has this type in every version (`native/dunlin_dpdk.h`).
        let table =
            unsafe { library.get::<unsafe extern "C" fn() -> *const Calls>(b"dunlin_dpdk\0") };
        let wrong = |why: String| DpdkError::Version(path.into(), why);
        let table = table.map_err(|_| wrong("it has no calls of dunlin".to_owned()))?;
        // SAFETY: it takes nothing, and returns a constant of the library.
        let calls =
            unsafe { table().as_ref() }.ok_or_else(|| wrong("it has no calls".to_owned()))?;
        // Both numbers come first in every version.
        if calls.version != VERSION || calls.size as usize != size_of::<Calls>() {
            let (found, size) = (calls.version, calls.size);
            return Err(wrong(format!(
                "its calls are version {found} ({size} bytes), and not {VERSION} ({})",
                size_of::<Calls>()
            )));
        }
        // Never closed, so the table is there for good.
        forget(library);
        Ok(Self { calls })
    }

    /// The release of DPDK, such as `DPDK 22.11.11`.
    pub fn release(&self) -> String {
        // SAFETY: it takes nothing, and returns a constant text.
        text(unsafe { CStr::from_ptr((self.calls.release)()) })
    }

    pub(crate) fn calls(&self) -> &'static Calls {
        self.calls
    }

    /// Why the last call of this thread failed.
    pub(crate) fn problem(&self) -> String {
        // SAFETY: it takes nothing, and returns a text of this thread that the next call changes.
        text(unsafe { CStr::from_ptr((self.calls.problem)()) })
    }
}

fn text(text: &CStr) -> String {
    text.to_string_lossy().into_owned()
}

/// Checks the file, the folder it is in and those above, where the path leads to.
fn check_trust(path: &Path) -> Result<(), DpdkError> {
    let untrusted = |found: &Path, why: String| DpdkError::Untrusted(found.into(), why);
    let real = match fs::canonicalize(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(DpdkError::Missing(path.into()));
        }
        found => found.map_err(|error| untrusted(path, error.to_string()))?,
    };
    for (depth, found) in real.ancestors().take(FOLDERS_MAX).enumerate() {
        let metadata = fs::metadata(found).map_err(|error| untrusted(found, error.to_string()))?;
        if depth == 0 && !metadata.is_file() {
            return Err(untrusted(found, "it is no file".to_owned()));
        }
        if let Some(why) = writer(&metadata, depth) {
            return Err(untrusted(path, format!("{} {why}", found.display())));
        }
    }
    Ok(())
}

/// Who else may write a file (depth 0), its folder (1), or one above; `None`: none.
fn writer(metadata: &Metadata, depth: usize) -> Option<String> {
    let own = rustix::process::geteuid().as_raw();
    if ![0, own].contains(&metadata.uid()) {
        return Some(format!("belongs to the user {}", metadata.uid()));
    }
    let mode = metadata.mode();
    let is_kept = depth > 1 && mode & STICKY != 0;
    (mode & WRITE_OF_OTHERS != 0 && !is_kept)
        .then(|| format!("may be written by others (mode {:o})", mode & 0o7777))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::PathBuf;
    use test_support::folder::Folder;

    fn mode(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).expect("ours");
    }

    /// A folder that only we write, with a file that is no library.
    fn file() -> (Folder, PathBuf) {
        let folder = Folder::new("library");
        mode(&folder, 0o755);
        let file = folder.join("libdunlin-dpdk.so");
        fs::write(&file, "no library").expect("written");
        mode(&file, 0o644);
        (folder, file)
    }

    fn error(path: &Path) -> String {
        Library::open(path).expect_err("refused").to_string()
    }

    #[test]
    fn missing_library_is_an_error_with_its_package() {
        let (folder, file) = file();
        fs::remove_file(&file).expect("there");
        let why = error(&file);
        assert!(
            why.contains("libdunlin-dpdk.so is missing: install the package dunlin-dpdk"),
            "{why}"
        );
        assert!(error(Path::new("libdunlin-dpdk.so")).contains("absolute"));
        assert!(error(&folder).contains("no file"));
    }

    #[test]
    fn library_that_others_may_write_is_refused() {
        let (folder, file) = file();
        for wrong in [0o664, 0o646] {
            mode(&file, wrong);
            assert!(error(&file).contains(&format!("mode {wrong:o}")), "{}", error(&file));
        }
        mode(&file, 0o644);
        for wrong in [0o775, 0o757, 0o1777] {
            mode(&folder, wrong);
            assert!(error(&file).contains(&format!("mode {wrong:o}")), "{}", error(&file));
        }
        mode(&folder, 0o755);
        // By a link in a folder that only we write, too.
        let (elsewhere, _) = second_folder(&folder);
        let link = elsewhere.join("link.so");
        symlink(&file, &link).expect("made");
        mode(&file, 0o666);
        assert!(error(&link).contains("mode 666"));
        mode(&file, 0o644);
        let why = error(&link);
        assert!(why.contains("cannot be opened") && why.contains("dunlin-dpdk"), "{why}");
    }

    fn second_folder(folder: &Folder) -> (PathBuf, ()) {
        let beside = folder.join("beside");
        fs::create_dir(&beside).expect("made");
        mode(&beside, 0o755);
        (beside, ())
    }

    #[test]
    fn library_without_our_calls_is_of_another_version() {
        // One that every program with a dynamic linker has.
        let Some(libc) = ["/lib/x86_64-linux-gnu/libc.so.6", "/lib/aarch64-linux-gnu/libc.so.6"]
            .into_iter()
            .find(|path| Path::new(path).exists())
        else {
            return test_support::skip::skip("the libc of Debian");
        };
        assert!(
            error(Path::new(libc)).contains("no calls of dunlin"),
            "{}",
            error(Path::new(libc))
        );
    }
}
