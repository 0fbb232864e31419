//! dnstap (<https://dnstap.info>): what was asked and replied, for tools of other people's.
//!
//! Each query is an `AUTH_QUERY`, each reply an `AUTH_RESPONSE`; a query that was dropped has none.
//! The initiator is the client, also where a proxy stands between. Our own address is left out: a
//! socket that listens on all addresses does not tell which of them was asked.
use crate::frames::{Sender, Sent};
use crate::sample::{Outcome, Sample};
use crate::settings::Dnstap;
use packet::Transport;
use prost::Message as _;
use rustix::event::PollFlags;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

/// What Frame Streams are told these messages are.
pub const CONTENT_TYPE: &str = "protobuf:dnstap.Dnstap";

/// `Dnstap.type` and the values of `Message` that we use, as `dnstap.proto` numbers them.
const TYPE_MESSAGE: i32 = 1;
const AUTH_QUERY: i32 = 1;
const AUTH_RESPONSE: i32 = 2;
const INET: i32 = 1;
const INET6: i32 = 2;
const UDP: i32 = 1;
const TCP: i32 = 2;

/// `dnstap.Dnstap`.
#[derive(Clone, PartialEq, prost::Message)]
struct Envelope {
    #[prost(bytes = "vec", optional, tag = "1")]
    identity: Option<Vec<u8>>,
    #[prost(bytes = "vec", optional, tag = "2")]
    version: Option<Vec<u8>>,
    #[prost(message, optional, tag = "14")]
    message: Option<Message>,
    #[prost(int32, required, tag = "15")]
    kind: i32,
}

/// `dnstap.Message`, what we fill of it.
#[derive(Clone, PartialEq, prost::Message)]
struct Message {
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

/// Makes messages of samples and sends them.
pub struct Target {
    sender: Sender,
    envelope: Envelope,
    frame: Vec<u8>,
}

impl Target {
    /// A target as the settings say.
    pub fn new(settings: &Dnstap, now: Instant) -> Self {
        let text = |text: &str| (!text.is_empty()).then(|| text.as_bytes().to_vec());
        let envelope = Envelope {
            identity: text(&settings.identity),
            version: text(&settings.version),
            message: None,
            kind: TYPE_MESSAGE,
        };
        let sender = Sender::new(&settings.socket, CONTENT_TYPE, now);
        Self { sender, envelope, frame: Vec::new() }
    }

    /// Has a query, and its reply if there is one, sent.
    pub fn push(&mut self, sample: &Sample<'_>) {
        self.send(query(sample));
        if let Outcome::Reply(reply) = sample.outcome {
            self.send(response(sample, reply));
        }
    }

    fn send(&mut self, message: Message) {
        self.envelope.message = Some(message);
        self.frame.clear();
        // A Vec has room for all of it: there is no error.
        if self.envelope.encode(&mut self.frame).is_ok() {
            self.sender.push(&self.frame);
        }
    }

    /// As [`Sender::turn`].
    pub fn turn(&mut self, now: Instant) {
        self.sender.turn(now);
    }

    /// As [`Sender::wish`].
    pub fn wish(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        self.sender.wish()
    }

    /// As [`Sender::counts`], and whether somebody reads.
    pub fn counts(&self) -> (Sent, bool) {
        (self.sender.counts(), self.sender.is_open())
    }

    /// As [`Sender::finish`].
    pub fn finish(self, until: Instant) -> Sent {
        self.sender.finish(until)
    }
}

fn query(sample: &Sample<'_>) -> Message {
    let (seconds, nanos) = time(sample.unix);
    let (family, address) = match sample.client.ip() {
        IpAddr::V4(address) => (INET, address.octets().to_vec()),
        IpAddr::V6(address) => (INET6, address.octets().to_vec()),
    };
    let protocol = match sample.transport {
        Transport::Datagram => UDP,
        Transport::Stream => TCP,
    };
    Message {
        kind: AUTH_QUERY,
        socket_family: Some(family),
        socket_protocol: Some(protocol),
        query_address: Some(address),
        query_port: Some(sample.client.port().into()),
        query_time_sec: Some(seconds),
        query_time_nsec: Some(nanos),
        query_message: Some(sample.query.to_vec()),
        ..Message::default()
    }
}

fn response(sample: &Sample<'_>, reply: &[u8]) -> Message {
    let (seconds, nanos) = time(sample.unix + sample.took);
    Message {
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
