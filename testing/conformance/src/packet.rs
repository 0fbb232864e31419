//! A packet that all servers get.
use crate::queries::Query;

/// A packet to send, and the query it asks or was made from.
#[derive(Clone, Debug)]
pub struct QueryPacket {
    /// The query.
    pub query: Query,
    /// What is sent.
    pub bytes: Vec<u8>,
    /// What was done to the packet, if anything.
    pub oddity: Option<&'static str>,
}

impl From<Query> for QueryPacket {
    fn from(query: Query) -> Self {
        Self { bytes: query.to_wire(), query, oddity: None }
    }
}
