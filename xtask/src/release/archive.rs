//! Archives that depend on their content alone: sorted, with one time, and without the names of
//! those who made them.
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::process::{Command, Stdio};

/// Bytes of a header, and what the content of a file is rounded up to.
const BLOCK: usize = 512;
/// Maximum bytes of a path in the header of a ustar archive.
const PATH_MAX: usize = 100;

/// A file or folder of an archive.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Permissions.
    pub mode: u32,
    /// User and group.
    pub owner: u32,
    /// The content of a file; `None`: a folder.
    pub content: Option<Vec<u8>>,
}

/// Files and folders by path, without a slash at either end. Sorted, so a folder comes before what
/// is in it.
pub type Tree = BTreeMap<String, Entry>;

/// Adds a file of root.
pub fn add_file(tree: &mut Tree, path: &str, mode: u32, content: Vec<u8>) {
    add(tree, path, Entry { mode, owner: 0, content: Some(content) });
}

/// Adds a file or folder, and the folders above it.
pub fn add(tree: &mut Tree, path: &str, entry: Entry) {
    for (at, _) in path.match_indices('/') {
        let above = Entry { mode: 0o755, owner: 0, content: None };
        tree.entry(path[..at].into()).or_insert(above);
    }
    tree.insert(path.into(), entry);
}

/// A tar archive (POSIX.1-1988 ustar). All times are `time`, seconds since 1970.
///
/// # Errors
/// A path is too long for the header.
pub fn tar(tree: &Tree, time: u64) -> io::Result<Vec<u8>> {
    let mut archive = Vec::new();
    for (path, entry) in tree {
        let (kind, size) = match &entry.content {
            Some(content) => (b'0', content.len()),
            None => (b'5', 0),
        };
        let slash = if kind == b'5' { "/" } else { "" };
        let name = format!("{path}{slash}");
        if name.len() > PATH_MAX {
            return Err(io::Error::other(format!("{name}: more than {PATH_MAX} bytes in a path")));
        }
        let mut header = [0; BLOCK];
        let mut put =
            |at: usize, text: &str| header[at..at + text.len()].copy_from_slice(text.as_bytes());
        put(0, &name);
        put(100, &format!("{:07o}", entry.mode));
        put(108, &format!("{:07o}", entry.owner));
        put(116, &format!("{:07o}", entry.owner));
        put(124, &format!("{size:011o}"));
        put(136, &format!("{time:011o}"));
        put(148, "        ");
        put(257, "ustar\x0000");
        header[156] = kind;
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        archive.extend(header);
        archive.extend(entry.content.iter().flatten());
        archive.resize(archive.len().next_multiple_of(BLOCK), 0);
    }
    archive.resize(archive.len() + 2 * BLOCK, 0);
    Ok(archive)
}

/// Compresses by gzip, without a name and a time.
///
/// # Errors
/// There is no gzip, or it fails.
pub fn gzip(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut gzip = Command::new("gzip");
    gzip.args(["-9", "--no-name"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = gzip.spawn().map_err(|error| io::Error::other(format!("gzip: {error}")))?;
    let mut input = child.stdin.take().expect("a pipe");
    let output = std::thread::scope(|scope| {
        let writer = scope.spawn(move || input.write_all(bytes));
        let output = child.wait_with_output();
        writer.join().expect("it does not panic").and(output)
    })?;
    match output.status.success() {
        true => Ok(output.stdout),
        false => Err(io::Error::other(format!("gzip: {}", output.status))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> Tree {
        let mut tree = Tree::new();
        add_file(&mut tree, "usr/bin/dunlin", 0o755, b"program".to_vec());
        add_file(&mut tree, "etc/dunlin/dunlin.toml", 0o644, vec![b'#'; 513]);
        tree
    }

    #[test]
    fn tar_reads_what_was_written_in_order() {
        let folder = std::env::temp_dir().join(format!("dunlin-tar-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let file = folder.join("a.tar");
        std::fs::write(&file, tar(&tree(), 1_700_000_000).expect("short paths")).expect("a file");
        let mut list = Command::new("tar");
        list.env("TZ", "UTC").arg("--numeric-owner").arg("-tvf").arg(&file);
        let listed = list.output().expect("tar");
        std::fs::remove_dir_all(&folder).expect("a folder of ours");
        let expected = "\
drwxr-xr-x 0/0               0 2023-11-14 22:13 etc/
drwxr-xr-x 0/0               0 2023-11-14 22:13 etc/dunlin/
-rw-r--r-- 0/0             513 2023-11-14 22:13 etc/dunlin/dunlin.toml
drwxr-xr-x 0/0               0 2023-11-14 22:13 usr/
drwxr-xr-x 0/0               0 2023-11-14 22:13 usr/bin/
-rwxr-xr-x 0/0               7 2023-11-14 22:13 usr/bin/dunlin
";
        assert_eq!(String::from_utf8_lossy(&listed.stdout), expected);
        assert_eq!(String::from_utf8_lossy(&listed.stderr), "");
    }

    #[test]
    fn path_that_does_not_fit_is_refused() {
        let mut long = Tree::new();
        add_file(&mut long, &"x".repeat(101), 0o644, Vec::new());
        let error = tar(&long, 0).expect_err("too long").to_string();
        assert!(error.ends_with("more than 100 bytes in a path"), "{error}");
    }

    #[test]
    fn compressed_bytes_have_neither_time_nor_name() {
        let bytes = gzip(&vec![7; 1 << 20]).expect("gzip");
        assert_eq!(bytes[..8], [0x1f, 0x8b, 8, 0, 0, 0, 0, 0], "flags and time");
    }
}
