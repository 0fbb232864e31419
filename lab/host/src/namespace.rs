//! Network namespaces, by the names that `ip netns` knows them by.

use crate::Result;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::os::fd::AsFd;
use std::path::PathBuf;

/// The path of the namespace of this name (ip-netns(8)).
pub fn path(name: &str) -> PathBuf {
    PathBuf::from("/run/netns").join(name)
}

/// Moves the calling thread, and the threads and processes that it starts later, into the
/// namespace. Its `/sys` stays that of the one it comes from.
///
/// # Errors
/// There is no such namespace, or we are not root.
pub fn enter(name: &str) -> Result<()> {
    if name.is_empty() || name.contains('/') {
        return Err(format!("`{name}` is not a name of a network namespace"));
    }
    let path = path(name);
    let told = |why: std::io::Error| {
        let there = "`ip netns list` lists the namespaces";
        format!("cannot enter the network namespace {name}: {why} ({there}; this needs root)")
    };
    let space = File::open(&path).map_err(told)?;
    move_into_link_name_space(space.as_fd(), Some(LinkNameSpaceType::Network))
        .map_err(|error| told(error.into()))
}

/// Does `work` within the namespace, on a thread of its own; without a name, here.
///
/// # Errors
/// The namespace cannot be entered, or what `work` says.
pub fn within<T: Send>(name: Option<&str>, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let Some(name) = name else { return work() };
    let entered = || enter(name).and_then(|()| work());
    std::thread::scope(|scope| scope.spawn(entered).join())
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_namespace_names_are_refused() {
        for name in ["", "../net", "a/b"] {
            assert!(enter(name).unwrap_err().contains("is not a name"), "{name}");
        }
        let said = within(Some("no-such-namespace"), || Ok(())).unwrap_err();
        assert!(said.contains("cannot enter the network namespace no-such-namespace"), "{said}");
        assert_eq!(within(None, || Ok(7)), Ok(7));
    }
}
