//! The names under which the service manager keeps sockets for the process that comes after us.
use admin::{SharedSocket, SocketKind};

/// What they begin with, before the place in our list. A name of their own each: the manager passes
/// them in an order of its own, and which worker a socket is for depends on ours.
const PREFIX: &str = "kept-";
/// What the names of those end with that are for no questions.
const ENDS: [(&str, SocketKind); 2] = [("-ops", SocketKind::Ops), ("-api", SocketKind::Api)];

/// The name of the socket at this place in the list.
pub fn name(index: usize, socket: &SharedSocket) -> String {
    let end = ENDS.iter().find(|(_, kind)| *kind == socket.kind).map_or("", |(end, _)| end);
    format!("{PREFIX}{index}{end}")
}

/// The place in the list that a name tells; nothing: it is no name of ours.
pub fn index(name: &str) -> Option<usize> {
    let index = name.strip_prefix(PREFIX)?;
    let index = ENDS.iter().find_map(|(end, _)| index.strip_suffix(end)).unwrap_or(index);
    index.parse().ok()
}

/// What a name says that a socket is for; nothing: for questions, or it is no name of ours.
pub fn kind(name: &str) -> Option<SocketKind> {
    index(name)?;
    ENDS.iter().find(|(end, _)| name.ends_with(end)).map(|(_, kind)| *kind)
}
