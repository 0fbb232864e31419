//! The protocol of a hot restart: one JSON object a line, with the protocol's version.
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// The version of the protocol. It grows when older sides would misunderstand; new fields and
/// requests need no new version.
pub const PROTOCOL: u32 = 1;

/// The first byte of every message, which no HTTP request has.
pub const FIRST: u8 = b'{';

/// A request or a reply with its version.
#[derive(Debug, Serialize, Deserialize)]
struct Envelope<T> {
    protocol: u32,
    says: T,
}

/// A request of the new process.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Request {
    /// Send all sockets; `Serving` follows.
    TakeOver {
        version: String,
        /// Also send the lock of `[server] data_dir`. Older versions omit this.
        #[serde(default)]
        lock: bool,
        /// Also send the socket to the keeper of announced routes. Older versions omit this.
        #[serde(default)]
        keeper: bool,
    },
    /// The new process serves: send the connections, and end.
    Serving,
}

/// A reply of the old process.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reply {
    /// The reason, and what to do.
    Refused(String),
    /// `Sockets` follow, then `Done`.
    Offer {
        version: String,
        pid: u32,
        /// The lock of `[server] data_dir` comes as a descriptor.
        #[serde(default)]
        lock: bool,
        /// Its socket and the pidfd of its starter come as descriptors, after the lock.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        keeper: Option<KeeperEntry>,
    },
    /// Each has a descriptor, in this order.
    Sockets(Vec<SocketEntry>),
    /// The new process is responsible from now on. `Connections` follow, then `Done`.
    HandingOver,
    /// Each has a descriptor, in this order.
    Connections(Vec<ConnectionEntry>),
    Done,
}

/// The purpose of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SocketKind {
    /// DNS over UDP.
    Udp,
    /// DNS over TCP.
    Tcp,
    /// Metrics and health, over TCP.
    Ops,
    /// The REST API, over TCP.
    Api,
    /// Transfers over TLS.
    Transfer,
}

impl SocketKind {
    /// Those that receive no plain DNS queries.
    pub const NAMED: [Self; 3] = [Self::Ops, Self::Api, Self::Transfer];

    /// Its section of the config, and the name that a service manager gives its descriptor;
    /// `None`: that of `[server] listen`.
    pub const fn name(self) -> Option<&'static str> {
        match self {
            Self::Udp | Self::Tcp => None,
            Self::Ops => Some("ops"),
            Self::Api => Some("api"),
            Self::Transfer => Some("transfer"),
        }
    }

    /// The kind of a descriptor with this name; `None`: that of `[server] listen`.
    pub fn named(name: &str) -> Option<Self> {
        Self::NAMED.into_iter().find(|kind| kind.name() == Some(name))
    }
}

/// What the keeper of announced routes was started for, and what it does.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeeperEntry {
    pub terms: Vec<String>,
    pub announced: bool,
    #[serde(with = "hex")]
    pub token: Vec<u8>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct SocketEntry {
    pub kind: SocketKind,
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

/// Why a line cannot be decoded.
#[derive(Debug)]
pub enum DecodeError {
    /// It has another version.
    Protocol(u32),
    /// It has unexpected content.
    Json(serde_json::Error),
}

/// One line with its end.
pub fn encode<T: Serialize>(says: &T) -> Vec<u8> {
    let mut line = serde_json::to_vec(&Envelope { protocol: PROTOCOL, says })
        .expect("what is said has text keys, and a Vec takes all");
    line.push(b'\n');
    line
}

/// Decodes a line.
///
/// # Errors
/// Another version, or unexpected content. The version is checked first, because a message of
/// another version may have fields that this one cannot read.
pub fn decode<T: DeserializeOwned>(line: &[u8]) -> Result<T, DecodeError> {
    #[derive(Deserialize)]
    struct Version {
        protocol: u32,
    }
    let Version { protocol } = serde_json::from_slice(line).map_err(DecodeError::Json)?;
    if protocol != PROTOCOL {
        return Err(DecodeError::Protocol(protocol));
    }
    let envelope: Envelope<T> = serde_json::from_slice(line).map_err(DecodeError::Json)?;
    Ok(envelope.says)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_their_wire_format() {
        let line = encode(&Request::TakeOver { version: "0.2.0".into(), lock: true, keeper: true });
        let text = std::str::from_utf8(&line).expect("UTF-8");
        assert_eq!(
            text,
            "{\"protocol\":1,\"says\":{\"take-over\":{\"version\":\"0.2.0\",\"lock\":true,\
             \"keeper\":true}}}\n"
        );
        let request: Request = decode(br#"{"protocol":1,"says":"serving"}"#).expect("a request");
        assert_eq!(request, Request::Serving);
    }

    /// As versions without the lock write it.
    #[test]
    fn messages_without_a_lock_are_decoded() {
        let request: Result<Request, _> =
            decode(br#"{"protocol":1,"says":{"take-over":{"version":"0.1.0"}}}"#);
        let expected = Request::TakeOver { version: "0.1.0".into(), lock: false, keeper: false };
        assert_eq!(request.expect("a request"), expected);
        let reply = decode(br#"{"protocol":1,"says":{"offer":{"version":"0.1.0","pid":41}}}"#);
        assert!(
            matches!(reply, Ok(Reply::Offer { pid: 41, lock: false, keeper: None, .. })),
            "{reply:?}"
        );
    }

    #[test]
    fn other_version_is_distinguished_from_garbage() {
        let other = decode::<Request>(br#"{"protocol":2,"says":"dance"}"#);
        assert!(matches!(other, Err(DecodeError::Protocol(2))), "{other:?}");
        for line in [&b""[..], b"GET / HTTP/1.1", b"{}", br#"{"protocol":1,"says":"dance"}"#] {
            let read = decode::<Request>(line);
            assert!(matches!(read, Err(DecodeError::Json(_))), "{read:?}");
        }
    }

    #[test]
    fn connection_keeps_its_bytes() {
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
