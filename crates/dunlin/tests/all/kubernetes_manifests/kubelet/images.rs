//! The images of the cluster, at the names that the manifests have.
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use test_support::registry::{Registry, make_layout};

/// Puts programs and the libraries that they need into a folder: `PROGRAM PLACE`, a line each.
const COPY: &str = r#"set -e
while read -r program place; do
  mkdir -p "$1/$(dirname "$place")"
  cp -L "$program" "$1/$place"
  [ "$(basename "$place")" != dunlin ] || strip "$1/$place"
  ldd "$program" 2>/dev/null | grep -o '/[^ ]*' | while read -r library; do
    mkdir -p "$1/$(dirname "$library")"
    cp -L "$library" "$1/$library"
  done
done
mkdir -p "$1/proc" "$1/sys" "$1/dev" "$1/tmp" "$1/etc""#;

fn copy(files: &Path, programs: &str) {
    let mut copy = Command::new("sh");
    copy.args(["-c", COPY, "sh"]).arg(files).stdin(Stdio::piped());
    let mut child = copy.spawn().expect("sh");
    let mut input = child.stdin.take().expect("a pipe");
    input.write_all(programs.as_bytes()).expect("it reads");
    drop(input);
    assert!(child.wait().expect("it ends").success(), "{programs} cannot be copied");
}

/// The image of Dunlin: the OCI archive that `DUNLIN_IMAGE` names, or one of this build.
fn dunlin(folder: &Path) -> PathBuf {
    let layout = folder.join("dunlin");
    if let Some(archive) = std::env::var_os("DUNLIN_IMAGE") {
        fs::create_dir(&layout).expect("a folder");
        let mut tar = Command::new("tar");
        let status = tar.arg("-xf").arg(&archive).arg("-C").arg(&layout).status();
        assert!(status.expect("tar").success(), "{} is not an archive", archive.display());
        return layout;
    }
    let files = folder.join("dunlin-files");
    copy(&files, &format!("{} usr/bin/dunlin\n", env!("CARGO_BIN_EXE_dunlin")));
    let config = r#"{"User":"65532:65532","Entrypoint":["/usr/bin/dunlin"],
        "Cmd":["serve","-c","/etc/dunlin/dunlin.toml"]}"#;
    make_layout(&files, &layout, config);
    layout
}

/// Busybox and dig. It does nothing until it has to end, as `pause` does.
fn busybox(folder: &Path) -> PathBuf {
    let (files, layout) = (folder.join("busybox-files"), folder.join("busybox"));
    copy(&files, "/bin/busybox bin/busybox\n/usr/bin/dig bin/dig\n");
    for name in ["sh", "sleep", "grep", "ip", "cat"] {
        std::os::unix::fs::symlink("busybox", files.join("bin").join(name)).expect("a link");
    }
    let config = r#"{"Env":["PATH=/bin"],"Entrypoint":["/bin/sh","-c",
        "trap exit TERM; while :; do sleep 1000000 & wait $!; done"]}"#;
    make_layout(&files, &layout, config);
    layout
}

/// A registry with the images that the manifests and a kubelet name.
pub fn serve(folder: &Path) -> Registry {
    drop(fs::remove_dir_all(folder));
    fs::create_dir_all(folder).expect("a folder");
    let (dunlin, busybox) = (dunlin(folder), busybox(folder));
    Registry::start(&[
        ("dunlin/dunlin", &dunlin),
        ("library/busybox", &busybox),
        ("pause", &busybox),
    ])
}
