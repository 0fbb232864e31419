//! What `make run` compiles: without the crates that only absent features need.
use crate::{crates, repository};
use std::collections::BTreeSet;
use std::path::Path;

/// Most crates of the demo that are not ours: each costs the first answer about a second. How our
/// own code is divided costs nothing.
const LIBRARIES_MAX: usize = 222;

/// Crates that only features need which the demo leaves out.
const ABSENT: [&str; 18] = [
    "aya",
    "cpus",
    "etcd-client",
    "etcd-link",
    "fleet-members",
    "fleet-state",
    "h2",
    "k8s-openapi",
    "keyspace",
    "kube-client",
    "port-xdp",
    "prost-build",
    "scale",
    "source-kube",
    "source-parts",
    "source-site",
    "store-etcd",
    "tonic",
];

/// The crates that a build with these flags compiles.
///
/// # Panics
/// When `cargo tree` fails.
fn built_crates(root: &Path, flags: &[&str]) -> BTreeSet<String> {
    let output = repository::cargo()
        .args(["tree", "--locked", "--package", "dunlin", "--edges", "normal,build"])
        .args(["--prefix", "none", "--format", "{p}"])
        .args(flags)
        .current_dir(root)
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    // A name, a version, and what else there is to say.
    let name = |line: &str| line.split(' ').take(2).collect::<Vec<_>>().join(" ");
    text.lines().filter(|line| !line.is_empty()).map(name).collect()
}

fn names(of: &BTreeSet<String>) -> BTreeSet<&str> {
    of.iter().filter_map(|one| one.split(' ').next()).collect()
}

#[test]
fn demo_is_built_without_what_only_absent_features_need() {
    let root = crate::root();
    let demo = built_crates(&root, &["--no-default-features", "--features", "demo"]);
    let names_of_demo = names(&demo);
    let there: Vec<_> = ABSENT.iter().filter(|one| names_of_demo.contains(**one)).collect();
    assert_eq!(there, [&""; 0]);
    let own: BTreeSet<_> = crates::load().into_iter().map(|one| one.name).collect();
    let libraries: Vec<_> = names_of_demo.iter().filter(|one| !own.contains(**one)).collect();
    assert!(libraries.len() <= LIBRARIES_MAX, "{} libraries: {libraries:?}", libraries.len());
    let all = built_crates(&root, &[]);
    let missing: Vec<_> = ABSENT.iter().filter(|one| !names(&all).contains(**one)).collect();
    assert_eq!(missing, [&""; 0], "a release has all features");
}
