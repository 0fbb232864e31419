//! Network namespaces: a socket belongs to the namespace that its thread is in when it opens it.

use crate::Error;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::os::fd::AsFd;

/// Folder of the names of `ip netns`.
const FOLDER: &str = "/run/netns";

/// Runs `body` in a network namespace, then returns to the previous one. Threads begun meanwhile
/// stay there.
///
/// # Errors
/// There is none of that name, or the process may not enter it; or what `body` fails with.
pub fn within<T>(name: Option<&str>, body: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    let Some(name) = name else { return body() };
    let path = format!("{FOLDER}/{name}");
    if name.contains('/') || !std::path::Path::new(&path).exists() {
        let list = "`ip netns list` shows those there are";
        return Err(Error::Invalid(format!("no network namespace {name:?}: {list}")));
    }
    let open = |path: &str| File::open(path).map_err(|error| Error::failed(path, error));
    let (own, other) = (open("/proc/thread-self/ns/net")?, open(&path)?);
    enter(&other, &path)?;
    let done = body();
    enter(&own, "the return to this process's network namespace")?;
    done
}

fn enter(space: &File, what: &str) -> Result<(), Error> {
    move_into_link_name_space(space.as_fd(), Some(LinkNameSpaceType::Network)).map_err(|error| {
        match error {
            rustix::io::Errno::PERM => Error::failed(what, "this needs root (CAP_SYS_ADMIN)"),
            other => Error::failed(what, other),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_namespace_is_named_in_the_error() {
        for name in ["no-such-one", "../1/ns/net"] {
            let error = within(Some(name), || Ok(())).unwrap_err();
            assert!(matches!(error, Error::Invalid(_)), "{error}");
            assert!(error.to_string().contains(&format!("{name:?}")), "{error}");
        }
        assert_eq!(within(None, || Ok(7)), Ok(7));
    }
}
