//! The crates of the workspace, as `cargo metadata` reports them.
use crate::repository;
use serde_json::Value;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Where a crate lies, lowest layer first. A crate depends on its own layer and on lower ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layer {
    /// `crates/core`: pure functions, without allocation.
    Core,
    /// `crates/kernel`: requests to the kernel and programs in it, without DNS.
    Kernel,
    /// `crates/dataplane`: what runs per packet.
    DataPlane,
    /// `crates/control`: what may allocate and wait.
    Control,
    /// `crates/node`: what runs on a node beside the server.
    Node,
    /// `crates/dunlin`: the server's binary.
    Binary,
    /// `lab`: the benchmark lab, which the server is not linked with.
    Lab,
    /// `testing`: what tests the others.
    Testing,
}

/// Folders of crates, relative to the root.
const FOLDERS: [(&str, Layer); 8] = [
    ("crates/core", Layer::Core),
    ("crates/kernel", Layer::Kernel),
    ("crates/dataplane", Layer::DataPlane),
    ("crates/control", Layer::Control),
    ("crates/node", Layer::Node),
    ("crates/dunlin", Layer::Binary),
    ("lab", Layer::Lab),
    ("testing", Layer::Testing),
];

/// A crate of the workspace.
pub struct Crate {
    pub name: String,
    pub directory: PathBuf,
    pub layer: Layer,
    /// Its dependencies, without those of its tests and of its build script.
    pub dependencies: Vec<String>,
}

/// Every crate of the workspace but this one, by layer and name.
///
/// # Panics
/// When `cargo metadata` fails or a crate lies in none of the folders.
pub fn load() -> Vec<Crate> {
    let output = repository::cargo()
        .args(["metadata", "--format-version=1", "--no-deps", "--offline"])
        .current_dir(super::root())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo writes JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    let mut crates: Vec<Crate> =
        packages.iter().filter(|package| package["name"] != "xtask").map(read).collect();
    crates.sort_by(|a, b| (a.layer, &a.name).cmp(&(b.layer, &b.name)));
    crates
}

fn read(package: &Value) -> Crate {
    let name = package["name"].as_str().expect("name").to_owned();
    let manifest = PathBuf::from(package["manifest_path"].as_str().expect("manifest_path"));
    let directory = manifest.parent().expect("a manifest lies in a directory").to_owned();
    let layer = layer(&super::root(), &directory);
    Crate {
        layer: layer.unwrap_or_else(|| panic!("{name} lies in none of the folders of a layer")),
        dependencies: package["dependencies"]
            .as_array()
            .expect("dependencies")
            .iter()
            .filter(|dependency| dependency["kind"].is_null())
            .map(|dependency| dependency["name"].as_str().expect("name").to_owned())
            .collect(),
        directory,
        name,
    }
}

fn layer(root: &Path, directory: &Path) -> Option<Layer> {
    let path = directory.strip_prefix(root).ok()?;
    FOLDERS.iter().find(|(folder, _)| path.starts_with(folder)).map(|(_, layer)| *layer)
}

/// The directory of a crate by its name.
pub fn directory<'c>(crates: &'c [Crate], name: &str) -> Option<&'c Path> {
    crates.iter().find(|one| one.name == name).map(|one| one.directory.as_path())
}

/// A line for each crate: its layer, its name, and the crates of ours that it depends on.
pub fn table(crates: &[Crate]) -> String {
    let mut text = String::new();
    for one in crates {
        let is_ours = |name: &&String| directory(crates, name).is_some();
        let ours: Vec<&str> = one.dependencies.iter().filter(is_ours).map(String::as_str).collect();
        let layer = format!("{:?}", one.layer).to_lowercase();
        writeln!(text, "{layer:9}  {:16} {}", one.name, ours.join(" ")).expect("memory");
    }
    text
}
