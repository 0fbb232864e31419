//! A real containerd of a test: its own folders and sockets, one image made of Debian's static
//! busybox, and a client that drives it as a kubelet does.
use crate::skip::skip;
use crate::wait;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The image that containers are made of: busybox as `sh`, `sleep`, `cat` and `grep`.
pub const IMAGE: &str = "localhost/busybox:1";

/// Makes the image, in the folder that the first argument names.
const MAKE_IMAGE: &str = r#"set -e
mkdir -p "$1/image/root/bin" "$1/none" "$1/logs"
cd "$1/image"
mkdir -p root/proc root/sys root/tmp root/etc root/dev
cp /bin/busybox root/bin/
for name in sh sleep cat grep; do ln -sf busybox root/bin/$name; done
tar -C root --owner=0 --group=0 -cf layer.tar .
layer=$(sha256sum layer.tar | cut -d' ' -f1)
cat >config.json <<CONFIG
{"architecture":"amd64","os":"linux","config":{"Entrypoint":["/bin/sleep","2147483647"]},
"rootfs":{"type":"layers","diff_ids":["sha256:$layer"]}}
CONFIG
tags='"RepoTags":["localhost/busybox:1"]'
echo "[{\"Config\":\"config.json\",$tags,\"Layers\":[\"layer.tar\"]}]" >manifest.json
tar -cf "$1/image.tar" manifest.json config.json layer.tar"#;

/// A containerd, until it is dropped.
pub struct Containerd {
    folder: PathBuf,
    programs: PathBuf,
    daemon: Option<Child>,
    client: Option<(Child, ChildStdin, BufReader<ChildStdout>)>,
}

impl Containerd {
    /// Starts one; `None`: it is not built here, or this is not root.
    ///
    /// # Panics
    /// It does not start.
    pub fn start(test: &str) -> Option<Self> {
        let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
        let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target");
        let programs = target.unwrap_or(here).join("go/bin");
        let is_root = rustix::process::geteuid().is_root();
        if !is_root || !programs.join("cri").exists() || !Path::new("/bin/busybox").exists() {
            skip("root, and containerd in target/go/bin (scripts/require test-cluster)");
            return None;
        }
        // Short: a socket's path has at most 107 bytes.
        let folder = PathBuf::from(format!("/run/dunlin-{test}-{}", std::process::id()));
        drop(fs::remove_dir_all(&folder));
        fs::create_dir_all(&folder).expect("a folder");
        let mut containerd = Self { folder, programs, daemon: None, client: None };
        let mut make = Command::new("sh");
        let made = make.args(["-c", MAKE_IMAGE, "sh"]).arg(&containerd.folder).status();
        assert!(made.expect("sh").success(), "the image cannot be made");
        containerd.begin();
        let image = containerd.path("image.tar").display().to_string();
        let import = ["images", "import", "--local", "--snapshotter", "native", &image];
        let output = containerd.ctr(&import);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Some(containerd)
    }

    /// A file or folder of it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The socket for NRI plugins.
    pub fn nri(&self) -> PathBuf {
        self.path("nri.sock")
    }

    /// The process of the daemon.
    pub fn pid(&self) -> u32 {
        self.daemon.as_ref().map_or(0, Child::id)
    }

    /// Its own command line, in the namespace of Kubernetes.
    pub fn command_line(&self) -> Command {
        let mut ctr = Command::new(self.programs.join("ctr"));
        ctr.arg("--address").arg(self.path("c.sock")).args(["--namespace", "k8s.io"]);
        ctr
    }

    fn ctr(&self, arguments: &[&str]) -> std::process::Output {
        self.command_line().args(arguments).output().expect("ctr runs")
    }

    fn begin(&mut self) {
        let folder = self.folder.display();
        let config = format!(
            "version = 3\nroot = \"{folder}/root\"\nstate = \"{folder}/state\"\n\
             [grpc]\naddress = \"{folder}/c.sock\"\n[ttrpc]\naddress = \"{folder}/t.sock\"\n\
             [plugins.'io.containerd.cri.v1.images']\nsnapshotter = \"native\"\n\
             [plugins.'io.containerd.cri.v1.images'.pinned_images]\nsandbox = \"{IMAGE}\"\n\
             [plugins.'io.containerd.cri.v1.runtime']\nrestrict_oom_score_adj = true\n\
             [plugins.'io.containerd.nri.v1.nri']\ndisable = false\n\
             socket_path = \"{folder}/nri.sock\"\nplugin_path = \"{folder}/none\"\n\
             plugin_config_path = \"{folder}/none\"\nplugin_request_timeout = \"60s\"\n\
             plugin_registration_timeout = \"60s\"\n"
        );
        fs::write(self.path("config.toml"), config).expect("a file");
        let log = fs::File::create(self.path("log")).expect("a file");
        // The shim and runc are found by the path.
        let path = std::env::var("PATH").unwrap_or_default();
        let path = format!("{}:{path}:/usr/sbin:/sbin", self.programs.display());
        let mut daemon = Command::new(self.programs.join("containerd"));
        daemon.arg("--config").arg(self.path("config.toml")).env("PATH", path);
        let daemon = daemon.stdout(Stdio::null()).stderr(log).spawn().expect("containerd runs");
        self.daemon = Some(daemon);
        wait::until_ok("containerd serves", || {
            self.ctr(&["version"]).status.success().then_some(()).ok_or_else(|| self.log())
        });
        let mut client = Command::new(self.programs.join("cri"));
        client.arg(self.path("c.sock")).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut client = client.spawn().expect("cri runs");
        let (input, output) = (client.stdin.take(), client.stdout.take());
        let (input, output) = (input.expect("a pipe"), output.expect("a pipe"));
        self.client = Some((client, input, BufReader::new(output)));
    }

    /// The last lines that the daemon has logged.
    pub fn log(&self) -> String {
        let log = fs::read_to_string(self.path("log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().rev().take(20).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n")
    }

    /// Has the client do something; see `testing/cri/main.go`.
    ///
    /// # Errors
    /// What containerd answers.
    ///
    /// # Panics
    /// The client ended.
    pub fn call(&mut self, words: &[&str]) -> Result<String, String> {
        let (_, input, output) = self.client.as_mut().expect("a client");
        writeln!(input, "{}", words.join("\t")).expect("the client reads");
        let mut line = String::new();
        output.read_line(&mut line).expect("the client answers");
        match line.trim().split_once(' ').unwrap_or((line.trim(), "")) {
            ("ok", answer) => Ok(answer.to_owned()),
            (_, error) => Err(format!("{}: {error}", words.join(" "))),
        }
    }

    /// The same, which must succeed.
    ///
    /// # Panics
    /// It does not.
    pub fn must(&mut self, words: &[&str]) -> String {
        let answer = self.call(words);
        answer.unwrap_or_else(|error| panic!("{error}\n{}", self.log()))
    }

    /// Runs a pod in a control group, with annotations `KEY=VALUE`; returns its id.
    pub fn pod(&mut self, name: &str, cgroup: &str, annotations: &[&str]) -> String {
        let logs = self.path("logs").join(name);
        fs::create_dir_all(&logs).expect("a folder");
        let logs = logs.display().to_string();
        let mut words = vec!["pod", name, name, cgroup, &logs];
        words.extend(annotations);
        self.must(&words)
    }

    /// Creates and starts a container of a pod that runs a script; `milli` thousandths of a CPU
    /// are requested, and granted at most if `is_limited`. Returns its id.
    pub fn run(
        &mut self,
        pod: &str,
        name: &str,
        milli: u32,
        is_limited: bool,
        script: &str,
    ) -> String {
        let shares = (milli * 1_024 / 1_000).to_string();
        let quota = if is_limited { (milli * 100).to_string() } else { "0".into() };
        let words =
            ["create", pod, name, IMAGE, &shares, &quota, "100000", "/bin/sh", "-c", script];
        let id = self.must(&words);
        self.must(&["start", &id]);
        id
    }

    /// What a container has written, once it has written something.
    ///
    /// # Panics
    /// It writes nothing.
    pub fn output(&self, pod_name: &str, container_name: &str) -> String {
        let path = self.path("logs").join(pod_name).join(format!("{container_name}.log"));
        let what = format!("a line of {container_name}");
        let read = || fs::read_to_string(&path).unwrap_or_default();
        let text = wait::until_value(&what, read, |text| text.ends_with('\n'));
        // Each line begins with a time, a stream and a tag.
        let said = text.lines().map(|line| line.splitn(4, ' ').last().unwrap_or_default());
        said.collect::<Vec<_>>().join("\n")
    }
}

impl Drop for Containerd {
    fn drop(&mut self) {
        if let Some((mut client, input, _)) = self.client.take() {
            drop(input);
            drop(client.wait());
        }
        // Containers outlive their daemon: what is left is killed first.
        let tasks = self.ctr(&["tasks", "list", "--quiet"]);
        for id in String::from_utf8_lossy(&tasks.stdout).lines() {
            self.ctr(&["tasks", "delete", "--force", id]);
        }
        if let Some(mut daemon) = self.daemon.take() {
            drop(daemon.kill());
            drop(daemon.wait());
        }
        drop(fs::remove_dir_all(&self.folder));
    }
}
