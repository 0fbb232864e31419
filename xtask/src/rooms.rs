//! The rooms of the house, as `cargo metadata` knows them.
use serde_json::Value;
use std::fmt::Write;
use std::path::PathBuf;
use std::process::Command;

/// One crate under `crates/`.
pub struct Room {
    pub name: String,
    pub directory: PathBuf,
    /// `core`, `plane`, `control`, `lab`, `binary`, or `test` for what only tests others.
    pub house: String,
    pub layer: u64,
    /// May not allocate, lock, sleep or print (I1).
    pub hot: bool,
    /// What it is built of; what only its tests use is left out.
    pub needs: Vec<String>,
}

/// Every room of the workspace, lowest layer first.
///
/// # Panics
/// When `cargo metadata` fails or a crate has no `[package.metadata.room]`.
pub fn load() -> Vec<Room> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version=1", "--no-deps", "--offline"])
        .current_dir(super::root())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo writes JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    let mut rooms: Vec<Room> =
        packages.iter().filter(|package| package["name"] != "xtask").map(room).collect();
    rooms.sort_by(|a, b| (a.layer, &a.name).cmp(&(b.layer, &b.name)));
    rooms
}

fn room(package: &Value) -> Room {
    let name = package["name"].as_str().expect("name").to_owned();
    let manifest = PathBuf::from(package["manifest_path"].as_str().expect("manifest_path"));
    let plate = &package["metadata"]["room"];
    let key = |key: &str| {
        plate.get(key).unwrap_or_else(|| panic!("{name}: [package.metadata.room] lacks `{key}`"))
    };
    Room {
        house: key("house").as_str().expect("a word").to_owned(),
        layer: key("layer").as_u64().expect("a number"),
        hot: key("hot").as_bool().expect("true or false"),
        needs: package["dependencies"]
            .as_array()
            .expect("dependencies")
            .iter()
            .filter(|need| need["kind"] != "dev")
            .map(|need| need["name"].as_str().expect("name").to_owned())
            .collect(),
        directory: manifest.parent().expect("a manifest lies in a directory").to_owned(),
        name,
    }
}

/// A line a room: layer, house, name, what of ours it stands on.
pub fn table(rooms: &[Room]) -> String {
    let mut text = String::new();
    for room in rooms {
        let ours: Vec<&str> = rooms
            .iter()
            .filter(|other| room.needs.contains(&other.name))
            .map(|other| other.name.as_str())
            .collect();
        let Room { layer, house, name, .. } = room;
        let hot = if room.hot { "hot" } else { "" };
        writeln!(text, "{layer}  {house:8} {hot:4} {name:12} {}", ours.join(" "))
            .expect("a String takes all");
    }
    text
}
