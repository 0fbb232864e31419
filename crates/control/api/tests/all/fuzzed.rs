//! Schemathesis generates valid and invalid requests from the description, and checks the responses
//! against it.
use crate::scene::Scene;
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where `scripts/require test` installs it, unless a variable names another path.
fn schemathesis() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../schemathesis/bin/st");
    env::var_os("DUNLIN_SCHEMATHESIS").map_or(target, PathBuf::from)
}

#[test]
fn schemathesis_finds_nothing() {
    let program = schemathesis();
    if !program.exists() {
        let missing = format!("{} is missing: scripts/require test installs it", program.display());
        assert!(env::var_os("DUNLIN_REQUIRE_ALL").is_none(), "{missing}");
        eprintln!("SKIPPED: {missing}");
        return;
    }
    let scene = Scene::new();
    let token = format!("Authorization: Bearer {}", scene.root);
    let config = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/schemathesis.toml");
    let url = format!("http://{}/v1/openapi.json", scene.address);
    let output = Command::new(&program)
        .args(["--config-file", config, "run", &url, "--header", &token, "--seed", "7"])
        .current_dir(env!("CARGO_TARGET_TMPDIR"))
        .output()
        .expect("it runs");
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{told}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(scene.get("/v1/zones").status == 200, "it still answers");
}
