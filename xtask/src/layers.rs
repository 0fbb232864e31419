//! Every door leads downwards, and the hot rooms stay bare: invariants I1, I7 and I8.
use crate::rooms::Room;
use std::fs;
use std::path::{Path, PathBuf};

/// What a hot room may use of other people's: `no_std`, no allocation.
const HOT_NEEDS: [&str; 2] = ["sha1", "siphasher"];

/// I8: these live in control, adapters, streams and the binary only.
const HEAVY: [&str; 9] = [
    "axum",
    "etcd-client",
    "kube",
    "serde",
    "serde_json",
    "tokio",
    "toml",
    "tracing",
    "tracing-subscriber",
];

/// What is wrong with the rooms, a line each.
pub fn violations(rooms: &[Room]) -> Vec<String> {
    let mut wrong = Vec::new();
    for room in rooms {
        doors(room, rooms, &mut wrong);
        foreign(room, &mut wrong);
        if room.hot {
            bare(room, &mut wrong);
        }
        unsafety(room, &mut wrong);
    }
    wrong
}

/// Every edge goes to a lower layer, and plane and control meet only above both.
fn doors(room: &Room, rooms: &[Room], wrong: &mut Vec<String>) {
    for other in rooms.iter().filter(|other| room.needs.contains(&other.name)) {
        if other.layer >= room.layer {
            wrong.push(format!(
                "{} (layer {}) needs {} (layer {}): an edge must go to a lower layer",
                room.name, room.layer, other.name, other.layer
            ));
        }
        let may_meet = match room.house.as_str() {
            "core" => other.house == "core",
            "plane" | "control" => other.house == "core" || other.house == room.house,
            "lab" | "binary" | "test" => true,
            _ => false,
        };
        if !may_meet {
            wrong.push(format!(
                "{} (house {}) needs {} (house {}): only lab and dunlin may see both houses",
                room.name, room.house, other.name, other.house
            ));
        }
        if room.hot && !other.hot {
            wrong.push(format!("{} is hot and needs {}, which is not", room.name, other.name));
        }
    }
}

/// Other people's crates stay where they may be.
fn foreign(room: &Room, wrong: &mut Vec<String>) {
    let heavy_is_allowed = |need: &str| match room.house.as_str() {
        "lab" | "binary" | "test" => true,
        "control" => room.layer >= 4,
        "plane" => room.name == "plane" && need == "tokio", // its streams
        _ => false,
    };
    for need in &room.needs {
        if HEAVY.contains(&need.as_str()) && !heavy_is_allowed(need) {
            wrong.push(format!("I8: {} may not need {need}", room.name));
        }
    }
}

/// I1: a hot room has no `std`, no `alloc`, and needs nothing that has.
fn bare(room: &Room, wrong: &mut Vec<String>) {
    let lib = code(&room.directory.join("src/lib.rs"));
    if !lib.contains("#![no_std]") {
        wrong.push(format!("I1: {} is hot and lacks #![no_std]", room.name));
    }
    let tests = |file: &PathBuf| file.file_stem().is_some_and(|stem| stem == "tests");
    for file in sources(&room.directory.join("src")).into_iter().filter(|file| !tests(file)) {
        let text = code(&file).replace("#[cfg(test)]\nextern crate std;", "");
        let text = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
        for word in ["extern crate alloc", "extern crate std"] {
            if text.contains(word) {
                wrong.push(format!("I1: {}: `{word}` in a hot room", file.display()));
            }
        }
    }
    for need in &room.needs {
        let ours = room.directory.with_file_name(need).is_dir();
        if !ours && !HOT_NEEDS.contains(&need.as_str()) {
            wrong.push(format!("I1: {} is hot and may not need {need}", room.name));
        }
    }
}

/// I7: `unsafe` is where devices, the kernel and the snapshot pointer are, and nowhere else.
fn unsafety(room: &Room, wrong: &mut Vec<String>) {
    let name = room.name.as_str();
    let whole_room = matches!(name, "door" | "cpu" | "dunlin" | "lab")
        || name.starts_with("port-")
        || name.starts_with("lab-");
    if whole_room {
        return;
    }
    let src = room.directory.join("src");
    for file in sources(&src) {
        let prefetch = name == "packet" && file.ends_with("src/prefetch.rs");
        if !prefetch && has_word(&code(&file), "unsafe") {
            wrong.push(format!("I7: {}: `unsafe` in room {name}", file.display()));
        }
    }
    let forbids = code(&src.join("lib.rs")).contains("#![forbid(unsafe_code)]");
    if name != "packet" && !forbids {
        wrong.push(format!("I7: {name} lacks #![forbid(unsafe_code)]"));
    }
}

/// A source file without its line comments; empty when there is no such file.
fn code(file: &Path) -> String {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.lines()
        .map(|line| line.split_once("//").map_or(line, |(code, _)| code).trim_end())
        .filter(|line| !line.is_empty())
        .collect::<Vec<_>>()
        .join("\n")
}

fn has_word(text: &str, word: &str) -> bool {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').any(|found| found == word)
}

/// Every `.rs` file below a directory.
pub fn sources(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_door_leads_downwards() {
        let rooms = crate::rooms::load();
        assert!(rooms.iter().any(|room| room.name == "dunlin"), "the binary is a room");
        assert_eq!(violations(&rooms), Vec::<String>::new());
    }

    fn room(name: &str, house: &str, layer: u64, needs: &[&str]) -> Room {
        let needs = needs.iter().map(|need| (*need).to_owned()).collect();
        let directory = PathBuf::from("/nonexistent").join(name);
        Room { name: name.into(), directory, house: house.into(), layer, hot: false, needs }
    }

    /// What [`doors`] and [`foreign`] say of the last of these rooms.
    fn complaints(rooms: &[Room]) -> String {
        let mut wrong = Vec::new();
        let last = rooms.last().expect("a room");
        doors(last, rooms, &mut wrong);
        foreign(last, &mut wrong);
        wrong.join("\n")
    }

    #[test]
    fn a_wrong_edge_is_told() {
        let plane = room("plane", "plane", 3, &[]);
        let up = [plane, room("low", "plane", 3, &["plane"])];
        assert!(complaints(&up).contains("lower layer"), "{}", complaints(&up));

        let across = [room("port-x", "plane", 2, &[]), room("control", "control", 4, &["port-x"])];
        assert!(complaints(&across).contains("both houses"), "{}", complaints(&across));

        let heavy = [room("compile", "control", 3, &["serde"])];
        assert!(complaints(&heavy).contains("I8"), "{}", complaints(&heavy));

        let fine =
            [room("image", "core", 1, &[]), room("control", "control", 4, &["image", "tokio"])];
        assert_eq!(complaints(&fine), "");
    }

    #[test]
    fn words_are_whole_words() {
        assert!(has_word("unsafe { }", "unsafe"));
        assert!(!has_word("#![forbid(unsafe_code)]", "unsafe"));
    }
}
