//! The description matches the API.
use crate::grants::operations;
use crate::scene::Scene;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

#[test]
fn described_paths_are_exactly_the_existing_ones() {
    let scene = Scene::new();
    for (method, path) in operations() {
        let filled = path.replace("{zone}", "example.org").replace("{name}", "a.example.org");
        let filled = filled
            .replace("{type}", "A")
            .replace("{server}", "192.0.2.1:53")
            .replace("{principal}", "ci")
            .replace("{site}", "fra1");
        // A method that is not described is refused, with a list of the others.
        let reply = scene.ask("OPTIONS", &filled, &scene.root, &[], b"");
        reply.refused(405);
        let allowed = reply.field("allow").unwrap_or_default().to_owned();
        let mut described: Vec<String> =
            operations().into_iter().filter(|(_, other)| *other == path).map(|(m, _)| m).collect();
        if described.contains(&"GET".to_owned()) {
            described.push("HEAD".to_owned());
        }
        described.sort();
        let mut allowed: Vec<&str> = allowed.split(',').map(str::trim).collect();
        allowed.sort_unstable();
        assert_eq!(allowed, described, "{method} {path}");
    }
    for path in ["/", "/v1", "/v1/zones/", "/v1/other", "/v2/zones", "/v1/zones/a/b"] {
        scene.get(path).refused(404);
    }
}

#[test]
fn description_is_public_and_complete() {
    let scene = Scene::new();
    let reply = scene.ask("GET", "/v1/openapi.json", "", &[], b"");
    assert_eq!(reply.field("content-type"), Some("application/json"));
    let told = reply.done();
    assert_eq!(told, serde_json::to_value(api::openapi()).expect("JSON"));
    assert_eq!(told["openapi"], json!("3.1.0"));
    let mut unknown = Vec::new();
    references(&told, &mut |reference| {
        if told.pointer(reference.trim_start_matches('#')).is_none() {
            unknown.push(reference.to_owned());
        }
    });
    assert_eq!(unknown, Vec::<String>::new());
    for item in told["paths"].as_object().expect("paths").values() {
        for operation in item.as_object().expect("methods").values() {
            let is_told = operation["summary"].as_str().is_some_and(|text| !text.is_empty());
            assert!(is_told, "{operation}");
        }
    }
}

/// Each row of the page about ContainerDNS and KDNS names a test that exists, or is pending.
#[test]
fn every_test_named_in_the_page_exists() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../.."));
    let mut sources = String::new();
    ["crates", "testing"].iter().for_each(|folder| gather(&root.join(folder), &mut sources));
    let page = fs::read_to_string(root.join("docs/containerdns.md")).expect("readable");
    let is_row = |line: &&str| line.starts_with("| ") && !line.ends_with("| test |");
    let mut count = 0;
    for row in page.lines().filter(is_row).filter(|row| !row.starts_with("| ---")) {
        let shown = row.trim_end_matches(" |").rsplit(" | ").next().expect("a cell");
        let tests: Vec<&str> = shown.split('`').filter(|word| word.contains("::")).collect();
        let is_other = matches!(shown, "the same" | "pending") || shown.starts_with("`make ");
        assert!(!tests.is_empty() || is_other, "{row}");
        for test in tests {
            let name = test.rsplit("::").next().expect("a name");
            assert!(sources.contains(&format!("fn {name}(")), "{test} is not there: {row}");
            count += 1;
        }
    }
    assert!(count > 50, "{count}");
}

/// Appends all Rust files below a folder.
fn gather(folder: &Path, sources: &mut String) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            gather(&path, sources);
        } else if path.extension().is_some_and(|end| end == "rs") {
            *sources += &fs::read_to_string(&path).expect("readable");
        }
    }
}

fn references(value: &Value, each: &mut impl FnMut(&str)) {
    match value {
        Value::Object(fields) => {
            if let Some(Value::String(reference)) = fields.get("$ref") {
                each(reference);
            }
            fields.values().for_each(|field| references(field, each));
        }
        Value::Array(all) => all.iter().for_each(|one| references(one, each)),
        _ => {}
    }
}
