//! dnstap (<https://dnstap.info>): queries and replies for other tools.
//!
//! Each query is an `AUTH_QUERY`, each reply an `AUTH_RESPONSE`; a dropped query has none. The
//! initiator is the client, also behind a proxy. The server's address is left out: a socket that
//! listens on all addresses does not know it.
use crate::frames::{FrameSender, SendCounts};
use crate::settings::DnstapSettings;
use packet::Transport;
use prost::Message as _;
use rustix::event::PollFlags;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};
use tap::{QueryOutcome, Sample};

/// The content type in Frame Streams.
pub const CONTENT_TYPE: &str = "protobuf:dnstap.Dnstap";

/// `Dnstap.type` and the used values of `DnstapMessage`, as numbered in `dnstap.proto`.
const TYPE_MESSAGE: i32 = 1;
const AUTH_QUERY: i32 = 1;
const AUTH_RESPONSE: i32 = 2;
const INET: i32 = 1;
const INET6: i32 = 2;
const UDP: i32 = 1;
const TCP: i32 = 2;

/// `dnstap.Dnstap`.
#[derive(Clone, PartialEq, prost::Message)]
struct DnstapEnvelope {
    #[prost(bytes = "vec", optional, tag = "1")]
    identity: Option<Vec<u8>>,
    #[prost(bytes = "vec", optional, tag = "2")]
    version: Option<Vec<u8>>,
    #[prost(message, optional, tag = "14")]
    message: Option<DnstapMessage>,
    #[prost(int32, required, tag = "15")]
    kind: i32,
}

/// The used fields of `dnstap.Message`.
#[derive(Clone, PartialEq, prost::Message)]
struct DnstapMessage {
    #[prost(int32, required, tag = "1")]
    kind: i32,
    #[prost(int32, optional, tag = "2")]
    socket_family: Option<i32>,
    #[prost(int32, optional, tag = "3")]
    socket_protocol: Option<i32>,
    #[prost(bytes = "vec", optional, tag = "4")]
    query_address: Option<Vec<u8>>,
    #[prost(uint32, optional, tag = "6")]
    query_port: Option<u32>,
    #[prost(uint64, optional, tag = "8")]
    query_time_sec: Option<u64>,
    #[prost(fixed32, optional, tag = "9")]
    query_time_nsec: Option<u32>,
    #[prost(bytes = "vec", optional, tag = "10")]
    query_message: Option<Vec<u8>>,
    #[prost(uint64, optional, tag = "12")]
    response_time_sec: Option<u64>,
    #[prost(fixed32, optional, tag = "13")]
    response_time_nsec: Option<u32>,
    #[prost(bytes = "vec", optional, tag = "14")]
    response_message: Option<Vec<u8>>,
}

/// Encodes samples as messages and sends them.
pub struct DnstapTarget {
    sender: FrameSender,
    envelope: DnstapEnvelope,
    frame: Vec<u8>,
}

impl DnstapTarget {
    /// A target with these settings.
    pub fn new(settings: &DnstapSettings, now: Instant) -> Self {
        let text = |text: &str| (!text.is_empty()).then(|| text.as_bytes().to_vec());
        let envelope = DnstapEnvelope {
            identity: text(&settings.identity),
            version: text(&settings.version),
            message: None,
            kind: TYPE_MESSAGE,
        };
        let sender = FrameSender::new(&settings.socket, CONTENT_TYPE, now);
        Self { sender, envelope, frame: Vec::new() }
    }

    /// Sends a query, and its reply if there is one.
    pub fn push(&mut self, sample: &Sample<'_>) {
        self.send(query(sample));
        if let QueryOutcome::Reply(reply) = sample.outcome {
            self.send(response(sample, reply));
        }
    }

    fn send(&mut self, message: DnstapMessage) {
        self.envelope.message = Some(message);
        self.frame.clear();
        // A Vec grows as needed, so there is no error.
        if self.envelope.encode(&mut self.frame).is_ok() {
            self.sender.push(&self.frame);
        }
    }

    /// As [`FrameSender::turn`].
    pub fn turn(&mut self, now: Instant) {
        self.sender.turn(now);
    }

    /// As [`FrameSender::interest`].
    pub fn interest(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        self.sender.interest()
    }

    /// As [`FrameSender::counts`], and whether a reader is connected.
    pub fn counts(&self) -> (SendCounts, bool) {
        (self.sender.counts(), self.sender.is_open())
    }

    /// As [`FrameSender::finish`].
    pub fn finish(self, until: Instant) -> SendCounts {
        self.sender.finish(until)
    }
}

fn query(sample: &Sample<'_>) -> DnstapMessage {
    let (seconds, nanos) = time(sample.unix);
    let (family, address) = match sample.client.ip() {
        IpAddr::V4(address) => (INET, address.octets().to_vec()),
        IpAddr::V6(address) => (INET6, address.octets().to_vec()),
    };
    let protocol = match sample.transport {
        Transport::Datagram => UDP,
        Transport::Stream => TCP,
    };
    DnstapMessage {
        kind: AUTH_QUERY,
        socket_family: Some(family),
        socket_protocol: Some(protocol),
        query_address: Some(address),
        query_port: Some(sample.client.port().into()),
        query_time_sec: Some(seconds),
        query_time_nsec: Some(nanos),
        query_message: Some(sample.query.to_vec()),
        ..DnstapMessage::default()
    }
}

fn response(sample: &Sample<'_>, reply: &[u8]) -> DnstapMessage {
    let (seconds, nanos) = time(sample.unix + sample.took);
    DnstapMessage {
        kind: AUTH_RESPONSE,
        query_message: None,
        response_time_sec: Some(seconds),
        response_time_nsec: Some(nanos),
        response_message: Some(reply.to_vec()),
        ..query(sample)
    }
}

fn time(since: Duration) -> (u64, u32) {
    (since.as_secs(), since.subsec_nanos())
}
