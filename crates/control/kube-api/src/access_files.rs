//! The files that the access to the API server is made of, and whether they have changed.
use kube::config::Kubeconfig;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A file, and what changes when it is written or replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamp {
    file: PathBuf,
    /// Device, inode, length, and the time of the last change; `None`: it cannot be read.
    seen: Option<(u64, u64, u64, i64, i64)>,
}

impl Stamp {
    /// The stamp of a file, or of what a link leads to.
    pub fn of(file: &Path) -> Self {
        let found = std::fs::metadata(file).ok();
        let seen = found.map(|it| (it.dev(), it.ino(), it.len(), it.mtime(), it.mtime_nsec()));
        Self { file: file.into(), seen }
    }

    /// Whether the file still is the same.
    pub fn is_current(&self) -> bool {
        *self == self.renewed()
    }

    /// The stamp of the file as it is now.
    pub fn renewed(&self) -> Self {
        Self::of(&self.file)
    }
}

/// The files of certificates and keys that a kubeconfig names. Tokens are read again by `kube`.
pub fn named_files(kubeconfig: &Kubeconfig) -> impl Iterator<Item = &Path> {
    let clusters = kubeconfig.clusters.iter().filter_map(|named| named.cluster.as_ref());
    let users = kubeconfig.auth_infos.iter().filter_map(|named| named.auth_info.as_ref());
    let of_clusters = clusters.map(|cluster| &cluster.certificate_authority);
    let of_users = users.flat_map(|user| [&user.client_certificate, &user.client_key]);
    of_clusters.chain(of_users).flatten().map(Path::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_written_replaced_or_removed_is_not_current() {
        let folder = std::env::temp_dir().join(format!("dunlin-stamps-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let (file, other) = (folder.join("ca.crt"), folder.join("new"));
        let missing = Stamp::of(&file);
        std::fs::write(&file, "one").expect("written");
        assert!(!missing.is_current());
        let stamp = Stamp::of(&file);
        assert!(stamp.is_current());
        std::fs::write(&other, "two").expect("written");
        std::fs::rename(&other, &file).expect("replaced");
        assert!(!stamp.is_current(), "of the same length");
        let stamp = stamp.renewed();
        std::fs::remove_file(&file).expect("removed");
        assert!(!stamp.is_current());
        std::fs::remove_dir_all(&folder).expect("it was there");
    }
}
