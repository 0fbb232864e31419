//! The names under which the service manager keeps sockets for the next process.
use admin::{SharedSocket, SocketKind};

/// Prefix of the names; the index of the socket follows. Each socket has its own name: the manager
/// passes them in any order, but their order decides which worker gets a socket.
const PREFIX: &str = "kept-";

/// The name of the socket with this index.
pub fn name(index: usize, socket: &SharedSocket) -> String {
    let end = socket.kind.name().map(|name| format!("-{name}"));
    format!("{PREFIX}{index}{}", end.unwrap_or_default())
}

/// The index in a name; `None` if the name is not ours.
pub fn index(name: &str) -> Option<usize> {
    parse(name).map(|(index, _)| index)
}

/// The purpose of a socket by its name; `None` for DNS sockets and foreign names.
pub fn kind(name: &str) -> Option<SocketKind> {
    parse(name)?.1
}

/// The index in a name, and the purpose of the socket, if that is not DNS.
fn parse(name: &str) -> Option<(usize, Option<SocketKind>)> {
    let rest = name.strip_prefix(PREFIX)?;
    let (index, kind) = match rest.split_once('-') {
        Some((index, name)) => (index, Some(SocketKind::named(name)?)),
        None => (rest, None),
    };
    Some((index.parse().ok()?, kind))
}
