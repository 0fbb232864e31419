//! The library of DPDK's calls, compiled for the DPDK of this machine.
use crate::skip::skip;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// The path of the library, compiled once in a process; `None`: DPDK is not installed, which is
/// said, and is an error where nothing may be skipped.
///
/// # Panics
/// It cannot be compiled.
pub fn library() -> Option<PathBuf> {
    static LIBRARY: OnceLock<Option<PathBuf>> = OnceLock::new();
    let library = LIBRARY.get_or_init(compile).clone();
    if library.is_none() {
        skip("DPDK is not installed (Debian: libdpdk-dev)");
    }
    library
}

fn compile() -> Option<PathBuf> {
    let mut found = Command::new("pkg-config");
    found.args(["--exists", "libdpdk"]).stderr(Stdio::null());
    if !found.status().is_ok_and(|status| status.success()) {
        return None;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let root = root.canonicalize().expect("the repository");
    let folder = root.join("target/dpdk");
    let build = root.join("crates/dataplane/port-dpdk/native/build");
    let status = Command::new(build).arg(&folder).status().expect("a shell");
    assert!(status.success(), "libdunlin-dpdk.so is not compiled");
    Some(folder.join("libdunlin-dpdk.so"))
}
