//! The names under which the service manager keeps sockets for the next process.
use admin::{SharedSocket, SocketKind};

/// Prefix of the names; the index of the socket follows. Each socket has its own name: the manager
/// passes them in any order, but their order decides which worker gets a socket.
const PREFIX: &str = "kept-";
/// Suffixes of sockets that receive no DNS queries.
const ENDS: [(&str, SocketKind); 2] = [("-ops", SocketKind::Ops), ("-api", SocketKind::Api)];

/// The name of the socket with this index.
pub fn name(index: usize, socket: &SharedSocket) -> String {
    let end = ENDS.iter().find(|(_, kind)| *kind == socket.kind).map_or("", |(end, _)| end);
    format!("{PREFIX}{index}{end}")
}

/// The index in a name; `None` if the name is not ours.
pub fn index(name: &str) -> Option<usize> {
    let index = name.strip_prefix(PREFIX)?;
    let index = ENDS.iter().find_map(|(end, _)| index.strip_suffix(end)).unwrap_or(index);
    index.parse().ok()
}

/// The purpose of a socket by its name; `None` for DNS sockets and foreign names.
pub fn kind(name: &str) -> Option<SocketKind> {
    index(name)?;
    ENDS.iter().find(|(end, _)| name.ends_with(end)).map(|(_, kind)| *kind)
}
