//! What is described is what there is.
use crate::grants::operations;
use crate::scene::Scene;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

#[test]
fn every_path_is_described_and_no_other_is_there() {
    let scene = Scene::new();
    for (method, path) in operations() {
        let filled = path.replace("{zone}", "example.org").replace("{name}", "a.example.org");
        let filled = filled.replace("{type}", "A").replace("{server}", "192.0.2.1:53");
        // A method that is not described is refused, with those that are.
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
fn the_description_is_there_for_everybody_and_whole() {
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

/// The page for those who come from elsewhere names a test in each row, and each is there.
#[test]
fn every_test_that_the_page_names_is_there() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let read = |path: &Path| fs::read_to_string(path).expect("readable");
    let mut sources = String::new();
    let folders = ["crates/api/src", "crates/api/tests/api", "crates/dunlin/tests"];
    for folder in folders {
        for entry in fs::read_dir(Path::new(root).join(folder)).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.extension().is_some_and(|end| end == "rs") {
                sources += &read(&path);
            }
        }
    }
    let page = read(&Path::new(root).join("docs/containerdns.md"));
    let rows = page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| theirs"));
    let mut count = 0;
    for row in rows.filter(|row| !row.starts_with("| ---")) {
        let shown = row.trim_end_matches(" |").rsplit(" | ").next().expect("a cell");
        let tests: Vec<&str> = shown.split('`').filter(|word| word.contains("::")).collect();
        assert!(!tests.is_empty() || shown == "the same", "{row}");
        for test in tests {
            let name = test.rsplit("::").next().expect("a name");
            assert!(sources.contains(&format!("fn {name}(")), "{test} is not there: {row}");
            count += 1;
        }
    }
    assert!(count > 30, "{count}");
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
