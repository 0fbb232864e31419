//! Checksums of all files, and their signature.
use super::oci::sha256;
use super::run;
use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;

/// The file of checksums, in the format of `sha256sum`.
pub const FILE: &str = "SHA256SUMS";
/// What signatures are for; a signature for something else is refused (`ssh-keygen -Y`).
pub const NAMESPACE: &str = "dunlin-release";

/// Writes the checksums of the files of a folder.
///
/// # Errors
/// A file cannot be read or written.
pub fn write(folder: &Path) -> io::Result<()> {
    let mut lines = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if !name.starts_with(FILE) {
            lines.push(format!("{}  {name}\n", sha256(&fs::read(folder.join(&name))?)));
        }
    }
    // By name.
    lines.sort_by(|a, b| a[64..].cmp(&b[64..]));
    fs::write(folder.join(FILE), lines.concat())
}

/// Signs the checksums by an SSH key: `SHA256SUMS.sig`.
///
/// # Errors
/// The file is not a key, or its passphrase is not given.
pub fn sign(folder: &Path, key: &Path) -> io::Result<()> {
    let signature = folder.join(format!("{FILE}.sig"));
    // ssh-keygen would ask whether it may write over it.
    if signature.exists() {
        fs::remove_file(&signature)?;
    }
    let mut sign = Command::new("ssh-keygen");
    sign.args(["-q", "-Y", "sign", "-n", NAMESPACE, "-f"]).arg(key).arg(folder.join(FILE));
    run(&mut sign).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::path::PathBuf;

    /// The commands with which a reader verifies a release, in `folder`; whether they succeed.
    fn verify(folder: &Path) -> (bool, bool) {
        let succeeds = |command: &mut Command| {
            let output = command.current_dir(folder).output().expect("it runs");
            output.status.success()
        };
        let sums = succeeds(Command::new("sha256sum").args(["--check", "--quiet", FILE]));
        let mut verify = Command::new("ssh-keygen");
        verify.args(["-Y", "verify", "-f", "allowed_signers", "-I", "release@dunlin.example"]);
        verify.args(["-n", NAMESPACE, "-s", "SHA256SUMS.sig"]);
        verify.stdin(File::open(folder.join(FILE)).expect("a file"));
        (sums, succeeds(&mut verify))
    }

    /// A folder with a key that lives as long as the test.
    fn folder() -> PathBuf {
        let folder = std::env::temp_dir().join(format!("dunlin-sums-{}", std::process::id()));
        drop(fs::remove_dir_all(&folder));
        fs::create_dir_all(folder.join("release")).expect("a folder");
        let mut keygen = Command::new("ssh-keygen");
        keygen.args(["-q", "-t", "ed25519", "-N", "", "-C", "", "-f"]).arg(folder.join("key"));
        run(&mut keygen).expect("ssh-keygen");
        folder
    }

    #[test]
    fn signed_sums_verify_until_a_file_or_the_sums_change() {
        let folder = folder();
        let release = folder.join("release");
        fs::write(release.join("b.deb"), "b").expect("a file");
        fs::write(release.join("a.tgz"), "a").expect("a file");
        for _ in 0..2 {
            write(&release).expect("sums");
            sign(&release, &folder.join("key")).expect("a signature");
        }
        let public = fs::read_to_string(folder.join("key.pub")).expect("a key");
        let signers = format!("release@dunlin.example {public}");
        fs::write(release.join("allowed_signers"), signers).expect("a file");
        let sums = fs::read_to_string(release.join(FILE)).expect("sums");
        let names: Vec<&str> = sums.lines().map(|line| &line[66..]).collect();
        assert_eq!(names, ["a.tgz", "b.deb"]);
        assert_eq!(verify(&release), (true, true));
        fs::write(release.join("a.tgz"), "A").expect("a file");
        assert_eq!(verify(&release), (false, true), "a changed file");
        write(&release).expect("sums");
        assert!(!verify(&release).1, "changed sums");
        fs::remove_dir_all(folder).expect("a folder of ours");
    }
}
