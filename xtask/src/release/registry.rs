//! A release as its users get it: from a registry, by containerd and by Helm.
use super::tests::about;
use super::*;
use crate::repository::has_program;
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::process::{Child, Output};
use test_support::containerd::Containerd;
use test_support::skip::skip;
use test_support::spaces::Spaces;
use test_support::{ports, tools, wait};

const MANIFEST: &str = include_str!("../../../packaging/kubernetes/dunlin.yaml");

/// Debian's registry on a port of this machine, until it is dropped.
struct Registry {
    child: Child,
    address: SocketAddrV4,
}

impl Registry {
    /// Starts one, with its files in `folder`.
    fn start(folder: &Path) -> Self {
        let address = ports::free_address(Ipv4Addr::LOCALHOST);
        let config = folder.join("registry.yml");
        let files = folder.join("registry");
        let files = files.display();
        let text = format!(
            "version: 0.1\nstorage: {{filesystem: {{rootdirectory: {files}}}}}\n\
             http: {{addr: \"{address}\"}}\n"
        );
        fs::write(&config, text).expect("a file");
        let mut serve = Command::new("docker-registry");
        serve.arg("serve").arg(config).stdout(Stdio::null()).stderr(Stdio::null());
        let registry = Self { child: serve.spawn().expect("a registry"), address };
        wait::until_ok("the registry answers", || TcpStream::connect(address));
        registry
    }

    /// Pushes an artifact of a layout; returns its digest in the registry.
    fn push(&self, archive: &Path, repository: &str) -> String {
        let version = about().version;
        let to = format!("docker://{}/{repository}:{version}", self.address);
        let from = format!("oci-archive:{}:{version}", archive.display());
        let mut copy = Command::new("skopeo");
        copy.args(["--insecure-policy", "copy", "--all", "--preserve-digests"]);
        done(copy.args(["--dest-tls-verify=false", &from, &to]));
        let mut inspect = Command::new("skopeo");
        let shown = inspect.args(["inspect", "--raw", "--tls-verify=false", &to]);
        format!("sha256:{}", oci::sha256(&done(shown).stdout))
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// A command that succeeds.
fn done(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {text}");
    output
}

/// The first of these commands that is missing.
fn missing(commands: &[&'static str]) -> Option<&'static str> {
    commands.iter().copied().find(|name| !has_program(name))
}

/// The server that the tests are built with, without the tables of a debugger, and the image of it.
fn make_image(folder: &Path) -> Option<image::Image> {
    let running = env::current_exe().expect("a path");
    let built = running.ancestors().map(|folder| folder.join("dunlin")).find(|path| path.is_file());
    let Some(built) = built else {
        skip("dunlin beside this test: cargo build --package dunlin");
        return None;
    };
    let program = folder.join("dunlin");
    done(Command::new("strip").arg("-o").arg(&program).arg(built));
    let arch = Arch::ALL.into_iter().find(|arch| arch.is_here())?;
    let config = fs::read(crate::root().join("examples/dunlin.toml")).expect("a file");
    Some(image::make(&about(), &config, &[(arch, &program)], true).expect("an image"))
}

/// A file inside the manifest: the indented lines after its name.
fn config_map(file: &str) -> String {
    let (_, rest) = MANIFEST.split_once(&format!("  {file}: |\n")).expect("the file");
    let lines = rest.lines().take_while(|line| line.is_empty() || line.starts_with("    "));
    lines.map(|line| line.trim_start_matches("    ").to_owned() + "\n").collect()
}

/// What `ctr run` needs to run the image as the manifest says; the config is in `folder`.
fn as_in_the_manifest(folder: &Path, space: &str) -> Vec<String> {
    for line in [
        "runAsNonRoot: true",
        "runAsUser: 65532",
        "runAsGroup: 65532",
        "allowPrivilegeEscalation: false",
        "readOnlyRootFilesystem: true",
        "capabilities: {drop: [ALL]}",
        "{name: net.ipv4.ip_unprivileged_port_start, value: \"53\"}",
        "mountPath: /etc/dunlin, readOnly: true}",
        "mountPath: /var/lib/dunlin}",
        "mountPath: /run/dunlin}",
    ] {
        assert!(MANIFEST.contains(line), "the manifest says {line}");
    }
    for file in ["dunlin.toml", "example.org.zone"] {
        let text = config_map(file).replace("drain = \"10s\"", "drain = \"0s\"");
        fs::write(folder.join(file), text).expect("a file");
    }
    let folder = folder.display();
    let scratch = |to| format!("type=tmpfs,src=tmpfs,dst={to},options=nosuid:nodev:mode=1777");
    let mut words = vec![
        "--read-only".into(),
        format!("--with-ns=network:/run/netns/{space}"),
        format!("--mount=type=bind,src={folder},dst=/etc/dunlin,options=rbind:ro"),
        format!("--mount={}", scratch("/run/dunlin")),
        format!("--mount={}", scratch("/var/lib/dunlin")),
    ];
    // All that containerd gives by default.
    for name in [
        "CHOWN",
        "DAC_OVERRIDE",
        "FSETID",
        "FOWNER",
        "MKNOD",
        "NET_RAW",
        "SETGID",
        "SETUID",
        "SETFCAP",
        "SETPCAP",
        "NET_BIND_SERVICE",
        "SYS_CHROOT",
        "KILL",
        "AUDIT_WRITE",
    ] {
        words.push(format!("--cap-drop=CAP_{name}"));
    }
    words
}

/// Serves from the pulled image, answers a query, and ends by SIGTERM.
fn serve(containerd: &Containerd, image: &str, folder: &Path) {
    let spaces = Spaces::new("release");
    spaces.run("ip -n {s} link set lo up");
    let port = "net.ipv4.ip_unprivileged_port_start=53";
    spaces.run(&format!("ip netns exec {{s}} sysctl -qw {port}"));
    let options = as_in_the_manifest(folder, &spaces.server);
    let mut run = containerd.command_line();
    run.args(["run", "--rm", "--snapshotter=native"]).args(options).args([image, "served"]);
    let mut child = run.stdin(Stdio::null()).spawn().expect("ctr");
    let answer = wait::until_value(
        "www.example.org is answered",
        || {
            assert_eq!(child.try_wait().expect("a child"), None, "it ended");
            spaces.told_by("ip netns exec {s} dig +short +timeout=1 @127.0.0.1 www.example.org")
        },
        |answer| answer.as_ref().is_ok_and(|answer| !answer.is_empty()),
    );
    assert_eq!(answer.as_deref(), Ok("192.0.2.80\n"));
    let process = format!("/proc/{}", pid_of(containerd));
    let lock = Path::new(&process).join("root/var/lib/dunlin/lock");
    assert!(lock.exists(), "its state can be written");
    let status = fs::read_to_string(format!("{process}/status")).expect("it runs");
    for line in ["Uid:\t65532\t65532\t65532\t65532", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1"]
    {
        assert!(status.contains(line), "{line}: {status}");
    }
    done(containerd.command_line().args(["tasks", "kill", "--signal", "SIGTERM", "served"]));
    assert!(wait::until_exit("the container", &mut child).success());
}

/// The process of the container `served`.
fn pid_of(containerd: &Containerd) -> String {
    let tasks = done(containerd.command_line().args(["tasks", "list"])).stdout;
    let tasks = String::from_utf8_lossy(&tasks).into_owned();
    let row = tasks.lines().find_map(|line| line.strip_prefix("served"));
    row.and_then(|row| row.split_whitespace().next()).expect("its row").to_owned()
}

#[test]
#[ignore = "cluster: containerd and Helm pull from a registry"]
fn release_is_pulled_from_a_registry_and_serves_as_unprivileged_user_from_a_read_only_root() {
    if let Some(name) = missing(&["docker-registry", "skopeo", "strip", "ldd", "dig"]) {
        return skip(name);
    }
    let Some(containerd) = Containerd::start("release") else { return };
    let folder = containerd.path("release");
    fs::create_dir_all(&folder).expect("a folder");
    let Some(image) = make_image(&folder) else { return };
    let charts = crate::root().join("packaging/kubernetes");
    let chart = chart::make(&about(), &charts, &image.digest).expect("a chart");
    let registry = Registry::start(&folder);
    let push = |name: &str, archive: &[u8], repository: &str| {
        let file = folder.join(name);
        fs::write(&file, archive).expect("a file");
        registry.push(&file, repository)
    };
    assert_eq!(push("image.tar", &image.archive, "dunlin/dunlin"), image.digest);
    assert_eq!(push("chart.tar", &chart.archive, "dunlin/charts/dunlin"), chart.digest);

    let named = format!("{}/dunlin/dunlin@{}", registry.address, image.digest);
    let mut pull = containerd.command_line();
    pull.args(["images", "pull", "--local", "--plain-http", "--snapshotter=native", &named]);
    done(&mut pull);
    let mut run = containerd.command_line();
    run.args(["run", "--rm", "--snapshotter=native", "--read-only", &named, "version"]);
    let said = done(run.args(["/usr/bin/dunlin", "--version"])).stdout;
    let expected = format!("dunlin {} (", about().version);
    assert!(said.starts_with(expected.as_bytes()), "{said:?}");
    serve(&containerd, &named, &folder);

    let helm = match tools::go("helm", "HELM") {
        Ok(helm) => helm,
        Err(missing) => return skip(&missing),
    };
    let from = format!("oci://{}/dunlin/charts/dunlin", registry.address);
    let mut pull = Command::new(helm);
    pull.env("HOME", &folder).args(["pull", &from, "--plain-http", "--version", &about().version]);
    done(pull.arg("--destination").arg(&folder));
    let pulled = fs::read(folder.join(format!("dunlin-{}.tgz", about().version)));
    assert_eq!(oci::sha256(&pulled.expect("a chart")), oci::sha256(&chart.package));
}
