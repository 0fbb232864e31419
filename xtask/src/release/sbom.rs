//! The software bill of materials of a program, in CycloneDX 1.6: the crates that are linked into
//! it for its architecture, and what needs what.
use super::About;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;

/// How `cargo tree` writes a line: the depth, the crate and its license.
pub const FORMAT: &str = "{p}\t{l}";
/// Where sources of other crates lie for the compiler (`--remap-path-prefix`).
const SOURCES: &[u8] = b"/cargo/registry/src/";

/// A crate by name and version.
type Id = (String, String);

/// A crate that is linked.
#[derive(Debug, Default, PartialEq, Eq)]
struct Linked {
    /// An expression of SPDX; empty: none is known.
    license: String,
    /// It comes from crates.io, not from this workspace.
    is_foreign: bool,
    needs: BTreeSet<Id>,
}

/// The crates below `program`, of the output of `cargo tree --prefix depth --format FORMAT`.
fn read_tree(text: &str, program: &str) -> BTreeMap<Id, Linked> {
    let mut found = BTreeMap::<Id, Linked>::new();
    // A crate that was shown is not shown again with what it needs, wherever it stands.
    let mut all = BTreeMap::<Id, Linked>::new();
    let mut above: Vec<Id> = Vec::new();
    for line in text.lines() {
        let digits = line.len() - line.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (depth, rest) = line.split_at(digits);
        let Ok(depth) = depth.parse::<usize>() else { continue };
        let (named, license) = rest.split_once('\t').unwrap_or((rest, ""));
        let mut words = named.split(' ');
        let (Some(name), Some(version)) = (words.next(), words.next()) else { continue };
        let id = (name.to_owned(), version.trim_start_matches('v').to_owned());
        above.truncate(depth);
        if let Some(parent) = above.last() {
            all.entry(parent.clone()).or_default().needs.insert(id.clone());
        }
        let linked = all.entry(id.clone()).or_default();
        linked.license = license.trim_end_matches(" (*)").replace('/', " OR ");
        linked.is_foreign = !named.contains(" (/");
        above.push(id);
    }
    let mut open: Vec<Id> = all.keys().filter(|(name, _)| name == program).cloned().collect();
    while let Some(id) = open.pop() {
        if let Some(linked) = all.remove(&id) {
            open.extend(linked.needs.iter().cloned());
            found.insert(id, linked);
        }
    }
    found
}

/// Checksums of crates, of `Cargo.lock`.
fn read_lock(text: &str) -> HashMap<Id, String> {
    let field = |package: &str, key: &str| {
        let start = format!("{key} = \"");
        let line = package.lines().find_map(|line| line.strip_prefix(&start))?;
        Some(line.trim_end_matches('"').to_owned())
    };
    let packages = text.split("[[package]]\n").skip(1);
    let read = packages.filter_map(|package| {
        let id = (field(package, "name")?, field(package, "version")?);
        Some((id, field(package, "checksum")?))
    });
    read.collect()
}

fn reference((name, version): &Id, linked: &Linked) -> String {
    match linked.is_foreign {
        true => format!("pkg:cargo/{name}@{version}"),
        // No URL of a package: crates.io may have another crate of this name.
        false => format!("workspace:{name}@{version}"),
    }
}

fn component(id: &Id, linked: &Linked, checksums: &HashMap<Id, String>) -> Value {
    let reference = reference(id, linked);
    let mut component = json!({
        "type": "library",
        "bom-ref": reference,
        "name": id.0,
        "version": id.1,
    });
    if !linked.license.is_empty() {
        component["licenses"] = json!([{ "expression": linked.license }]);
    }
    if linked.is_foreign {
        component["purl"] = reference.into();
    }
    if let Some(checksum) = checksums.get(id) {
        component["hashes"] = json!([{ "alg": "SHA-256", "content": checksum }]);
    }
    component
}

/// The known state of a program.
pub struct Program<'a> {
    /// `dunlin` or `dunlin-lab`.
    pub name: &'a str,
    /// What it is compiled for, such as `x86_64-unknown-linux-musl`.
    pub target: &'a str,
    /// The version of the compiler, whose libraries are linked, too.
    pub rustc: &'a str,
    pub bytes: &'a [u8],
}

/// The bill of materials of a program.
///
/// # Errors
/// The program holds a crate that `tree` lacks, so the bill would be wrong.
pub fn make(about: &About, program: &Program, tree: &str, lock: &str) -> io::Result<Value> {
    let linked = read_tree(tree, program.name);
    let held = crates_in(program.bytes);
    let is_known = |held: &&String| linked.keys().any(|(n, v)| format!("{n}-{v}") == **held);
    if let Some(missing) = held.iter().find(|held| !is_known(held)) {
        let name = program.name;
        return Err(io::Error::other(format!("{name}: its bill of materials lacks {missing}")));
    }
    let checksums = read_lock(lock);
    let is_program = |id: &Id| id.0 == program.name;
    let std = format!("pkg:generic/rust-std@{}", program.rustc);
    let mut components: Vec<Value> = linked
        .iter()
        .filter(|(id, _)| !is_program(id))
        .map(|(id, linked)| component(id, linked, &checksums))
        .collect();
    components.push(json!({
        "type": "library",
        "bom-ref": std,
        "name": "rust-std",
        "version": program.rustc,
        "purl": std,
        "description": "Rust's standard library, with the musl libc of its target",
        "licenses": [{ "expression": "(MIT OR Apache-2.0) AND MIT" }],
    }));
    let dependencies: Vec<Value> = linked
        .iter()
        .map(|(id, of)| {
            let mut needs: Vec<String> =
                of.needs.iter().map(|need| reference(need, &linked[need])).collect();
            needs.extend(is_program(id).then(|| std.clone()));
            json!({ "ref": reference(id, of), "dependsOn": needs })
        })
        .collect();
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": about.created(),
            "component": {
                "type": "application",
                "bom-ref": format!("workspace:{}@{}", program.name, about.version),
                "name": program.name,
                "version": about.version,
                "licenses": [{ "expression": "Apache-2.0" }],
                "properties": [
                    { "name": "dunlin:commit", "value": about.commit },
                    { "name": "dunlin:target", "value": program.target },
                ],
            },
        },
        "components": components,
        "dependencies": dependencies,
    }))
}

/// The crates whose sources a program names, in the places of its panics: `NAME-VERSION`.
fn crates_in(program: &[u8]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut rest = program;
    while let Some(at) = rest.windows(SOURCES.len()).position(|window| window == SOURCES) {
        rest = &rest[at + SOURCES.len()..];
        // The registry, then the crate.
        if let Some(name) = rest[..rest.len().min(256)].split(|byte| *byte == b'/').nth(1) {
            found.insert(String::from_utf8_lossy(name).into_owned());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::tests::about;
    use super::*;

    const TREE: &str = "\
0dunlin v0.1.0 (/src/crates/dunlin)\tApache-2.0
1cache v0.1.0 (/src/crates/core/cache)\tApache-2.0
2siphasher v1.0.1\tMIT/Apache-2.0
1siphasher v1.0.1\tMIT/Apache-2.0
0dunlin-lab v0.1.0 (/src/lab/dunlin-lab)\tApache-2.0
1hdrhistogram v7.6.0\tMIT
1cache v0.1.0 (/src/crates/core/cache)\tApache-2.0 (*)
";
    const LOCK: &str = "\
version = 4

[[package]]
name = \"cache\"
version = \"0.1.0\"
dependencies = [
 \"siphasher\",
]

[[package]]
name = \"siphasher\"
version = \"1.0.1\"
source = \"registry+https://github.com/rust-lang/crates.io-index\"
checksum = \"56199f7d\"
";

    fn bill(name: &str, bytes: &[u8]) -> io::Result<Value> {
        let program = Program { name, target: "x86_64-unknown-linux-musl", rustc: "1.95.0", bytes };
        make(&about(), &program, TREE, LOCK)
    }

    #[test]
    fn bill_has_what_is_linked_into_this_program_with_its_checksum() {
        let bill = bill("dunlin", b"").expect("a bill");
        let names = |bill: &Value| -> Vec<String> {
            let components = bill["components"].as_array().expect("a list");
            components.iter().map(|c| c["bom-ref"].as_str().expect("text").to_owned()).collect()
        };
        let expected =
            ["workspace:cache@0.1.0", "pkg:cargo/siphasher@1.0.1", "pkg:generic/rust-std@1.95.0"];
        assert_eq!(names(&bill), expected);
        assert_eq!(
            bill["components"][1],
            json!({
                "type": "library", "bom-ref": "pkg:cargo/siphasher@1.0.1",
                "purl": "pkg:cargo/siphasher@1.0.1", "name": "siphasher", "version": "1.0.1",
                "licenses": [{ "expression": "MIT OR Apache-2.0" }],
                "hashes": [{ "alg": "SHA-256", "content": "56199f7d" }],
            })
        );
        let needs = json!({
            "ref": "workspace:cache@0.1.0", "dependsOn": ["pkg:cargo/siphasher@1.0.1"]
        });
        assert!(bill["dependencies"].as_array().expect("a list").contains(&needs), "{bill:#}");
    }

    #[test]
    fn crate_that_was_shown_under_another_program_is_in_the_bill() {
        let bill = bill("dunlin-lab", b"").expect("a bill").to_string();
        for name in ["hdrhistogram@7.6.0", "siphasher@1.0.1", "workspace:cache@0.1.0"] {
            assert!(bill.contains(name), "{name}: {bill}");
        }
        assert!(!bill.contains("workspace:dunlin@"), "{bill}");
    }

    #[test]
    fn program_with_a_crate_that_the_bill_lacks_is_refused() {
        let held = b"\0/cargo/registry/src/index.crates.io-1949cf8c/siphasher-1.0.1/src/sip.rs\0";
        assert!(bill("dunlin", held).is_ok());
        let held = b"/cargo/registry/src/index.crates.io-1949cf8c/openssl-0.10.1/src/lib.rs";
        let error = bill("dunlin", held).expect_err("unknown").to_string();
        assert_eq!(error, "dunlin: its bill of materials lacks openssl-0.10.1");
    }
}
