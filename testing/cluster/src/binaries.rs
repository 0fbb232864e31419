//! Where the binaries are that `scripts/require cluster` builds.
use std::path::{Path, PathBuf};

/// What a cluster and its node consist of, and kubectl.
pub const BINARIES: [&str; 7] = [
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-proxy",
    "kube-scheduler",
    "kubectl",
    "kubelet",
];

/// The folder of the binaries: that of the variable `DUNLIN_CLUSTER_BIN`, or `cluster` in cargo's
/// target folder, which is above the running test.
///
/// # Errors
/// Which binary is missing, and how to build it.
pub fn find() -> Result<PathBuf, String> {
    let named = std::env::var_os("DUNLIN_CLUSTER_BIN").map(PathBuf::from);
    let running = std::env::current_exe().unwrap_or_default();
    let above = running.ancestors().map(|folder| folder.join("cluster"));
    let folder = named.or_else(|| above.into_iter().find(|folder| is_complete(folder)));
    let hint = "run `scripts/require cluster`, which builds them";
    match folder {
        Some(folder) if is_complete(&folder) => Ok(folder),
        Some(folder) => Err(format!(
            "{} is not a folder with {}: {hint}",
            folder.display(),
            BINARIES.join(", ")
        )),
        None => Err(format!("no folder with {}: {hint}", BINARIES.join(", "))),
    }
}

fn is_complete(folder: &Path) -> bool {
    BINARIES.iter().all(|binary| folder.join(binary).is_file())
}
