//! Creates, verifies, opens and replaces the files of a store. A file with unexpected content is
//! never written.
use crate::paced::PacedFile;
use crate::tree::{self, TreeInfo};
use crate::verified::VerifiedFile;
use crate::wal::{StoreKey, Wal};
use crate::{failed, read, store_error, write};
use durable::files;
use redb::backends::FileBackend;
use redb::{Builder, Database, DatabaseError, StorageBackend};
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::any::Any;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::ops::Bound;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use store::{Form, Revision, StoreError};

/// The open files.
pub struct OpenFiles {
    pub database: Database,
    pub wal: Wal,
    pub form: Form,
}

/// The files in the data folder: the tree, and the log of later writes.
pub fn paths(folder: &Path) -> [PathBuf; 2] {
    ["records.redb", "records.wal"].map(|name| folder.join(name))
}

/// The temporary name of a new file.
fn beside(path: &Path) -> PathBuf {
    path.with_extension(match path.extension() {
        Some(extension) => format!("{}.new", extension.display()),
        None => "new".into(),
    })
}

/// Calls a function that may panic; returns the panic's message.
pub fn caught<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|panic: Box<dyn Any + Send>| {
        let why = panic.downcast_ref::<String>().map(String::as_str);
        let why = why.or_else(|| panic.downcast_ref::<&str>().copied());
        why.unwrap_or("no reason is known").to_owned()
    })
}

/// Calls a function of redb, which may panic on unexpected content.
fn contained<T>(open: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
    let why = |why| StoreError::Damaged(format!("its content made redb panic: {why}"));
    caught(open).unwrap_or_else(|panic| Err(why(panic)))
}

/// Adds the file to an error, and what to do about damage.
pub fn placed(path: &Path, why: StoreError) -> StoreError {
    match why {
        StoreError::Failed(why) => StoreError::Failed(format!("{}: {why}", path.display())),
        StoreError::Damaged(why) => StoreError::Damaged(format!(
            "{}: {why}; put both files of the store back as they were, restore a snapshot with \
             `dunlin zones restore FILE`, or save what can be read with `dunlin zones salvage`",
            path.display()
        )),
        other => other,
    }
}

fn unopened(path: &Path) -> impl Fn(io::Error) -> StoreError {
    move |error| {
        let is_link = error.raw_os_error() == Some(Errno::LOOP.raw_os_error());
        let why = if is_link {
            failed("it is a symbolic link, which is not followed: put the file in its place")
        } else {
            store_error(error.into())
        };
        placed(path, why)
    }
}

/// How to use a tree.
pub struct TreeAccess<'h> {
    /// Whether writes may be slow.
    pub is_slow: &'h Arc<AtomicBool>,
    /// Bytes of verified pages to cache.
    pub cache_bytes: usize,
}

/// How to open a file of a store.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    /// To be read alone.
    Read,
    Write,
    /// Create it, or replace an unfinished one.
    Create,
}

/// Opens a file of a store; does not follow links. A file to write must be ours; a file to read may
/// belong to any user, so that root can salvage it.
///
/// # Errors
/// The errors of open(2), or the file is not ours.
pub fn open_file(path: &Path, usage: OpenMode) -> io::Result<FileBackend> {
    let file = if usage == OpenMode::Read {
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let mut options = OpenOptions::new();
        let file = options.read(true).custom_flags(flags.bits() as i32).open(path)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        file
    } else {
        files::open_or_create(path, 0o600)?
    };
    FileBackend::new(file).map_err(|error| io::Error::other(error.to_string()))
}

fn exists(path: &Path) -> Result<bool, StoreError> {
    match fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(unopened(path)(error)),
    }
}

/// Locks a file as redb does, so that no other process changes it after it was verified.
pub fn lock(file: &impl StorageBackend, usage: OpenMode) -> Result<(), StoreError> {
    let first = (Bound::Unbounded, Bound::Excluded(1));
    let locked = match usage {
        OpenMode::Read => file.try_lock_shared_range(first.0, first.1),
        _ => file.try_lock_range(first.0, first.1),
    };
    // Without support for locks, redb decides.
    match usage {
        _ if locked.unwrap_or(true) => Ok(()),
        OpenMode::Read => Err(failed(
            "another process uses it: `dunlin zones snapshot FILE` saves the zones of a running \
             server, or stop it first",
        )),
        _ => Err(busy()),
    }
}

fn busy() -> StoreError {
    failed(
        "another process uses it: give each server its own [server] data_dir, or replace it \
         with `dunlin serve --hot-restart`",
    )
}

/// Opens the files in a folder; creates them if there are none, and no list of zones beside them
/// says that there were.
pub fn open_files(folder: &Path, how: &TreeAccess<'_>) -> Result<OpenFiles, StoreError> {
    let [tree, log] = paths(folder);
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(0o750).create(folder).map_err(unopened(folder))?;
    match (exists(&tree)?, exists(&log)?) {
        (false, false) => match store::evidence_of_store(folder) {
            None => create(folder, how),
            Some(evidence) => Err(StoreError::Damaged(missing(folder, &evidence))),
        },
        (false, true) => {
            if !is_new(&log)? {
                let why = "it is missing, but the log with its last writes exists";
                return Err(placed(&tree, StoreError::Damaged(why.into())));
            }
            // The first start ended between the two files.
            fs::remove_file(&log).map_err(unopened(&log))?;
            create(folder, how)
        }
        (true, has_log) => {
            let file = open_file(&tree, OpenMode::Write).map_err(unopened(&tree))?;
            lock(&file, OpenMode::Write).map_err(|why| placed(&tree, why))?;
            let file = VerifiedFile::new(file);
            let about = inspect(&file).map_err(|why| placed(&tree, why))?;
            if !has_log {
                let why = "it is missing: it had the last writes of records.redb";
                return Err(placed(&log, StoreError::Damaged(why.into())));
            }
            let log_file = open_file(&log, OpenMode::Write).map_err(unopened(&log))?;
            open_both(file, &about, log_file, [&tree, &log], how)
        }
    }
}

/// The error about a store without files that is not new.
fn missing(folder: &Path, evidence: &str) -> String {
    let [tree, log] = paths(folder);
    format!(
        "{} and {} are missing, but {evidence}; put both files of the store back as they were, or \
         restore a snapshot with `dunlin zones restore FILE`; to begin with an empty store, remove \
         {}, too",
        tree.display(),
        log.display(),
        folder.join(store::ZONE_LIST).display()
    )
}

/// Opens a store on two files; creates it if both are empty.
pub fn open_on(
    tree: impl StorageBackend,
    log: impl StorageBackend,
    how: &TreeAccess<'_>,
) -> Result<OpenFiles, StoreError> {
    let names = paths(Path::new(""));
    let len = |file: &dyn StorageBackend| file.len().map_err(|error| store_error(error.into()));
    let tree = VerifiedFile::new(tree);
    if len(&tree)? == 0 && len(&log)? == 0 {
        return create_both(tree, Box::new(log), how);
    }
    let about = inspect(&tree).map_err(|why| placed(&names[0], why))?;
    open_both(tree, &about, log, [&names[0], &names[1]], how)
}

/// Verifies the whole tree and reads its header.
fn inspect(tree: &dyn StorageBackend) -> Result<TreeInfo, StoreError> {
    let about = contained(|| tree::inspect(tree))?;
    match about.form {
        None => Err(StoreError::Damaged("it is not a store".into())),
        Some(form) => form.check().map(|_| about).map_err(StoreError::Failed),
    }
}

/// Opens a tree that is verified, and gives it what its log has.
fn open_both<T: StorageBackend>(
    tree: VerifiedFile<T>,
    about: &TreeInfo,
    log: impl StorageBackend,
    [tree_path, log_path]: [&Path; 2],
    how: &TreeAccess<'_>,
) -> Result<OpenFiles, StoreError> {
    let of_log = |why| placed(log_path, why);
    let wal = Wal::open(Box::new(log), Some(about.store)).map_err(of_log)?;
    let behind = wal.behind(about.in_tree()).map_err(of_log)?;
    let open = || {
        let database = database(tree, how)?;
        let (revision, _) = read::log_of(&database)?;
        if revision != about.revision {
            let why = format!("revision {revision} is there, {} is verified", about.revision);
            return Err(StoreError::Damaged(why));
        }
        if !behind.writes.is_empty() {
            tracing::info!(writes = behind.writes.len(), "replaying the log of the store");
            // Sync first: the tree must not contain groups that the log might still lose.
            wal.sync().map_err(|error| store_error(error.into()))?;
            write::commit(&database, &behind.writes, behind.sequence).map_err(store_error)?;
        }
        Ok(database)
    };
    let database = contained(open).map_err(|why| placed(tree_path, why))?;
    let newest = behind.writes.last().map_or(about.revision, |write| write.revision);
    let form = about.form.unwrap_or(Form::OLDEST);
    wal.note(newest).map_err(|error| of_log(store_error(error.into())))?;
    Ok(OpenFiles { database, wal, form })
}

/// Opens the tree with redb.
fn database(file: impl StorageBackend, how: &TreeAccess<'_>) -> Result<Database, StoreError> {
    let mut builder = Builder::new();
    builder.set_cache_size(how.cache_bytes);
    let opened = builder.create_with_backend(PacedFile::new(file, Arc::clone(how.is_slow)));
    opened.map_err(|error| match error {
        DatabaseError::DatabaseAlreadyOpen => busy(),
        DatabaseError::UpgradeRequired(form) => {
            failed(&format!("it was written by redb's form {form}, which this version cannot read"))
        }
        error => store_error(error.into()),
    })
}

fn random() -> Result<StoreKey, StoreError> {
    let number = || getrandom::u64().map_err(|error| failed(&format!("no random: {error}")));
    Ok([number()?, number()?])
}

/// Creates a store in two empty files.
fn create_both(
    tree: impl StorageBackend,
    log: Box<dyn StorageBackend>,
    how: &TreeAccess<'_>,
) -> Result<OpenFiles, StoreError> {
    let store = random()?;
    let wal = Wal::create(log, store, Revision::NONE).map_err(|error| store_error(error.into()))?;
    let database = database(tree, how)?;
    let form = Form::PREVIOUS;
    write::create(&database, store, form).map_err(store_error)?;
    Ok(OpenFiles { database, wal, form })
}

/// Creates the files of a store; each is renamed once it is complete, the log first. A log without
/// tree and groups is an unfinished creation.
fn create(folder: &Path, how: &TreeAccess<'_>) -> Result<OpenFiles, StoreError> {
    let [tree, log] = paths(folder);
    let [tree_file, log_file] = [&tree, &log].map(|path| {
        let file = open_file(&beside(path), OpenMode::Create).map_err(unopened(path))?;
        lock(&file, OpenMode::Create).map_err(|why| placed(path, why))?;
        file.set_len(0).map_err(unopened(path))?;
        Ok::<_, StoreError>(file)
    });
    let made = create_both(VerifiedFile::new(tree_file?), Box::new(log_file?), how);
    let opened = made.map_err(|why| {
        [&tree, &log].into_iter().for_each(|path| drop(fs::remove_file(beside(path))));
        placed(&tree, why)
    })?;
    for path in [&log, &tree] {
        name(path)?;
    }
    Ok(opened)
}

/// Renames a complete file, unless the name exists.
fn name(path: &Path) -> Result<(), StoreError> {
    files::rename_new(&beside(path), path).map_err(|why| match why.kind() {
        io::ErrorKind::AlreadyExists => placed(path, busy()),
        _ => unopened(path)(why),
    })
}

/// Whether a log never had a group.
fn is_new(log: &Path) -> Result<bool, StoreError> {
    let file = open_file(log, OpenMode::Write).map_err(unopened(log))?;
    Ok(Wal::open(Box::new(file), None).is_ok_and(|wal| wal.is_new()))
}

#[cfg(test)]
mod tests;
