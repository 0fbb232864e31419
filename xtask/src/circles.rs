//! Two files of a crate that name each other: one subject that lies in two files, or a type in the
//! wrong file. A file and the modules below it are one subject.
use crate::crates;
use crate::layers::sources;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The circles that are known, by crate. Each is to be broken: the list only shrinks.
const KNOWN: &[&str] = &[
    "cpu-manager: manager and partitions",
    "data-plane: bypass and threads",
    "fleet-members: members and waits",
    "forward: forwarder and late",
    "import-corefile: importer and plugins",
    "records: queue and service",
    "records: types and wildcards",
    "source-kube: checks and cluster",
    "source-kube: publish and source",
    "store: codec and port",
    "store-etcd: store and watch",
    "zone-manager: epoch and sender",
    "zone-manager: queue and source",
    "zone-manager: sender and source",
    "zonefile: form and rare",
    "zonefile: generate and reader",
];

/// A module, or an item of one: its names from the root of the crate.
type Names = Vec<String>;

/// What is wrong, a line each.
pub fn violations() -> Vec<String> {
    let mut found = BTreeSet::new();
    for one in crates::load().iter().filter(|one| one.directory.components().any(is_product)) {
        found.extend(
            circles(&modules(&one.directory.join("src")))
                .map(|[a, b]| format!("{}: {} and {}", one.name, a.join("::"), b.join("::"))),
        );
    }
    let known: BTreeSet<String> = KNOWN.iter().map(|known| (*known).to_owned()).collect();
    let new = found.difference(&known).map(|pair| format!("{pair} name each other"));
    let gone = known.difference(&found).map(|pair| format!("{pair}: take it from the list"));
    new.chain(gone).collect()
}

fn is_product(component: std::path::Component<'_>) -> bool {
    component.as_os_str() == "crates"
}

/// The code of each module, without its tests and comments.
fn modules(folder: &Path) -> BTreeMap<Names, String> {
    let mut modules = BTreeMap::new();
    let mut tests = Vec::new();
    for file in sources(folder) {
        let path = file.strip_prefix(folder).unwrap_or(&file).with_extension("");
        let mut names: Names =
            path.iter().map(|name| name.to_string_lossy().into_owned()).collect();
        names.pop_if(|name| matches!(name.as_str(), "lib" | "main" | "mod"));
        let text = fs::read_to_string(&file).unwrap_or_default();
        let (code, below) = text.split_once("#[cfg(test)]\nmod ").unwrap_or((&text, ""));
        if let Some((name, _)) = below.split_once(';').filter(|(name, _)| !name.contains('{')) {
            tests.push([&names[..], &[name.to_owned()]].concat());
        }
        let code = code.lines().map(|line| line.split("//").next().unwrap_or_default());
        modules.insert(names, code.collect::<Vec<_>>().join("\n"));
    }
    let is_test = |names: &Names| {
        names.last().is_some_and(|name| name.ends_with("tests"))
            || tests.iter().any(|test| names.starts_with(test))
    };
    modules.retain(|names, _| !is_test(names));
    modules
}

/// The pairs of modules that name each other, neither of which is below the other one.
fn circles(modules: &BTreeMap<Names, String>) -> impl Iterator<Item = [&Names; 2]> {
    let uses: BTreeMap<&Names, BTreeSet<Names>> =
        modules.iter().map(|(own, code)| (own, used(own, code, modules))).collect();
    let pairs = modules.keys().flat_map(|a| modules.keys().map(move |b| [a, b]));
    pairs.filter(move |[a, b]| {
        a < b && !b.starts_with(a) && uses[a].contains(*b) && uses[b].contains(*a)
    })
}

/// The modules whose names stand in the code.
fn used(own: &Names, code: &str, modules: &BTreeMap<Names, String>) -> BTreeSet<Names> {
    let paths = code.match_indices("crate::").chain(code.match_indices("super::"));
    let starts = paths.filter(|(at, _)| !code[..*at].ends_with("::"));
    let items = starts.flat_map(|(at, _)| expanded(&code[at..]));
    items.filter_map(|path| module_of(own, &path, modules)).filter(|used| used != own).collect()
}

/// The module that a path leads to, through what the root of the crate exports.
fn module_of(own: &Names, path: &str, modules: &BTreeMap<Names, String>) -> Option<Names> {
    let mut names: Names = Vec::new();
    for (index, name) in path.split("::").enumerate() {
        match name {
            "crate" => names.clear(),
            "super" => {
                if index == 0 {
                    names.clone_from(own);
                }
                names.pop()?;
            }
            name => names.push(name.to_owned()),
        }
    }
    if let [item, ..] = &names[..]
        && !modules.contains_key(&names[..1])
    {
        let root = modules.get(&Names::new())?;
        let exports = root.match_indices("use ").flat_map(|(at, _)| expanded(&root[at + 4..]));
        let export = exports.into_iter().find(|export| export.ends_with(&format!("::{item}")))?;
        names = export.split("::").map(str::to_owned).collect();
    }
    while !modules.contains_key(&names) {
        names.pop()?;
    }
    Some(names)
}

/// The paths that a text begins with: `a::{b, c::d}` has two.
fn expanded(text: &str) -> Vec<String> {
    let end = text.find(|c: char| !c.is_alphanumeric() && !"_:".contains(c));
    let (head, rest) = text.split_at(end.unwrap_or(text.len()));
    if !head.ends_with("::") || !rest.starts_with('{') {
        return vec![head.to_owned()];
    }
    let (mut depth, mut begin, mut paths) = (0, 1, Vec::new());
    for (at, c) in rest.char_indices() {
        depth += i32::from(c == '{') - i32::from(c == '}');
        if (c == ',' && depth == 1) || depth == 0 {
            let part = expanded(rest[begin..at].trim());
            paths.extend(part.iter().map(|path| format!("{head}{path}")));
            begin = at + 1;
        }
        if depth == 0 {
            break;
        }
    }
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_new_files_name_each_other() {
        assert_eq!(violations(), Vec::<String>::new());
    }

    #[test]
    fn circle_is_found_through_trees_of_names_and_exports() {
        let module = |name: &str, code: &str| {
            let names = name.split("::").filter(|name| !name.is_empty());
            (names.map(str::to_owned).collect::<Names>(), code.to_owned())
        };
        let modules = BTreeMap::from([
            module("", "pub use a::{Thing, Other};"),
            module("a", "use crate::{b::{Part, c::Deep}, limits};"),
            module("b", "fn f() { crate::Thing::new() }"),
            module("b::c", "use super::super::a;"),
            module("limits", "use super::b;"),
        ]);
        let found: Vec<String> =
            circles(&modules).map(|pair| pair.map(|names| names.join("::")).join(" ")).collect();
        assert_eq!(found, ["a b", "a b::c"]);
    }
}
