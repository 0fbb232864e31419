//! `make run` uses a private folder.
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use test_support::wait;

/// Stands for the binary, because the demo's ports may be taken. It records its folder, and serves
/// until SIGTERM, or not at all.
const BINARY: &str = r#"#!/usr/bin/env bash
case "$1" in
serve)
  folder=$(dirname "$3")
  { stat -c %a "$folder"; ls "$folder"; echo "$folder"; } >"$TOLD.part" && mv "$TOLD.part" "$TOLD"
  [[ -z ${SERVES:-} ]] || exec sleep 600
  exit 7
  ;;
token) echo dunlin_0 ;;
esac
"#;

struct Demo {
    child: Child,
    told: PathBuf,
}

impl Demo {
    fn start(test: &str, serves: bool) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder");
        let (binary, told) = (folder.join("dunlin"), folder.join("told"));
        fs::write(&binary, BINARY).expect("a file");
        fs::set_permissions(&binary, fs::Permissions::from_mode(0o755)).expect("ours");
        let mut command = Command::new("scripts/demo");
        command.arg(&binary).env("TOLD", &told).env("TMPDIR", &folder).stdout(Stdio::null());
        command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."));
        if serves {
            command.env("SERVES", "1");
        }
        Self { child: command.spawn().expect("bash"), told }
    }

    /// The mode of the folder, its content, and its path.
    fn folder(&self) -> (String, Vec<String>, PathBuf) {
        let text = wait::until_ok("the start", || fs::read_to_string(&self.told));
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let path = lines.pop().expect("a path").into();
        (lines.remove(0), lines, path)
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn demo_has_a_private_folder_and_removes_it() {
    let mut demo = Demo::start("demo_ends", false);
    assert_eq!(demo.child.wait().expect("it ends").code(), Some(7), "the server's own status");
    let (mode, files, path) = demo.folder();
    assert_eq!(mode, "700");
    assert!(files.contains(&"dunlin.toml".to_owned()), "{files:?}");
    assert!(!path.exists(), "{}", path.display());
}

#[test]
fn demo_leaves_nothing_after_sigterm() {
    let mut demo = Demo::start("demo_signal", true);
    let (_, _, path) = demo.folder();
    assert!(path.exists());
    kill_process(Pid::from_child(&demo.child), Signal::TERM).expect("it runs");
    demo.child.wait().expect("it ends");
    assert!(!path.exists(), "{}", path.display());
}
