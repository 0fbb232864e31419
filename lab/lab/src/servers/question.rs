//! One query, to check whether a server serves.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use lab_host::namespace;

use crate::Result;

/// Timeout of the query.
const TIMEOUT: Duration = Duration::from_millis(200);

/// Queries the A record of `name` (wire form), with RD for resolvers, and returns the RCODE and the
/// number of answers.
///
/// # Errors
/// No reply in time, one that is too short, or one to another question.
pub fn ask(netns: Option<&str>, server: SocketAddr, name: &[u8]) -> Result<(u8, u16)> {
    match ask_bytes(netns, server, name)?.as_slice() {
        [0x4c, 0x41, flags, code, _, _, high, low, ..] if flags & 0x80 != 0 => {
            Ok((code & 0x0f, u16::from_be_bytes([*high, *low])))
        }
        _ => Err("no reply to this question".into()),
    }
}

/// As [`ask`]; the reply's bytes.
///
/// # Errors
/// No reply in time.
pub fn ask_bytes(netns: Option<&str>, server: SocketAddr, name: &[u8]) -> Result<Vec<u8>> {
    let mut query = vec![0x4c, 0x41, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    query.extend_from_slice(name);
    query.extend_from_slice(&[0, 1, 0, 1]);
    namespace::within(netns, || exchange(server, &query).map_err(|e| e.to_string()))
}

fn exchange(server: SocketAddr, query: &[u8]) -> std::io::Result<Vec<u8>> {
    let any = if server.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(any)?;
    socket.set_read_timeout(Some(TIMEOUT))?;
    socket.connect(server)?;
    socket.send(query)?;
    let mut reply = vec![0; 4096];
    let length = socket.recv(&mut reply)?;
    reply.truncate(length);
    Ok(reply)
}

/// Whether the server has an address for the name.
pub(super) fn is_answered(netns: Option<&str>, server: SocketAddr, name: &[u8]) -> bool {
    matches!(ask(netns, server, name), Ok((0, 1..)))
}
