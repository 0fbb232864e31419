//! The description is valid OpenAPI, and a generated client works.
use crate::scene::Scene;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The Python with a validator and a generator, which `scripts/require test` installs. `None`: the
/// test is skipped.
fn python() -> Option<PathBuf> {
    let default = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../openapi/bin/python");
    let program = env::var_os("DUNLIN_OPENAPI_PYTHON").map_or(default, PathBuf::from);
    if !program.exists() {
        let missing = format!("{} is missing: scripts/require test installs it", program.display());
        assert!(env::var_os("DUNLIN_REQUIRE_ALL").is_none(), "{missing}");
        eprintln!("SKIPPED: {missing}");
        return None;
    }
    Some(program)
}

/// A folder for one test, with the description in it.
fn folder(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder");
    let text = serde_json::to_string(&api::openapi()).expect("JSON");
    fs::write(folder.join("openapi.json"), text).expect("written");
    folder
}

fn run(command: &mut Command) -> String {
    let output = command.output().expect("it runs");
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{told}\n{}", String::from_utf8_lossy(&output.stderr));
    told
}

#[test]
fn description_is_valid_openapi() {
    let Some(python) = python() else { return };
    let folder = folder("openapi-valid");
    let validate = ["-m", "openapi_spec_validator", "openapi.json"];
    let told = run(Command::new(&python).args(validate).current_dir(&folder));
    assert!(told.contains("OK"), "{told}");
    // An invalid description is refused.
    fs::write(folder.join("openapi.json"), r#"{"openapi":"3.1.0"}"#).expect("written");
    let output = Command::new(&python).args(validate).current_dir(&folder).output();
    assert!(!output.expect("it runs").status.success());
}

#[test]
fn every_response_is_described() {
    let description = serde_json::to_value(api::openapi()).expect("JSON");
    let mut count = 0;
    for (path, item) in description["paths"].as_object().expect("paths") {
        for (method, operation) in item.as_object().expect("methods") {
            for (status, response) in operation["responses"].as_object().expect("responses") {
                let text = response["description"].as_str().unwrap_or_default();
                assert!(!text.is_empty(), "{method} {path} {status}");
                count += 1;
            }
        }
    }
    assert!(count > 100, "{count}");
}

/// The code of a user of the generated client.
const SCRIPT: &str = r#"
import sys
from dunlin_client import AuthenticatedClient
from dunlin_client.api.operate import lifecycle
from dunlin_client.api.rrsets import delete_set, get_set, list_sets, put_set
from dunlin_client.api.zones import get_zone, list_zones, put_zone
from dunlin_client.models import NewZone, Problem, PutSetWait, ValueBody

url, token = sys.argv[1:]
client = AuthenticatedClient(base_url=url, token=token)
zone = "made.example"
made = put_zone.sync(zone, client=client, body=NewZone(nameservers=["ns1.example."]))
assert made.revision > 0, made
value = ValueBody(ttl=60, data=["192.0.2.7"])
path = (zone, f"www.{zone}", "A")
put = put_set.sync_detailed(*path, client=client, body=value, wait=PutSetWait.LIVE)
assert put.status_code == 200 and put.parsed.live, put
found = get_set.sync(*path, client=client)
assert found.data == ["192.0.2.7"] and found.ttl == 60, found
tag = put.headers["ETag"]
refused = put_set.sync_detailed(*path, client=client, body=value, if_match='"1"')
assert refused.status_code == 412, refused
again = put_set.sync_detailed(
    *path, client=client, body=ValueBody(ttl=61, data=["192.0.2.7"]), if_match=tag)
assert again.status_code == 200, again
sets = list_sets.sync(zone, client=client, prefix="w").rrsets
assert [one.name for one in sets] == [path[1] + "."]
assert zone + "." in [one.name for one in list_zones.sync(client=client, limit=1000).zones]
assert lifecycle.sync(client=client).ready is True
assert delete_set.sync(*path, client=client).revision > again.parsed.revision
missing = get_set.sync_detailed(*path, client=client)
assert missing.status_code == 404, missing
stranger = AuthenticatedClient(base_url=url, token="dunlin_0")
unknown = get_zone.sync(zone, client=stranger)
assert isinstance(unknown, Problem) and "DUNLIN_TOKEN" in unknown.detail, unknown
print("all done")
"#;

#[test]
fn generated_client_reads_and_writes() {
    let Some(python) = python() else { return };
    let folder = folder("openapi-client");
    let generate = ["generate", "--path", "openapi.json", "--output-path", "client"];
    run(Command::new(&python)
        .args(["-m", "openapi_python_client"])
        .args(generate)
        .current_dir(&folder));
    fs::write(folder.join("use.py"), SCRIPT).expect("written");
    let scene = Scene::new();
    let told = run(Command::new(&python)
        .args(["use.py", &format!("http://{}", scene.address), &scene.root])
        .env("PYTHONPATH", folder.join("client"))
        .current_dir(&folder));
    assert!(told.contains("all done"), "{told}");
}
