//! `dunlin import`: configs of other servers become one of ours.
use crate::cli::{ImportConfig, ImportContainerdns, ImportFrom};
use crate::limits::IMPORT_LEN_MAX;
use import_report::{Environment, ImportError, ImportRemark, ImportResult};
use std::error::Error;
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[cfg(feature = "etcd")]
mod etcd;
#[cfg(not(feature = "etcd"))]
use crate::parts::import_etcd as etcd;

/// Imports, tells what has no counterpart; the exit status says whether all has one.
///
/// # Errors
/// When it cannot be read, or the result not be written.
pub fn run(command: &crate::cli::Import) -> Result<ExitCode, Box<dyn Error>> {
    match &command.from {
        ImportFrom::Corefile(command) => config(command, "the Corefile", |name, text, here| {
            import_corefile::import(name, text, here)
        }),
        ImportFrom::Named(command) => config(command, "the named.conf", |name, text, here| {
            import_named::import(name, text, here)
        }),
        ImportFrom::Containerdns(command) => containerdns(command),
        ImportFrom::Etcd(command) => etcd::run(command),
    }
}

/// Imports the config of another server; `what`: its name in messages.
fn config(
    command: &ImportConfig,
    what: &str,
    import: impl FnOnce(&Path, &str, &Here) -> Result<ImportResult, ImportError>,
) -> Result<ExitCode, Box<dyn Error>> {
    let (name, text) = match &command.file {
        Some(file) => (file.clone(), read(file, IMPORT_LEN_MAX)),
        None => (PathBuf::from("-"), read_from(io::stdin().lock(), IMPORT_LEN_MAX)),
    };
    let text = text.map_err(|error| format!("{}: {error}", name.display()))?;
    let folder = name.parent().unwrap_or(Path::new("")).to_owned();
    let imported = import(&name, &text, &Here(folder))?;
    write_notes(&imported.notes)?;
    match &command.folder {
        Some(folder) => write_into(folder, &imported)?,
        None if imported.files.is_empty() && imported.secret_files.is_empty() => {
            io::stdout().write_all(imported.config.as_bytes())?;
        }
        None => {
            io::stdout().write_all(with_comments(&imported).as_bytes())?;
            let files = imported.files.iter().chain(&imported.secret_files);
            let names: Vec<&str> = files.map(|(name, _)| name.as_str()).collect();
            let names = names.join(", ");
            return Err(format!(
                "parts of {what} become files ({names}): the config has their lines as comments, \
                 but for keys; --folder FOLDER writes them"
            )
            .into());
        }
    }
    status(&imported.notes)
}

fn containerdns(command: &ImportContainerdns) -> Result<ExitCode, Box<dyn Error>> {
    let texts = command.files.iter().map(|file| {
        let name = file.display().to_string();
        match read(file, IMPORT_LEN_MAX) {
            Ok(text) => Ok((name, text)),
            Err(error) => Err(format!("{name}: {error}")),
        }
    });
    let imported = import_containerdns::import(&texts.collect::<Result<Vec<_>, _>>()?)?;
    write_notes(&imported.notes)?;
    io::stdout().write_all(imported.config.as_bytes())?;
    status(&imported.notes)
}

fn write_notes(notes: &[ImportRemark]) -> io::Result<()> {
    let mut log = io::stderr().lock();
    notes.iter().try_for_each(|note| writeln!(log, "{note}"))
}

/// Says how much is lost, also by the exit status.
fn status(notes: &[ImportRemark]) -> Result<ExitCode, Box<dyn Error>> {
    let lost = notes.iter().filter(|note| note.is_lost).count();
    if lost == 0 {
        return Ok(ExitCode::SUCCESS);
    }
    writeln!(io::stderr().lock(), "{lost} of these are lost: the config is without them")?;
    Ok(ExitCode::FAILURE)
}

/// The config after the files that it names, as comments.
fn with_comments(imported: &ImportResult) -> String {
    let mut page = String::new();
    for (name, text) in &imported.files {
        page += &format!("# Write these lines into the file `{name}` beside this config:\n");
        text.lines().for_each(|line| page += &format!("#   {line}\n"));
        page.push('\n');
    }
    for (name, _) in &imported.secret_files {
        page += &format!("# The file `{name}` beside this config has a key.\n\n");
    }
    page + &imported.config
}

/// Writes the config and what belongs to it. What is there already stays: it may be somebody's
/// work.
fn write_into(folder: &Path, imported: &ImportResult) -> Result<(), Box<dyn Error>> {
    fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let config = ("dunlin.toml".to_owned(), imported.config.clone());
    let public = imported.files.iter().chain([&config]).map(|file| (file, 0o666));
    let secret = imported.secret_files.iter().map(|file| (file, 0o600));
    for ((name, text), mode) in secret.chain(public) {
        let path = folder.join(name);
        let options = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(&path);
        let mut file = options.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => {
                format!("{}: it is already there: move it, or name another folder", path.display())
            }
            _ => format!("{}: {error}", path.display()),
        })?;
        let written = file.write_all(text.as_bytes());
        written.map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}

/// The environment and the files of this machine, and the folder of the imported config.
struct Here(PathBuf);

impl Environment for Here {
    fn variable(&self, name: &str) -> Option<String> {
        // A name that holds this would be no name, and asking for it a panic on some systems.
        let is_name = !name.is_empty() && !name.contains(['=', '\0']);
        is_name.then(|| std::env::var(name).ok()).flatten()
    }

    fn read(&self, file: &Path, len_max: usize) -> io::Result<String> {
        read(file, len_max)
    }

    fn find(&self, file: &Path) -> Option<PathBuf> {
        [self.0.join(file), file.to_owned()].into_iter().find_map(|file| file.canonicalize().ok())
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        let files = fs::read_dir(folder)?.map(|file| file.map(|file| file.path()));
        let mut files: Vec<PathBuf> = files.collect::<io::Result<_>>()?;
        files.sort();
        Ok(files)
    }
}

/// What a regular file holds: a pipe would be waited for.
fn read(file: &Path, len_max: usize) -> io::Result<String> {
    if !fs::metadata(file)?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    read_from(fs::File::open(file)?, len_max)
}

fn read_from(from: impl Read, len_max: usize) -> io::Result<String> {
    let mut bytes = Vec::new();
    from.take(len_max as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > len_max {
        return Err(io::Error::other(format!("it has more than {len_max} bytes")));
    }
    String::from_utf8(bytes).map_err(|_| io::Error::other("it is not UTF-8"))
}
