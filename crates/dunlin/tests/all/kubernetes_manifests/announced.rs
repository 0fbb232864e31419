//! The container of the DaemonSet with the keeper: what its manifest allows is enough.
use super::{ANYCAST, objects};
use crate::served::{Served, short_socket};
use serde_json::Value;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use test_support::skip::skip;
use test_support::spaces::Spaces;
use test_support::wait;

/// Runs a program as the first one of the container, with the device and these capabilities.
const CONTAINED: &str = "mount -t tmpfs tmpfs /dev/net && mknod -m 666 /dev/net/tun c 10 200 && \
    exec setpriv --no-new-privs --bounding-set=\"$0\" \"$@\"";

/// The config, with folders of this test, and the capabilities as setpriv(1) names them.
fn parts(folder: &Path, socket: &Path) -> (String, String) {
    let all = objects(ANYCAST);
    let config = all.iter().find_map(|object| object["data"]["dunlin.toml"].as_str());
    let config = config.expect("a config").replacen("[server]\n", "", 1);
    let config = config.replace("/var/lib/dunlin", &folder.display().to_string());
    let config = config.replace("[log]\nformat = \"json\"\n", "").replace("\"5s\"", "\"0s\"");
    let config = config.replace("\"resolv.conf\"", "[\"192.0.2.1\"]");
    let config = format!("{config}\n[admin]\nsocket = {socket:?}\n");
    let set = all.iter().find(|object| object["kind"] == "DaemonSet").expect("one");
    let container = &set["spec"]["template"]["spec"]["containers"][0];
    let added = container["securityContext"]["capabilities"]["add"].as_array().expect("a list");
    let named = added.iter().map(|one| one.as_str().expect("a name").to_lowercase());
    (config, named.fold("-all".to_owned(), |all, one| all + ",+" + &one))
}

#[test]
fn capabilities_of_the_manifest_suffice_for_an_announced_address_and_its_probes() {
    if !rustix::process::geteuid().is_root() || !Path::new("/dev/net/tun").exists() {
        return skip("network namespaces and /dev/net/tun: run it as root");
    }
    let spaces = Spaces::new("dunlin-manifest");
    spaces.run("ip -n {s} link set lo up");
    let socket = short_socket("manifest");
    let folder = socket.with_extension("data");
    fs::create_dir_all(&folder).expect("a folder");
    // As an emptyDir.
    fs::set_permissions(&folder, Permissions::from_mode(0o777)).expect("a mode");
    let (config, capabilities) = parts(&folder, &socket);
    let contained = || {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &spaces.server, "sh", "-c", CONTAINED, &capabilities]);
        command.arg(env!("CARGO_BIN_EXE_dunlin"));
        command
    };
    let files = socket.with_extension("files");
    let mut served = Served::start_by(&mut contained(), &files, &config, &[]);
    let run = |args: &[&str]| {
        contained().args(args).arg("--socket").arg(&socket).output().expect("it runs")
    };
    wait::until_true("it is ready", || run(&["status", "--probe=ready"]).status.success());
    assert!(run(&["status", "--probe=alive"]).status.success());
    let is_announced = || {
        let output = run(&["anycast", "status", "-o", "json"]);
        let status: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        status["is_announced"] == true
    };
    wait::until_true("it is announced", is_announced);
    assert!(run(&["anycast", "withdraw", "--reason", "a test", "--wait"]).status.success());
    served.end();
    for folder in [folder, files] {
        fs::remove_dir_all(folder).expect("removed");
    }
}
