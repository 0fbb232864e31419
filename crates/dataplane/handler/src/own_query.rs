//! The query that a server sends to itself through its announced addresses. It has a random token,
//! by which it passes access lists and limits and is counted apart. The token is also its answer,
//! so that no other server gives it. A client that learns it can send no other query with it.
use packet::Packet;
use std::sync::Arc;

/// Bytes of a token.
pub const TOKEN_LEN: usize = 16;

/// After the number of the message: `id.server. CH TXT` (RFC 4892) with an additional record, OPT
/// (RFC 6891), whose only option is one for local use (65001).
const QUERY: &[u8] = b"\0\0\0\x01\0\0\0\0\0\x01\x02id\x06server\0\0\x10\0\x03\
    \0\0\x29\x02\0\0\0\0\0\0\x14\xfd\xe9\0\x10";

/// A query of the server to itself.
#[derive(Clone, Debug)]
pub struct OwnQuery {
    /// The message after its number.
    message: Arc<[u8]>,
    token: [u8; TOKEN_LEN],
}

impl OwnQuery {
    /// A query with this token.
    pub fn new(token: [u8; TOKEN_LEN]) -> Self {
        Self { message: [QUERY, &token].concat().into(), token }
    }

    /// The message after its number (two bytes).
    pub fn message(&self) -> &[u8] {
        &self.message
    }

    /// The text of the answer.
    pub const fn token(&self) -> &[u8] {
        &self.token
    }

    pub(crate) fn is(&self, packet: &Packet<'_>) -> bool {
        packet.message().get(2..) == Some(&*self.message)
    }
}
