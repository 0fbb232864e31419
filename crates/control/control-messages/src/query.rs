//! Signed queries: answered as workers answer them without a signature, from the newest snapshot.
//! Names that are forwarded are not: the reply of another server is not ours to sign.
use crate::signed::now_seconds;
use crate::{Deciding, Decision, MessageHandler, ReceivedMessage, ServerContext};
use answer::{
    AnswerCounts, ControlAnswer, Limits, NoForwarding, Now, Policy, Scratch, answer_control, batch,
};
use compile::Image;
use image::Forwards;
use packet::{Packet, Transport, Verdict};
use std::sync::Arc;
use wire::{HEADER_LEN, Query, Rcode};

/// The opcode.
const OPCODE: u8 = 0;
/// Bytes of the longest message.
const MESSAGE_LEN_MAX: usize = 65_535;
/// Bytes of the longest response over UDP to a client without EDNS (RFC 1035 §4.2.1).
const DATAGRAM_LEN_MIN: usize = 512;

/// Decides signed queries.
pub(crate) struct QueryHandler(pub Arc<dyn ServerContext>);

impl MessageHandler for QueryHandler {
    fn takes(&self, message: &ReceivedMessage) -> bool {
        message.opcode() == OPCODE
    }

    fn handle(self: Arc<Self>, message: ReceivedMessage) -> Deciding {
        Box::pin(async move {
            if message.signature.is_none() {
                // Workers answer it.
                return Decision::Code(Rcode::Refused);
            }
            match compose(&*self.0, &message, None) {
                Composed::Response(bytes) => Decision::Message(bytes),
                Composed::Dropped | Composed::Control => Decision::Code(Rcode::FormErr),
            }
        })
    }
}

/// What workers would do with a message.
pub(crate) enum Composed {
    Response(Box<[u8]>),
    Dropped,
    Control,
}

/// Composes the response as workers do, with room for its signature. `decided`: the code of a
/// message that they pass to the control plane.
pub(crate) fn compose(
    server: &dyn ServerContext,
    message: &ReceivedMessage,
    decided: Option<Rcode>,
) -> Composed {
    let (image, mut composed) = (server.image(), Composed::Dropped);
    server.with_settings(&mut |settings| {
        composed = compose_by(&image, &settings.policy(), message, decided);
    });
    composed
}

fn compose_by(
    image: &Image,
    policy: &Policy<'_>,
    message: &ReceivedMessage,
    decided: Option<Rcode>,
) -> Composed {
    let ReceivedMessage { client, transport, bytes, signature } = message;
    let mut seed = [0; 8];
    // Without randomness the order of records is the same each time.
    let _ = getrandom::fill(&mut seed);
    let networks = policy.limits.as_ref().and_then(|limits| limits.networks);
    // The data plane has admitted the client.
    let limits = networks.map(|networks| Limits { networks: Some(networks), ..Limits::default() });
    // What is not answered here is refused, also queries for transfers.
    let handled_opcodes = policy.handled_opcodes & !1;
    let policy = Policy { limits, forwards: Forwards::default(), handled_opcodes, ..*policy };
    let signature_len = signature.as_ref().map_or(0, |signature| signature.response_len);
    let len_max = response_len_max(bytes, *transport, policy.udp_size_max);
    let room = len_max.saturating_sub(signature_len).max(bytes.len()).max(HEADER_LEN);
    let mut buf = vec![0; room];
    buf[..bytes.len()].copy_from_slice(bytes);
    let packet = Packet::new(&mut buf, bytes.len(), *client, *transport);
    let now = Now {
        unix_seconds: now_seconds() as u32,
        monotonic_micros: 1,
        seed: u64::from_ne_bytes(seed),
    };
    let (mut scratch, mut counts) = (Box::<Scratch>::default(), AnswerCounts::default());
    let mut packets = [packet];
    let resolver = &mut NoForwarding;
    batch(image, &policy, now, resolver, &mut scratch, &mut packets, &mut counts);
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

/// Bytes of the longest response that the client takes.
pub(crate) fn response_len_max(message: &[u8], transport: Transport, udp_size_max: u16) -> usize {
    if transport == Transport::Stream {
        return MESSAGE_LEN_MAX;
    }
    let mut query = Query::new();
    // A message with another fault has its OPT nevertheless.
    let _ = query.parse(message, message.len());
    let size = query.edns.map_or(DATAGRAM_LEN_MIN, |edns| edns.size.into());
    size.clamp(DATAGRAM_LEN_MIN, usize::from(udp_size_max).max(DATAGRAM_LEN_MIN))
}
