//! The commands of the page for newcomers, typed as they stand there.
use super::node::{IDLE, Node};
use super::{TELL, told};
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

const PAGE: &str = include_str!("../../../../../docs/cpus-first-steps.md");

/// The commands of the page.
fn commands() -> Vec<&'static str> {
    PAGE.split("```\n").skip(1).step_by(2).map(str::trim).collect()
}

/// A person's shell, in the root of the repository.
struct Shell {
    folder: PathBuf,
    shell: Child,
    input: ChildStdin,
}

impl Shell {
    /// `kubectl` notes what it is asked for: this test does what a kubelet would.
    fn start(folder: PathBuf) -> Self {
        let programs = folder.join("bin");
        fs::create_dir_all(&programs).expect("a folder");
        let dunlin = programs.join("dunlin");
        drop(fs::remove_file(&dunlin));
        symlink(env!("CARGO_BIN_EXE_dunlin"), dunlin).expect("a link");
        let kubectl = format!("#!/bin/sh\necho \"$@\" >{}\n", folder.join("asked").display());
        fs::write(programs.join("kubectl"), kubectl).expect("a file");
        let mut shell = Command::new("sh");
        let made = Command::new("chmod").arg("+x").arg(programs.join("kubectl")).status();
        assert!(made.expect("chmod").success());
        let path = std::env::var("PATH").unwrap_or_default();
        shell.env("PATH", format!("{}:{path}", programs.display()));
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let log = fs::File::create(folder.join("said")).expect("a file");
        let both = log.try_clone().expect("a file");
        shell.current_dir(root).stdin(Stdio::piped()).stdout(log).stderr(both);
        let mut shell = shell.spawn().expect("sh");
        let input = shell.stdin.take().expect("a pipe");
        Self { folder, shell, input }
    }

    /// Types a command, and something that shows that the shell has done with it.
    fn type_in(&mut self, node: &Node, number: usize, command: &str) {
        writeln!(self.input, "{command}\necho \"command {number}: $?\"").expect("the shell reads");
        let said = format!("command {number}: 0\n");
        node.wait(command, |_| self.said().contains(&said));
    }

    fn said(&self) -> String {
        fs::read_to_string(self.folder.join("said")).unwrap_or_default()
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        drop(self.shell.kill());
        drop(self.shell.wait());
    }
}

/// What a kubelet makes of a pod: its name and group, the name of its container, and thousandths of
/// a CPU that this requests.
fn read_pod(path: &Path) -> (String, String, String, u32) {
    let text = fs::read_to_string(path).expect("the file of the page");
    let pod: Value = serde_saphyr::from_str(&text).expect("YAML");
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    let container = &pod["spec"]["containers"][0];
    let resources = &container["resources"];
    assert_eq!(resources["requests"], resources["limits"], "that is Guaranteed");
    let name = text(&pod["metadata"]["name"]);
    let cpus: u32 = text(&resources["requests"]["cpu"]).parse().expect("whole CPUs");
    (name.clone(), format!("/kubepods/pod{name}"), text(&container["name"]), cpus * 1_000)
}

#[test]
#[ignore = "kernel: it needs a machine of its own with cgroup v2"]
fn commands_of_the_page_give_a_container_two_cpus_and_take_them_back() {
    let Some(mut node) = Node::new("page") else { return };
    // Where a runtime has its socket.
    fs::create_dir_all("/var/run/nri").expect("a folder");
    drop(fs::remove_file("/var/run/nri/nri.sock"));
    symlink(node.containerd.nri(), "/var/run/nri/nri.sock").expect("a link");
    let before = node.files();
    let [look, manage, apply, undo] = commands()[..] else { panic!("{:?}", commands()) };
    let mut shell = Shell::start(node.containerd.path("page"));

    shell.type_in(&node, 1, look);
    assert!(shell.said().contains("2 sockets"), "{}", shell.said());
    shell.type_in(&node, 2, manage);
    node.wait("the runtime is connected", |_| shell.said().contains("tells of its containers"));
    shell.type_in(&node, 3, apply);
    let asked = fs::read_to_string(shell.folder.join("asked")).expect("kubectl was called");
    let file = asked.trim().strip_prefix("apply -f ").expect("a file to be applied");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let (name, parent, container, milli) = read_pod(&root.join(file));
    let pod = node.pod(&name, &parent, &[]);
    let id = node.containerd.run(&pod, &container, milli, true, &format!("{TELL}; {IDLE}"));
    let own = told(&node, &name, &container);
    assert_eq!(own.len(), 2, "at its first instruction");
    let group = format!("{}/{id}", &parent[1..]);
    node.wait("it is alone", |node| node.is_alone(&group, 2));
    assert!(shell.said().contains(&format!("has CPUs {own} of its own")), "{}", shell.said());

    shell.type_in(&node, 4, undo);
    assert_eq!(node.effective(&group), node.online(), "it shares");
    for (file, text) in before {
        let now = node.files().remove(&file).unwrap_or_default();
        assert!(now == text || now == node.online().to_string(), "{file}: {now}, not {text}");
    }
    // The manager has ended: the shell waits for no process any more.
    shell.type_in(&node, 5, "wait");
    node.containerd.must(&["stop-pod", &pod]);
}
