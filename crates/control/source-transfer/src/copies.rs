//! Copies of transferred zones on disk, in the form of `source-file`'s copies (invariant I10). The
//! time of a file's last change is when its primary confirmed it last.
use compile::Zone;
use durable::files::Folder;
use image::HashKey;
use source_file::saved;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use wire::Name;

/// The folder of the copies in `[server] data_dir`.
const FOLDER: &str = "transferred";
/// The mode of a copy.
const MODE: u32 = 0o640;

/// The copies of one server.
#[derive(Debug)]
pub struct Copies {
    folder: PathBuf,
    /// What follows the name of a copy while it is written: two processes of a hot restart may both
    /// write.
    suffix: String,
}

impl Copies {
    /// In this data folder.
    pub fn new(data_dir: &Path) -> Self {
        Self { folder: data_dir.join(FOLDER), suffix: format!(".new.{}", std::process::id()) }
    }

    fn path(&self, origin: Name<'_>) -> PathBuf {
        saved::path(&self.folder, origin)
    }

    /// Reads the copy of a zone, with the time since it was confirmed; `None`: there is none.
    ///
    /// # Errors
    /// The file, and why it is not used.
    pub fn read(
        &self,
        origin: Name<'_>,
        key: &Arc<HashKey>,
    ) -> Result<Option<(Zone, Duration)>, String> {
        let Some((zone, _)) = saved::read(&self.folder, origin, key)? else { return Ok(None) };
        let path = self.path(origin);
        let changed = path.metadata().and_then(|data| data.modified());
        let changed = changed.map_err(|why| format!("{}: {why}", path.display()))?;
        // A time in the future is that of a clock which was set back.
        Ok(Some((zone, changed.elapsed().unwrap_or_default())))
    }

    /// Replaces the copy of a zone; the old one stays until the new one is complete and durable.
    ///
    /// # Errors
    /// The file, and why it is not written.
    pub fn write(&self, zone: &Zone) -> Result<(), String> {
        let path = self.path(zone.origin());
        let name = PathBuf::from(path.file_name().unwrap_or_default());
        let mut temporary = name.as_os_str().to_owned();
        temporary.push(&self.suffix);
        let write = |file: &mut File| saved::write(zone, None, file);
        let folder = Folder::create_below(&self.folder);
        folder
            .and_then(|folder| folder.replace_by(Path::new(&temporary), &name, MODE, write))
            .map_err(|why: io::Error| format!("{} is not written: {why}", path.display()))
    }

    /// Notes that the primary has just confirmed the copy of a zone.
    ///
    /// # Errors
    /// The file, and why it cannot be noted.
    pub fn confirm(&self, origin: Name<'_>) -> Result<(), String> {
        let path = self.path(origin);
        let file = File::options().append(true).open(&path);
        file.and_then(|file| file.set_modified(SystemTime::now()))
            .map_err(|why| format!("{}: its time cannot be set: {why}", path.display()))
    }
}
