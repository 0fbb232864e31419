//! What is said on the socket: one JSON object a line, each with the version of the protocol.
use crate::hex;
use control::command::{Command, Outcome, TokenDone, TokenRequest};
use control::status::Status;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// The version of what is said here. It grows when an older side would misunderstand a newer one;
/// fields and requests may be added without.
pub const PROTOCOL: u32 = 1;

/// A request or a reply with its version.
#[derive(Debug, Serialize, Deserialize)]
struct Letter<T> {
    protocol: u32,
    says: T,
}

/// What a client asks for.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Request {
    Status,
    Reload,
    /// The threads that answer are to do something.
    Command(Command),
    /// Credentials of the API are to be made, listed or revoked.
    Token(TokenRequest),
    /// All sockets; `Serving` follows.
    TakeOver {
        version: String,
    },
    /// The successor serves on the sockets: the connections, please, and end.
    Serving,
}

/// What a server replies.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reply {
    Status(Box<Status>),
    Reloaded(Reloaded),
    Commanded(Outcome),
    Token(TokenDone),
    /// Why not, and what to do.
    Refused(String),
    /// `Sockets` follow, then `Done`.
    Offer {
        version: String,
        pid: u32,
    },
    /// Each has a descriptor, in their order.
    Sockets(Vec<SocketEntry>),
    /// From here on all is the successor's. `Connections` follow, then `Done`.
    HandingOver,
    /// Each has a descriptor, in their order.
    Connections(Vec<ConnectionEntry>),
    Done,
}

/// What became of a reload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reloaded {
    /// The config is taken over.
    Taken {
        /// Keys that have another value than before the reload.
        changed: Vec<String>,
        /// What is another with the zones than before the reload.
        zones: Vec<ZoneChange>,
        /// Keys whose new value waits for a restart or a successor.
        restart_needed: Vec<String>,
    },
    /// The config is refused; what held before goes on.
    Refused {
        /// What is wrong, a line each, with its place.
        errors: Vec<String>,
    },
}

/// What has become of a zone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "change")]
pub enum ZoneChange {
    /// The config did not name it before.
    Added {
        /// Its name.
        zone: String,
    },
    /// The config names it no more.
    Removed {
        /// Its name.
        zone: String,
    },
    /// Something else is served than before.
    Changed {
        /// Its name.
        zone: String,
        /// Its serial, before and now; nothing: it is not loaded.
        serials: (Option<u32>, Option<u32>),
        /// Its records, before and now.
        records: (u64, u64),
    },
}

/// What comes in by a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// DNS over UDP.
    Udp,
    /// DNS over TCP.
    Tcp,
    /// Metrics and health, over TCP.
    Ops,
    /// The REST API, over TCP.
    Api,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct SocketEntry {
    pub kind: Kind,
    pub address: SocketAddr,
    pub given: bool,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct ConnectionEntry {
    pub peer: SocketAddr,
    pub client: SocketAddr,
    pub header_due: bool,
    #[serde(with = "hex")]
    pub inbox: Vec<u8>,
}

/// Why a line is not understood.
#[derive(Debug)]
pub enum Misread {
    /// It is of another version.
    Protocol(u32),
    /// It is not what was to be said.
    Json(serde_json::Error),
}

/// One line, its end included.
pub fn encode<T: Serialize>(says: &T) -> Vec<u8> {
    let mut line = serde_json::to_vec(&Letter { protocol: PROTOCOL, says })
        .expect("what is said has text keys, and a Vec takes all");
    line.push(b'\n');
    line
}

/// What a line says.
///
/// # Errors
/// The version comes first: what else another one says need not be understood.
pub fn decode<T: DeserializeOwned>(line: &[u8]) -> Result<T, Misread> {
    #[derive(Deserialize)]
    struct Version {
        protocol: u32,
    }
    let Version { protocol } = serde_json::from_slice(line).map_err(Misread::Json)?;
    if protocol != PROTOCOL {
        return Err(Misread::Protocol(protocol));
    }
    let letter: Letter<T> = serde_json::from_slice(line).map_err(Misread::Json)?;
    Ok(letter.says)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_on_the_wire() {
        let line = encode(&Request::TakeOver { version: "0.2.0".into() });
        let text = std::str::from_utf8(&line).expect("UTF-8");
        assert_eq!(text, "{\"protocol\":1,\"says\":{\"take-over\":{\"version\":\"0.2.0\"}}}\n");
        let request: Request = decode(br#"{"protocol":1,"says":"status"}"#).expect("a request");
        assert_eq!(request, Request::Status);
    }

    #[test]
    fn another_version_is_told_apart_from_garbage() {
        let other = decode::<Request>(br#"{"protocol":2,"says":"dance"}"#);
        assert!(matches!(other, Err(Misread::Protocol(2))), "{other:?}");
        for line in [&b""[..], b"GET / HTTP/1.1", b"{}", br#"{"protocol":1,"says":"dance"}"#] {
            let read = decode::<Request>(line);
            assert!(matches!(read, Err(Misread::Json(_))), "{read:?}");
        }
    }

    #[test]
    fn a_connection_keeps_its_octets() {
        let inbox = vec![0, 12, 0xab];
        let [peer, client] = ["192.0.2.1:5353", "[2001:db8::1]:53"].map(|a| a.parse().unwrap());
        let line = encode(&Reply::Connections(vec![ConnectionEntry {
            peer,
            client,
            header_due: true,
            inbox,
        }]));
        let Ok(Reply::Connections(entries)) = decode(&line) else { panic!("other than it was") };
        assert_eq!((entries[0].peer, entries[0].client), (peer, client));
        assert!(entries[0].header_due);
        assert_eq!(entries[0].inbox, [0, 12, 0xab]);
    }
}
