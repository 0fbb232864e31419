//! Signed queries, and NOTIFY that is signed: answered as workers answer them without a signature,
//! from the newest snapshot. Names that are forwarded are not: the reply of another server is not
//! ours to sign.
use super::signed::{SignedHandler, SignedMessage, Verifier};
use super::{Deciding, Decision, MessageHandler, ReceivedMessage, notify};
use crate::server::{Server, lock};
use answer::{
    AnswerCounts, ControlAnswer, Limits, NoForwarding, Now, Policy, Scratch, answer_control, batch,
};
use image::Forwards;
use packet::{Packet, Transport, Verdict};
use std::sync::Arc;
use wire::{HEADER_LEN, Query, Rcode};

/// The opcode.
pub const OPCODE: u8 = 0;
/// Bytes of the longest message.
const MESSAGE_LEN_MAX: usize = 65_535;
/// Bytes of the longest response over UDP to a client without EDNS (RFC 1035 §4.2.1).
const DATAGRAM_LEN_MIN: usize = 512;

/// The handler of signed queries.
pub fn create(server: &Arc<Server>) -> Arc<dyn MessageHandler> {
    Verifier::handler(server, handler(server), None)
}

/// The handler of NOTIFY, signed or not.
pub fn create_for_notify(server: &Arc<Server>) -> Arc<dyn MessageHandler> {
    Verifier::handler(server, handler(server), Some(notify::create(server)))
}

fn handler(server: &Arc<Server>) -> Arc<dyn SignedHandler> {
    Arc::new(QueryHandler { server: Arc::clone(server), notify: notify::create(server) })
}

struct QueryHandler {
    server: Arc<Server>,
    notify: Arc<dyn MessageHandler>,
}

impl SignedHandler for QueryHandler {
    fn handle(self: Arc<Self>, message: SignedMessage) -> Deciding {
        Box::pin(async move {
            match self.compose(&message, None) {
                Composed::Response(bytes) => Decision::Message(bytes),
                Composed::Dropped => Decision::Code(Rcode::FormErr),
                // A NOTIFY that is obeyed.
                Composed::Control => {
                    let ReceivedMessage { client, transport, bytes } = &message.received;
                    let (client, transport, bytes) = (*client, *transport, bytes.clone());
                    let received = ReceivedMessage { client, transport, bytes };
                    let decision = Arc::clone(&self.notify).handle(received).await;
                    let Decision::Code(rcode) = decision else { return decision };
                    match self.compose(&message, Some(rcode)) {
                        Composed::Response(bytes) => Decision::Message(bytes),
                        _ => Decision::Code(rcode),
                    }
                }
            }
        })
    }
}

/// What became of a message.
enum Composed {
    Response(Box<[u8]>),
    Dropped,
    Control,
}

impl QueryHandler {
    /// Composes the response, with room for its signature. `decided`: the code of a NOTIFY.
    fn compose(&self, message: &SignedMessage, decided: Option<Rcode>) -> Composed {
        let SignedMessage { received, signature_len, .. } = message;
        let ReceivedMessage { client, transport, bytes } = received;
        let (control, mut seed) = (&self.server.sources.control, [0; 8]);
        // Without randomness the order of records is the same each time.
        let _ = getrandom::fill(&mut seed);
        let image = control.image();
        let live = lock(&self.server.live);
        let settings = live.settings.newest();
        let policy = settings.policy();
        let networks = policy.limits.as_ref().and_then(|limits| limits.networks);
        // The data plane has admitted the client.
        let limits =
            networks.map(|networks| Limits { networks: Some(networks), ..Limits::default() });
        let policy = Policy { limits, forwards: Forwards::default(), ..policy };
        let len_max = response_len_max(bytes, *transport, policy.udp_size_max);
        let room = len_max.saturating_sub(*signature_len).max(bytes.len()).max(HEADER_LEN);
        let mut buf = vec![0; room];
        buf[..bytes.len()].copy_from_slice(bytes);
        let packet = Packet::new(&mut buf, bytes.len(), *client, *transport);
        let now = Now {
            unix_seconds: super::signed::now_seconds() as u32,
            monotonic_micros: 1,
            seed: u64::from_ne_bytes(seed),
        };
        let (mut scratch, mut counts) = (Box::<Scratch>::default(), AnswerCounts::default());
        let mut packets = [packet];
        let resolver = &mut NoForwarding;
        batch(&image, &policy, now, resolver, &mut scratch, &mut packets, &mut counts);
        let [packet] = &mut packets;
        if let (Verdict::Control, Some(rcode)) = (packet.verdict, decided) {
            let answer = ControlAnswer::Code(rcode);
            answer_control(&policy, now, &mut scratch, packet, answer, &mut counts);
        }
        match packet.verdict {
            Verdict::Reply => Composed::Response(packet.message().into()),
            Verdict::Control => Composed::Control,
            _ => Composed::Dropped,
        }
    }
}

/// Bytes of the longest response that the client takes.
fn response_len_max(message: &[u8], transport: Transport, udp_size_max: u16) -> usize {
    if transport == Transport::Stream {
        return MESSAGE_LEN_MAX;
    }
    let mut query = Query::new();
    // A message with another fault has its OPT nevertheless.
    let _ = query.parse(message, message.len());
    let size = query.edns.map_or(DATAGRAM_LEN_MIN, |edns| edns.size.into());
    size.clamp(DATAGRAM_LEN_MIN, usize::from(udp_size_max).max(DATAGRAM_LEN_MIN))
}
