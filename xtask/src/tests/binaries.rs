//! The test binaries of the workspace, as cargo builds them.
use crate::repository::cargo;
use serde_json::Value;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// A built test binary.
#[derive(Debug)]
pub struct Binary {
    /// The folder of its package, which it is run in.
    pub folder: PathBuf,
    /// `crates/core/wire` for unit tests, `crates/core/wire all` for integration tests,
    /// `crates/dunlin bin dunlin` for those of a program.
    pub label: String,
    pub executable: PathBuf,
    /// It has the tests of a folder `tests`, not those beside the code.
    pub is_integration: bool,
}

/// Builds all tests; what the compiler reports goes to standard error.
///
/// # Errors
/// Cargo cannot be started, or a crate does not compile.
pub fn build(root: &Path) -> io::Result<Vec<Binary>> {
    let mut building = cargo()
        .args(["test", "--workspace", "--no-run", "--message-format=json-render-diagnostics"])
        .current_dir(root)
        .stdout(Stdio::piped())
        .spawn()?;
    let messages = BufReader::new(building.stdout.take().expect("a pipe"));
    let mut binaries = Vec::new();
    for line in messages.lines() {
        binaries.extend(binary(root, &serde_json::from_str(&line?)?));
    }
    match building.wait()?.success() {
        true => Ok(binaries),
        false => Err(io::Error::other("the tests do not compile")),
    }
}

/// The test binary that a message of cargo is about.
fn binary(root: &Path, message: &Value) -> Option<Binary> {
    let executable = message["executable"].as_str()?;
    if message["profile"]["test"] != true {
        return None;
    }
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?;
    let kind = message["target"]["kind"][0].as_str()?;
    let is_integration = kind == "test";
    let package = folder.strip_prefix(root).unwrap_or(folder).display();
    let label = match (kind, message["target"]["name"].as_str()?) {
        ("test", name) => format!("{package} {name}"),
        ("lib", _) => package.to_string(),
        (kind, name) => format!("{package} {kind} {name}"),
    };
    Some(Binary { folder: folder.to_owned(), label, executable: executable.into(), is_integration })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn messages_about_test_binaries_are_read() {
        let message = |kind: &str, test: bool, executable: Value| {
            json!({ "manifest_path": "/root/crates/core/wire/Cargo.toml", "executable": executable,
                "profile": { "test": test }, "target": { "kind": [kind], "name": "all" } })
        };
        let read = |message| binary(Path::new("/root"), &message).map(|found| found.label);
        assert_eq!(read(message("test", true, json!("/a"))), Some("crates/core/wire all".into()));
        assert_eq!(read(message("lib", true, json!("/a"))), Some("crates/core/wire".into()));
        let program = read(message("bin", true, json!("/a")));
        assert_eq!(program, Some("crates/core/wire bin all".into()));
        assert_eq!(read(message("bin", false, json!("/a"))), None);
        assert_eq!(read(message("lib", true, Value::Null)), None);
    }
}
