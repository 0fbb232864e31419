//! The container: the last stage of the Containerfile, run by runc with the Kubernetes manifest's
//! security context.
use crate::served::{holds, query};
use rustix::thread::LinkNameSpaceType;
use serde_json::{Value, json};
use std::fs;
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use test_support::wait;

const CONTAINERFILE: &str = include_str!("../../../../packaging/Containerfile");
const MANIFEST: &str = include_str!("../../../../packaging/kubernetes/dunlin.yaml");

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Whether the test must be skipped; prints the reason.
fn skipped(reason: &str) -> bool {
    let strict = std::env::var_os("DUNLIN_REQUIRE_ALL").is_some();
    assert!(!strict, "the container test needs {reason}");
    eprintln!("SKIPPED: the container test needs {reason}");
    true
}

/// The arguments of each use of an instruction in the last stage.
fn instructions(name: &str) -> Vec<&'static str> {
    let stage = CONTAINERFILE.rsplit("\nFROM ").next().expect("a stage");
    stage.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).collect()
}

fn instruction(name: &str) -> &'static str {
    instructions(name).first().unwrap_or_else(|| panic!("the last stage has no {name}"))
}

/// A file inside the manifest: the indented lines after its name.
fn config_map(file: &str) -> String {
    let (_, rest) = MANIFEST.split_once(&format!("  {file}: |\n")).expect("the file");
    let lines = rest.lines().take_while(|line| line.is_empty() || line.starts_with("    "));
    lines.map(|line| line.trim_start_matches("    ").to_owned() + "\n").collect()
}

/// The binary of the Containerfile, which is built before: that of `DUNLIN_STATIC_BIN`, or the
/// newest of cargo's profiles. `None`: skipped.
fn static_binary() -> Option<PathBuf> {
    assert!(CONTAINERFILE.contains("target=\"$(uname -m)-unknown-linux-musl\""));
    if let Some(path) = std::env::var_os("DUNLIN_STATIC_BIN") {
        return Some(path.into());
    }
    let target = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name(&target);
    let built = |path: &PathBuf| path.metadata().and_then(|data| data.modified()).ok();
    let programs = ["debug", "release", "dist"].map(|profile| folder.join(profile).join("dunlin"));
    let newest = programs.into_iter().filter(|path| built(path).is_some()).max_by_key(built);
    if newest.is_none() {
        skipped(&format!("`cargo build --package dunlin --target {target}` (Debian: musl-tools)"));
    }
    newest
}

/// A running container, killed and removed when dropped.
struct Container {
    name: String,
    state: PathBuf,
    child: Child,
}

impl Container {
    /// Runs a bundle, with the output of the test.
    fn run(bundle: &Path) -> Self {
        let name = format!("dunlin-test-{}", std::process::id());
        let state = bundle.join("state");
        let child = Command::new("runc")
            .arg("--root")
            .arg(&state)
            .args(["run", "--bundle"])
            .args([bundle.as_os_str(), name.as_ref()])
            .stdin(Stdio::null())
            .spawn()
            .expect("runc runs");
        Self { name, state, child }
    }

    fn runc(&self, words: &[&str]) -> std::process::Output {
        let mut command = Command::new("runc");
        command.arg("--root").arg(&self.state).args(words);
        command.output().expect("runc runs")
    }

    /// The first process of the container, once it runs.
    fn pid(&self) -> u64 {
        let state = || -> Value {
            let state = self.runc(&["state", &self.name]).stdout;
            serde_json::from_slice(&state).unwrap_or_default()
        };
        let is_running = |state: &Value| state["status"] == "running";
        let state = wait::until_value("the container runs", state, is_running);
        state["pid"].as_u64().expect("a number")
    }

    /// Sends SIGTERM; returns the exit status.
    fn end(&mut self) -> Option<i32> {
        self.runc(&["kill", &self.name, "TERM"]);
        wait::until_exit("runc", &mut self.child).code()
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        self.runc(&["delete", "--force", &self.name]);
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The files of the last stage, in `root`.
fn write_root(root: &Path, binary: &Path) {
    for copy in instructions("COPY") {
        let (from, to) = match copy.split(' ').collect::<Vec<_>>()[..] {
            ["--from=build", "/dunlin", to] => (binary.to_owned(), to),
            [from, to] => (repository().join(from), to),
            _ => panic!("COPY {copy} is new to this test"),
        };
        let to = root.join(to.trim_start_matches('/'));
        fs::create_dir_all(to.parent().expect("a folder")).expect("a folder");
        fs::copy(from, to).expect("a copy");
    }
}

/// The config of runc: the instructions of the last stage, and the manifest's security context.
fn spec(config: &Path) -> Value {
    let words = |name| serde_json::from_str::<Vec<String>>(instruction(name)).expect("a list");
    let (uid, gid) = instruction("USER").split_once(':').expect("user and group");
    let number = |text: &str| text.parse::<u32>().expect("a number, which Kubernetes can check");
    for line in [
        format!("runAsUser: {uid}"),
        format!("runAsGroup: {gid}"),
        "runAsNonRoot: true".into(),
        "allowPrivilegeEscalation: false".into(),
        "readOnlyRootFilesystem: true".into(),
        "capabilities: {drop: [ALL]}".into(),
        "{name: net.ipv4.ip_unprivileged_port_start, value: \"53\"}".into(),
    ] {
        assert!(MANIFEST.contains(&line), "the manifest says {line}");
    }
    let args = [words("ENTRYPOINT"), words("CMD")].concat();
    let namespaces = ["pid", "mount", "ipc", "uts", "network"].map(|kind| json!({"type": kind}));
    let none: [&str; 0] = [];
    let scratch = |folder: &str| {
        assert!(MANIFEST.contains(&format!("mountPath: {folder}}}")), "{folder} in the manifest");
        json!({
            "destination": folder, "type": "tmpfs", "source": "tmpfs",
            "options": ["nosuid", "nodev", "mode=1777"]
        })
    };
    json!({
        "ociVersion": "1.0.2",
        "process": {
            "user": {"uid": number(uid), "gid": number(gid)},
            "args": args,
            "cwd": "/",
            "noNewPrivileges": true,
            "capabilities": {
                "bounding": none, "effective": none, "permitted": none, "inheritable": none
            },
        },
        "root": {"path": "root", "readonly": true},
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/etc/dunlin", "type": "none", "source": config,
             "options": ["bind", "ro"]},
            scratch("/run/dunlin"),
            scratch("/var/lib/dunlin"),
        ],
        "linux": {
            "namespaces": namespaces,
            "sysctl": {"net.ipv4.ip_unprivileged_port_start": "53"},
        },
    })
}

/// Queries the server in another network namespace until it answers.
fn ask(pid: u64, name: &str) -> Vec<u8> {
    let network = fs::File::open(format!("/proc/{pid}/ns/net")).expect("it runs");
    rustix::thread::move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network))
        .expect("root may go there");
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket.set_read_timeout(Some(Duration::from_millis(100))).expect("a timeout");
    wait::until_ok(&format!("an answer about {name}"), || {
        socket.send_to(&query(name), "127.0.0.1:53").expect("sent");
        let mut reply = vec![0; 4096];
        let len = socket.recv(&mut reply)?;
        reply.truncate(len);
        Ok::<_, std::io::Error>(reply)
    })
}

#[test]
#[ignore = "slow: it needs a static binary, which `make test-cluster` builds before"]
fn static_binary_serves_as_unprivileged_user_from_a_read_only_root() {
    if !rustix::process::geteuid().is_root() && skipped("root") {
        return;
    }
    if Command::new("runc").arg("--version").output().is_err() && skipped("runc") {
        return;
    }
    let Some(binary) = static_binary() else { return };
    let headers = Command::new("readelf").args(["-lW"]).arg(&binary).output().expect("binutils");
    let headers = String::from_utf8_lossy(&headers.stdout);
    assert!(headers.contains("LOAD") && !headers.contains("INTERP"), "{headers}");

    let bundle = std::env::temp_dir().join(format!("dunlin-container-{}", std::process::id()));
    let config = bundle.join("config");
    fs::create_dir_all(&config).expect("a folder");
    for file in ["dunlin.toml", "example.org.zone"] {
        fs::write(config.join(file), config_map(file)).expect("a file");
    }
    write_root(&bundle.join("root"), &binary);
    fs::write(bundle.join("config.json"), spec(&config).to_string()).expect("a file");
    let mut container = Container::run(&bundle);
    let pid = container.pid();
    // A separate thread, which stays in that namespace.
    let reply = std::thread::spawn(move || ask(pid, "www.example.org")).join().expect("an answer");
    assert!(holds(&reply, &[192, 0, 2, 80]), "{reply:x?}");
    assert_eq!(container.end(), Some(0));
    drop(container);
    fs::remove_dir_all(bundle).expect("a folder of ours");
}

/// The image is built with the toolchain of the tests.
#[test]
fn image_is_built_with_the_toolchain_of_the_tests() {
    let toolchain = fs::read_to_string(repository().join("rust-toolchain.toml")).expect("a file");
    let channel = toolchain.split('"').nth(1).expect("a version");
    assert!(CONTAINERFILE.contains(&format!("rust:{channel}-slim ")), "{channel}");
}
