//! The privileges of a running server, read from the kernel for each thread.
use crate::served::{HEAD, Served, binary, zone};
use rustix::process::Signal;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

/// CAP_NET_BIND_SERVICE, as `/proc` writes it.
const BIND: &str = "0000000000000400";
const NONE: &str = "0000000000000000";

/// Only root may change its user. If nothing may be skipped, tests run as root.
fn is_root(test: &str) -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        assert!(std::env::var_os("DUNLIN_REQUIRE_ALL").is_none(), "{test} needs root");
        eprintln!("SKIPPED: {test} needs root");
    }
    root
}

/// A folder that every user can read.
fn folder(test: &str) -> PathBuf {
    std::env::temp_dir().join(format!("dunlin-{test}-{}", std::process::id()))
}

/// The value of `key` in the status of each thread.
fn threads(served: &Served, key: &str) -> Vec<String> {
    let tasks = format!("/proc/{}/task", served.child.id());
    let values: Vec<String> = fs::read_dir(tasks)
        .expect("it runs")
        .map(|task| {
            let status = task.expect("a thread").path().join("status");
            let status = fs::read_to_string(status).expect("a status");
            let line = status.lines().find_map(|line| line.strip_prefix(&format!("{key}:")));
            line.expect("a key that is there").split_whitespace().collect::<Vec<_>>().join(" ")
        })
        .collect();
    assert!(values.len() > 3, "the workers and the streams run: {values:?}");
    values
}

fn expect_of_each_thread(served: &Served, wanted: &[(&str, &str)]) {
    for (key, value) in wanted {
        for found in threads(served, key) {
            assert_eq!(&found, value, "{key} of a thread");
        }
    }
}

#[test]
fn every_thread_has_the_user_and_no_privileges() {
    if !is_root("dropping privileges") {
        return;
    }
    let config = "user = \"65534\"\ngroup = \"65533\"\n".to_owned() + &zone("a.test");
    let folder = folder("drop");
    let served = Served::start_by(&mut binary(), &folder, &config, &[("a.test.zone", HEAD)]);
    expect_of_each_thread(
        &served,
        &[
            ("Uid", "65534 65534 65534 65534"),
            ("Gid", "65533 65533 65533 65533"),
            ("CapEff", NONE),
            ("CapPrm", NONE),
            ("CapInh", NONE),
            ("CapBnd", NONE),
            ("CapAmb", NONE),
            ("NoNewPrivs", "1"),
        ],
    );
    let root_groups = |groups: &String| groups.split(' ').any(|group| group == "0");
    assert!(!threads(&served, "Groups").iter().any(root_groups), "root's groups");

    // Files that root opened can be opened again by the user.
    let zone_file = folder.join("a.test.zone");
    fs::write(&zone_file, format!("{HEAD}new A 192.0.2.2\n")).expect("a file");
    served.signal(Signal::HUP);
    served.expect_address("new.a.test", [192, 0, 2, 2]);
    drop(served);
    fs::remove_dir_all(folder).expect("a folder of ours");
}

/// As under systemd: the unit sets the user and grants the capability to bind.
#[test]
fn capability_to_bind_is_dropped() {
    if !is_root("granting capabilities") {
        return;
    }
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .args(["--inh-caps=-all,+net_bind_service", "--ambient-caps=-all,+net_bind_service"])
        .args(["--bounding-set=-all,+net_bind_service", "--"]);
    // This user may not be able to read the folder of the build.
    let folder = folder("granted");
    let copy = folder.with_extension("binary");
    fs::copy(env!("CARGO_BIN_EXE_dunlin"), &copy).expect("a copy");
    command.arg(&copy);
    let config = zone("a.test");
    let served = Served::start_by(&mut command, &folder, &config, &[("a.test.zone", HEAD)]);
    expect_of_each_thread(
        &served,
        &[
            ("Uid", "65534 65534 65534 65534"),
            ("CapEff", NONE),
            ("CapPrm", NONE),
            ("CapInh", NONE),
            ("CapBnd", BIND),
            ("CapAmb", NONE),
            ("NoNewPrivs", "1"),
        ],
    );
    drop(served);
    fs::remove_file(copy).expect("a file of ours");
    fs::remove_dir_all(folder).expect("a folder of ours");
}

#[test]
fn root_is_advised_to_set_a_user_and_an_unknown_user_is_refused() {
    if !is_root("being root") {
        return;
    }
    let folder = folder("stays");
    let served = Served::start_by(&mut binary(), &folder, "", &[]);
    let told = |line: &String| line.contains("running as root") && line.contains("[server] user");
    assert!(served.start.iter().any(told), "{:?}", served.start);
    drop(served);
    let config = folder.join("dunlin.toml");
    fs::write(&config, "[server]\nlisten = [\"127.0.0.1:0\"]\nuser = \"no-such\"\n")
        .expect("a file");
    let output = binary().args(["serve", "-c"]).arg(&config).output().expect("the binary runs");
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("no user \"no-such\"") && told.contains("systemd-sysusers"), "{told}");
    fs::remove_dir_all(folder).expect("a folder of ours");
}

/// Root reads everything, and the user that it changes to does not.
#[test]
fn check_finds_what_the_user_of_the_server_cannot_read() {
    if !is_root("a user of its own") {
        return;
    }
    let folder = folder("unreadable");
    fs::create_dir_all(&folder).expect("a folder");
    fs::set_permissions(&folder, Permissions::from_mode(0o755)).expect("a mode");
    let [config, zone_file, hosts] =
        ["dunlin.toml", "a.test.zone", "hosts"].map(|name| folder.join(name));
    let server = "[server]\nuser = \"65534\"\ngroup = \"65533\"\ndata_dir = \"data\"\n";
    let text = format!("hosts.files = [\"hosts\"]\n{server}{}", zone("a.test"));
    fs::write(&config, text).expect("a file");
    fs::write(&zone_file, HEAD).expect("a file");
    fs::write(&hosts, "192.0.2.1 a.example\n").expect("a file");
    let check = || {
        let output = binary().args(["check", "-q"]).arg(&config).output().expect("it runs");
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let mode = |path: &PathBuf, mode| {
        fs::set_permissions(path, Permissions::from_mode(mode)).expect("a mode");
    };
    for path in [&config, &zone_file, &hosts] {
        mode(path, 0o644);
    }
    assert_eq!(check(), (Some(0), String::new()));
    for path in [&zone_file, &hosts] {
        mode(path, 0o600);
        let (code, told) = check();
        let expected = format!("{}: [server] user \"65534\" cannot read it: ", path.display());
        assert!(code == Some(1) && told.contains(&expected), "{told}");
        mode(path, 0o644);
    }
    mode(&config, 0o600);
    let (code, told) = check();
    assert!(code == Some(0) && told.contains("cannot read it again after a change"), "{told}");
    mode(&folder, 0o700);
    assert_eq!(check().0, Some(1), "the folder hides all");
    fs::remove_dir_all(&folder).expect("removed");
}
