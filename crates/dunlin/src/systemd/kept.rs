//! The names under which the service manager keeps sockets for the process that comes after us.
use admin::{Kind, Shared};

/// What they begin with, before the place in our list. A name of their own each: the manager passes
/// them in an order of its own, and which worker a socket is for depends on ours.
const PREFIX: &str = "kept-";
/// What the name of one for metrics and health ends with.
const OPS: &str = "-ops";

/// The name of the socket at this place in the list.
pub fn name(index: usize, socket: &Shared) -> String {
    let end = if socket.kind == Kind::Ops { OPS } else { "" };
    format!("{PREFIX}{index}{end}")
}

/// The place in the list that a name tells; nothing: it is no name of ours.
pub fn index(name: &str) -> Option<usize> {
    let index = name.strip_prefix(PREFIX)?;
    index.strip_suffix(OPS).unwrap_or(index).parse().ok()
}

/// Whether a name is that of a socket for metrics and health.
pub fn is_ops(name: &str) -> bool {
    index(name).is_some() && name.ends_with(OPS)
}
