//! Queries for transfers in datagrams (RFC 1995). Connections that ask for them do not come here.
use crate::query::response_len_max;
use crate::{Deciding, Decision, MessageHandler, ReceivedMessage, ServerContext};
use api::{Principal, Verb};
use std::sync::Arc;
use transfer::{KeyOwner, Message};
use wire::{Name, Rcode};

/// Decides queries for transfers.
pub(crate) struct TransferHandler(pub Arc<dyn ServerContext>);

impl MessageHandler for TransferHandler {
    fn takes(&self, message: &ReceivedMessage) -> bool {
        let is_transfer = || !matches!(Message::read(&message.bytes, false), Message::Other);
        self.0.transfers().is_some() && is_transfer()
    }

    fn handle(self: Arc<Self>, message: ReceivedMessage) -> Deciding {
        Box::pin(async move {
            let ReceivedMessage { client, transport, bytes, signature } = message;
            let mut udp_size_max = 0;
            self.0.with_settings(&mut |settings| udp_size_max = settings.policy().udp_size_max);
            let signature_len = signature.as_ref().map_or(0, |signature| signature.response_len);
            let len_max = response_len_max(&bytes, transport, udp_size_max);
            let owner = signature.map(|signature| KeyHolder(signature.principal));
            let owner = owner.as_ref().map(|owner| owner as &dyn KeyOwner);
            let len_max = len_max.saturating_sub(signature_len);
            let answer = |transfers: &transfer::Transfers| {
                transfers.answer_datagram(&bytes, owner, client, len_max)
            };
            match self.0.transfers().and_then(|transfers| answer(transfers)) {
                Some(response) => Decision::Message(response.into()),
                None => Decision::Code(Rcode::Refused),
            }
        })
    }
}

/// The principal of a key, as transfers see it.
pub struct KeyHolder(pub Arc<Principal>);

impl KeyOwner for KeyHolder {
    fn name(&self) -> &str {
        &self.0.name
    }

    /// As for `dunlin zones dump`.
    fn may_transfer(&self, zone: Name<'_>) -> bool {
        self.0.may_all_of(Verb::Read, zone)
    }
}
