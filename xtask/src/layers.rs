//! A crate depends on its own layer and on lower ones, the core stays bare, and only the zone
//! manager publishes images: invariants I1, I5, I7 and I8.
use crate::crates::{Crate, Layer, directory};
use std::fs;
use std::path::{Path, PathBuf};

/// Libraries that core crates may depend on: `no_std`, without allocation.
const CORE_LIBRARIES: [&str; 2] = ["sha1", "siphasher"];

/// I8: libraries for the layers from control upwards.
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

/// The crates that may depend on those of the kernel, which have no DNS in them.
const KERNEL_USERS: [&str; 7] =
    ["anycast", "bpf", "fabric", "lab-echo", "lab-fabric", "lab-load", "port-xdp"];

/// What is wrong, a line each.
pub fn violations(crates: &[Crate]) -> Vec<String> {
    let mut wrong = Vec::new();
    for one in crates {
        check_direction(one, crates, &mut wrong);
        check_libraries(one, crates, &mut wrong);
        if one.layer == Layer::Core {
            check_bare(one, &mut wrong);
        }
        check_unsafe(one, &mut wrong);
        check_publishing(one, &mut wrong);
    }
    check_control_plane(crates, &mut wrong);
    wrong
}

/// Dependencies lead to the same layer or a lower one. Cargo itself refuses circles.
fn check_direction(one: &Crate, crates: &[Crate], wrong: &mut Vec<String>) {
    for other in crates.iter().filter(|other| one.dependencies.contains(&other.name)) {
        if other.layer > one.layer {
            wrong.push(format!(
                "{} ({:?}) depends on {} ({:?}), which lies in a higher layer",
                one.name, one.layer, other.name, other.layer
            ));
        }
        if other.layer == Layer::Kernel && !KERNEL_USERS.contains(&one.name.as_str()) {
            wrong.push(format!("{} is none of the users of {}", one.name, other.name));
        }
        if one.layer == Layer::Kernel && other.layer == Layer::Core {
            wrong.push(format!("{} depends on {}: it has no DNS in it", one.name, other.name));
        }
    }
}

/// The crates of the control plane depend on each other as `ARCHITECTURE.md` draws it: a helper
/// that is needed at two places gets a crate for its subject.
fn check_control_plane(crates: &[Crate], wrong: &mut Vec<String>) {
    let page = fs::read_to_string(crate::root().join("ARCHITECTURE.md")).unwrap_or_default();
    let drawn = page.split(CONTROL_PLANE_HEADING).nth(1).unwrap_or_default();
    let drawn: Vec<&str> = drawn.split("```").nth(1).unwrap_or_default().lines().skip(1).collect();
    let found = control_plane(crates);
    for line in found.iter().filter(|line| !drawn.contains(&line.as_str())) {
        wrong.push(format!("ARCHITECTURE.md does not draw: {line}"));
    }
    for line in drawn.iter().filter(|line| !found.iter().any(|found| found == *line)) {
        wrong.push(format!("ARCHITECTURE.md draws what is not there: {line}"));
    }
}

const CONTROL_PLANE_HEADING: &str = "### The crates of the control plane";

/// A line for each crate of the control plane: its name, and those of this layer that it depends
/// on. One that depends on no crate of the lines after it comes first.
fn control_plane(crates: &[Crate]) -> Vec<String> {
    let is_control =
        |name: &str| crates.iter().any(|one| one.name == name && one.layer == Layer::Control);
    let mut left: Vec<(&str, Vec<&str>)> = crates
        .iter()
        .filter(|one| one.layer == Layer::Control)
        .map(|one| {
            let below = one.dependencies.iter().map(String::as_str);
            (one.name.as_str(), below.filter(|name| is_control(name)).collect())
        })
        .collect();
    let mut lines: Vec<String> = Vec::new();
    let mut done: Vec<&str> = Vec::new();
    while !left.is_empty() {
        // Cargo refuses circles, so there is one.
        let is_free = |(_, below): &(&str, Vec<&str>)| below.iter().all(|name| done.contains(name));
        let (free, others): (Vec<_>, Vec<_>) = left.into_iter().partition(is_free);
        for (name, below) in &free {
            lines.push(format!("{name:<15} {}", below.join(" ")).trim_end().to_owned());
        }
        done.extend(free.iter().map(|(name, _)| *name));
        left = others;
    }
    lines
}

/// Libraries stay in the layers that may have them (I1, I8).
fn check_libraries(one: &Crate, crates: &[Crate], wrong: &mut Vec<String>) {
    for library in one.dependencies.iter().filter(|name| directory(crates, name).is_none()) {
        let library = library.as_str();
        if HEAVY.contains(&library) && one.layer < Layer::Control {
            wrong.push(format!("I8: {} may not depend on {library}", one.name));
        }
        if one.layer == Layer::Core && !CORE_LIBRARIES.contains(&library) {
            wrong.push(format!("I1: {} may not depend on {library}", one.name));
        }
    }
}

/// I1: core crates have neither `std` nor `alloc`.
fn check_bare(one: &Crate, wrong: &mut Vec<String>) {
    let lib = code(&one.directory.join("src/lib.rs"));
    if !lib.contains("#![no_std]") {
        wrong.push(format!("I1: {} lacks #![no_std]", one.name));
    }
    let tests = |file: &PathBuf| file.file_stem().is_some_and(|stem| stem == "tests");
    for file in sources(&one.directory.join("src")).into_iter().filter(|file| !tests(file)) {
        let text = code(&file).replace("#[cfg(test)]\nextern crate std;", "");
        let text = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
        for word in ["extern crate alloc", "extern crate std"] {
            if text.contains(word) {
                wrong.push(format!("I1: {}: `{word}`", file.display()));
            }
        }
    }
}

/// I7: `unsafe` stays where devices, the kernel and the snapshot pointer are.
fn check_unsafe(one: &Crate, wrong: &mut Vec<String>) {
    let name = one.name.as_str();
    let outside =
        ["sync", "cpu", "process", "anycast", "server", "dunlin-lab", "lab", "test-support"];
    let may_be_unsafe =
        outside.contains(&name) || name.starts_with("port-") || name.starts_with("lab-");
    if may_be_unsafe {
        return;
    }
    let src = one.directory.join("src");
    for file in sources(&src) {
        let prefetch = name == "packet" && file.ends_with("src/prefetch.rs");
        if !prefetch && has_word(&code(&file), "unsafe") {
            wrong.push(format!("I7: {}: `unsafe` in {name}", file.display()));
        }
    }
    let forbids = code(&src.join("lib.rs")).contains("#![forbid(unsafe_code)]");
    if name != "packet" && !forbids {
        wrong.push(format!("I7: {name} lacks #![forbid(unsafe_code)]"));
    }
}

/// Only the zone manager publishes images and judges content: sources have a sender of updates, and
/// others its one function.
fn check_publishing(one: &Crate, wrong: &mut Vec<String>) {
    if one.name == "zone-manager" {
        return;
    }
    for file in sources(&one.directory.join("src")) {
        let (code, file) = (code(&file), file.display());
        if code.contains("Publisher<Image>") {
            wrong.push(format!("{file}: only zone-manager may have a `Publisher<Image>`"));
        }
        for word in ["LOSS_MIN", "HoldEntry", "is_loss("] {
            if code.contains(word) && one.layer <= Layer::Node {
                wrong.push(format!("{file}: `{word}`: only `zone_manager::hold::judge` judges"));
            }
        }
    }
}

/// The crates with a production type that is a source of the zone manager.
#[cfg(test)]
fn crates_with_sources(crates: &[Crate]) -> Vec<&str> {
    let has_one = |file: &PathBuf| {
        let code = code(file);
        let code = code.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
        code.lines().any(|line| line.starts_with("impl Source for "))
    };
    let is_there = |one: &&Crate| sources(&one.directory.join("src")).iter().any(has_one);
    crates.iter().filter(is_there).map(|one| one.name.as_str()).collect()
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
        // A folder of build outputs has files of others.
        if path.is_dir() && !path.ends_with("target") {
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
    fn every_dependency_leads_downwards() {
        let crates = crate::crates::load();
        assert!(crates.iter().any(|one| one.name == "dunlin"), "the binary is a crate");
        assert_eq!(violations(&crates), Vec::<String>::new());
        let mut sources = crates_with_sources(&crates);
        sources.sort_unstable();
        let expected = ["records", "source-file", "source-kube", "source-parts", "zone-manager"];
        assert_eq!(sources, expected);
    }

    fn example(name: &str, layer: Layer, dependencies: &[&str]) -> Crate {
        let dependencies = dependencies.iter().map(|one| (*one).to_owned()).collect();
        let directory = PathBuf::from("/nonexistent").join(name);
        Crate { name: name.into(), directory, layer, dependencies }
    }

    /// What is said of the last of these crates.
    fn complaints(crates: &[Crate]) -> String {
        let mut wrong = Vec::new();
        let last = crates.last().expect("a crate");
        check_direction(last, crates, &mut wrong);
        check_libraries(last, crates, &mut wrong);
        wrong.join("\n")
    }

    #[test]
    fn a_wrong_dependency_is_reported() {
        let up = [
            example("zones", Layer::Control, &[]),
            example("worker", Layer::DataPlane, &["zones"]),
        ];
        assert!(complaints(&up).contains("higher layer"), "{}", complaints(&up));
        let kernel = [
            example("wire", Layer::Core, &[]),
            example("netlink", Layer::Kernel, &["wire"]),
            example("worker", Layer::DataPlane, &["netlink"]),
        ];
        assert!(complaints(&kernel[..2]).contains("no DNS"), "{}", complaints(&kernel[..2]));
        assert!(complaints(&kernel).contains("none of the users"), "{}", complaints(&kernel));
        let heavy = [example("worker", Layer::DataPlane, &["serde"])];
        assert!(complaints(&heavy).contains("I8"), "{}", complaints(&heavy));
        let core = [example("wire", Layer::Core, &["libc"])];
        assert!(complaints(&core).contains("I1"), "{}", complaints(&core));
        let fine = [
            example("image", Layer::Core, &["siphasher"]),
            example("zones", Layer::Control, &["image", "tokio"]),
        ];
        assert_eq!(complaints(&fine), "");
    }

    #[test]
    fn words_are_whole_words() {
        assert!(has_word("unsafe { }", "unsafe"));
        assert!(!has_word("#![forbid(unsafe_code)]", "unsafe"));
    }
}
