//! `make campaign-kill-upgrade OLDER=BINARY`: upgrade, write, go back, with the binary of an older
//! version whose store has an older format than this one's.
use crate::served::{Served, binary, done, holds};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use test_support::wait;

fn config(name: &str, socket: &Path) -> String {
    format!(
        "drain = \"0s\"\ndata_dir = \"{}\"\n[admin]\nsocket = \"{}\"\n[store]\nkind = \"redb\"\n\
         [api]\nlisten = \"127.0.0.1:0\"\n",
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(name).display(),
        socket.display()
    )
}

/// A server of one version, and commands of the same version.
struct Version {
    binary: PathBuf,
    served: Served,
    api: String,
    token: String,
}

impl Version {
    /// Starts it on a data folder.
    fn start(binary: &Path, data: &str) -> Self {
        let socket = std::env::temp_dir().join(format!("dunlin-{data}-{}", std::process::id()));
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{data}-config"));
        let config = config(data, &socket);
        let served = Served::start_by(&mut Command::new(binary), &folder, &config, &[]);
        let api = format!("http://{}", served.api().expect("said"));
        let binary = binary.to_owned();
        let mut version = Self { binary, served, api, token: String::new() };
        let socket = socket.to_str().expect("UTF-8");
        let name = format!("writer-{}", version.served.child.id());
        let create = ["token", "create", &name, "--grant", "read,write,zones *"];
        let token = version.done(&[&create[..], &["--socket", socket]].concat());
        version.token = token.trim().to_owned();
        version
    }

    fn run(&self, args: &[&str]) -> Output {
        let mut command = Command::new(&self.binary);
        command.env("DUNLIN_API", &self.api).env("DUNLIN_TOKEN", &self.token);
        command.args(args).stdin(std::process::Stdio::null()).output().expect("the binary runs")
    }

    fn done(&self, args: &[&str]) -> String {
        done(args, &self.run(args))
    }

    fn get(&self) -> serde_json::Value {
        let get = ["records", "get", "up.example", "www", "A", "-o", "json"];
        serde_json::from_str(&self.done(&get)).expect("JSON")
    }
}

#[test]
#[ignore = "campaign: make campaign-kill-upgrade, with the binary of an older version"]
fn older_version_takes_over_what_the_newer_one_wrote() {
    let older = std::env::var_os("DUNLIN_OLDER").expect("OLDER names a binary");
    let (older, newer) = (PathBuf::from(older), PathBuf::from(binary().get_program()));
    for data in ["upgrade-data", "upgrade-back"] {
        let _ = std::fs::remove_dir_all(Path::new(env!("CARGO_TARGET_TMPDIR")).join(data));
    }
    let mut version = Version::start(&older, "upgrade-data");
    version.done(&["zones", "create", "up.example", "--nameserver", "ns.example.net."]);
    version.done(&["records", "set", "up.example", "www", "A", "192.0.2.1"]);
    version.served.end();

    let mut version = Version::start(&newer, "upgrade-data");
    assert!(holds(&version.served.ask("www.up.example"), &[192, 0, 2, 1]), "upgraded");
    let set = ["records", "set", "up.example", "www", "A", "192.0.2.2", "--comment", "rack 7"];
    version.done(&set);
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("back.records");
    let file = file.to_str().expect("UTF-8");
    let format = std::env::var("DUNLIN_OLDER_FORMAT").unwrap_or_else(|_| "3".into());
    let taken = version.run(&["zones", "snapshot", "--format", &format, file]);
    let lost = String::from_utf8_lossy(&taken.stderr).into_owned();
    assert!(
        taken.status.success() && lost.contains("lost: www.up.example. A: its comment"),
        "{lost}"
    );
    version.served.end();

    // The older version refuses the newer files, says how to go back, and leaves them as they are.
    let mut version = Version::start(&older, "upgrade-data");
    let status = || {
        let status = version.run(&["status", "--socket", &socket_of(&version)]);
        String::from_utf8_lossy(&status.stdout).into_owned()
    };
    let status = wait::until_value("how to go back", status, |status| {
        status.contains("newer version of Dunlin") && status.contains("zones snapshot --format")
    });
    println!("{status}");
    version.served.end();
    let mut version = Version::start(&newer, "upgrade-data");
    assert_eq!(version.get()["comment"], "rack 7", "nothing has changed");
    version.served.end();

    let version = Version::start(&older, "upgrade-back");
    version.done(&["zones", "restore", file, "--yes"]);
    assert!(holds(&version.served.ask("www.up.example"), &[192, 0, 2, 2]), "went back");
    assert_eq!(version.get()["comment"], serde_json::Value::Null);
}

fn socket_of(version: &Version) -> String {
    version.served.socket().expect("a socket").to_str().expect("UTF-8").to_owned()
}
